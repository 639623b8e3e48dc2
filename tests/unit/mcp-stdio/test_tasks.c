#include "mcp-stdio/tasks.h"

#include "tests/unit/mcp-stdio/lab.h"

#define RUN_TASK "\"name\":\"opencode_run_task\",\"arguments\":{\"task\":\"x\""
#define CREATED                                                                                    \
    "{\"runId\":\"" RUN_ID "\",\"sessionId\":\"ses_1\",\"status\":\"queued\",\"message\":\"m\"}"
#define BY_ID "\"taskId\":\"" RUN_ID "\""
#define TASKS MODERN_META_WITH(WITH_TASKS)

static void legacy(const char *revision)
{
    lab_start();
    CHECK_EQ(lab_code(revision), 0);
}

static void legacy_newest(void)
{
    legacy(LEGACY_START("2025-11-25", ""));
}

TEST(a_legacy_call_becomes_a_task_when_the_client_asks)
{
    legacy_newest();
    lab_say(REQUEST("1", "tools/call", RUN_TASK "},\"task\":{\"ttl\":60000}"));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.create");
    lab_reply(CREATED);
    lab_expect("run.get");
    CHECK(lab_silent());
    lab_reply(VIEW_RUNNING);
    CHECK_STR(lab_line(),
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"task\":{\"taskId\":\"" RUN_ID
              "\",\"status\":\"working\",\"statusMessage\":\"work\",\"createdAt\":"
              "\"2026-11-29T17:30:12.153Z\",\"lastUpdatedAt\":"
              "\"2026-11-29T17:30:12.153Z\",\"ttl\":null,\"pollInterval\":2000},"
              "\"_meta\":{\"io.modelcontextprotocol/model-immediate-response\":\"m\"}}}");
}

TEST(other_tools_and_older_revisions_have_no_tasks)
{
    legacy_newest();
    CHECK_EQ(lab_code(REQUEST("1", "tools/call",
                              "\"name\":\"opencode_list_runs\",\"arguments\":{},\"task\":{}")),
             -32601);
    CHECK_EQ(lab_code(REQUEST("2", "tools/list", "")), 0);
    CHECK_HAS(buf_text(&lab.line), "\"execution\":{\"taskSupport\":\"optional\"}");
    CHECK_EQ(lab_code(LEGACY_START("2025-06-18", "")), 0);
    CHECK_EQ(lab_code(REQUEST("2", "tools/list", "")), 0);
    CHECK(!strstr(buf_text(&lab.line), "taskSupport"));
    CHECK_EQ(lab_code(REQUEST("2", "tasks/get", BY_ID)), -32601);
    CHECK_EQ(lab_code(REQUEST("2", "tasks/list", "")), -32601);
    lab_say(REQUEST("3", "tools/call", RUN_TASK "},\"task\":{}"));
    lab_meet();
    lab_reply(CREATED);
    CHECK_HAS(lab_line(), "\"structuredContent\":" CREATED);
}

TEST(a_legacy_task_that_can_not_be_made_is_an_error)
{
    legacy_newest();
    lab_say(REQUEST("1", "tools/call", RUN_TASK "},\"task\":{}"));
    lab_meet();
    lab_refuse(ERR_LIMIT, "too many runs");
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32603);
    CHECK_HAS(json_string(lab_get("error.message")), "Too many runs");
    CHECK_EQ(lab_code(REQUEST("2", "tools/call",
                              "\"name\":\"opencode_run_task\",\"arguments\":{},\"task\":{}")),
             0);
    CHECK(lab_is_error());
}

static void check_legacy_status(const char *view, const char *status)
{
    lab_say(REQUEST("1", "tasks/get", BY_ID));
    lab_expect("run.get");
    lab_reply(view);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("result.status")), status);
    CHECK_STR(json_string(lab_get("result.taskId")), RUN_ID);
}

TEST(the_status_of_a_run_is_that_of_its_legacy_task)
{
    legacy_newest();
    lab_say(REQUEST("1", "tasks/get", BY_ID));
    lab_meet();
    lab_reply(VIEW_RUNNING);
    CHECK(lab_next());
    check_legacy_status(VIEW_OF("queued", ""), "working");
    check_legacy_status(VIEW_OF("started", ""), "working");
    check_legacy_status(VIEW_WAITING, "input_required");
    check_legacy_status(VIEW_COMPLETED, "completed");
    check_legacy_status(VIEW_OF("failed", ""), "failed");
    check_legacy_status(VIEW_OF("interrupted", ""), "failed");
    check_legacy_status(VIEW_OF("cancelled", ""), "cancelled");
}

