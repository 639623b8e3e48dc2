#include "mcp-stdio/call.h"

#include "common/log.h"
#include "tests/unit/mcp-stdio/lab.h"

#define RUNNING                                                                                    \
    "{\"runId\":\"run_1\",\"sessionId\":\"ses_1\",\"status\":\"running\",\"phase\":\"work\","      \
    "\"task\":\"t\",\"createdAt\":1,\"cursor\":7,"                                                 \
    "\"steps\":[{\"number\":6,\"time\":1,\"kind\":\"tool\",\"text\":\"bash: ls\"}]}"
#define COMPLETED                                                                                  \
    "{\"runId\":\"run_1\",\"sessionId\":\"ses_1\",\"status\":\"completed\",\"verdict\":"           \
    "\"changed\",\"result\":{\"success\":true,"                                                    \
    "\"output\":\"All done.\"},\"task\":\"t\",\"createdAt\":1,\"cursor\":9}"
#define TOKEN "\"_meta\":{\"progressToken\":\"tok\\u0041\"}"

static void drop_line(void *data, const char *line)
{
    (void)data;
    (void)line;
}

static void quiet(void)
{
    log_set_sink(drop_line, NULL);
}

static const char *param(const char *name)
{
    return json_string(json_get(lab.peer.request.body, name));
}

static uint64_t number(const char *name)
{
    return json_u64(json_get(lab.peer.request.body, name), 999999);
}

TEST(a_reply_is_passed_on_as_structured_content_and_as_text)
{
    lab_start();
    lab_call("\"c:1\"", "opencode_get_result", "{\"runId\":\"run_1\"}", NULL);
    CHECK(lab_silent());
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.get");
    CHECK_STR(param("runId"), "run_1");
    CHECK(!json_get(lab.peer.request.body, "waitSeconds"));
    peer_reply(&lab.peer, lab.peer.request.id, COMPLETED);
    lab_turn(PEER_WAIT_MS);
    CHECK_HAS(lab_line(), "\"structuredContent\":" COMPLETED);
    CHECK_HAS(buf_text(&lab.line), "\"id\":\"c:1\"");
    CHECK(!lab_is_error());
    CHECK_HAS(lab_text(), "completed");
    CHECK_HAS(lab_text(), "All done.");
    CHECK(!server_is_busy(lab.server));
}

TEST(a_reply_in_several_lines_is_passed_on_in_one)
{
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    lab_meet();
    lab_reply("{\"runs\":[],\r\n \"hasMore\":false}");
    CHECK_HAS(lab_line(), "\"structuredContent\":{\"runs\":[],\"hasMore\":false}");
    CHECK(lab_silent());
}

TEST(a_long_log_is_passed_on_in_parts)
{
    AUTO_BUF struct buf reply = BUF_INIT(1u << 20);
    const struct json_value *last = NULL;

    lab_start();
    lab_call("1", "opencode_get_log", "{\"runId\":\"run_1\"}", NULL);
    lab_meet();
    buf_append_str(&reply, "{\"events\":[");
    for (int i = 1; i <= 50; i++)
        buf_printf(&reply,
                   "%s{\"number\":%d,\"time\":1,\"kind\":\"tool\",\"text\":\"t\",\"data\":{"
                   "\"output\":\"%0*d\"}}",
                   i > 1 ? "," : "", i, 2000, i);
    buf_append_str(&reply, "],\"cursor\":50,\"hasMore\":false}");
    lab_reply(buf_text(&reply));
    CHECK(strlen(lab_line()) < 50000);
    for (const struct json_value *one = json_first(lab_get("result.structuredContent.events")); one;
         one = json_next(one))
        last = one;
    CHECK_EQ(json_u64(lab_get("result.structuredContent.cursor"), 0),
             json_u64(json_get(last, "number"), 1));
    CHECK(json_u64(json_get(last, "number"), 0) < 50);
    CHECK(json_bool(lab_get("result.structuredContent.hasMore"), false));
    CHECK_HAS(lab_text(), "more follows");
}

