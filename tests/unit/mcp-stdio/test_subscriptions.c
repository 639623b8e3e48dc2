#include "mcp-stdio/subscriptions.h"

#include "common/log.h"
#include "tests/unit/mcp-stdio/lab.h"

#define SUBSCRIBE(id, uri) REQUEST(id, "resources/subscribe", "\"uri\":\"" uri "\"")
#define UPDATED(uri)                                                                               \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":"     \
    "\"" uri "\"}}"
#define FOLLOWED "{\"events\":[],\"cursor\":7,\"hasMore\":false}"
#define TOOL_EVENT "{\"number\":8,\"time\":1,\"kind\":\"tool\",\"text\":\"bash: make\"}"
#define END_EVENT                                                                                  \
    "{\"number\":9,\"time\":1,\"kind\":\"state\",\"text\":\"s\",\"data\":{\"status\":"             \
    "\"completed\"}}"

static void drop_line(void *data, const char *line)
{
    (void)data;
    (void)line;
}

/* The watch has looked at the run and follows it from now on; the id of its stream. */
static uint64_t follow(void)
{
    CHECK_STR(lab.peer.request.method, "run.get");
    lab_reply(VIEW_RUNNING);
    lab_expect("run.events");
    CHECK_EQ(json_u64(json_get(lab.peer.request.body, "after"), 0), 7);
    peer_reply(&lab.peer, lab.peer.request.id, FOLLOWED);
    lab_turn(PEER_WAIT_MS);
    return lab.peer.request.id;
}

static uint64_t subscribe(const char *line)
{
    log_set_sink(drop_line, NULL);
    lab_start();
    CHECK_EQ(lab_code(line), 0);
    lab_meet();
    return follow();
}

static void tell(uint64_t events, const char *event)
{
    peer_event(&lab.peer, events, event);
    lab_turn(PEER_WAIT_MS);
    lab_turn(0);
}

TEST(a_change_is_told_and_the_next_after_a_pause)
{
    uint64_t events = subscribe(SUBSCRIBE("1", "run://" RUN_ID "/log"));

    CHECK(lab_silent());
    CHECK(!server_is_busy(lab.server));
    tell(events, TOOL_EVENT);
    CHECK_STR(lab_line(), UPDATED("run://" RUN_ID "/log"));
    tell(events, TOOL_EVENT);
    tell(events, TOOL_EVENT);
    CHECK(lab_silent());
    lab_pass(1000);
    CHECK_STR(lab_line(), UPDATED("run://" RUN_ID "/log"));
    CHECK(lab_silent());
}

TEST(a_diff_changes_once)
{
    uint64_t events = subscribe(SUBSCRIBE("1", "run://" RUN_ID "/diff"));

    tell(events, TOOL_EVENT);
    CHECK(lab_silent());
    tell(events, END_EVENT);
    CHECK_STR(lab_line(), UPDATED("run://" RUN_ID "/diff"));
}

TEST(an_ended_run_is_watched_no_more)
{
    AUTO_BUF struct buf frames = BUF_INIT(1000);
    uint64_t events = subscribe(SUBSCRIBE("1", "run://" RUN_ID "/result"));
    struct error err = ERROR_INIT;

    tell(events, END_EVENT);
    CHECK(lab_next());
    CHECK_EQ(envelope_append_end(&frames, events, "{}", &err), 0);
    peer_send(&lab.peer, &frames);
    lab_turn(PEER_WAIT_MS);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    lab_pass(5000);
    CHECK(lab_silent());
    CHECK(peer_is_quiet(&lab.peer));
    CHECK_EQ(server_deadline_ms(lab.server), UINT64_MAX);
}

TEST(unsubscribing_ends_it)
{
    uint64_t events = subscribe(SUBSCRIBE("1", "run://" RUN_ID "/log"));

    CHECK_EQ(lab_code(SUBSCRIBE("2", "run://" RUN_ID "/log")), 0); /* twice is once */
    CHECK(peer_is_quiet(&lab.peer));
    CHECK_EQ(lab_code(REQUEST("3", "resources/unsubscribe", "\"uri\":\"run://" RUN_ID "/log\"")),
             0);
    CHECK(peer_read(&lab.peer));
    CHECK_EQ((int)lab.peer.request.kind, ENVELOPE_CANCEL);
    CHECK_EQ(lab.peer.request.id, events);
    tell(events, TOOL_EVENT);
    CHECK(lab_silent());
    CHECK_EQ(lab_code(REQUEST("3", "resources/unsubscribe", "\"uri\":\"run://x/log\"")), 0);
}

