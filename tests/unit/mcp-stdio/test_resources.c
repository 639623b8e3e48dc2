#include "mcp-stdio/resources.h"

#include "tests/unit/mcp-stdio/lab.h"

#define READ(id, uri) REQUEST(id, "resources/read", "\"uri\":\"" uri "\"")

TEST(addresses_name_a_kind_and_an_id)
{
    static const char *const wrong[] = {
        "",           "run://",       "run:///result",   "run://../result",  "run://a/results",
        "run://a",    "run://A/log",  "run://a/log/log", "session://",       "session://a/b",
        "file:///x",  "RUN://a/log",  "run://a%2f/log",  "run://a\"/result", "ui://sandbox-mcp/x",
        "run:/a/log", "run://a /log", "session://run a",
    };
    struct resource resource;

    CHECK(resource_parse("run://run_1/result", &resource));
    CHECK_EQ((int)resource.kind, RESOURCE_RESULT);
    CHECK_STR(resource.id, "run_1");
    CHECK(resource_parse("run://run_1/log", &resource));
    CHECK_EQ((int)resource.kind, RESOURCE_LOG);
    CHECK(resource_parse("run://run_1/diff", &resource));
    CHECK_EQ((int)resource.kind, RESOURCE_DIFF);
    CHECK(resource_parse("session://ses_1", &resource));
    CHECK_EQ((int)resource.kind, RESOURCE_SESSION);
    CHECK_STR(resource.id, "ses_1");
    CHECK(resource_parse("ui://sandbox-mcp/run.html", &resource));
    CHECK_EQ((int)resource.kind, RESOURCE_VIEW);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (resource_parse(wrong[i], &resource))
            CHECK_FAILED(wrong[i]);
}

TEST(an_id_that_is_too_long_is_none)
{
    AUTO_BUF struct buf uri = BUF_INIT(1000);
    struct resource resource;

    buf_append_str(&uri, "run://");
    for (int i = 0; i < 80; i++)
        buf_append_char(&uri, 'a');
    buf_append_str(&uri, "/log");
    CHECK(!resource_parse(buf_text(&uri), &resource));
}

TEST(templates_are_listed_without_a_supervisor)
{
    lab_start_alone();
    CHECK_EQ(lab_code(REQUEST("1", "resources/templates/list", "")), 0);
    CHECK_EQ(json_count(lab_get("result.resourceTemplates")), 4);
    CHECK_STR(resource_variable("run://{runId}/log"), "runId");
    CHECK_STR(resource_variable("session://{sessionId}"), "sessionId");
    CHECK(!resource_variable("run://{runId}"));
    CHECK_EQ(lab_code(REQUEST("1", "resources/templates/list", "\"cursor\":\"\"")), -32602);
}

TEST(a_list_starts_no_supervisor_and_is_empty_then)
{
    lab_start_absent();
    lab_say(REQUEST("1", "resources/list", MODERN_META));
    lab_turn(0);
    CHECK_HAS(lab_line(), "\"resources\":[],\"ttlMs\":0,\"cacheScope\":\"private\"");
    CHECK_EQ(lab.launched, 0);
}

TEST(a_call_right_behind_a_list_starts_the_supervisor)
{
    lab_start_absent();
    lab_feed(REQUEST("1", "resources/list", "") "\n",
             strlen(REQUEST("1", "resources/list", "")) + 1);
    lab_call("2", "opencode_list_runs", "{}", NULL);
    CHECK_EQ(lab.launched, 1);
    CHECK(lab_silent());
    lab_listen();
    for (int i = 0; i < 3; i++)
        lab_pass(100);
    lab_meet();
    lab_reply("{\"runs\":[],\"hasMore\":false}");
    CHECK_HAS(lab_line(), "\"id\":1");
    lab_expect("run.list");
    lab_reply("{\"runs\":[],\"hasMore\":false}");
    CHECK_HAS(lab_line(), "\"id\":2");
}

TEST(runs_are_listed_with_what_they_have)
{
    lab_start();
    lab_say(REQUEST("1", "resources/list", ""));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
    lab_reply("{\"runs\":[{\"runId\":\"run_2\",\"status\":\"running\"},{\"runId\":\"run_1\","
              "\"title\":\"T\",\"completedAt\":5}],\"hasMore\":true,\"cursor\":\"" RUN_ID "\"}");
    CHECK(lab_next());
    CHECK_EQ(json_count(lab_get("result.resources")), 5);
    CHECK_STR(json_string(json_get(json_first(lab_get("result.resources")), "uri")),
              "run://run_2/result");
    CHECK_HAS(buf_text(&lab.line), "\"uri\":\"run://run_1/diff\",\"name\":\"diff run_1\",\"title\":"
                                   "\"Changes of a run: T\",\"mimeType\":\"text/x-diff\"");
    CHECK_STR(json_string(lab_get("result.nextCursor")), RUN_ID);
    lab_say(REQUEST("2", "resources/list", "\"cursor\":\"" RUN_ID "\""));
    lab_expect("run.list");
    CHECK_STR(lab_param("before"), RUN_ID);
    CHECK_EQ(lab_code(REQUEST("3", "resources/list", "\"cursor\":\"x\\\"y\"")), -32602);
    CHECK_EQ(lab_code(REQUEST("3", "resources/list", "\"cursor\":5")), -32602);
}

