#include "harness/test.h"

#include <string.h>

#include "ctl/print.h"

static struct buf out;
static struct json_doc *doc;

static void finish(void *data)
{
    (void)data;
    buf_finish(&out);
    json_free(doc);
    doc = NULL;
}

static const struct json_value *start(const char *json)
{
    struct error err = ERROR_INIT;

    buf_init(&out, 1u << 20);
    test_defer(finish, NULL);
    CHECK_EQ(json_parse(&doc, json, strlen(json), 1u << 20, &err), 0);
    return json_root(doc);
}

TEST(columns_are_as_wide_as_their_widest_cell)
{
    static const char *const heads[] = { "A", "LONGER", "" };
    static const char *const row[] = { "h\xc3\xb6her", "x", "end" };
    static const char *const short_row[] = { "a", "", "" };
    struct table table;

    start("{}");
    table_init(&table, 3, heads);
    table_add(&table, row);
    table_add(&table, short_row);
    table_print(&table, &out);
    table_finish(&table);
    CHECK_STR(buf_text(&out), "A      LONGER\nh\xc3\xb6her  x       end\na\n");
}

TEST(cells_are_escaped_and_cut)
{
    static const char *const heads[] = { "X" };
    const char *bad[] = { "\x1b]0;title\x07" };
    char long_text[200];
    const char *long_row[] = { long_text };
    struct table table;

    memset(long_text, 'y', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    start("{}");
    table_init(&table, 1, heads);
    table_add(&table, bad);
    table_add(&table, long_row);
    table_print(&table, &out);
    table_finish(&table);
    CHECK(strchr(buf_text(&out), 0x1b) == NULL);
    CHECK_HAS(buf_text(&out), "\\x1b]0;title\\x07");
    CHECK_HAS(buf_text(&out), "yyy…\n");
    CHECK(out.len < 100);
}

TEST(text_keeps_its_lines_and_loses_its_escapes)
{
    start("{}");
    print_text(&out, "one\ttab\r\n\x1b[31mtwo\n\nend", "  ");
    CHECK_STR(buf_text(&out), "one\ttab\n  \\x1b[31mtwo\n  \n  end\n");
}

TEST(an_event_is_one_line_or_an_indented_block)
{
    const struct json_value *event = start(
        "{\"number\":1,\"time\":0,\"kind\":\"tool\",\"text\":\"bash: make\\nsecond\\u001b[2J\"}");

    print_event(&out, event);
    CHECK_HAS(buf_text(&out), " tool       bash: make\n                    second\\x1b[2J\n");
}

TEST(a_tool_that_failed_says_so)
{
    print_event(&out, start("{\"time\":0,\"kind\":\"tool\",\"text\":\"bash: make\",\"data\":"
                            "{\"status\":\"completed\",\"exit\":2}}"));
    CHECK_HAS(buf_text(&out), " tool       bash: make  [exit 2]\n");
    finish(NULL);
    print_event(&out, start("{\"time\":0,\"kind\":\"tool\",\"text\":\"bash: make\",\"data\":"
                            "{\"status\":\"error\",\"error\":\"rejected: not now\\nmore\"}}"));
    CHECK_HAS(buf_text(&out), "bash: make  [failed: rejected: not now]\n");
    finish(NULL);
    print_event(&out, start("{\"time\":0,\"kind\":\"tool\",\"text\":\"bash: make\",\"data\":"
                            "{\"status\":\"completed\",\"exit\":0}}"));
    CHECK_HAS(buf_text(&out), "bash: make\n");
}

TEST(an_audit_line_names_the_service)
{
    static const char record[] =
        "{\"time\":0,\"runId\":\"run_1\",\"verdict\":\"allow\",\"service\":\"github\",\"status\":"
        "200,"
        "\"method\":\"GET\",\"host\":\"127.0.0.1:4999\",\"path\":\"/me/x/info/refs\"}";

    print_audit_record(&out, start(record));
    CHECK_HAS(buf_text(&out), "  github ");
    CHECK_HAS(buf_text(&out), "GET 127.0.0.1:4999/me/x/info/refs");
}

TEST(a_failed_run_shows_error_and_hint)
{
    const struct json_value *run = start(
        "{\"runId\":\"run_1\",\"status\":\"failed\",\"createdAt\":1000,\"startedAt\":2000,"
        "\"completedAt\":5000,"
        "\"verdict\":\"failed\",\"result\":{\"success\":false,\"output\":\"partial\",\"error\":{"
        "\"code\":\"clone_failed\",\"phase\":\"clone\",\"message\":\"no branch\",\"hint\":\"name "
        "one\"}}}");

    print_run(&out, run, 61000);
    CHECK_HAS(buf_text(&out), "status      failed, verdict failed, 3 s\n");
    CHECK_HAS(buf_text(&out), "created     1 m 0 s ago\n");
    CHECK_HAS(buf_text(&out), "error       clone_failed in phase clone: no branch\n");
    CHECK_HAS(buf_text(&out), "hint        name one\n");
    CHECK_HAS(buf_text(&out), "\npartial\n");
}

TEST(a_waiting_run_shows_how_to_answer)
{
    const struct json_value *run =
        start("{\"runId\":\"run_1\",\"status\":\"waiting\",\"phase\":\"work\",\"createdAt\":1,"
              "\"request\":{"
              "\"requestId\":\"per_1\",\"kind\":\"permission\",\"text\":\"may I\","
              "\"options\":[\"once\",\"always\",\"reject\"],"
              "\"askedAt\":58000,\"answerBy\":71000},\"steps\":["
              "{\"number\":2,\"time\":0,\"kind\":\"text\",\"text\":\"world\"},"
              "{\"number\":1,\"time\":0,\"kind\":\"text\",\"text\":\"hello\"}]}");

    print_run(&out, run, 61000);
    CHECK_HAS(buf_text(&out), "asks        may I\n");
    CHECK_HAS(buf_text(&out), "asked       3 s ago, waits for another 10 s\n");
    CHECK_HAS(buf_text(&out), "sandboxctl answer run_1 per_1 ANSWER  (once, always, reject)\n");
    CHECK(strstr(buf_text(&out), "hello\n") < strstr(buf_text(&out), "world\n"));
    CHECK_HAS(strstr(buf_text(&out), "hello\n"), "world\n");
}

TEST(a_list_shows_how_long_a_run_waits)
{
    print_runs(&out,
               start("{\"runs\":[{\"runId\":\"run_1\",\"status\":\"waiting\",\"task\":\"do\","
                     "\"createdAt\":1000,\"repository\":\"https://host.example/me/"
                     "project\",\"waitingSince\":2000}],\"hasMore\":false,"
                     "\"cursor\":\"run_1\"}"),
               62000);
    CHECK_HAS(buf_text(&out), "run_1  waiting 1 m");
    CHECK_HAS(buf_text(&out), "  project  ");
    finish(NULL);
}

TEST(lists_say_when_they_are_empty_or_go_on)
{
    print_runs(&out, start("{\"runs\":[],\"hasMore\":false,\"cursor\":\"\"}"), 0);
    CHECK_STR(buf_text(&out), "no runs\n");
    finish(NULL);
    print_runs(&out,
               start("{\"runs\":[{\"runId\":\"run_1\",\"status\":\"queued\",\"task\":\"do\\nit\","
                     "\"createdAt\":1000}],"
                     "\"hasMore\":true,\"cursor\":\"run_1\"}"),
               3000);
    CHECK_STR(buf_text(&out), "RUN    STATUS  CREATED  TOOK  REPOSITORY  TITLE\nrun_1  queued  2 s "
                              "ago                    "
                              "do\\x0ait\nmore: --before run_1\n");
}

TEST(status_counts_only_what_there_is)
{
    print_status(&out, start("{\"version\":\"1\",\"pid\":7,\"uptimeSeconds\":7500,\"socket\":\"/"
                             "s\",\"runs\":{\"queued\":0,\"running\":2,"
                             "\"failed\":1},\"sessions\":3,\"connections\":1}"));
    CHECK_HAS(buf_text(&out), "supervisor  1, pid 7, up 2 h 5 m\n");
    CHECK_HAS(buf_text(&out), "runs        2 running, 1 failed\n");
    CHECK(strstr(buf_text(&out), "web") == NULL);
}
