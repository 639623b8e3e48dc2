#include "common/str.h"
#include "mcp-stdio/content.h"
#include "tests/unit/mcp-stdio/lab.h"

#define ANSWER_MAX 8500 /* bytes of each form: about 8 KB with the marks */

/* The answer to a call of TOOL with ARGUMENTS to which the supervisor replies BODY, in lab.doc. */
static void answer(const char *tool, const char *arguments, const struct buf *body)
{
    lab_start();
    lab_call("1", tool, arguments, NULL);
    lab_meet();
    CHECK(!body->failed);
    lab_reply(buf_text(body));
    CHECK(lab_next());
    CHECK(!lab_is_error());
}

static const struct json_value *structured(const char *path)
{
    return json_path(lab_get("result.structuredContent"), path);
}

static size_t structured_size(void)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);

    json_append(&text, lab_get("result.structuredContent"));
    CHECK(!text.failed);
    return text.len;
}

static void append_lines(struct buf *out, int count)
{
    for (int i = 0; i < count; i++)
        buf_printf(out, "line %05d\\n", i);
}

TEST(a_long_answer_keeps_its_beginning_and_its_end_in_both_forms)
{
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    const char *output;

    buf_append_str(&body, "{\"runId\":\"" RUN_ID "\",\"status\":\"completed\",\"message\":\"m\","
                          "\"result\":{\"success\":true,\"output\":\"FIRST\\n");
    append_lines(&body, 4000);
    buf_append_str(
        &body, "LAST ä\"},\"steps\":[{\"number\":43,\"time\":1,\"kind\":\"tool\",\"text\":\"t\"},"
               "{\"number\":41,\"time\":1,\"kind\":\"text\",\"text\":\"FIRST\"}"
               "],\"cursor\":44,\"task\":\"");
    append_lines(&body, 4000);
    buf_append_str(&body, "\",\"createdAt\":1}");
    answer("opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", &body);
    output = json_string(structured("result.output"));
    CHECK(structured_size() <= ANSWER_MAX);
    CHECK(strlen(output) > 4000);
    CHECK_EQ(strncmp(output, "FIRST\n", 6), 0);
    CHECK(str_ends(output, "LAST ä"));
    CHECK_HAS(output, "bytes are left out here. The whole: resource run://" RUN_ID "/result, or "
                      "`sandboxctl get " RUN_ID "`; opencode_get_log with after 40 and limit 1");
    CHECK(strlen(lab_text()) <= CONTENT_TEXT_MAX);
    CHECK_HAS(lab_text(), output);
    CHECK_HAS(json_string(structured("task")), "of 44000 bytes]");
    CHECK_EQ(json_u64(structured("cursor"), 0), 44);
    CHECK(!structured("steps"));
}

TEST(a_long_question_leaves_room_for_everything_else)
{
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);

    buf_append_str(&body, "{\"runId\":\"" RUN_ID "\",\"status\":\"waiting\",\"request\":{"
                          "\"requestId\":\"que_1\",\"kind\":\"question\",\"text\":\"WHICH\\n");
    append_lines(&body, 2000);
    buf_append_str(&body, "\",\"options\":[\"a\",\"b\"],\"metadata\":{\"x\":\"");
    append_lines(&body, 2000);
    buf_append_str(&body, "\"}},\"task\":\"t\",\"createdAt\":1}");
    answer("opencode_get_result", "{\"runId\":\"" RUN_ID "\"}", &body);
    CHECK(structured_size() <= ANSWER_MAX);
    CHECK_HAS(json_string(structured("request.text")), "WHICH\n");
    CHECK_EQ(json_count(structured("request.options")), 2);
    CHECK_STR(json_string(structured("request.requestId")), "que_1");
    CHECK(!structured("request.metadata"));
    CHECK_HAS(lab_text(), "it asks (question, requestId que_1): WHICH");
}

TEST(a_long_list_ends_with_a_cursor_in_both_forms)
{
    AUTO_BUF struct buf body = BUF_INIT(1u << 20);
    const struct json_value *last = NULL;

    buf_append_str(&body, "{\"runs\":[");
    for (int i = 0; i < 100; i++)
        buf_printf(&body,
                   "%s{\"runId\":\"run_%03d\",\"sessionId\":\"ses_1\",\"status\":\"completed\","
                   "\"task\":\"%0300d\",\"createdAt\":1}",
                   i ? "," : "", i, i);
    buf_append_str(&body, "],\"hasMore\":false}");
    answer("opencode_list_runs", "{\"limit\":100}", &body);
    CHECK(structured_size() <= ANSWER_MAX);
    for (const struct json_value *run = json_first(structured("runs")); run; run = json_next(run))
        last = run;
    CHECK(json_bool(structured("hasMore"), false));
    CHECK_STR(json_string(structured("cursor")), json_string(json_get(last, "runId")));
    CHECK_HAS(lab_text(), json_string(json_get(last, "runId")));
    CHECK_HAS(lab_text(), "call again with before ");
}