TEST(unknown_tasks_are_wrong_params)
{
    legacy_newest();
    CHECK_EQ(lab_code(REQUEST("1", "tasks/get", "")), -32602);
    CHECK_EQ(lab_code(REQUEST("1", "tasks/get", "\"taskId\":5")), -32602);
    CHECK_EQ(lab_code(REQUEST("1", "tasks/cancel", "\"taskId\":\"x\\\"y\"")), -32602);
    CHECK_EQ(lab_code(REQUEST("1", "tasks/list", "\"cursor\":\"x\"")), -32602);
    lab_say(REQUEST("1", "tasks/result", BY_ID));
    lab_meet();
    lab_refuse(ERR_NOT_FOUND, "no such run");
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32602);
}

TEST(the_result_of_a_task_is_waited_for)
{
    legacy_newest();
    lab_say(REQUEST("1", "tasks/result", BY_ID));
    lab_meet();
    CHECK_EQ(json_u64(json_get(lab.peer.request.body, "waitSeconds"), 0), 45);
    lab_reply(VIEW_RUNNING); /* the wait was over */
    CHECK(lab_silent());
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"structuredContent\":" VIEW_COMPLETED);
    CHECK_HAS(buf_text(&lab.line),
              "\"_meta\":{\"io.modelcontextprotocol/related-task\":{" BY_ID "}}");
    CHECK(!lab_is_error());
}

TEST(a_task_that_asks_is_waited_for_without_asking_again_and_again)
{
    uint64_t events;

    legacy_newest();
    lab_say(REQUEST("1", "tasks/result", BY_ID));
    lab_meet();
    lab_reply(VIEW_WAITING);
    lab_expect("run.events");
    events = lab.peer.request.id;
    peer_reply(&lab.peer, events, "{\"events\":[],\"cursor\":7,\"hasMore\":false}");
    lab_turn(PEER_WAIT_MS);
    CHECK(peer_is_quiet(&lab.peer));
    peer_event(&lab.peer, events, "{\"number\":8,\"time\":1,\"kind\":\"state\",\"text\":\"s\"}");
    lab_turn(PEER_WAIT_MS);
    lab_expect("run.get");
    lab_reply(VIEW_OF("failed", ",\"result\":{\"success\":false,\"output\":\"\"}"));
    CHECK(lab_next());
    CHECK(lab_is_error());
}

/* A client that shows forms comes with tasks/result for what the task needs. */
static uint64_t ask_for_result(void)
{
    uint64_t events;

    lab_start();
    lab_say(LEGACY_START("2025-11-25", WITH_FORMS));
    CHECK(lab_next());
    lab_say(REQUEST("1", "tasks/result", BY_ID));
    lab_meet();
    lab_reply(VIEW_WAITING);
    lab_expect("run.events");
    events = lab.peer.request.id;
    peer_reply(&lab.peer, events, "{\"events\":[],\"cursor\":7,\"hasMore\":false}");
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("method")), "elicitation/create");
    CHECK_HAS(buf_text(&lab.line),
              "\"_meta\":{\"io.modelcontextprotocol/related-task\":{" BY_ID "}}");
    CHECK(lab_silent());
    return events;
}

TEST(the_user_is_asked_for_what_a_legacy_task_needs)
{
    uint64_t events = ask_for_result();

    lab_say("{\"jsonrpc\":\"2.0\",\"id\":\"question-1\",\"result\":{\"action\":\"accept\","
            "\"content\":{\"answer\":\"GPL\"}}}");
    lab_expect("run.answer");
    CHECK_STR(lab_param("requestId"), "que_1");
    CHECK_STR(lab_param("answer"), "GPL");
    lab_reply("{\"runId\":\"" RUN_ID "\",\"requestId\":\"que_1\"}");
    lab_expect("run.get");
    lab_reply(VIEW_WAITING); /* the agent has not heard it yet */
    CHECK(lab_silent());
    CHECK(peer_is_quiet(&lab.peer));
    peer_event(&lab.peer, events, "{\"number\":8,\"time\":1,\"kind\":\"text\",\"text\":\"s\"}");
    lab_turn(PEER_WAIT_MS);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"structuredContent\":" VIEW_COMPLETED);
    CHECK(!server_is_busy(lab.server));
}

TEST(a_question_that_somebody_else_answers_is_taken_back)
{
    uint64_t events = ask_for_result();

    peer_event(&lab.peer, events, "{\"number\":8,\"time\":1,\"kind\":\"state\",\"text\":\"s\"}");
    lab_turn(PEER_WAIT_MS);
    lab_expect("run.get");
    lab_reply(VIEW_RUNNING);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("method")), "notifications/cancelled");
    CHECK_STR(json_string(lab_get("params.requestId")), "question-1");
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"id\":1");
}

