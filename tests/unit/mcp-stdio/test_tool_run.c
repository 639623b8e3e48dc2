#include "mcp-stdio/tools.h"

#include <string.h>

#include "mcp-stdio/content.h"
#include "tests/harness/test.h"

/* The text of REPLY in the words of TOOL. */
static const char *render(const char *tool, const char *reply, size_t max)
{
    static char text[65536];
    AUTO_JSON struct json_doc *doc = NULL;
    AUTO_BUF struct buf out = BUF_INIT(sizeof(text) - 1);
    struct error err = ERROR_INIT;

    CHECK_EQ(json_parse(&doc, reply, strlen(reply), 1u << 20, &err), 0);
    CHECK_STR(err.text, "");
    tools_find(tool)->render(json_root(doc), max, &out);
    CHECK(!out.failed);
    memcpy(text, buf_text(&out), out.len + 1);
    return text;
}

TEST(an_empty_reply_does_no_harm)
{
    static const char *const names[] = { "opencode_run_task",     "opencode_get_result",
                                         "opencode_list_runs",    "opencode_cancel_run",
                                         "opencode_get_diff",     "opencode_get_log",
                                         "opencode_send_message", "opencode_answer",
                                         "opencode_create_pr" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        CHECK(render(names[i], "{}", CONTENT_TEXT_MAX) != NULL);
}

TEST(a_pull_request_reads_as_its_facts)
{
    const char *text = render(
        "opencode_create_pr",
        "{\"sessionId\":\"ses_1\",\"status\":\"pushed\",\"message\":\"Branch x is pushed, but.\","
        "\"branch\":\"x\",\"commits\":2,\"filesChanged\":3,\"insertions\":4,\"deletions\":5,"
        "\"uncommitted\":2,\"uncommittedFiles\":[{\"path\":\"a\"},{\"path\":\"b\"}],"
        "\"problem\":{\"code\":\"forge_no_permission\",\"message\":\"it lacks\",\"hint\":\"give\","
        "\"retryable\":false}}",
        CONTENT_TEXT_MAX);

    CHECK_EQ(strncmp(text, "Branch x is pushed, but.\n", 25), 0);
    CHECK_HAS(text, "problem: forge_no_permission: it lacks\nhint: give\nretryable: no\n");
    CHECK_HAS(text, "commits: 2, files: 3 (+4 -5)\n");
    CHECK_HAS(text, "not committed, and not part of it: 2\n  a\n  b\n");
    text = render("opencode_create_pr",
                  "{\"sessionId\":\"ses_1\",\"status\":\"opened\",\"number\":7,\"draft\":true,"
                  "\"url\":\"https://x/7\",\"uncommitted\":0}",
                  CONTENT_TEXT_MAX);
    CHECK_HAS(text, "url: https://x/7\nnumber: 7 (a draft)\n");
}

TEST(a_failed_run_reads_as_its_facts)
{
    const char *text =
        render("opencode_get_result",
               "{\"runId\":\"run_1\",\"sessionId\":\"ses_1\",\"status\":\"failed\",\"message\":"
               "\"failed: no "
               "key.\",\"result\":{\"success\":false,\"output\":\"\",\"error\":{\"code\":\"model_"
               "auth\",\"phase\":\"agent\",\"message\":\"no key\",\"hint\":\"set "
               "one\",\"retryable\":false}},\"evidence\":{\"known\":true,\"branch\":\"fix\","
               "\"commits\":1,\"filesChanged\":2,\"insertions\":3,\"deletions\":4,\"untracked\":0,"
               "\"diffTruncated\":false,\"refusedRequests\":2},\"usage\":{\"requests\":5,"
               "\"inputTokens\":6,\"outputTokens\":7,\"costUsd\":0.25},\"task\":\"line one\\nline "
               "two\",\"createdAt\":1795962680696,\"webUiUrl\":\"http://w\"}",
               CONTENT_TEXT_MAX);

    CHECK_EQ(strncmp(text, "failed: no key.\n", 16), 0);
    CHECK_HAS(text, "error: model_auth in phase agent: no key\nhint: set one\nretryable: no\n");
    CHECK_HAS(text, "success: no\n");
    CHECK_HAS(text, "changes: 2 files (+3 -4), 0 untracked, 1 commit on branch fix\n");
    CHECK_HAS(text, "refused by the proxy: 2\n");
    CHECK_HAS(text, "5 model requests, tokens: 6 in, 7 out");
    CHECK_HAS(text, "0.2500 USD");
    CHECK_HAS(text, "task: line one…\n");
    CHECK_HAS(text, "created: 2026-11-29T14:31:20Z\n");
    CHECK_HAS(text, "webUiUrl: http://w\n");
}

TEST(steps_are_shown_newest_first)
{
    const char *text = render("opencode_get_result",
                              "{\"runId\":\"run_1\",\"status\":\"running\",\"phase\":\"work\","
                              "\"steps\":[{\"time\":2000,\"kind\":\"text\",\"text\":\"newer\"},{"
                              "\"time\":1000,\"kind\":\"tool\",\"text\":\"older\"}]}",
                              CONTENT_TEXT_MAX);

    CHECK_HAS(text, "phase: work\n");
    CHECK_HAS(text, "newest steps first:\n00:00:02 text: newer\n00:00:01 tool: older\n");
}

TEST(an_open_question_is_shown_with_its_id)
{
    const char *text =
        render("opencode_get_result",
               "{\"runId\":\"run_1\",\"status\":\"waiting\",\"request\":{\"requestId\":\"req_1\","
               "\"kind\":\"question\",\"text\":\"Which one?\",\"options\":[\"a\",\"b\"]}}",
               CONTENT_TEXT_MAX);

    CHECK_HAS(text, "it asks (question, requestId req_1): Which one?\noptions: [\"a\",\"b\"]\n");
}

TEST(a_long_answer_is_cut_behind_the_facts)
{
    AUTO_BUF struct buf reply = BUF_INIT(60000);
    const char *text;

    buf_append_str(&reply, "{\"runId\":\"run_1\",\"status\":\"completed\",\"webUiUrl\":\"http://"
                           "w\",\"result\":{\"success\":true,\"output\":\"");
    for (int i = 0; i < 10000; i++)
        buf_append_str(&reply, "ä");
    buf_append_str(&reply, "\"}}");
    text = render("opencode_get_result", buf_text(&reply), CONTENT_TEXT_MAX);
    CHECK(strlen(text) <= CONTENT_TEXT_MAX);
    CHECK_HAS(text, "webUiUrl: http://w\n");
    CHECK_HAS(text, "of 20000 bytes shown]");
}

TEST(a_list_that_is_too_long_says_how_to_go_on)
{
    AUTO_BUF struct buf reply = BUF_INIT(60000);
    const char *text;

    buf_append_str(&reply, "{\"runs\":[");
    for (int i = 0; i < 100; i++)
        buf_printf(
            &reply,
            "%s{\"runId\":\"run_%03d\",\"sessionId\":\"ses_1\",\"status\":\"completed\","
            "\"success\":false,\"verdict\":\"incomplete\",\"task\":\"%0150d\",\"createdAt\":1}",
            i ? "," : "", i, i);
    buf_append_str(&reply, "],\"hasMore\":true,\"cursor\":\"run_099\"}");
    text = render("opencode_list_runs", buf_text(&reply), CONTENT_TEXT_MAX);
    CHECK(strlen(text) <= CONTENT_TEXT_MAX);
    CHECK_HAS(text, "run_000 completed, no success, incomplete");
    CHECK_HAS(text, "more in this answer are not shown; call again with before run_0");
    text = render("opencode_list_runs",
                  "{\"runs\":[{\"runId\":\"run_1\",\"status\":\"queued\"}],\"hasMore\":true,"
                  "\"cursor\":\"run_1\"}",
                  CONTENT_TEXT_MAX);
    CHECK_HAS(text, "call again with before run_1\n");
    CHECK_STR(render("opencode_list_runs", "{\"runs\":[],\"hasMore\":false}", CONTENT_TEXT_MAX),
              "No runs.\n");
}

TEST(a_log_that_is_too_long_says_from_where_to_go_on)
{
    AUTO_BUF struct buf reply = BUF_INIT(60000);
    const char *text;

    buf_append_str(&reply, "{\"events\":[");
    for (int i = 1; i <= 100; i++)
        buf_printf(&reply, "%s{\"number\":%d,\"time\":1,\"kind\":\"log\",\"text\":\"%0200d\"}",
                   i > 1 ? "," : "", i, i);
    buf_append_str(&reply, "],\"hasMore\":false,\"cursor\":100}");
    text = render("opencode_get_log", buf_text(&reply), CONTENT_TEXT_MAX);
    CHECK(strlen(text) <= CONTENT_TEXT_MAX);
    CHECK_HAS(text, "1 00:00:00 log: 000");
    CHECK_HAS(text, "More follows: call again with after ");
}

TEST(a_diff_is_shown_with_its_files)
{
    const char *text =
        render("opencode_get_diff",
               "{\"runId\":\"run_1\",\"sessionId\":\"ses_1\",\"baseCommit\":\"0123456789abcdef\","
               "\"files\":[{\"path\":\"a.c\",\"insertions\":1,\"deletions\":2,\"status\":"
               "\"modified\"}],\"diff\":\"--- a\\n+++ b\\n\",\"truncated\":true}",
               CONTENT_TEXT_MAX);

    CHECK_HAS(text, "run_1, ses_1, base 0123456789ab\n");
    CHECK_HAS(text, "The diff is cut");
    CHECK_HAS(text, "  modified +1 -2 a.c\n");
    CHECK_HAS(text, "\n--- a\n+++ b\n");
}

TEST(whoever_asks_for_a_larger_diff_gets_it_in_the_text)
{
    struct tool_request request = { .body = BUF_INIT(1000), .text_max = CONTENT_TEXT_MAX };
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(json_parse(&doc, "{\"runId\":\"r\",\"maxBytes\":\"50000\"}", 32, 100, &err), 0);
    CHECK_EQ(tool_run_diff_read(json_root(doc), &request, &err), 0);
    CHECK_EQ(request.text_max, 52000);
    CHECK_STR(buf_text(&request.body), "{\"runId\":\"r\",\"maxBytes\":50000}");
    tool_request_finish(&request);
}