#define SESSION_ID "ses_01m8m5px9s9re4ek3mehh1faea"
#define SESSION_URI "session://" SESSION_ID

/* The id of the stream of a watched session. */
static uint64_t watch_session(void)
{
    log_set_sink(drop_line, NULL);
    lab_start();
    CHECK_EQ(lab_code(SUBSCRIBE("1", SESSION_URI)), 0);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "session.watch");
    CHECK_STR(json_string(json_get(lab.peer.request.body, "sessionId")), SESSION_ID);
    peer_reply(&lab.peer, lab.peer.request.id, "{\"sessionId\":\"" SESSION_ID "\"}");
    lab_turn(PEER_WAIT_MS);
    return lab.peer.request.id;
}

TEST(a_session_is_told_of_until_it_is_deleted)
{
    AUTO_BUF struct buf frames = BUF_INIT(1000);
    uint64_t events = watch_session();
    struct error err = ERROR_INIT;

    CHECK(lab_silent());
    tell(events, "{\"runId\":\"" RUN_ID "\"}");
    CHECK_STR(lab_line(), UPDATED(SESSION_URI));
    tell(events, "{}");
    CHECK(lab_silent());
    CHECK_EQ(envelope_append_end(&frames, events, "{\"deleted\":true}", &err), 0);
    peer_send(&lab.peer, &frames);
    lab_turn(PEER_WAIT_MS);
    CHECK_STR(lab_line(), UPDATED(SESSION_URI));
    lab_pass(5000);
    CHECK(lab_silent());
    CHECK(peer_is_quiet(&lab.peer));
    CHECK_EQ(server_deadline_ms(lab.server), UINT64_MAX);
}

TEST(a_session_that_is_not_there_is_told_of_never)
{
    AUTO_BUF struct buf frames = BUF_INIT(1000);
    uint64_t events = watch_session();
    struct error err = ERROR_INIT;
    struct error refusal = ERROR_INIT;

    error_set(&refusal, ERR_NOT_FOUND, 0, "no such session");
    CHECK_EQ(envelope_append_error(&frames, events, &refusal, &err), 0);
    peer_send(&lab.peer, &frames);
    lab_pass(5000);
    CHECK(lab_silent());
    CHECK(peer_is_quiet(&lab.peer));
}

TEST(what_can_not_be_watched_is_refused)
{
    lab_start_alone();
    CHECK_EQ(lab_code(SUBSCRIBE("1", "file:///x")), -32002);
    CHECK_EQ(lab_code(REQUEST("1", "resources/subscribe", "")), -32602);
    CHECK_EQ(lab_code(REQUEST("1", "resources/unsubscribe", "")), -32602);
    CHECK_EQ(lab_code(SUBSCRIBE("1", "ui://sandbox-mcp/run.html")), 0); /* never changes */
}

TEST(a_watch_survives_its_supervisor)
{
    subscribe(SUBSCRIBE("1", "run://" RUN_ID "/log"));
    peer_drop(&lab.peer);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_silent());
    CHECK_EQ(server_deadline_ms(lab.server), lab.clock.mono_ms + 2000);
    lab_pass(2000);
    CHECK_EQ(lab.launched, 0);
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.get");
    lab_reply(VIEW_OF("running", ",\"x\":1")); /* nothing new: cursor 7 */
    CHECK(lab_silent());
    lab_expect("run.events");
    peer_drop(&lab.peer);
    lab_turn(PEER_WAIT_MS);
    lab_pass(2000);
    lab_meet();
    lab_reply("{\"runId\":\"" RUN_ID "\",\"status\":\"completed\",\"cursor\":12}");
    lab_turn(0);
    CHECK_STR(lab_line(), UPDATED("run://" RUN_ID "/log"));
}