TEST(a_modern_call_gets_a_modern_result)
{
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", MODERN_META);
    lab_meet();
    peer_reply(&lab.peer, lab.peer.request.id, "{\"runs\":[],\"hasMore\":false}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("result.resultType")), "complete");
    CHECK(lab_get("result._meta") != NULL);
    CHECK(!lab_get("result.ttlMs"));
}

TEST(arguments_of_models_are_taken_as_they_were_meant)
{
    lab_start();
    lab_call("1", "opencode_run_task",
             "{\"task\":\"x\",\"branch\":null,\"model\":\"\",\"title\":\"null\",\"timeoutMinutes\":"
             "\"5\",\"wait_for_previous\":true}",
             NULL);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.create");
    CHECK_EQ(json_count(lab.peer.request.body), 2);
    CHECK_STR(param("task"), "x");
    CHECK_EQ(number("timeoutMinutes"), 5);

    lab_call("2", "opencode_list_runs",
             "{\"limit\":5.0,\"before\":1795962680696,\"status\":\"running\"}", NULL);
    CHECK(peer_read(&lab.peer));
    CHECK_STR(param("before"), "1795962680696");
    CHECK_EQ(number("limit"), 5);
    CHECK_STR(param("status"), "running");

    lab_call("3", "opencode_list_runs", "\"{\\\"before\\\":\\\"run_9\\\"}\"", NULL);
    CHECK(peer_read(&lab.peer));
    CHECK_STR(param("before"), "run_9");
    CHECK_EQ(json_count(lab.peer.request.body), 1);

    lab_call("4", "opencode_list_runs", "null", NULL);
    CHECK(peer_read(&lab.peer));
    CHECK_EQ(json_count(lab.peer.request.body), 0);

    lab_call("5", "opencode_get_diff", "{\"sessionId\":\"ses_1\"}", NULL);
    CHECK(peer_read(&lab.peer));
    CHECK_EQ(number("maxBytes"), 6000);
    CHECK(lab_silent());
}

TEST(a_wait_is_clamped)
{
    static const struct {
        const char *arguments;
        uint64_t seconds;
    } cases[] = {
        { "{\"runId\":\"r\",\"waitSeconds\":45}", 45 },
        { "{\"runId\":\"r\",\"waitSeconds\":600}", 45 },
        { "{\"runId\":\"r\",\"waitSeconds\":\"600\"}", 45 },
        { "{\"runId\":\"r\",\"waitSeconds\":1e300}", 45 },
        { "{\"runId\":\"r\",\"waitSeconds\":\"30.5\"}", 31 },
        { "{\"runId\":\"r\",\"waitSeconds\":-3}", 999999 },
        { "{\"runId\":\"r\",\"waitSeconds\":null}", 999999 },
        { "{\"runId\":\"r\",\"waitSeconds\":\"\"}", 999999 },
        { "{\"runId\":\"r\",\"waitSeconds\":\"0\"}", 999999 },
    };

    lab_start();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lab_call("1", "opencode_get_result", cases[i].arguments, NULL);
        if (i == 0)
            lab_meet();
        else
            CHECK(peer_read(&lab.peer));
        CHECK_EQ(number("waitSeconds"), cases[i].seconds);
    }
}

TEST(wrong_arguments_are_named_and_never_reach_the_supervisor)
{
    static const struct {
        const char *tool;
        const char *arguments;
        const char *named;
    } cases[] = {
        { "opencode_run_task", "{}", "task" },
        { "opencode_run_task", "{\"task\":\"  \\n\"}", "task" },
        { "opencode_run_task", "{\"task\":5}", "task" },
        { "opencode_run_task", "{\"task\":\"x\",\"timeoutMinutes\":99999}", "timeoutMinutes" },
        { "opencode_get_result", "{}", "runId" },
        { "opencode_get_result", "{\"runId\":\"\"}", "runId" },
        { "opencode_get_result", "{\"runId\":\"r\",\"waitSeconds\":\"soon\"}", "waitSeconds" },
        { "opencode_list_runs", "{\"limit\":0}", "limit" },
        { "opencode_list_runs", "{\"limit\":101}", "limit" },
        { "opencode_list_runs", "{\"status\":\"done\"}", "status" },
        { "opencode_list_runs", "{\"before\":true}", "before" },
        { "opencode_cancel_run", "null", "runId" },
        { "opencode_get_diff", "{}", "runId" },
        { "opencode_get_log", "{\"runId\":\"r\",\"after\":-1}", "after" },
    };

    lab_start();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lab_call("1", cases[i].tool, cases[i].arguments, NULL);
        CHECK(lab_next());
        CHECK(lab_is_error());
        CHECK_HAS(lab_text(), cases[i].named);
    }
    CHECK(!server_is_busy(lab.server));
}