TEST(an_answer_that_comes_while_the_run_is_looked_at_is_not_lost)
{
    uint64_t events = ask_for_result();

    peer_event(&lab.peer, events, "{\"number\":8,\"time\":1,\"kind\":\"question\",\"text\":\"s\"}");
    lab_turn(PEER_WAIT_MS);
    lab_expect("run.get");
    lab_say("{\"jsonrpc\":\"2.0\",\"id\":\"question-1\",\"result\":{\"action\":\"accept\","
            "\"content\":{\"answer\":\"GPL\"}}}");
    CHECK(peer_is_quiet(&lab.peer));
    lab_reply(VIEW_WAITING);
    lab_expect("run.answer");
    lab_refuse(ERR_CONFLICT, "answered already");
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"id\":1");
}

TEST(a_user_who_declines_leaves_a_task_waiting)
{
    ask_for_result();
    lab_say("{\"jsonrpc\":\"2.0\",\"id\":\"question-1\",\"result\":{\"action\":\"decline\"}}");
    CHECK(peer_is_quiet(&lab.peer));
    CHECK(lab_silent());
    CHECK(server_is_busy(lab.server));
}

TEST(the_client_of_a_legacy_task_is_told_how_it_goes_on)
{
    uint64_t events;

    legacy_newest();
    lab_call("1", "opencode_run_task", "{\"task\":\"t\"}", "\"task\":{\"ttl\":1000}");
    lab_meet();
    lab_reply("{\"runId\":\"" RUN_ID "\",\"sessionId\":\"ses_1\",\"status\":\"queued\"}");
    lab_expect("run.get");
    lab_reply(VIEW_RUNNING);
    CHECK_HAS(lab_line(), "\"task\":{\"taskId\":\"" RUN_ID "\"");
    lab_expect("run.get");
    lab_reply(VIEW_RUNNING);
    lab_expect("run.events");
    events = lab.peer.request.id;
    peer_reply(&lab.peer, events, "{\"events\":[],\"cursor\":7,\"hasMore\":false}");
    peer_event(&lab.peer, events, "{\"number\":8,\"time\":1,\"kind\":\"state\",\"text\":\"s\"}");
    lab_turn(PEER_WAIT_MS);
    lab_pass(2000);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("method")), "notifications/tasks/status");
    CHECK_STR(json_string(lab_get("params.taskId")), RUN_ID);
    CHECK_STR(json_string(lab_get("params.status")), "completed");
    CHECK(lab_get("params.ttl") != NULL);
    CHECK(!lab_get("params._meta"));
}

TEST(cancelling_ends_the_run_but_not_twice)
{
    legacy_newest();
    lab_say(REQUEST("1", "tasks/cancel", BY_ID));
    lab_meet();
    lab_reply(VIEW_RUNNING);
    lab_expect("run.cancel");
    lab_reply(VIEW_OF("cancelled", ""));
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("result.status")), "cancelled");
    lab_say(REQUEST("2", "tasks/cancel", BY_ID));
    lab_expect("run.get");
    lab_reply(VIEW_OF("cancelled", ""));
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32602);
}

TEST(all_runs_are_tasks)
{
    legacy_newest();
    lab_say(REQUEST("1", "tasks/list", "\"cursor\":\"" RUN_ID "\""));
    lab_meet();
    CHECK_STR(lab_param("before"), RUN_ID);
    lab_reply("{\"runs\":[" VIEW_RUNNING "," VIEW_COMPLETED
              "],\"hasMore\":true,\"cursor\":\"" RUN_ID "\"}");
    CHECK(lab_next());
    CHECK_EQ(json_count(lab_get("result.tasks")), 2);
    CHECK_STR(json_string(lab_get("result.nextCursor")), RUN_ID);
}

/* Modern --------------------------------------------------------------------------------------- */

TEST(a_modern_task_is_for_who_waits_and_declares_it)
{
    lab_start();
    lab_say(REQUEST("1", "tools/call", RUN_TASK ",\"wait\":true}," TASKS));
    lab_meet();
    CHECK(!json_get(lab.peer.request.body, "wait"));
    lab_reply(CREATED);
    lab_expect("run.get");
    lab_reply(VIEW_RUNNING);
    CHECK_HAS(lab_line(),
              "\"resultType\":\"task\",\"taskId\":\"" RUN_ID "\",\"status\":\"working\"");
    CHECK_HAS(buf_text(&lab.line), "\"ttlMs\":null,\"pollIntervalMs\":2000");
    lab_say(REQUEST("2", "tools/call", RUN_TASK ",\"wait\":true}," MODERN_META));
    lab_expect("run.create");
    lab_reply(CREATED);
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
    lab_say(REQUEST("3", "tools/call", RUN_TASK "},\"task\":{}," TASKS));
    lab_expect("run.create");
    lab_reply(CREATED);
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
}

