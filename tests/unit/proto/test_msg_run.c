#include "proto/msg_run.h"

#include <string.h>

#include "proto/msg_event.h"
#include "tests/harness/test.h"

static struct json_doc *doc;
static struct error err;

static void free_doc(void *data)
{
    (void)data;
    json_free(doc);
    doc = NULL;
}

static const struct json_value *parse(const char *text)
{
    free_doc(NULL);
    test_defer(free_doc, NULL);
    err = (struct error)ERROR_INIT;
    CHECK_EQ(json_parse(&doc, text, strlen(text), 1u << 20, &err), 0);
    CHECK_STR(err.text, "");
    return json_root(doc);
}

static int create(const char *text, struct run_create_params *params)
{
    *params = (struct run_create_params){ .task = NULL };
    return json_read(parse(text), run_create_fields, JSON_STRICT, params, &err);
}

TEST(a_task_is_all_that_a_run_needs)
{
    struct run_create_params params;

    CHECK_EQ(create("{\"task\":\"x\"}", &params), 0);
    CHECK_STR(params.task, "x");
    CHECK(params.repository == NULL);
    CHECK_EQ(params.timeoutMinutes, 0u);
}

TEST(bounds_of_a_run_are_kept)
{
    AUTO_BUF struct buf text = BUF_INIT(400000);
    struct run_create_params params;

    CHECK_EQ(create("{\"task\":\"\"}", &params), -1);
    CHECK_STR(err.argument, "task");
    CHECK_EQ(create("{\"task\":\"x\",\"timeoutMinutes\":0}", &params), -1);
    CHECK_EQ(create("{\"task\":\"x\",\"timeoutMinutes\":10080}", &params), 0);
    CHECK_EQ(create("{\"task\":\"x\",\"timeoutMinutes\":10081}", &params), -1);
    CHECK_STR(err.argument, "timeoutMinutes");
    CHECK_EQ(create("{\"task\":\"x\",\"other\":1}", &params), -1);

    buf_append_str(&text, "{\"task\":\"");
    for (int i = 0; i < RUN_TASK_MAX; i++)
        buf_append_str(&text, "ä");
    buf_append_str(&text, "\"}");
    CHECK_EQ(create(buf_text(&text), &params), 0);
    text.len -= 2;
    buf_append_str(&text, "a\"}");
    CHECK_EQ(create(buf_text(&text), &params), -1);
    CHECK_STR(err.argument, "task");
}

TEST(every_parameter_that_a_model_sees_is_explained)
{
    static const struct json_field *const tables[] = { run_create_fields, run_get_fields,
                                                       run_list_fields,   run_id_fields,
                                                       run_diff_fields,   run_events_fields };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct json_field *field = tables[i]; field->kind != JSON_FIELD_END; field++)
            CHECK(field->help && strlen(field->help) > 10);
}

TEST(the_last_four_states_are_final)
{
    for (int i = 0; i < RUN_STATUS_COUNT; i++)
        CHECK_EQ(run_status_ended((enum run_status)i), i >= RUN_STATUS_COMPLETED);
    CHECK_STR(run_status_names[RUN_STATUS_INTERRUPTED], "interrupted");
    CHECK(run_status_names[RUN_STATUS_COUNT] == NULL);
}

static const struct json_value *written(const struct run_view *view, const char *const *steps,
                                        size_t count)
{
    static char text[65536];
    AUTO_BUF struct buf buf = BUF_INIT(sizeof(text) - 1);
    struct json_writer writer;

    json_write_init(&writer, &buf);
    run_view_write(&writer, view, steps, count);
    CHECK(!buf.failed);
    memcpy(text, buf.data, buf.len + 1);
    return parse(text);
}

TEST(a_run_that_goes_on_has_no_result)
{
    static const char *const steps[] = { "{\"number\":1}", "{\"number\":2}" };
    struct run_view view = { .runId = "run_1",
                             .sessionId = "ses_1",
                             .status = RUN_STATUS_RUNNING,
                             .phase = "work",
                             .task = "t",
                             .verdict = "changed",
                             .createdAt = 5,
                             .deadlineAt = 9,
                             .cursor = 2 };
    const struct json_value *run = written(&view, steps, 2);

    CHECK_STR(json_string(json_get(run, "status")), "running");
    CHECK_STR(json_string(json_get(run, "phase")), "work");
    CHECK(!json_get(run, "result"));
    CHECK(!json_get(run, "verdict"));
    CHECK(!json_get(run, "evidence"));
    CHECK(!json_get(run, "title"));
    CHECK_EQ(json_u64(json_get(run, "deadlineAt"), 0), 9);
    CHECK_EQ(json_count(json_get(run, "steps")), 2);
    CHECK_EQ(json_u64(json_get(run, "cursor"), 0), 2);
}

