#include "mcp-stdio/elicit.h"

#include "tests/unit/mcp-stdio/lab.h"

static struct json_doc *parse(const char *text)
{
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(json_parse(&doc, text, strlen(text), 1u << 20, &err), 0);
    return doc;
}

static bool answer_of(const char *result, struct buf *answer)
{
    AUTO_JSON struct json_doc *doc = parse(result);

    buf_clear(answer);
    return elicit_read(json_root(doc), answer);
}

static void form_of(const char *view, const char *revision, struct buf *out)
{
    AUTO_JSON struct json_doc *doc = parse(view);
    struct json_writer writer;

    buf_clear(out);
    json_write_init(&writer, out);
    json_write_object(&writer);
    elicit_write(&writer, json_root(doc), revision);
    json_write_object_end(&writer);
}

TEST(a_question_with_options_is_a_choice_with_room_for_something_else)
{
    AUTO_BUF struct buf form = BUF_INIT(10000);

    form_of(VIEW_WAITING, "2025-11-25", &form);
    CHECK_STR(buf_text(&form),
              "{\"mode\":\"form\",\"message\":\"The coding agent asks: Which licence?\","
              "\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":"
              "\"string\",\"title\":\"Answer\",\"enum\":[\"MIT\",\"GPL\"]},\"other\":{\"type\":"
              "\"string\",\"title\":\"Or something else\"}}}}");
}

TEST(a_permission_is_a_choice_that_must_be_made)
{
    AUTO_BUF struct buf form = BUF_INIT(10000);

    form_of(VIEW_OF("waiting", ",\"title\":\"A “T”\",\"request\":{\"requestId\":\"per_1\",\"kind\":"
                               "\"permission\",\"text\":\"bash: rm\",\"options\":[\"once\","
                               "\"always\",\"reject\"]}"),
            "2025-06-18", &form);
    CHECK_HAS(buf_text(&form), "asks for permission: bash: rm");
    CHECK_HAS(buf_text(&form), "\"required\":[\"answer\"]");
    CHECK(!strstr(buf_text(&form), "mode"));
    CHECK(!strstr(buf_text(&form), "other"));
}

TEST(several_questions_are_as_many_fields)
{
    AUTO_BUF struct buf form = BUF_INIT(10000);

    form_of(VIEW_OF("waiting",
                    ",\"request\":{\"requestId\":\"que_1\",\"kind\":\"question\","
                    "\"text\":\"a\\nb\",\"options\":[\"x\"],\"questions\":[{\"question\":"
                    "\"a\",\"options\":[\"x\"]},{\"question\":\"b\",\"options\":[]}]}"),
            "2026-07-28", &form);
    CHECK_HAS(buf_text(&form),
              "\"answer1\":{\"type\":\"string\",\"title\":\"a\",\"enum\":[\"x\"]}");
    CHECK_HAS(buf_text(&form), "\"other1\"");
    CHECK_HAS(buf_text(&form), "\"answer2\":{\"type\":\"string\",\"title\":\"b\"}");
    CHECK(!strstr(buf_text(&form), "required\""));
}

TEST(an_answer_is_a_line_for_each_question)
{
    AUTO_BUF struct buf answer = BUF_INIT(1000);

    CHECK(answer_of("{\"action\":\"accept\",\"content\":{\"answer\":\"MIT\"}}", &answer));
    CHECK_STR(buf_text(&answer), "MIT");
    CHECK(answer_of("{\"action\":\"accept\",\"content\":{\"answer\":\"MIT\",\"other\":\"a\\nb\"}}",
                    &answer));
    CHECK_STR(buf_text(&answer), "a b");
    CHECK(answer_of("{\"action\":\"accept\",\"content\":{\"answer1\":\"x\",\"other2\":\"y\"}}",
                    &answer));
    CHECK_STR(buf_text(&answer), "x\ny");
}

TEST(what_is_no_answer_answers_nothing)
{
    static const char *const results[] = {
        "{\"action\":\"decline\"}",
        "{\"action\":\"cancel\",\"content\":{\"answer\":\"MIT\"}}",
        "{\"action\":\"accept\"}",
        "{\"action\":\"accept\",\"content\":{\"answer\":\" \"}}",
        "{\"action\":\"accept\",\"content\":{\"answer\":5}}",
        "{\"action\":\"accept\",\"content\":[]}",
        "{}",
        "[]",
        "5",
    };
    AUTO_BUF struct buf answer = BUF_INIT(1000);

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (answer_of(results[i], &answer))
            CHECK_FAILED(results[i]);
}

/* In a call ------------------------------------------------------------------------------------ */

#define GET                                                                                        \
    "\"name\":\"opencode_get_result\",\"arguments\":{\"runId\":\"" RUN_ID "\",\"waitSeconds\":20}"

/* A legacy call that waits, up to the question to the client. */
static void ask(void)
{
    lab_start();
    CHECK_EQ(lab_code(LEGACY_START("2025-11-25", WITH_FORMS)), 0);
    lab_say(REQUEST("1", "tools/call", GET));
    lab_meet();
    lab_reply(VIEW_WAITING);
    CHECK_HAS(lab_line(), "\"id\":\"question-1\",\"method\":\"elicitation/create\"");
    CHECK(lab_silent());
}

#define ANSWER(result) "{\"jsonrpc\":\"2.0\",\"id\":\"question-1\"," result "}"
#define ACCEPT "\"action\":\"accept\",\"content\":{\"answer\":\"GPL\"}"