TEST(a_modern_task_that_can_not_be_made_is_a_result)
{
    lab_start();
    lab_say(REQUEST("1", "tools/call", RUN_TASK ",\"wait\":true}," TASKS));
    lab_meet();
    lab_refuse(ERR_LIMIT, "too many runs");
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
    CHECK(lab_is_error());
}

static void get_modern(const char *view)
{
    lab_say(REQUEST("1", "tasks/get", BY_ID "," TASKS));
    if (lab.peer.fd < 0)
        lab_meet();
    else
        lab_expect("run.get");
    lab_reply(view);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("result.resultType")), "complete");
}

TEST(a_modern_task_brings_what_its_status_needs)
{
    lab_start();
    get_modern(VIEW_RUNNING);
    CHECK_STR(json_string(lab_get("result.status")), "working");
    get_modern(VIEW_COMPLETED);
    CHECK_STR(json_string(lab_get("result.status")), "completed");
    CHECK_STR(json_string(lab_get("result.result.resultType")), "complete");
    CHECK(!json_bool(lab_get("result.result.isError"), true));
    get_modern(VIEW_OF("failed", ",\"result\":{\"success\":false,\"output\":\"\"}"));
    CHECK_STR(json_string(lab_get("result.status")), "completed");
    CHECK(json_bool(lab_get("result.result.isError"), false));
    get_modern(VIEW_OF("cancelled", ""));
    CHECK_STR(json_string(lab_get("result.status")), "cancelled");
    CHECK(!lab_get("result.result"));
    get_modern(VIEW_WAITING);
    CHECK_STR(json_string(lab_get("result.status")), "input_required");
    CHECK_STR(json_string(lab_get("result.inputRequests.que_1.method")), "elicitation/create");
    get_modern(VIEW_OF("waiting", ""));
    CHECK_STR(json_string(lab_get("result.status")), "working");
}

TEST(an_update_answers_the_agent)
{
    lab_start();
    lab_say(REQUEST("1", "tasks/update",
                    BY_ID ",\"inputResponses\":{\"que_1\":{\"action\":\"accept\",\"content\":{"
                          "\"answer\":\"MIT\"}}}," TASKS));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.answer");
    CHECK_STR(lab_param("requestId"), "que_1");
    CHECK_STR(lab_param("answer"), "MIT");
    lab_reply("{}");
    CHECK_HAS(lab_line(), "\"result\":{\"resultType\":\"complete\",\"_meta\"");
    lab_say(REQUEST("2", "tasks/update",
                    BY_ID ",\"inputResponses\":{\"x\":{\"action\":\"decline\"}}," TASKS));
    lab_expect("run.get"); /* is there such a task at all? */
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
    lab_say(REQUEST("3", "tasks/update",
                    BY_ID ",\"inputResponses\":{\"x\":{\"action\":\"accept\",\"content\":{"
                          "\"answer\":\"MIT\"}}}," TASKS));
    lab_expect("run.answer");
    lab_refuse(ERR_CONFLICT, "nothing is asked");
    lab_expect("run.get");
    lab_refuse(ERR_NOT_FOUND, "no such run");
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32602);
    CHECK_EQ(lab_code(REQUEST("4", "tasks/update", BY_ID "," TASKS)), -32602);
}

TEST(a_modern_cancel_is_a_wish)
{
    lab_start();
    lab_say(REQUEST("1", "tasks/cancel", BY_ID "," TASKS));
    lab_meet();
    lab_reply(VIEW_RUNNING);
    lab_expect("run.cancel");
    lab_reply(VIEW_OF("cancelled", ""));
    CHECK_HAS(lab_line(), "\"result\":{\"resultType\":\"complete\",\"_meta\"");
    lab_say(REQUEST("2", "tasks/cancel", BY_ID "," TASKS));
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "\"resultType\":\"complete\"");
    CHECK(!lab_get("error"));
}

TEST(modern_tasks_are_for_clients_that_declare_them)
{
    lab_start();
    CHECK_EQ(lab_code(REQUEST("1", "tasks/get", BY_ID "," MODERN_META)), -32021);
    CHECK_EQ(lab_code(REQUEST("1", "tasks/cancel", BY_ID "," MODERN_META)), -32021);
    CHECK_EQ(lab_code(REQUEST("1", "tasks/update", BY_ID "," MODERN_META)), -32021);
}