static void append_events(struct buf *out, int from, int to, int text_lines)
{
    buf_append_str(out, "{\"events\":[");
    for (int i = from; i <= to; i++) {
        buf_printf(out, "%s{\"number\":%d,\"time\":1,\"kind\":\"tool\",\"text\":\"",
                   i > from ? "," : "", i);
        append_lines(out, text_lines);
        buf_append_str(out, "LAST\",\"data\":{\"tool\":\"bash\",\"output\":\"");
        append_lines(out, text_lines);
        buf_append_str(out, "\"}}");
    }
    buf_printf(out, "],\"cursor\":%d,\"hasMore\":false}", to);
}

TEST(long_events_are_cut_and_say_how_to_see_them_whole)
{
    AUTO_BUF struct buf body = BUF_INIT(4u << 20);
    const struct json_value *first;

    append_events(&body, 11, 60, 100);
    answer("opencode_get_log", "{\"runId\":\"" RUN_ID "\",\"after\":10}", &body);
    first = json_first(structured("events"));
    CHECK(structured_size() <= ANSWER_MAX);
    CHECK(json_count(structured("events")) >= 3);
    CHECK_STR(json_string(json_get(first, "cut")),
              "call again with after 10 and limit 1 for the whole event");
    CHECK_STR(json_string(json_path(first, "data.tool")), "bash");
    CHECK_EQ(json_u64(structured("cursor"), 0), 10 + json_count(structured("events")));
    CHECK(json_bool(structured("hasMore"), false));
    CHECK_HAS(lab_text(), "after 10 and limit 1");
    CHECK_HAS(lab_text(), "more follows");
}

TEST(an_event_that_is_asked_for_alone_is_shown_whole)
{
    AUTO_BUF struct buf body = BUF_INIT(4u << 20);
    const struct json_value *first;

    append_events(&body, 11, 11, 1000);
    answer("opencode_get_log", "{\"runId\":\"" RUN_ID "\",\"after\":10,\"limit\":1}", &body);
    first = json_first(structured("events"));
    CHECK(!json_get(first, "cut"));
    CHECK(str_ends(json_string(json_get(first, "text")), "LAST"));
    CHECK_HAS(lab_text(), json_string(json_get(first, "text")));
    CHECK_HAS(lab_text(), "data: {\"tool\":\"bash\"");
}

TEST(an_event_beyond_all_bounds_is_cut_even_alone)
{
    AUTO_BUF struct buf body = BUF_INIT(4u << 20);

    append_events(&body, 11, 11, 7000);
    answer("opencode_get_log", "{\"runId\":\"" RUN_ID "\",\"after\":10,\"limit\":1}", &body);
    CHECK(structured_size() < 130000);
    CHECK(strlen(lab_text()) < 81000);
}

static void append_diff(struct buf *out, int files, int lines)
{
    buf_append_str(out, "{\"runId\":\"" RUN_ID "\",\"sessionId\":\"ses_1\",\"files\":[");
    for (int i = 0; i < files; i++)
        buf_printf(out,
                   "%s{\"path\":\"src/file-%05d.c\",\"insertions\":1,\"deletions\":0,\"status\":"
                   "\"modified\"}",
                   i ? "," : "", i);
    buf_append_str(out, "],\"diff\":\"");
    append_lines(out, lines);
    buf_append_str(out, "\",\"truncated\":false}");
}

TEST(a_diff_of_many_files_says_how_many_are_left_out)
{
    AUTO_BUF struct buf body = BUF_INIT(4u << 20);
    const char *diff;

    append_diff(&body, 1500, 2000);
    answer("opencode_get_diff", "{\"runId\":\"" RUN_ID "\"}", &body);
    diff = json_string(structured("diff"));
    CHECK(structured_size() <= ANSWER_MAX);
    CHECK(strlen(lab_text()) <= CONTENT_TEXT_MAX);
    CHECK_EQ(json_count(structured("files")) + json_u64(structured("filesLeftOut"), 0), 1500);
    CHECK(json_bool(structured("truncated"), false));
    CHECK(strlen(diff) > 3000);
    CHECK(str_ends(diff, "\n"));
    CHECK_HAS(lab_text(), "files changed: 1500\n");
    CHECK_HAS(lab_text(), "The diff is cut");
    CHECK_HAS(lab_text(), diff);
}

TEST(who_asks_for_a_longer_diff_gets_it)
{
    AUTO_BUF struct buf body = BUF_INIT(4u << 20);

    append_diff(&body, 3, 3000);
    answer("opencode_get_diff", "{\"runId\":\"" RUN_ID "\",\"maxBytes\":40000}", &body);
    CHECK(!json_bool(structured("truncated"), true));
    CHECK_EQ(strlen(json_string(structured("diff"))), 33000);
    CHECK_HAS(lab_text(), json_string(structured("diff")));
}
