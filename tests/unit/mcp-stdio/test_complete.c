#include "mcp-stdio/complete.h"

#include "tests/unit/mcp-stdio/lab.h"

#define COMPLETE(ref, name, value)                                                                 \
    REQUEST("1", "completion/complete",                                                            \
            "\"ref\":{" ref "},\"argument\":{\"name\":\"" name "\",\"value\":\"" value "\"}")
#define LOG "\"type\":\"ref/resource\",\"uri\":\"run://{runId}/log\""
#define SESSION "\"type\":\"ref/resource\",\"uri\":\"session://{sessionId}\""
#define REVIEW "\"type\":\"ref/prompt\",\"name\":\"review_diff\""
#define DELEGATE "\"type\":\"ref/prompt\",\"name\":\"delegate\""

TEST(ids_are_completed_from_their_start)
{
    lab_start();
    lab_say(COMPLETE(LOG, "runId", "run_1"));
    lab_meet();
    CHECK_STR(lab.peer.request.method, "run.list");
    lab_reply("{\"runs\":[{\"runId\":\"run_12\"},{\"runId\":\"run_2\"},{\"runId\":\"run_11\"}],"
              "\"hasMore\":false}");
    CHECK_HAS(
        lab_line(),
        "{\"completion\":{\"values\":[\"run_12\",\"run_11\"],\"total\":2,\"hasMore\":false}}");
    lab_say(COMPLETE(SESSION, "sessionId", ""));
    lab_expect("session.list");
    lab_reply("{\"sessions\":[{\"sessionId\":\"ses_1\"}],\"hasMore\":true}");
    CHECK_HAS(lab_line(), "{\"values\":[\"ses_1\"],\"hasMore\":true}");
    lab_say(COMPLETE(REVIEW, "runId", ""));
    lab_expect("run.list");
    lab_reply("{\"runs\":[],\"hasMore\":false}");
    CHECK_HAS(lab_line(), "\"values\":[]");
}

TEST(repositories_are_offered_once)
{
    lab_start();
    lab_say(COMPLETE(DELEGATE, "repository", "https"));
    lab_meet();
    lab_reply("{\"runs\":[{\"repository\":\"https://a\"},{\"repository\":\"https://a\"},{},"
              "{\"repository\":\"/b\"},{\"repository\":\"https://c\"}],\"hasMore\":false}");
    CHECK_HAS(lab_line(), "[\"https://a\",\"https://c\"]");
}

TEST(what_has_no_values_completes_to_nothing)
{
    lab_start_alone();
    CHECK_EQ(lab_code(COMPLETE(DELEGATE, "task", "x")), 0);
    CHECK_HAS(buf_text(&lab.line), "{\"values\":[],\"total\":0,\"hasMore\":false}");
    CHECK_EQ(lab_code(COMPLETE(REVIEW, "sessionId", "")), 0);
    CHECK_EQ(lab_code(COMPLETE(LOG, "sessionId", "")), 0);
    CHECK_EQ(lab_code(COMPLETE(LOG, "runId", "")), 0); /* no supervisor */
}

TEST(unknown_references_are_refused)
{
    lab_start_alone();
    CHECK_EQ(lab_code(COMPLETE("\"type\":\"ref/prompt\",\"name\":\"x\"", "runId", "")), -32602);
    CHECK_EQ(lab_code(COMPLETE("\"type\":\"ref/tool\",\"name\":\"delegate\"", "runId", "")),
             -32602);
    CHECK_EQ(lab_code(COMPLETE("", "runId", "")), -32602);
    CHECK_EQ(lab_code(REQUEST("1", "completion/complete", "\"ref\":{" LOG "}")), -32602);
    CHECK_EQ(lab_code(REQUEST("1", "completion/complete",
                              "\"ref\":{" LOG "},\"argument\":{\"name\":\"runId\",\"value\":5}")),
             -32602);
}

TEST(no_more_than_a_hundred_values_are_offered)
{
    AUTO_BUF struct buf runs = BUF_INIT(1u << 20);

    lab_start();
    lab_say(COMPLETE(LOG, "runId", ""));
    lab_meet();
    buf_append_str(&runs, "{\"runs\":[{\"runId\":\"r\"}");
    for (int i = 0; i < 150; i++)
        buf_printf(&runs, ",{\"runId\":\"r%d\"}", i);
    buf_append_str(&runs, "],\"hasMore\":false}");
    lab_reply(buf_text(&runs));
    CHECK(lab_next());
    CHECK_EQ(json_count(lab_get("result.completion.values")), 100);
}