TEST(an_error_of_the_supervisor_becomes_words)
{
    struct error error = ERROR_INIT;

    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"run_9\"}", NULL);
    lab_meet();
    error_argument(&error, "runId", "no such run");
    error.code = ERR_NOT_FOUND;
    peer_fail(&lab.peer, lab.peer.request.id, &error);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_STR(
        lab_text(),
        "runId: no such run. Call opencode_list_runs to find the runs and sessions that exist.");
}

TEST(a_refusal_of_the_supervisor_leaves_no_doubt_about_the_run)
{
    struct error error = ERROR_INIT;

    lab_start();
    lab_call("1", "opencode_run_task", "{\"task\":\"x\"}", NULL);
    lab_meet();
    error_set(&error, ERR_UNAVAILABLE, 0, "no credential is stored");
    peer_fail(&lab.peer, lab.peer.request.id, &error);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_STR(lab_text(), "No credential is stored.");
}

TEST(many_calls_are_in_flight_and_answers_come_in_any_order)
{
    uint64_t ids[32];

    lab_start();
    for (int i = 0; i < 32; i++) {
        AUTO_BUF struct buf id = BUF_INIT(20);

        buf_printf(&id, "%d", i);
        lab_call(buf_text(&id), "opencode_get_result", "{\"runId\":\"run_1\"}", NULL);
    }
    lab_meet();
    for (int i = 0; i < 32; i++) {
        ids[i] = lab.peer.request.id;
        if (i < 31)
            CHECK(peer_read(&lab.peer));
    }
    for (int i = 31; i >= 0; i--)
        peer_reply(&lab.peer, ids[i], COMPLETED);
    lab_turn(PEER_WAIT_MS);
    for (int i = 31; i >= 0; i--) {
        if (lab_silent())
            lab_turn(PEER_WAIT_MS);
        CHECK(lab_next());
        CHECK_EQ((int)json_u64(lab_get("id"), 99), i);
    }
}

TEST(ping_is_answered_while_a_call_waits)
{
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"run_1\",\"waitSeconds\":45}", NULL);
    lab_meet();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}"), 0);
    CHECK_EQ(json_u64(lab_get("id"), 0), 2);
}

TEST(a_cancel_ends_the_wait_and_nothing_else)
{
    uint64_t id;

    lab_start();
    lab_call("5", "opencode_get_result", "{\"runId\":\"run_1\",\"waitSeconds\":45}", NULL);
    lab_meet();
    id = lab.peer.request.id;
    lab_say(CANCEL("\"5\"")); /* another id */
    CHECK(peer_is_quiet(&lab.peer));
    lab_say(CANCEL("5"));
    CHECK(peer_read(&lab.peer));
    CHECK_EQ((int)lab.peer.request.kind, ENVELOPE_CANCEL);
    CHECK_EQ(lab.peer.request.id, id);
    peer_reply(&lab.peer, id, COMPLETED); /* was on its way already */
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_silent());
    lab_say(CANCEL("5"));
    CHECK(peer_is_quiet(&lab.peer));
    CHECK(lab_silent());
}

/* Progress ------------------------------------------------------------------------------------- */

/* A wait with progress, up to where the run is known to go on: ids of its two requests. */
static void start_wait(uint64_t *get, uint64_t *events)
{
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"run_1\",\"waitSeconds\":30}", TOKEN);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.get");
    CHECK(!json_get(lab.peer.request.body, "waitSeconds"));
    peer_reply(&lab.peer, lab.peer.request.id, RUNNING);
    lab_turn(PEER_WAIT_MS);
    CHECK(peer_read(&lab.peer));
    CHECK_STR(lab.peer.request.method, "run.events");
    CHECK_EQ(number("after"), 7);
    CHECK(json_bool(json_get(lab.peer.request.body, "follow"), false));
    *events = lab.peer.request.id;
    CHECK(peer_read(&lab.peer));
    CHECK_STR(lab.peer.request.method, "run.get");
    CHECK_EQ(number("waitSeconds"), 30);
    *get = lab.peer.request.id;
    peer_reply(&lab.peer, *events, "{\"events\":[],\"cursor\":7,\"hasMore\":false}");
    lab_turn(PEER_WAIT_MS);
}

