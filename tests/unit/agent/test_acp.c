#include "acp_rig.h"

/* The whole driver against an agent that follows a script. */

#define UPDATE(body)                                                                               \
    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s-1\","        \
    "\"update\":" body "}}\n"
#define SAID(text)                                                                                 \
    UPDATE("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":"   \
           "\"" text "\"}}")
#define ANSWER(id, body) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":" body "}\n"
#define REFUSAL(id, body) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"error\":" body "}\n"
#define CAN(more) ANSWER(1, "{\"protocolVersion\":1,\"agentCapabilities\":{" more "}}")
#define GREETING                                                                                   \
    {                                                                                              \
        "\"method\":\"initialize\"", CAN("\"loadSession\":true"), 0                                \
    }
#define OPENED                                                                                     \
    {                                                                                              \
        "\"method\":\"session/new\"", ANSWER(2, "{\"sessionId\":\"s-1\"}"), 0                      \
    }
#define PROMPT "\"id\":100,\"method\":\"session/prompt\""
#define MAY_I                                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":\"p/1\",\"method\":\"session/request_permission\",\"params\":{"   \
    "\"sessionId\":\"s-1\",\"toolCall\":{\"kind\":\"execute\",\"title\":\"make\"},\"options\":["   \
    "{\"optionId\":\"x9\",\"kind\":\"reject_once\"},{\"optionId\":\"x7\",\"kind\":"                \
    "\"allow_always\"},{\"optionId\":\"x8\",\"kind\":\"allow_once\"}]}}\n"
#define CHOSE(option)                                                                              \
    "\"id\":\"p/1\",\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"" option "\"" \
    "}}"

static void expect(struct rig *rig, const struct agent_resume *resume, const char *log)
{
    CHECK_STR(rig_run(rig, resume), log);
    rig_finish(rig);
}