TEST(a_run_that_ended_says_how)
{
    struct run_view view = { .runId = "run_1",
                             .status = RUN_STATUS_COMPLETED,
                             .phase = "stop",
                             .task = "t",
                             .verdict = "changed",
                             .output = "done",
                             .completedAt = 8,
                             .deadlineAt = 9,
                             .evidence = { .known = true, .commits = 1, .branch = "b" } };
    const struct json_value *run = written(&view, NULL, 0);

    CHECK(json_bool(json_path(run, "result.success"), false));
    CHECK_STR(json_string(json_path(run, "result.output")), "done");
    CHECK(!json_path(run, "result.error"));
    CHECK_EQ(json_u64(json_path(run, "evidence.commits"), 0), 1);
    CHECK_STR(json_string(json_path(run, "evidence.branch")), "b");
    CHECK(json_get(run, "usage") != NULL);
    CHECK(!json_get(run, "phase"));
    CHECK(!json_get(run, "deadlineAt"));
    CHECK(!json_get(run, "steps"));
}

TEST(an_incomplete_answer_is_no_success)
{
    struct run_view view = {
        .runId = "run_1", .status = RUN_STATUS_COMPLETED, .task = "t", .verdict = "incomplete"
    };
    const struct json_value *run = written(&view, NULL, 0);

    CHECK(!json_bool(json_path(run, "result.success"), true));
    CHECK_STR(json_string(json_path(run, "result.output")), "");
}

TEST(a_failed_run_says_why_and_what_is_not_known)
{
    struct run_view view = { .runId = "run_1",
                             .status = RUN_STATUS_FAILED,
                             .task = "t",
                             .error = { "clone_failed", "clone", "no such repository",
                                        "check the address", true, 0 } };
    const struct json_value *run = written(&view, NULL, 0);

    CHECK(!json_bool(json_path(run, "result.success"), true));
    CHECK_STR(json_string(json_path(run, "result.error.code")), "clone_failed");
    CHECK_STR(json_string(json_path(run, "result.error.hint")), "check the address");
    CHECK(json_bool(json_path(run, "result.error.retryable"), false));
    CHECK(!json_bool(json_path(run, "evidence.known"), true));
    CHECK(!json_path(run, "evidence.commits"));
}

TEST(a_list_shows_the_first_200_characters_of_a_task)
{
    AUTO_BUF struct buf task = BUF_INIT(1000);
    AUTO_BUF struct buf buf = BUF_INIT(5000);
    struct run_view view = { .runId = "run_1", .status = RUN_STATUS_QUEUED };
    struct json_writer writer;
    const char *shown;

    for (int i = 0; i < 201; i++)
        buf_append_str(&task, "ß");
    view.task = buf_text(&task);
    json_write_init(&writer, &buf);
    run_list_item_write(&writer, &view);
    shown = json_string(json_get(parse(buf_text(&buf)), "task"));
    CHECK_EQ(strlen(shown), 400);
    CHECK(!json_get(json_root(doc), "success"));
}

TEST(an_event_is_written_with_its_data)
{
    AUTO_BUF struct buf buf = BUF_INIT(5000);
    struct event_view view = {
        .number = 3, .time = 4, .kind = EVENT_KIND_TOOL, .text = "a\nb", .data = "{\"exit\":1}"
    };
    struct json_writer writer;

    json_write_init(&writer, &buf);
    event_view_write(&writer, &view);
    CHECK_STR(
        buf_text(&buf),
        "{\"number\":3,\"time\":4,\"kind\":\"tool\",\"text\":\"a\\nb\",\"data\":{\"exit\":1}}");
}

TEST(the_result_of_a_create_is_written)
{
    AUTO_BUF struct buf buf = BUF_INIT(5000);
    struct run_create_result result = {
        .runId = "run_1", .sessionId = "ses_1", .status = RUN_STATUS_QUEUED, .message = "m"
    };
    struct json_writer writer;

    json_write_init(&writer, &buf);
    run_create_result_write(&writer, &result);
    CHECK_STR(
        buf_text(&buf),
        "{\"runId\":\"run_1\",\"sessionId\":\"ses_1\",\"status\":\"queued\",\"message\":\"m\"}");
}