TEST(progress_is_told_while_a_call_waits)
{
    uint64_t get;
    uint64_t events;

    start_wait(&get, &events);
    CHECK_STR(lab_line(), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                          "progress\",\"params\":{\"progressToken\":\"tok\\u0041\",\"progress\":1,"
                          "\"message\":\"running (work): bash: ls [waited 0 s]\"}}");
    CHECK(lab_silent());
    lab_pass(4900);
    CHECK(lab_silent());
    lab_pass(100);
    CHECK_HAS(lab_line(), "\"progress\":2");
    lab_pass(300);
    peer_event(&lab.peer, events,
               "{\"number\":8,\"time\":1,\"kind\":\"tool\",\"text\":\"bash: make\"}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_silent());
    lab_pass(700);
    CHECK_HAS(lab_line(), "\"progress\":3,\"message\":\"running (work): bash: make [waited 6 s]\"");
    lab_pass(1500);
    peer_event(&lab.peer, events, "{\"number\":9,\"time\":1,\"kind\":\"usage\",\"text\":\"u\"}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_silent());
    peer_event(&lab.peer, events,
               "{\"number\":9,\"time\":1,\"kind\":\"state\",\"text\":\"s\",\"data\":{\"status\":"
               "\"running\",\"phase\":\"collect\"}}");
    lab_turn(PEER_WAIT_MS);
    CHECK_HAS(lab_line(), "running (collect)");
}

TEST(no_progress_comes_with_the_answer)
{
    uint64_t get;
    uint64_t events;

    start_wait(&get, &events);
    CHECK(lab_next());
    lab_pass(2000);
    peer_event(&lab.peer, events,
               "{\"number\":9,\"time\":1,\"kind\":\"state\",\"text\":\"s\",\"data\":{\"status\":"
               "\"completed\",\"phase\":\"\"}}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_silent());
    peer_reply(&lab.peer, get, COMPLETED);
    lab_turn(PEER_WAIT_MS);
    CHECK_HAS(lab_line(), "\"result\"");
    CHECK(peer_read(&lab.peer)); /* the subscription is given back */
    CHECK_EQ((int)lab.peer.request.kind, ENVELOPE_CANCEL);
    CHECK_EQ(lab.peer.request.id, events);
    lab_pass(60000);
    CHECK(lab_silent());
}

TEST(an_ended_run_is_answered_without_a_wait)
{
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"run_1\",\"waitSeconds\":30}", TOKEN);
    lab_meet();
    peer_reply(&lab.peer, lab.peer.request.id, COMPLETED);
    lab_turn(PEER_WAIT_MS);
    CHECK_HAS(lab_line(), "\"result\"");
    CHECK(peer_is_quiet(&lab.peer));
}

TEST(without_a_token_there_is_no_progress)
{
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"run_1\",\"waitSeconds\":30}", NULL);
    lab_meet();
    CHECK_EQ(number("waitSeconds"), 30);
    lab_pass(29000);
    CHECK(lab_silent());
    CHECK_EQ(server_deadline_ms(lab.server), lab.clock.mono_ms + 11000);
}

TEST(a_cancel_ends_progress_too)
{
    uint64_t get;
    uint64_t events;

    start_wait(&get, &events);
    CHECK(lab_next());
    lab_say(CANCEL("1"));
    lab_pass(10000);
    CHECK(lab_silent());
    CHECK_EQ(server_deadline_ms(lab.server), UINT64_MAX);
}

/* The supervisor is not as it should be -------------------------------------------------------- */

TEST(nothing_is_connected_before_the_first_call)
{
    lab_start();
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), 0);
    CHECK_EQ(server_deadline_ms(lab.server), UINT64_MAX);
    CHECK(poll(&(struct pollfd){ .fd = lab.peer.listen_fd, .events = POLLIN }, 1, 0) == 0);
}