TEST(a_prompt_is_answered)
{
    static const struct rig_step steps[] = {
        GREETING,
        { "\"cwd\":\"/workspace/x\"", ANSWER(2, "{\"sessionId\":\"s-1\"}"), 0 },
        { "\"prompt\":[{\"type\":\"text\",\"text\":\"do it\"}]",
          SAID("I l") SAID("ook.") UPDATE(
              "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t1\",\"kind\":\"read\",\"title\":"
              "\"Read a.c\",\"status\":\"pending\"}")
              UPDATE("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t1\",\"status\":"
                     "\"completed\"}") SAID("Done.")
                  ANSWER(100, "{\"stopReason\":\"end_turn\",\"usage\":{\"inputTokens\":12,"
                              "\"outputTokens\":3}}"),
          0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    expect(&rig, NULL,
           "ready\nsending 100 in s-1\ntaken\ntext I look.\nstart read: Read a.c\n"
           "tool read: Read a.c\ntext Done.\ndone stop  [Done.] 12+3 $0");
    CHECK_STR(rig.command, "/run/agent-config/acp/start");
}

/* The end is told at once, and the agent has its time to write the conversation down. */
TEST(an_agent_is_closed_a_while_after_its_answer)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, SAID("Done.") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.settle_ms = 60;
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext Done.\ndone stop  [Done.]");
    CHECK(rig.closed_ms >= rig.end_ms + 60);
}

TEST(each_reason_to_stop_has_its_end)
{
    static const struct {
        const char *reply;
        const char *end;
    } rows[] = {
        { SAID("So") ANSWER(100, "{\"stopReason\":\"max_tokens\"}"),
          "text So\nincomplete length  [So]" },
        { SAID("So") ANSWER(100, "{\"stopReason\":\"max_turn_requests\"}"),
          "text So\nincomplete max_turn_requests  [So]" },
        { SAID("So") ANSWER(100, "{\"stopReason\":\"refusal\"}"),
          "text So\nfailed refusal content_refused [So] the model refused to go on" },
        { SAID("So") ANSWER(100, "{\"stopReason\":\"cancelled\"}"), "text So\naborted   [So]" },
        { SAID("So") ANSWER(100, "{\"stopReason\":\"of_later\"}"), "text So\nincomplete   [So]" },
        { ANSWER(100, "{\"stopReason\":\"end_turn\"}"), "incomplete stop  []" },
        { REFUSAL(100, "{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"details\":"
                       "\"429 Too Many Requests\"}}"),
          "failed  model_rate_limited [] Internal error: 429 Too Many Requests" },
        { REFUSAL(100,
                  "{\"code\":-32603,\"message\":\"Internal error: API Error: Claude's response "
                  "exceeded the 32000 output token maximum.\"}"),
          "incomplete length  []" },
        { REFUSAL(100, "{\"code\":-32000,\"message\":\"Authentication required\"}"),
          "failed  model_auth [] Authentication required" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct rig_step steps[] = {
            GREETING, OPENED, { PROMPT, rows[i].reply, 0 }, { NULL, NULL, 0 }
        };
        struct rig rig;

        rig_init(&rig, steps);
        AUTO_FREE
        char *log = mem_printf("ready\nsending 100 in s-1\ntaken\n%s", rows[i].end);
        expect(&rig, NULL, log);
    }
}

TEST(what_ends_before_it_is_answered_has_crashed)
{
    static const struct rig_step steps[] = {
        GREETING, OPENED, { PROMPT, SAID("So") "Segmentation fault\n", 139 + 1 }, { NULL, NULL, 0 }
    };
    struct rig rig;

    rig_init(&rig, steps);
    expect(&rig, NULL,
           "ready\nsending 100 in s-1\ntaken\nlog Segmentation fault\ntext So\nfailed  "
           "agent_crashed [So] tester exited with code 139: Segmentation fault");
}

TEST(an_agent_that_can_not_start_says_why)
{
    static const struct {
        struct rig_step steps[3];
        const char *log;
    } rows[] = {
        { { { "initialize", "Error: no such thing\n", 1 + 1 }, { NULL, NULL, 0 } },
          "log Error: no such thing\nnot ready: agent_crashed: tester exited with code 1 while "
          "starting: Error: no such thing\n" },
        { { { "initialize", ANSWER(1, "{\"protocolVersion\":2}"), 0 }, { NULL, NULL, 0 } },
          "not ready: agent_unsupported: tester speaks version 2 of the Agent Client Protocol, and "
          "we speak 1\n" },
        { { { "initialize", NULL, 0 }, { NULL, NULL, 0 } },
          "not ready: agent_not_ready: tester did not get ready within 0 seconds: \n" },
        { { GREETING,
            { "session/new", REFUSAL(2, "{\"code\":-32000,\"message\":\"Please log in\"}"), 0 },
            { NULL, NULL, 0 } },
          "not ready: model_auth: tester could not open a conversation: Please log in\n" },
        { { GREETING, { "session/new", ANSWER(2, "{}"), 0 }, { NULL, NULL, 0 } },
          "not ready: agent_not_ready: tester gave its conversation no usable id: the agent gave "
          "no reason\n" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig rig;

        rig_init(&rig, rows[i].steps);
        expect(&rig, NULL, rows[i].log);
    }
}

TEST(mode_and_model_are_set_where_the_profile_says_so)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { "\"session/set_mode\",\"params\":{\"sessionId\":\"s-1\",\"modeId\":\"code\"}",
          ANSWER(3, "{}"), 0 },
        { "\"session/set_model\",\"params\":{\"sessionId\":\"s-1\",\"modelId\":\"m-1\"}",
          REFUSAL(4, "{\"code\":-32601,\"message\":\"no such method\"}"), 0 },
        { PROMPT, SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.profile.set_mode = "code";
    rig.profile.set_model = "{model}";
    expect(&rig, NULL,
           "log the agent keeps its own model: no such method\nready\nsending 100 in s-1\ntaken\n"
           "text So\ndone stop  [So]");
}

/* Conversations -------------------------------------------------------------------------------- */

TEST(a_conversation_is_resumed_without_its_history_where_the_agent_can)
{
    static const struct rig_step steps[] = {
        { "initialize", CAN("\"loadSession\":true,\"sessionCapabilities\":{\"resume\":{}}"), 0 },
        { "\"session/resume\",\"params\":{\"sessionId\":\"s-1\",\"cwd\":\"/workspace/x\"",
          ANSWER(2, "{}"), 0 },
        { PROMPT, SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.options.conversation = "s-1";
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\ndone stop  [So]");
}

TEST(history_that_is_told_again_is_no_answer)
{
    static const struct rig_step steps[] = {
        GREETING,
        { "\"session/load\",\"params\":{\"sessionId\":\"s-1\"",
          SAID("Old.") ANSWER(2, "{}") SAID("Old, and late."), 0 },
        { PROMPT, SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.options.conversation = "s-1";
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\ndone stop  [So]");
}

TEST(a_conversation_that_is_gone_is_begun_anew)
{
    static const struct rig_step steps[] = {
        GREETING,
        { "\"session/load\"", REFUSAL(2, "{\"code\":-32603,\"message\":\"not found\"}"), 0 },
        OPENED,
        { PROMPT, SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.options.conversation = "s-0";
    expect(&rig, NULL,
           "log the earlier conversation can't be taken up, a new one begins: not found\n"
           "ready\nsending 100 in s-1\ntaken\ntext So\ndone stop  [So]");
}

/* Permissions ---------------------------------------------------------------------------------- */

TEST(a_request_is_granted_once_by_the_kind_of_its_options)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, MAY_I, 0 },
        { CHOSE("x8"), SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\ndone stop  [So]");
}

TEST(a_request_is_refused_where_the_profile_says_so)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, MAY_I, 0 },
        { CHOSE("x9"), SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.profile.permissions = AGENT_PERMISSIONS_REJECT;
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\ndone stop  [So]");
}

TEST(a_person_is_asked_where_the_profile_says_so)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, MAY_I, 0 },
        { CHOSE("x7"), SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.profile.permissions = AGENT_PERMISSIONS_ASK;
    rig.answer = "always";
    expect(&rig, NULL,
           "ready\nsending 100 in s-1\ntaken\npermission execute: make perm_1\nanswered  perm_1\n"
           "text So\ndone stop  [So]");
}

TEST(requests_at_once_are_asked_one_after_the_other)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, MAY_I MAY_I, 0 },
        { CHOSE("x9"), NULL, 0 },
        { CHOSE("x9"), SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.profile.permissions = AGENT_PERMISSIONS_ASK;
    rig.answer = "reject: not now";
    expect(&rig, NULL,
           "ready\nsending 100 in s-1\ntaken\npermission execute: make perm_1\nanswered  perm_1\n"
           "permission execute: make perm_2\nanswered  perm_2\ntext So\ndone stop  [So]");
}

TEST(what_a_request_does_not_offer_is_no_answer)
{
    static const struct rig_step steps[] = {
        GREETING, OPENED, { PROMPT, MAY_I, 2 }, { NULL, NULL, 0 }
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.profile.permissions = AGENT_PERMISSIONS_ASK;
    rig.answer = "perhaps";
    CHECK_HAS(rig_run(&rig, NULL),
              "no answer: answer: must be one of those that the request offers: "
              "{\"options\":[\"once\",\"always\",\"reject\"]}");
    rig_finish(&rig);
}

TEST(a_request_for_what_we_do_not_have_is_refused)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"fs/read_text_file\"}\n", 0 },
        { "\"id\":4,\"error\":{\"code\":-32601",
          SAID("So") ANSWER(100, "{\"stopReason\":\"end_turn\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\ndone stop  [So]");
}

TEST(an_agent_that_asks_without_end_and_reads_no_answer_is_given_up)
{
    AUTO_BUF struct buf flood = BUF_INIT(8u << 20);

    for (size_t i = 0; i < 120000; i++)
        buf_append_str(&flood, "{\"id\":1,\"method\":\"x\"}\n");
    const struct rig_step steps[] = {
        GREETING, OPENED, { PROMPT, buf_text(&flood), 0 }, { NULL, NULL, 0 }
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.deaf = true;
    expect(&rig, NULL,
           "ready\nsending 100 in s-1\nfailed  agent_crashed [] tester does not read its input: ");
}

/* Stopping ------------------------------------------------------------------------------------- */

TEST(an_abort_is_asked_for_and_answered)
{
    static const struct rig_step steps[] = {
        GREETING,
        OPENED,
        { PROMPT, SAID("So"), 0 },
        { "\"session/cancel\",\"params\":{\"sessionId\":\"s-1\"}",
          ANSWER(100, "{\"stopReason\":\"cancelled\"}"), 0 },
        { NULL, NULL, 0 },
    };
    struct rig rig;

    rig_init(&rig, steps);
    rig.abort_when_taken = true;
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\naborted   [So]");
}

TEST(an_abort_does_not_wait_for_an_agent_that_takes_no_notice)
{
    static const struct rig_step steps[] = { GREETING,
                                             OPENED,
                                             { PROMPT, SAID("So"), 0 },
                                             { "session/cancel", NULL, 0 },
                                             { NULL, NULL, 0 } };
    struct rig rig;

    rig_init(&rig, steps);
    rig.abort_when_taken = true;
    expect(&rig, NULL, "ready\nsending 100 in s-1\ntaken\ntext So\naborted   [So]");
}

TEST(a_prompt_that_can_not_be_recorded_is_not_sent)
{
    static const struct rig_step steps[] = { GREETING, OPENED, { NULL, NULL, 0 } };
    struct rig rig;

    rig_init(&rig, steps);
    rig.unrecorded = true;
    expect(&rig, NULL, "ready\nsending 100 in s-1\nrefused: the prompt could not be recorded\n");
}

/* A new supervisor ----------------------------------------------------------------------------- */

static struct agent_resume resumed(void)
{
    return (struct agent_resume){
        .process_id = 7, .prompt_id = "103", .text = "do it", .taken = true, .output = "Before."
    };
}

TEST(a_prompt_goes_on_in_the_streams_of_its_agent)
{
    static const struct rig_step steps[] = { { NULL, NULL, 0 } };
    const struct agent_resume resume = resumed();
    struct rig rig;

    rig_init(&rig, steps);
    rig.options.conversation = "s-1";
    rig.prompt = NULL;
    rig.first_bytes =
        "torn in the middle\"}}\n" SAID("After.") ANSWER(103, "{\"stopReason\":\"end_turn\"}");
    expect(&rig, &resume, "ready\ntext After.\ndone stop  [After.]");
}

TEST(what_was_said_before_is_the_answer_when_nothing_follows)
{
    static const struct rig_step steps[] = { { NULL, NULL, 0 } };
    struct agent_resume resume = resumed();
    struct rig rig;

    rig_init(&rig, steps);
    rig.options.conversation = "s-1";
    rig.prompt = NULL;
    resume.taken = false;
    rig.first_bytes = ANSWER(103, "{\"stopReason\":\"end_turn\"}");
    expect(&rig, &resume, "ready\ntaken\ndone stop  [Before.]");
}

TEST(what_can_not_be_picked_up_is_refused)
{
    static const struct rig_step steps[] = { { NULL, NULL, 0 } };
    struct agent_resume rows[] = { resumed(), resumed(), resumed(), resumed() };
    static const char *const logs[] = {
        "refused: it had not begun", "refused: it had not begun",
        "refused: the request that it waits for can't be answered any more",
        "refused: its prompt has no number"
    };

    rows[0].process_id = 0;
    rows[1].prompt_id = NULL;
    rows[2].waiting = true;
    rows[3].prompt_id = "msg_1";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig rig;

        rig_init(&rig, steps);
        expect(&rig, &rows[i], logs[i]);
    }
}