TEST(the_users_answer_reaches_the_agent_and_the_wait_goes_on)
{
    ask();
    lab_say(ANSWER("\"result\":{" ACCEPT "}"));
    lab_expect("run.answer");
    CHECK_STR(lab_param("requestId"), "que_1");
    CHECK_STR(lab_param("answer"), "GPL");
    lab_reply("{\"runId\":\"" RUN_ID "\",\"requestId\":\"que_1\"}");
    lab_expect("run.get");
    lab_reply(VIEW_RUNNING);
    lab_expect("run.get");
    CHECK_EQ(json_u64(json_get(lab.peer.request.body, "waitSeconds"), 0), 20);
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "All done.");
    CHECK(lab_silent());
}

TEST(an_agent_that_has_not_heard_the_answer_yet_is_waited_for)
{
    uint64_t events;

    ask();
    lab_say(ANSWER("\"result\":{" ACCEPT "}"));
    lab_expect("run.answer");
    lab_reply("{}");
    lab_expect("run.get");
    lab_reply(VIEW_WAITING);
    lab_expect("run.events");
    events = lab.peer.request.id;
    peer_reply(&lab.peer, events, "{\"events\":[],\"cursor\":7,\"hasMore\":false}");
    peer_event(&lab.peer, events,
               "{\"number\":8,\"time\":1,\"kind\":\"state\",\"text\":\"s\","
               "\"data\":{\"status\":\"running\"}}");
    lab_turn(PEER_WAIT_MS);
    lab_expect("run.get");
    CHECK(lab_silent());
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "All done.");
}

TEST(a_user_who_declines_leaves_the_question_to_the_model)
{
    ask();
    lab_say(ANSWER("\"result\":{\"action\":\"decline\"}"));
    CHECK_HAS(lab_line(), "\"status\":\"waiting\"");
    CHECK(!lab_is_error());
    CHECK(peer_is_quiet(&lab.peer));
}

TEST(a_client_that_can_not_ask_after_all_gets_the_run)
{
    ask();
    lab_say(ANSWER("\"error\":{\"code\":-32601,\"message\":\"no\"}"));
    CHECK_HAS(lab_line(), "\"status\":\"waiting\"");
    lab_say(ANSWER("\"result\":{" ACCEPT "}")); /* nobody asks any more */
    CHECK(peer_is_quiet(&lab.peer));
    CHECK(lab_silent());
}

TEST(a_user_who_does_not_answer_in_time_is_not_waited_for)
{
    ask();
    lab_pass(19999);
    CHECK(lab_silent());
    lab_pass(1);
    CHECK_HAS(lab_line(), "notifications/cancelled\",\"params\":{\"requestId\":\"question-1\"");
    CHECK_HAS(lab_line(), "\"status\":\"waiting\"");
}

TEST(a_cancelled_call_takes_its_question_back)
{
    ask();
    lab_say(CANCEL("1"));
    CHECK_HAS(lab_line(), "notifications/cancelled\",\"params\":{\"requestId\":\"question-1\"");
    CHECK(lab_silent());
    lab_pass(60000);
    CHECK(lab_silent());
}

TEST(an_answer_that_came_too_late_is_no_error)
{
    ask();
    lab_say(ANSWER("\"result\":{" ACCEPT "}"));
    lab_expect("run.answer");
    lab_refuse(ERR_CONFLICT, "nothing is asked");
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "All done.");
}

TEST(who_can_not_show_a_form_or_does_not_wait_is_not_asked)
{
    lab_start();
    CHECK_EQ(lab_code(LEGACY_START("2025-11-25", "\"elicitation\":{\"url\":{}}")), 0);
    lab_say(REQUEST("1", "tools/call", GET));
    lab_meet();
    lab_reply(VIEW_WAITING);
    CHECK_HAS(lab_line(), "\"status\":\"waiting\"");
    CHECK_EQ(lab_code(LEGACY_START("2025-11-25", WITH_FORMS)), 0);
    lab_say(REQUEST("2", "tools/call",
                    "\"name\":\"opencode_get_result\",\"arguments\":{\"runId\":"
                    "\"" RUN_ID "\"}"));
    lab_expect("run.get");
    lab_reply(VIEW_WAITING);
    CHECK_HAS(lab_line(), "\"status\":\"waiting\"");
}

#define FORMS MODERN_META_WITH(WITH_FORMS)

TEST(a_modern_client_is_told_what_is_missing_and_calls_again)
{
    lab_start();
    lab_say(REQUEST("1", "tools/call", GET "," FORMS));
    lab_meet();
    lab_reply(VIEW_WAITING);
    CHECK_HAS(lab_line(), "\"resultType\":\"input_required\",\"inputRequests\":{\"que_1\":{"
                          "\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\"");
    CHECK(!lab_get("result.content"));
    lab_say(REQUEST("2", "tools/call", GET ",\"inputResponses\":{\"que_1\":{" ACCEPT "}}," FORMS));
    lab_expect("run.answer");
    CHECK_STR(lab_param("requestId"), "que_1");
    lab_reply("{}");
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
}

TEST(a_modern_client_whose_user_declined_is_not_asked_again)
{
    lab_start();
    lab_say(REQUEST("1", "tools/call",
                    GET ",\"inputResponses\":{\"que_1\":{\"action\":\"decline\"}}," FORMS));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.get");
    lab_reply(VIEW_WAITING);
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
    CHECK_HAS(buf_text(&lab.line), "\"status\":\"waiting\"");
}

TEST(answers_to_what_is_not_asked_are_passed_over)
{
    lab_start();
    lab_say(REQUEST("1", "tools/call",
                    GET ",\"inputResponses\":{\"x\":{" ACCEPT "}},\"requestState\":\"s\"," FORMS));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.answer");
    lab_refuse(ERR_NOT_FOUND, "no request x");
    lab_expect("run.get");
    lab_reply(VIEW_WAITING);
    CHECK_HAS(lab_line(), "input_required");
    lab_say(REQUEST("2", "tools/call", GET ",\"inputResponses\":[1]," FORMS));
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "All done.");
}