TEST(an_absent_supervisor_is_not_started_for_a_watch)
{
    log_set_sink(drop_line, NULL);
    lab_start_absent();
    CHECK_EQ(lab_code(SUBSCRIBE("1", "run://" RUN_ID "/log")), 0);
    for (int i = 0; i < 5; i++)
        lab_pass(2000);
    CHECK_EQ(lab.launched, 0);
    lab_listen();
    lab_pass(2000);
    lab_meet();
    follow();
}

TEST(an_unknown_run_is_forgotten)
{
    lab_start();
    CHECK_EQ(lab_code(SUBSCRIBE("1", "run://run_9/log")), 0);
    lab_meet();
    lab_refuse(ERR_NOT_FOUND, "no such run");
    CHECK(lab_silent());
    CHECK_EQ(server_deadline_ms(lab.server), UINT64_MAX);
}

#define LISTEN(id, filter, capabilities)                                                           \
    REQUEST(id, "subscriptions/listen",                                                            \
            "\"notifications\":{" filter "}," MODERN_META_WITH(capabilities))

TEST(a_modern_subscription_names_itself_in_all_it_says)
{
    uint64_t events;

    lab_start();
    lab_say(
        LISTEN("\"l:1\"", "\"resourceSubscriptions\":[\"run://" RUN_ID "/log\",\"x:y\",5]", ""));
    CHECK_STR(lab_line(), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/"
                          "acknowledged\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/"
                          "subscriptionId\":\"l:1\"},\"notifications\":{\"resourceSubscriptions\":["
                          "\"run://" RUN_ID "/log\"]}}}");
    lab_meet();
    events = follow();
    tell(events, TOOL_EVENT);
    CHECK_STR(lab_line(), "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                          "\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":"
                          "\"l:1\"},\"uri\":\"run://" RUN_ID "/log\"}}");
    lab_say(CANCEL("\"l:1\""));
    CHECK(peer_read(&lab.peer));
    CHECK_EQ((int)lab.peer.request.kind, ENVELOPE_CANCEL);
    tell(events, TOOL_EVENT);
    CHECK(lab_silent());
}

TEST(a_task_is_told_with_how_it_stands)
{
    uint64_t events;

    lab_start();
    lab_say(LISTEN("7", "\"taskIds\":[\"" RUN_ID "\",\"nonsense\"]", WITH_TASKS));
    CHECK_HAS(lab_line(), "\"notifications\":{\"taskIds\":[\"" RUN_ID "\"]}");
    lab_meet();
    events = follow();
    tell(events, TOOL_EVENT);
    CHECK(lab_silent());
    tell(events, END_EVENT);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"method\":\"notifications/tasks\",\"params\":{\"_meta\":{\"io."
                          "modelcontextprotocol/subscriptionId\":7},\"taskId\":\"" RUN_ID
                          "\",\"status\":\"completed\"");
    CHECK(lab_get("params.result") != NULL);
}

TEST(a_task_that_has_ended_already_is_told_at_once)
{
    lab_start();
    lab_say(LISTEN("7", "\"taskIds\":[\"" RUN_ID "\"]", WITH_TASKS));
    CHECK(lab_next());
    lab_meet();
    lab_reply(VIEW_COMPLETED);
    lab_turn(0);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"status\":\"completed\"");
}

TEST(tasks_are_for_clients_that_declare_them)
{
    lab_start_alone();
    CHECK_EQ(lab_code(LISTEN("7", "\"taskIds\":[\"" RUN_ID "\"]", "")), -32021);
    CHECK(json_get(lab_get("error.data.requiredCapabilities.extensions"),
                   "io.modelcontextprotocol/tasks") != NULL);
}

TEST(what_is_watched_is_limited)
{
    AUTO_BUF struct buf line = BUF_INIT(10000);
    int refused = 0;

    log_set_sink(drop_line, NULL);
    lab_start_absent();
    for (int i = 0; i < 30; i++) {
        buf_clear(&line);
        buf_printf(&line,
                   "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"resources/subscribe\","
                   "\"params\":{\"uri\":\"run://run_%d/log\"}}",
                   i, i);
        if (lab_code(buf_text(&line)) == -32603)
            refused++;
    }
    CHECK_EQ(refused, 6);
}
