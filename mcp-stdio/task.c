#include "mcp-stdio/task.h"

#include <string.h>

#include "common/clock.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/elicit.h"
#include "mcp-stdio/tool_call.h"
#include "proto/msg_run.h"

#define POLL_MS 2000
#define TEXT_ROOM (2u << 20)

static const char *const status_names[] = {
    [TASK_WORKING] = "working",     [TASK_INPUT_REQUIRED] = "input_required",
    [TASK_COMPLETED] = "completed", [TASK_FAILED] = "failed",
    [TASK_CANCELLED] = "cancelled",
};

static const enum task_status statuses[RUN_STATUS_COUNT] = {
    [RUN_STATUS_QUEUED] = TASK_WORKING,      [RUN_STATUS_STARTED] = TASK_WORKING,
    [RUN_STATUS_RUNNING] = TASK_WORKING,     [RUN_STATUS_WAITING] = TASK_INPUT_REQUIRED,
    [RUN_STATUS_COMPLETED] = TASK_COMPLETED, [RUN_STATUS_FAILED] = TASK_FAILED,
    [RUN_STATUS_CANCELLED] = TASK_CANCELLED, [RUN_STATUS_INTERRUPTED] = TASK_FAILED,
};

enum task_status task_status_of(const struct json_value *view)
{
    const char *status = json_string(json_get(view, "status"));

    for (int i = 0; status && run_status_names[i]; i++)
        if (strcmp(status, run_status_names[i]) == 0)
            return statuses[i];
    return TASK_WORKING;
}

bool task_is_final(enum task_status status)
{
    return status == TASK_COMPLETED || status == TASK_FAILED || status == TASK_CANCELLED;
}

static const char *text_of(const struct json_value *view, const char *name)
{
    const char *text = json_string(json_get(view, name));

    return text ? text : "";
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static const struct json_value *newest_step(const struct json_value *view)
{
    return json_first(json_get(view, "steps"));
}

static uint64_t updated_ms(const struct json_value *view)
{
    uint64_t newest = json_u64(json_get(view, "createdAt"), 0);

    newest = later(newest, json_u64(json_get(view, "startedAt"), 0));
    newest = later(newest, json_u64(json_get(view, "completedAt"), 0));
    return later(newest, json_u64(json_get(newest_step(view), "time"), 0));
}

static void member_time(struct json_writer *writer, const char *name, uint64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];

    clock_format(wall_ms, text);
    json_member_string(writer, name, text);
}

static const char *doing(const struct json_value *view)
{
    const char *text = json_string(json_get(newest_step(view), "text"));

    return text ? text : json_string(json_get(view, "phase"));
}

/* Runs are kept, so there is no time to live. */
void task_write(struct json_writer *writer, const struct json_value *view, const struct era *era,
                enum task_status status)
{
    bool modern = era == &era_modern;

    json_member_string(writer, "taskId", text_of(view, "runId"));
    json_member_string(writer, "status", status_names[status]);
    json_member_string_opt(writer, "statusMessage",
                           task_is_final(status) ? text_of(view, "message") : doing(view));
    member_time(writer, "createdAt", json_u64(json_get(view, "createdAt"), 0));
    member_time(writer, "lastUpdatedAt", updated_ms(view));
    json_write_name(writer, modern ? "ttlMs" : "ttl");
    json_write_null(writer);
    json_member_u64(writer, modern ? "pollIntervalMs" : "pollInterval", POLL_MS);
}

void task_write_result(struct json_writer *writer, const struct json_value *view)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_ROOM);

    if (task_status_of(view) == TASK_COMPLETED) {
        tool_call_write_result(writer, tools_find("opencode_get_result"), view,
                               (struct jsonrpc_slice){ NULL, 0 }, CONTENT_TEXT_MAX);
        return;
    }
    tool_run_result_render(view, CONTENT_TEXT_MAX, &text);
    content_cut(&text, CONTENT_TEXT_MAX);
    content_write_error(writer, buf_text(&text));
}

/* The agent's failure is a result; only what the supervisor itself lost would be an error. */
void task_write_detailed(struct json_writer *writer, const struct json_value *view)
{
    enum task_status status = task_status_of(view);

    if (status == TASK_FAILED)
        status = TASK_COMPLETED;
    if (status == TASK_INPUT_REQUIRED && !elicit_wanted(view))
        status = TASK_WORKING;
    task_write(writer, view, &era_modern, status);
    if (status == TASK_COMPLETED) {
        json_write_name(writer, "result");
        json_write_object(writer);
        era_modern.write_first(writer, "complete");
        task_write_result(writer, view);
        json_write_object_end(writer);
    } else if (status == TASK_INPUT_REQUIRED) {
        json_write_name(writer, "inputRequests");
        json_write_object(writer);
        elicit_write_input(writer, view, ERA_MODERN_REVISION);
        json_write_object_end(writer);
    }
}
