#include "mcp-stdio/memo.h"

#include <stdio.h>
#include <string.h>

#include "mcp-stdio/tools.h"
#include "tests/unit/mcp-stdio/lab.h"

static struct jsonrpc_slice slice(const char *text)
{
    return (struct jsonrpc_slice){ text, strlen(text) };
}

static void free_memo(void *data)
{
    memo_free(data);
}

static struct memo *new_memo(void)
{
    struct memo *memo = memo_new();

    test_defer(free_memo, memo);
    return memo;
}

static bool has(const struct memo *memo, const struct memo_key *key, const char *members)
{
    return jsonrpc_slice_equal(memo_find(memo, key), slice(members));
}

TEST(what_was_kept_is_found_by_everything_that_decides_it)
{
    struct memo *memo = new_memo();
    struct memo_key key = { tools_find("opencode_get_result"), 8000, slice("{\"a\":1}") };
    struct memo_key other = key;

    CHECK(!memo_find(memo, &key).data);
    memo_keep(memo, &key, slice("\"x\":1"));
    CHECK(has(memo, &key, "\"x\":1"));
    other.tool = tools_find("opencode_cancel_run");
    CHECK(!memo_find(memo, &other).data);
    other = key;
    other.text_max = 9000;
    CHECK(!memo_find(memo, &other).data);
    other = key;
    other.reply = slice("{\"a\":2}");
    CHECK(!memo_find(memo, &other).data);
}

TEST(the_oldest_gives_way_and_what_is_large_is_not_kept)
{
    struct memo *memo = new_memo();
    struct memo_key key = { tools_find("opencode_get_result"), 8000, { NULL, 0 } };
    AUTO_BUF struct buf large = BUF_INIT(1u << 20);
    char text[32];

    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof(text), "{\"a\":%d}", i);
        key.reply = slice(text);
        memo_keep(memo, &key, slice("\"x\":1"));
    }
    key.reply = slice("{\"a\":0}");
    CHECK(!memo_find(memo, &key).data);
    key.reply = slice("{\"a\":9}");
    CHECK(has(memo, &key, "\"x\":1"));
    buf_printf(&large, "%060000d", 1);
    key.reply = slice(buf_text(&large));
    memo_keep(memo, &key, slice("\"x\":1"));
    CHECK(!memo_find(memo, &key).data);
}

/* Through a server: the same reply is said in the same words, to each in its own frame. */
TEST(a_reply_that_comes_again_is_answered_in_both_eras)
{
    AUTO_FREE char *first = NULL;

    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", NULL);
    lab_meet();
    lab_reply(VIEW_COMPLETED);
    CHECK(lab_next());
    first = mem_strdup(lab_text());
    for (int i = 0; i < 2; i++) {
        lab_call("\"again\"", "opencode_get_result", "{\"runId\":\"" RUN_ID "\"}",
                 i ? MODERN_META : NULL);
        lab_expect("run.get");
        lab_reply(VIEW_COMPLETED);
        CHECK_HAS(lab_line(), "\"structuredContent\":" VIEW_COMPLETED);
        CHECK_HAS(buf_text(&lab.line), "\"id\":\"again\"");
        CHECK_EQ(lab_get("result.resultType") != NULL, i == 1);
        CHECK_EQ(lab_get("result._meta") != NULL, i == 1);
        CHECK_STR(lab_text(), first);
        CHECK(!server_is_busy(lab.server));
    }
}

TEST(another_reply_is_said_in_its_own_words)
{
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", NULL);
    lab_meet();
    lab_reply(VIEW_RUNNING);
    CHECK(lab_next());
    CHECK_HAS(lab_text(), "status: running");
    lab_call("2", "opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", NULL);
    lab_expect("run.get");
    lab_reply(VIEW_COMPLETED);
    CHECK(lab_next());
    CHECK_HAS(lab_text(), "status: completed");
    lab_call("3", "opencode_cancel_run", "{\"runId\":\"" RUN_ID "\"}", NULL);
    lab_expect("run.cancel");
    lab_reply(VIEW_RUNNING);
    CHECK(lab_next());
    CHECK_HAS(lab_text(), "status: running");
}

/* A user is asked each time that a question is met, however well its view is known. */
TEST(a_question_is_asked_also_when_its_view_came_before)
{
    lab_start();
    lab_say(LEGACY_START("2025-11-25", WITH_FORMS));
    CHECK(lab_next());
    lab_call("1", "opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", NULL);
    lab_meet();
    lab_reply(VIEW_WAITING);
    CHECK(lab_next());
    CHECK_HAS(lab_text(), "Which licence?");
    lab_call("2", "opencode_get_result", "{\"runId\":\"" RUN_ID "\",\"waitSeconds\":45}", NULL);
    lab_expect("run.get");
    lab_reply(VIEW_WAITING);
    CHECK(lab_next());
    CHECK_STR(json_string(lab_get("method")), "elicitation/create");
}

TEST(a_reply_that_is_no_json_costs_the_connection)
{
    lab_start();
    lab_call("1", "opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", NULL);
    lab_meet();
    lab_reply("{\"runId\":}");
    CHECK(lab_next());
    CHECK(lab_is_error());
    CHECK_HAS(lab_text(), "not understood");
    CHECK(!server_is_busy(lab.server));
}