TEST(a_result_is_read_as_text)
{
    lab_start();
    lab_say(READ("1", "run://run_1/result"));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.get");
    CHECK_STR(lab_param("runId"), "run_1");
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(),
              "\"contents\":[{\"uri\":\"run://run_1/result\",\"mimeType\":\"text/plain\"");
    CHECK_HAS(buf_text(&lab.line), "All done.");
}

TEST(a_log_is_read_to_its_end)
{
    lab_start();
    lab_say(READ("1", "run://run_1/log"));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.events");
    lab_reply("{\"events\":[{\"number\":1,\"time\":1,\"kind\":\"tool\",\"text\":\"one\"}],"
              "\"cursor\":1,\"hasMore\":true}");
    CHECK(lab_silent());
    lab_expect("run.events");
    CHECK_EQ(json_u64(json_get(lab.peer.request.body, "after"), 0), 1);
    lab_reply("{\"events\":[{\"number\":2,\"time\":1,\"kind\":\"tool\",\"text\":\"two\"}],"
              "\"cursor\":2,\"hasMore\":false}");
    CHECK_HAS(lab_line(), "tool: one\\n00:00:00 tool: two\\n");
}

TEST(a_diff_is_read_as_it_is_and_its_absence_is_said)
{
    lab_start();
    lab_say(READ("1", "run://run_1/diff"));
    lab_meet();
    lab_reply("{\"diff\":\"diff --git a b\\n\",\"truncated\":false}");
    CHECK_HAS(lab_line(), "\"text\":\"diff --git a b\\n\"");
    lab_say(READ("2", "run://run_1/diff"));
    lab_expect("run.diff");
    lab_refuse(ERR_CONFLICT, "the run goes on");
    CHECK_HAS(lab_line(), "\"text\":\"the run goes on\\n\"");
}

TEST(a_session_is_the_list_of_its_runs)
{
    lab_start();
    lab_say(READ("1", "session://ses_1"));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
    CHECK_STR(lab_param("sessionId"), "ses_1");
    lab_reply("{\"runs\":[{\"runId\":\"run_1\",\"sessionId\":\"ses_1\",\"status\":\"running\"}],"
              "\"hasMore\":false}");
    CHECK_HAS(lab_line(), "run_1 running");
    lab_say(READ("2", "session://ses_2"));
    lab_expect("run.list");
    lab_reply("{\"runs\":[],\"hasMore\":false}");
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32002);
}

TEST(what_is_not_there_is_said_in_the_words_of_the_era)
{
    lab_start();
    CHECK_EQ(lab_code(READ("1", "file:///etc/passwd")), -32002);
    CHECK_STR(json_string(lab_get("error.data.uri")), "file:///etc/passwd");
    CHECK_EQ(lab_code(REQUEST("1", "resources/read", "\"uri\":\"x:y\"," MODERN_META)), -32602);
    CHECK_STR(json_string(lab_get("error.data.uri")), "x:y");
    CHECK_EQ(lab_code(REQUEST("1", "resources/read", "")), -32602);
    lab_say(REQUEST("2", "resources/read", "\"uri\":\"run://run_9/log\"," MODERN_META));
    lab_meet();
    lab_refuse(ERR_NOT_FOUND, "no such run");
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32602);
    CHECK_STR(json_string(lab_get("error.data.uri")), "run://run_9/log");
}

TEST(the_view_needs_no_supervisor)
{
    lab_start_alone();
    CHECK_EQ(lab_code(REQUEST("1", "resources/read",
                              "\"uri\":\"ui://sandbox-mcp/run.html\"," MODERN_META)),
             0);
    CHECK_HAS(buf_text(&lab.line), "\"mimeType\":\"text/html;profile=mcp-app\"");
    CHECK_HAS(buf_text(&lab.line), "<!doctype html>");
    CHECK_STR(json_string(lab_get("result.cacheScope")), "public");
}

TEST(a_lost_supervisor_is_an_error_of_the_reading_only)
{
    lab_start();
    lab_say(READ("1", "run://run_1/result"));
    lab_meet();
    peer_drop(&lab.peer);
    lab_turn(PEER_WAIT_MS);
    CHECK(lab_next());
    CHECK_EQ((int)json_number(lab_get("error.code"), 0), -32603);
    lab_say(READ("2", "run://run_1/result"));
    lab_meet();
    lab_reply(VIEW_COMPLETED);
    CHECK_HAS(lab_line(), "All done.");
}
