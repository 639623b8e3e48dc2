/* Messages for a prompt that is under way. */
#include "unit/agent/opencode_rig.h"

#define ANSWERING_SAID                                                                             \
    "{\"type\":\"message.updated\",\"properties\":{" SES                                           \
    ",\"info\":{\"id\":\"msg_b\",\"parentID\":\"SAID\",\"role\":\"assistant\"," SES "}}}"
#define MESSAGE_SAID "{\"info\":{\"id\":\"SAID\",\"role\":\"user\"," SES "},\"parts\":[]}"
#define ANSWER_SAID                                                                                \
    "{\"info\":{\"id\":\"msg_b\",\"parentID\":\"SAID\",\"role\":\"assistant\"," SES "," ENDED      \
    "\"finish\":\"stop\"},\"parts\":[{\"id\":\"prt_2\",\"type\":\"text\"," SES                     \
    ",\"messageID\":\"msg_b\",\"text\":\"that too\",\"time\":{\"start\":1,\"end\":2}}]}"
#define DONE_THEN "[" MESSAGE_USER "," MESSAGE_ANSWER("\"finish\":\"stop\"," ENDED) "," MESSAGE_SAID
#define UNREAD DONE_THEN "]"
#define READ DONE_THEN "," ANSWER_SAID "]"

static const char *const two[] = { "first", "second", NULL };
static const char *const one[] = { "first", NULL };
static const char *const begun[] = { USER, BUSY, ANSWERING, NULL };