TEST(an_absent_supervisor_is_started_once_and_pings_are_answered_meanwhile)
{
    quiet();
    lab_start_absent();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    lab_call("2", "opencode_list_runs", "{}", NULL);
    CHECK_EQ(lab.launched, 1);
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}"), 0);
    CHECK(server_deadline_ms(lab.server) <= lab.clock.mono_ms + 5);
    for (int i = 0; i < 20; i++)
        lab_pass(100);
    lab_listen();
    lab_pass(100);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
    CHECK(peer_read(&lab.peer));
    CHECK_EQ(lab.launched, 1);
}

TEST(a_supervisor_that_does_not_come_up_is_said_and_tried_again)
{
    quiet();
    lab_start_absent();
    lab_call("1", "opencode_run_task", "{\"task\":\"x\"}", NULL);
    for (int i = 0; i < 120; i++)
        lab_pass(100);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "supervisord.log");
    CHECK_HAS(lab_text(), "Nothing was done");
    lab_listen();
    lab_call("2", "opencode_list_runs", "{}", NULL);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
}

TEST(another_version_is_said_in_words_that_help)
{
    quiet();
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    peer_accept(&lab.peer);
    peer_answer_hello(&lab.peer, PROTO_VERSION + 1);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "speaks protocol");
    CHECK_HAS(lab_text(), "stop the supervisor");
    CHECK(!server_is_busy(lab.server));
}

TEST(a_supervisor_that_accepts_and_says_nothing_is_given_up)
{
    quiet();
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    lab_pass(4999);
    CHECK(lab_silent());
    lab_pass(1);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "does not answer");
}

TEST(a_supervisor_that_dies_during_a_call_is_said_and_the_next_call_works)
{
    quiet();
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"run_1\",\"waitSeconds\":45}", NULL);
    lab_meet();
    peer_drop(&lab.peer);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "Runs are kept and go on. Call again.");
    lab_call("2", "opencode_get_result", "{\"runId\":\"run_1\"}", NULL);
    lab_meet();
    peer_reply(&lab.peer, lab.peer.request.id, COMPLETED);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(!lab_is_error());
}

TEST(a_create_whose_fate_is_unknown_is_not_sent_again)
{
    quiet();
    lab_start();
    lab_call("1", "opencode_run_task", "{\"task\":\"x\"}", NULL);
    lab_meet();
    peer_drop(&lab.peer);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "not known whether the run was started");
    CHECK_HAS(lab_text(), "opencode_list_runs");
    CHECK_EQ(server_deadline_ms(lab.server), UINT64_MAX);
}

TEST(an_idle_connection_that_breaks_is_made_again)
{
    quiet();
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    lab_meet();
    peer_reply(&lab.peer, lab.peer.request.id, "{\"runs\":[],\"hasMore\":false}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    peer_drop(&lab.peer);
    lab_turn(PEER_WAIT_MS);
    lab_call("2", "opencode_list_runs", "{}", NULL);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
}

TEST(a_hung_supervisor_is_a_timeout_and_the_connection_is_made_anew)
{
    quiet();
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    lab_meet();
    lab_pass(10000);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "did not answer within 10 s");
    lab_call("2", "opencode_list_runs", "{}", NULL);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
}

TEST(nonsense_from_the_supervisor_is_said)
{
    struct error err = ERROR_INIT;

    quiet();
    lab_start();
    lab_call("1", "opencode_list_runs", "{}", NULL);
    lab_meet();
    CHECK_EQ(fd_send(lab.peer.fd, "\0\0\0\0", 4, NULL, 0, &err), 0);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "protocol");
}

TEST(a_wrong_environment_is_an_error_of_the_call_only)
{
    quiet();
    lab_start_absent();
    setenv("SANDBOX_MCP_STATE", "not/absolute", 1);
    lab_call("1", "opencode_list_runs", "{}", NULL);
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "SANDBOX_MCP_STATE");
    CHECK_EQ(lab_code("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}"), 0);
}