TEST(messages_are_sent_one_after_the_other_and_told_when_read)
{
    /* Only when the last one has come an answer knows them all. */
    static const char *const answered[] = { ANSWERING_SAID, "!messages " READ, IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.say = one;
    fake.after_prompt = begun;
    fake.after_message = answered;
    CHECK_STR(run(&fake), "ready\ntaken\nread\nusage \ntext all done\ntext that too\n"
                          "end done [stop] ||that too|7/500000\n");
    CHECK_EQ(fake.said, 1u);
    CHECK_EQ(fake.nudges, 0u);
    buf_finish(&fake.log);
}

TEST(a_turn_that_ended_before_its_messages_were_seen_is_begun_again)
{
    static const char *const ended[] = { "!messages " UNREAD, IDLE, NULL };
    static const char *const again[] = { BUSY, ANSWERING_SAID, "!messages " READ, IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.say = two;
    fake.after_prompt = begun;
    fake.after_message = ended;
    fake.after_nudge = again;
    CHECK_HAS(run(&fake), "read\nread\n");
    CHECK_HAS(buf_text(&fake.log), "end done [stop] ||that too|");
    CHECK_EQ(fake.said, 2u);
    CHECK_EQ(fake.nudges, 1u);
    buf_finish(&fake.log);
}

TEST(what_is_never_read_does_not_hold_the_prompt_for_ever)
{
    static const char *const ended[] = { "!messages " UNREAD, IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.say = one;
    fake.after_prompt = begun;
    fake.after_message = ended;
    CHECK_HAS(run(&fake), "unread: the agent ended its turn without reading it\n"
                          "end done [stop] ||all done|");
    CHECK_EQ(fake.nudges, 1u);
    buf_finish(&fake.log);
}

TEST(a_refused_message_is_told_and_the_prompt_goes_on)
{
    static const char *const ended[] = { "!messages " DONE, IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.say = one;
    fake.after_prompt = begun;
    fake.after_message = ended;
    fake.message_reply = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
                         "Content-Length: 20\r\n\r\n{\"message\":\"not so\"}";
    CHECK_HAS(run(&fake), "unread: OpenCode refused the message: status 400: not so\n");
    CHECK_HAS(buf_text(&fake.log), "end done [stop] ||all done|");
    buf_finish(&fake.log);
}

TEST(a_failed_prompt_does_not_wait_for_its_messages)
{
    static const char *const failed[] = {
        "!messages [" MESSAGE_USER "," MESSAGE_ANSWER("\"error\":" FAILURE(
            "APIError", "401", "invalid x-api-key") "," ENDED) "," MESSAGE_SAID "]",
        IDLE, NULL
    };
    struct fake fake;

    fake_init(&fake);
    fake.say = one;
    fake.after_prompt = begun;
    fake.after_message = failed;
    CHECK_HAS(run(&fake), "unread: the turn ended before the agent read it\n"
                          "end failed [] model_auth|");
    CHECK_EQ(fake.nudges, 0u);
    buf_finish(&fake.log);
}

TEST(nothing_is_taken_without_a_prompt_under_way)
{
    static const char *const frames[] = { NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.prompts = 0;
    CHECK_STR(run(&fake), "ready\n");
    buf_finish(&fake.log);
}

#define BUSY_STATUS "{\"ses_1\":{\"type\":\"busy\"}}"

static const struct agent_message before[] = { { "msg_said_before", "first" } };
static const struct agent_resume resumed = { .process_id = 7,
                                             .prompt_id = "msg_before",
                                             .text = "do it",
                                             .sent_ms = 1,
                                             .taken = true,
                                             .output = "",
                                             .messages = before,
                                             .message_count = 1 };

TEST(a_message_that_arrived_before_a_restart_is_not_sent_again)
{
    static const char *const frames[] = { ANSWERING_SAID, "!messages " READ, "!status {}", IDLE,
                                          NULL };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &resumed;
    fake.conversation = "ses_1";
    fake.messages = "[" MESSAGE_USER "]";
    fake.status = BUSY_STATUS;
    fake.when_ready = frames;
    str_copy(fake.said_id, sizeof(fake.said_id), "msg_said_before");
    CHECK_HAS(run(&fake), "read\n");
    CHECK_HAS(buf_text(&fake.log), "end done [stop] ||that too|");
    CHECK_EQ(fake.said, 0u);
    buf_finish(&fake.log);
}

TEST(a_message_that_never_arrived_before_a_restart_is_sent_once_under_its_id)
{
    static const char *const frames[] = { ANSWERING_SAID, "!messages " READ, "!status {}", IDLE,
                                          NULL };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &resumed;
    fake.conversation = "ses_1";
    fake.messages = "[" MESSAGE_USER "]";
    fake.status = BUSY_STATUS;
    fake.missing = 100;
    fake.after_message = frames;
    CHECK_HAS(run(&fake), "read\n");
    CHECK_EQ(fake.said, 1u);
    CHECK_STR(fake.said_id, "msg_said_before");
    buf_finish(&fake.log);
}

TEST(a_message_on_its_way_at_a_restart_is_waited_for)
{
    static const char *const frames[] = { "!messages " UNREAD, "!status {}", IDLE, NULL };
    static const char *const again[] = { BUSY, ANSWERING_SAID, "!messages " READ, IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &resumed;
    fake.conversation = "ses_1";
    fake.messages = "[" MESSAGE_USER "]";
    fake.status = BUSY_STATUS;
    fake.missing = 2;
    fake.when_ready = frames;
    fake.after_nudge = again;
    str_copy(fake.said_id, sizeof(fake.said_id), "msg_said_before");
    CHECK_HAS(run(&fake), "read\n");
    CHECK_EQ(fake.said, 0u);
    buf_finish(&fake.log);
}

TEST(the_agent_can_be_closed_at_every_step_of_it)
{
    static const char *const ended[] = { "!messages " UNREAD, IDLE, NULL };
    static const char *const again[] = { BUSY, ANSWERING_SAID, "!messages " READ, IDLE, NULL };
    unsigned steps = 1;

    /* The first round goes to the end and counts. */
    for (unsigned at = 0; at <= steps; at++) {
        struct fake fake;

        fake_init(&fake);
        fake.say = two;
        fake.after_prompt = begun;
        fake.after_message = ended;
        fake.after_nudge = again;
        fake.close_at = at;
        run(&fake);
        CHECK(strstr(buf_text(&fake.log), "HUNG") == NULL);
        steps = fake.steps > steps ? fake.steps : steps;
        buf_finish(&fake.log);
    }
    CHECK(steps > 20);
}
