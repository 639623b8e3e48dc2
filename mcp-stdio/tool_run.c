#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/tools.h"
#include "proto/msg_run.h"

#define WAIT_MAX 45 /* seconds; clients give up after 60 */
#define SAFE_INTEGER (UINT64_C(1) << 53)
#define DIFF_BYTES 6000  /* what is returned when maxBytes is left out */
#define LOG_EVENTS 50    /* what is returned when limit is left out */
#define EVENT_ROOM 80000 /* bytes of an event that was asked for alone */
#define LINE_ROOM 300    /* bytes of one line in a list */
#define TASK_ROOM 400    /* bytes of the task in a result */

/* Arguments ------------------------------------------------------------------------------------ */

/* Writes what TARGET holds as params for the supervisor. A string that is NULL, a number that is 0
 * and a status past the last name were left out by the model, and stay out, so that the
 * supervisor's defaults apply. */
static void write_field(struct json_writer *writer, const struct json_field *field,
                        const void *from)
{
    int index;

    switch (field->kind) {
    case JSON_FIELD_STRING:
        json_member_string_opt(writer, field->name, *(const char *const *)from);
        break;
    case JSON_FIELD_U32:
        json_member_u64_opt(writer, field->name, *(const uint32_t *)from);
        break;
    case JSON_FIELD_U64:
        json_member_u64_opt(writer, field->name, *(const uint64_t *)from);
        break;
    case JSON_FIELD_BOOL:
        if (*(const bool *)from)
            json_member_bool(writer, field->name, true);
        break;
    case JSON_FIELD_ENUM:
        index = *(const int *)from;
        json_member_string_opt(writer, field->name, field->names[index]);
        break;
    case JSON_FIELD_VALUE:
    case JSON_FIELD_END:
        break;
    }
}

static int write_params(struct tool_request *out, const struct json_field *fields,
                        const void *target, struct error *err)
{
    struct json_writer writer;

    json_write_init(&writer, &out->body);
    json_write_object(&writer);
    for (const struct json_field *field = fields; field->kind != JSON_FIELD_END; field++)
        write_field(&writer, field, (const char *)target + field->offset);
    json_write_object_end(&writer);
    return out->body.failed ? error_set(err, ERR_LIMIT, 0, "the arguments are too large") : 0;
}

int tool_run_task_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err)
{
    struct run_create_params params = { .task = NULL };

    if (json_read(arguments, run_create_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    if (str_blank(params.task))
        return error_argument(err, "task", "must say what is to be done; it is blank");
    return write_params(out, run_create_fields, &params, err);
}

/* The same parameters as the schema shows, with those as raw values that are read with more
 * leniency. */
struct result_arguments {
    const char *runId;
    const struct json_value *waitSeconds;
};

static const struct json_field result_fields[] = {
    JSON_STRING_FIELD(struct result_arguments, runId, JSON_REQUIRED, 1, 64, NULL),
    JSON_VALUE_FIELD(struct result_arguments, waitSeconds, JSON_OPTIONAL, NULL),
    JSON_FIELD_LAST,
};

/* Any number, also as text; too much and too little mean as much and as little as is possible. */
static int read_wait(const struct json_value *value, uint32_t *seconds, struct error *err)
{
    const char *text = json_string(value);
    double number = json_number(value, NAN);
    char *end = NULL;

    if (!value)
        return 0;
    if (text) {
        number = strtod(text, &end);
        if (end == text || !str_blank(end))
            number = NAN;
    }
    if (isnan(number))
        return error_argument(err, "waitSeconds", "must be a number of seconds from 0 to %d",
                              WAIT_MAX);
    *seconds = number <= 0 ? 0 : number >= WAIT_MAX ? WAIT_MAX : (uint32_t)ceil(number);
    return 0;
}

int tool_run_result_read(const struct json_value *arguments, struct tool_request *out,
                         struct error *err)
{
    struct result_arguments given = { .runId = NULL };
    struct run_get_params params = { .waitSeconds = 0 };

    if (json_read(arguments, result_fields, JSON_LENIENT, &given, err) < 0 ||
        read_wait(given.waitSeconds, &params.waitSeconds, err) < 0)
        return -1;
    params.runId = given.runId;
    out->wait_seconds = params.waitSeconds;
    /* 64 code points may be more bytes; then it is no id of ours, and the supervisor says so
     * without a wait. */
    if (!str_copy(out->run_id, sizeof(out->run_id), given.runId))
        params.waitSeconds = out->wait_seconds = 0;
    return write_params(out, run_get_fields, &params, err);
}

struct list_arguments {
    const char *sessionId;
    int status;
    uint32_t limit;
    const struct json_value *before;
};

static const struct json_field list_fields[] = {
    JSON_STRING_FIELD(struct list_arguments, sessionId, JSON_OPTIONAL, 1, 64, NULL),
    JSON_ENUM_FIELD(struct list_arguments, status, JSON_OPTIONAL, run_status_names, NULL),
    JSON_U32_FIELD(struct list_arguments, limit, JSON_OPTIONAL, 1, 100, NULL),
    JSON_VALUE_FIELD(struct list_arguments, before, JSON_OPTIONAL, NULL),
    JSON_FIELD_LAST,
};

int tool_run_list_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err)
{
    struct list_arguments given = { .status = RUN_STATUS_COUNT };
    struct run_list_params params;
    char number[24];
    uint64_t milliseconds;

    if (json_read(arguments, list_fields, JSON_LENIENT, &given, err) < 0)
        return -1;
    params = (struct run_list_params){ given.sessionId, given.status, given.limit,
                                       json_string(given.before) };
    milliseconds = json_u64(given.before, 0);
    if (milliseconds) {
        snprintf(number, sizeof(number), "%llu", (unsigned long long)milliseconds);
        params.before = number;
    }
    if (given.before && (!params.before || str_utf8_length(params.before) > 64))
        return error_argument(err, "before",
                              "must be unix milliseconds, or the cursor of an earlier answer");
    return write_params(out, run_list_fields, &params, err);
}

int tool_run_cancel_read(const struct json_value *arguments, struct tool_request *out,
                         struct error *err)
{
    struct run_id_params params = { .runId = NULL };

    if (json_read(arguments, run_id_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    return write_params(out, run_id_fields, &params, err);
}

int tool_run_send_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err)
{
    struct run_send_params params = { .message = NULL };

    if (json_read(arguments, run_send_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    if (!params.runId && !params.sessionId)
        return error_argument(err, "runId", "is required, or sessionId");
    if (str_blank(params.message))
        return error_argument(err, "message", "must say what to do; it is blank");
    if (params.runId)
        params.sessionId = NULL;
    return write_params(out, run_send_fields, &params, err);
}

int tool_run_answer_read(const struct json_value *arguments, struct tool_request *out,
                         struct error *err)
{
    struct run_answer_params params = { .runId = NULL };

    if (json_read(arguments, run_answer_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    return write_params(out, run_answer_fields, &params, err);
}

int tool_run_diff_read(const struct json_value *arguments, struct tool_request *out,
                       struct error *err)
{
    struct run_diff_params params = { .maxBytes = DIFF_BYTES };

    if (json_read(arguments, run_diff_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    if (!params.runId && !params.sessionId)
        return error_argument(err, "runId", "is required, or sessionId");
    if (params.runId)
        params.sessionId = NULL;
    /* Whoever asks for more gets it in the text too. */
    if (params.maxBytes > DIFF_BYTES)
        out->text_max = params.maxBytes + (CONTENT_TEXT_MAX - DIFF_BYTES);
    return write_params(out, run_diff_fields, &params, err);
}

const struct json_field tool_run_log_fields[] = {
    JSON_STRING_FIELD(
        struct run_events_params, runId, JSON_REQUIRED, 1, 64,
        "Id of the run, as returned by opencode_run_task or opencode_list_runs (run_…)."),
    JSON_U64_FIELD(struct run_events_params, after, JSON_OPTIONAL, 0, SAFE_INTEGER,
                   "Only events with a greater number: the cursor of an earlier answer. 0 or left "
                   "out: from the start."),
    JSON_U32_FIELD(struct run_events_params, limit, JSON_OPTIONAL, 1, 1000,
                   "How many events to return; 50 if left out. 1 shows a long event whole."),
    JSON_FIELD_LAST,
};

int tool_run_log_read(const struct json_value *arguments, struct tool_request *out,
                      struct error *err)
{
    struct run_events_params params = { .limit = LOG_EVENTS };

    if (json_read(arguments, tool_run_log_fields, JSON_LENIENT, &params, err) < 0)
        return -1;
    if (params.limit == 1)
        out->text_max = EVENT_ROOM;
    return write_params(out, tool_run_log_fields, &params, err);
}

/* Text: parts ---------------------------------------------------------------------------------- */

/* A member that is a string; "" when there is none. */
static const char *text_of(const struct json_value *object, const char *name)
{
    const char *text = json_string(json_get(object, name));

    return text ? text : "";
}

static unsigned long long number_of(const struct json_value *object, const char *name)
{
    return (unsigned long long)json_u64(json_get(object, name), 0);
}

/* "LABEL: value" on a line of its own, when there is a value. */
static void say(struct buf *out, const char *label, const char *value)
{
    if (value[0])
        buf_printf(out, "%s: %s\n", label, value);
}

static void say_time(struct buf *out, const char *label, uint64_t wall_ms)
{
    char time[CLOCK_TEXT_SIZE];

    if (!wall_ms)
        return;
    clock_format(wall_ms, time);
    buf_printf(out, "%s: %.19sZ\n", label, time);
}

/* The first line of TEXT, cut at MAX bytes. */
static void say_excerpt(struct buf *out, const char *text, size_t max)
{
    size_t line = strcspn(text, "\r\n");
    size_t shown = line <= max ? line : str_utf8_cut(text, max);

    buf_append(out, text, shown);
    if (text[shown])
        buf_append_str(out, "…");
}

/* "15:04:05 tool bash: sh tests/run.sh" */
void tool_run_say_event(struct buf *out, const struct json_value *event)
{
    uint64_t time = json_u64(json_get(event, "time"), 0);
    char clock[CLOCK_TEXT_SIZE];

    clock_format(time, clock);
    buf_printf(out, "%.8s %s: ", clock + 11, text_of(event, "kind"));
    say_excerpt(out, text_of(event, "text"), LINE_ROOM);
    buf_append_char(out, '\n');
}

static void say_commit(struct buf *out, const char *label, const char *commit)
{
    if (commit[0])
        buf_printf(out, ", %s %.12s", label, commit);
}

/* Text: one run -------------------------------------------------------------------------------- */

void tool_run_task_render(const struct json_value *reply, size_t max, struct buf *out)
{
    (void)max;
    if (text_of(reply, "message")[0])
        buf_printf(out, "%s\n", text_of(reply, "message"));
    say(out, "runId", text_of(reply, "runId"));
    say(out, "sessionId", text_of(reply, "sessionId"));
    say(out, "status", text_of(reply, "status"));
    say(out, "webUiUrl", text_of(reply, "webUiUrl"));
}

void tool_run_send_render(const struct json_value *reply, size_t max, struct buf *out)
{
    say(out, "action", text_of(reply, "action"));
    tool_run_task_render(reply, max, out);
}

void tool_run_answer_render(const struct json_value *reply, size_t max, struct buf *out)
{
    (void)max;
    buf_append_str(out, "The agent has the answer and goes on. Call opencode_get_result again.\n");
    say(out, "runId", text_of(reply, "runId"));
    say(out, "requestId", text_of(reply, "requestId"));
}

static void say_failure(struct buf *out, const struct json_value *error)
{
    if (!error)
        return;
    buf_printf(out, "error: %s", text_of(error, "code"));
    if (text_of(error, "phase")[0])
        buf_printf(out, " in phase %s", text_of(error, "phase"));
    buf_printf(out, ": %s\n", text_of(error, "message"));
    say(out, "hint", text_of(error, "hint"));
    buf_printf(out, "retryable: %s\n",
               json_bool(json_get(error, "retryable"), false) ? "yes" : "no");
}

static void say_list(struct buf *out, const char *label, const struct json_value *list)
{
    for (const struct json_value *one = json_first(list); one != NULL; one = json_next(one)) {
        buf_printf(out, "%s: ", label);
        content_append_cut(out, json_string(one) ? json_string(one) : "", 200);
        buf_append_char(out, '\n');
    }
}

static void say_evidence(struct buf *out, const struct json_value *evidence)
{
    if (!evidence)
        return;
    if (json_bool(json_get(evidence, "known"), false)) {
        buf_printf(out, "changes: %llu file%s (+%llu -%llu), %llu untracked, %llu commit%s",
                   number_of(evidence, "filesChanged"),
                   number_of(evidence, "filesChanged") == 1 ? "" : "s",
                   number_of(evidence, "insertions"), number_of(evidence, "deletions"),
                   number_of(evidence, "untracked"), number_of(evidence, "commits"),
                   number_of(evidence, "commits") == 1 ? "" : "s");
        if (text_of(evidence, "branch")[0])
            buf_printf(out, " on branch %s", text_of(evidence, "branch"));
        say_commit(out, "base", text_of(evidence, "baseCommit"));
        say_commit(out, "head", text_of(evidence, "headCommit"));
        if (json_bool(json_get(evidence, "diffTruncated"), false))
            buf_append_str(out, ", diff cut");
        buf_append_char(out, '\n');
    } else {
        buf_append_str(out, "changes: not known\n");
    }
    say(out, "the branch at its remote, compared with here", text_of(evidence, "remoteState"));
    say_list(out, "warning", json_get(evidence, "warnings"));
    if (number_of(evidence, "refusedRequests"))
        buf_printf(out, "requests refused by the proxy: %llu\n",
                   number_of(evidence, "refusedRequests"));
    say_list(out, "still running when it ended, and ended then", json_get(evidence, "leftRunning"));
    say(out, "the model's finish reason", text_of(evidence, "finishReason"));
}

static void say_budget(struct buf *out, const struct json_value *budget)
{
    if (number_of(budget, "tokenLimit"))
        buf_printf(out, "budget: %llu of %llu tokens\n", number_of(budget, "tokens"),
                   number_of(budget, "tokenLimit"));
    if (json_number(json_get(budget, "limitUsd"), 0) > 0)
        buf_printf(out, "budget: %.4f of %.2f USD\n", json_number(json_get(budget, "costUsd"), 0),
                   json_number(json_get(budget, "limitUsd"), 0));
}

static void say_usage(struct buf *out, const struct json_value *usage)
{
    if (usage)
        buf_printf(out,
                   "usage: %llu model requests, tokens: %llu in, %llu out, %llu cache read, %llu "
                   "cache write; %.4f USD\n",
                   number_of(usage, "requests"), number_of(usage, "inputTokens"),
                   number_of(usage, "outputTokens"), number_of(usage, "cacheReadTokens"),
                   number_of(usage, "cacheWriteTokens"),
                   json_number(json_get(usage, "costUsd"), 0));
    say_budget(out, json_get(usage, "budget"));
}

static void say_request(struct buf *out, const struct json_value *request)
{
    AUTO_BUF struct buf options = BUF_INIT(2000);

    if (!request)
        return;
    buf_printf(out, "it asks (%s, requestId %s): ", text_of(request, "kind"),
               text_of(request, "requestId"));
    content_append_cut(out, text_of(request, "text"), 1500);
    buf_append_char(out, '\n');
    if (!json_get(request, "options"))
        return;
    json_append(&options, json_get(request, "options"));
    if (!options.failed)
        say(out, "options", buf_text(&options));
}

static void say_steps(struct buf *out, const struct json_value *steps)
{
    if (json_count(steps))
        buf_append_str(out, "newest steps first:\n");
    for (const struct json_value *step = json_first(steps); step; step = json_next(step))
        tool_run_say_event(out, step);
}

static void say_facts(struct buf *out, const struct json_value *run)
{
    say(out, "title", text_of(run, "title"));
    buf_append_str(out, "task: ");
    say_excerpt(out, text_of(run, "task"), TASK_ROOM);
    buf_append_char(out, '\n');
    say(out, "repository", text_of(run, "repository"));
    say(out, "branch", text_of(run, "branch"));
    say(out, "agent", text_of(run, "agent"));
    say(out, "model", text_of(run, "model"));
    say_time(out, "created", json_u64(json_get(run, "createdAt"), 0));
    say_time(out, "started", json_u64(json_get(run, "startedAt"), 0));
    say_time(out, "completed", json_u64(json_get(run, "completedAt"), 0));
    say_time(out, "deadline", json_u64(json_get(run, "deadlineAt"), 0));
    say(out, "webUiUrl", text_of(run, "webUiUrl"));
    if (number_of(run, "cursor"))
        buf_printf(out, "cursor: %llu\n", number_of(run, "cursor"));
}

/* The answer is what may be long; it comes last and gets the room that is left. */
static void say_output(struct buf *out, const char *output, size_t max)
{
    size_t room = max > out->len + 512 ? max - out->len - 64 : 448;

    if (!output[0])
        return;
    buf_append_str(out, "the agent's answer:\n");
    content_append_cut(out, output, room);
    buf_append_char(out, '\n');
}

void tool_run_result_render(const struct json_value *reply, size_t max, struct buf *out)
{
    const struct json_value *result = json_get(reply, "result");

    if (text_of(reply, "message")[0])
        buf_printf(out, "%s\n", text_of(reply, "message"));
    say(out, "runId", text_of(reply, "runId"));
    say(out, "sessionId", text_of(reply, "sessionId"));
    say(out, "status", text_of(reply, "status"));
    say(out, "phase", text_of(reply, "phase"));
    if (result)
        buf_printf(out, "success: %s\n",
                   json_bool(json_get(result, "success"), false) ? "yes" : "no");
    say(out, "verdict", text_of(reply, "verdict"));
    say_failure(out, json_get(result, "error"));
    say_request(out, json_get(reply, "request"));
    say_evidence(out, json_get(reply, "evidence"));
    say_usage(out, json_get(reply, "usage"));
    if (!result)
        say_steps(out, json_get(reply, "steps"));
    say_facts(out, reply);
    say_output(out, text_of(result, "output"), max);
}

/* Text: lists ---------------------------------------------------------------------------------- */

static void say_run(struct buf *out, const struct json_value *run)
{
    char time[CLOCK_TEXT_SIZE];

    clock_format(json_u64(json_get(run, "createdAt"), 0), time);
    buf_printf(out, "%s %s", text_of(run, "runId"), text_of(run, "status"));
    if (json_get(run, "success") && !json_bool(json_get(run, "success"), true) &&
        strcmp(text_of(run, "status"), "completed") == 0)
        buf_append_str(out, ", no success");
    if (text_of(run, "verdict")[0])
        buf_printf(out, ", %s", text_of(run, "verdict"));
    if (text_of(run, "phase")[0])
        buf_printf(out, " (%s)", text_of(run, "phase"));
    buf_printf(out, ", created %.16sZ, %s", time, text_of(run, "sessionId"));
    if (text_of(run, "repository")[0])
        buf_printf(out, ", %.200s", text_of(run, "repository"));
    buf_append_str(out, "\n  ");
    say_excerpt(out, text_of(run, "title")[0] ? text_of(run, "title") : text_of(run, "task"), 120);
    buf_append_char(out, '\n');
}

/* What doesn't fit is left out as whole entries, and the text tells how to get at it. */
void tool_run_list_render(const struct json_value *reply, size_t max, struct buf *out)
{
    const struct json_value *runs = json_get(reply, "runs");
    const char *last = "";
    size_t shown = 0;

    if (json_count(runs) == 0)
        buf_append_str(out, "No runs.\n");
    for (const struct json_value *run = json_first(runs); run; run = json_next(run)) {
        size_t before = out->len;

        say_run(out, run);
        if (out->len > max - LINE_ROOM) {
            out->len = before;
            buf_printf(out, "%zu more in this answer are not shown; call again with before %s\n",
                       json_count(runs) - shown, last);
            return;
        }
        last = text_of(run, "runId");
        shown++;
    }
    if (json_bool(json_get(reply, "hasMore"), false))
        buf_printf(out, "There are older runs: call again with before %s\n",
                   text_of(reply, "cursor"));
}

/* All of an event that stands alone. */
static void say_whole_event(struct buf *out, const struct json_value *event, size_t max)
{
    AUTO_BUF struct buf data = BUF_INIT(EVENT_ROOM);

    if (strpbrk(text_of(event, "text"), "\r\n") || strlen(text_of(event, "text")) > LINE_ROOM) {
        content_append_cut(out, text_of(event, "text"), max > out->len ? max - out->len : 0);
        buf_append_char(out, '\n');
    }
    if (!json_get(event, "data"))
        return;
    json_append(&data, json_get(event, "data"));
    if (data.failed || data.len + out->len > max)
        return;
    say(out, "data", buf_text(&data));
}

void tool_run_log_render(const struct json_value *reply, size_t max, struct buf *out)
{
    const struct json_value *events = json_get(reply, "events");
    unsigned long long last = 0;

    if (json_count(events) == 0)
        buf_append_str(out, "No events after that.\n");
    for (const struct json_value *event = json_first(events); event; event = json_next(event)) {
        size_t before = out->len;

        buf_printf(out, "%llu ", number_of(event, "number"));
        tool_run_say_event(out, event);
        if (out->len > max - LINE_ROOM) {
            out->len = before;
            buf_printf(out, "More follows: call again with after %llu\n", last);
            return;
        }
        last = number_of(event, "number");
        say(out, "  cut", text_of(event, "cut"));
    }
    if (json_count(events) == 1)
        say_whole_event(out, json_first(events), max - LINE_ROOM);
    buf_printf(out, "cursor: %llu%s\n", number_of(reply, "cursor"),
               json_bool(json_get(reply, "hasMore"), false)
                   ? " (more follows: call again with this as after)"
                   : "");
}

static void say_files(struct buf *out, const struct json_value *reply, size_t max)
{
    const struct json_value *files = json_get(reply, "files");
    unsigned long long left_out = number_of(reply, "filesLeftOut");
    size_t shown = 0;

    buf_printf(out, "files changed: %llu\n", json_count(files) + left_out);
    for (const struct json_value *file = json_first(files); file; file = json_next(file), shown++) {
        if (out->len > max) {
            left_out += json_count(files) - shown;
            break;
        }
        buf_printf(out, "  %s +%llu -%llu ", text_of(file, "status"), number_of(file, "insertions"),
                   number_of(file, "deletions"));
        say_excerpt(out, text_of(file, "path"), LINE_ROOM);
        buf_append_char(out, '\n');
    }
    if (left_out)
        buf_printf(out, "  and %llu more\n", left_out);
}

void tool_run_diff_render(const struct json_value *reply, size_t max, struct buf *out)
{
    const char *diff = text_of(reply, "diff");

    if (text_of(reply, "runId")[0])
        buf_printf(out, "%s, ", text_of(reply, "runId"));
    buf_append_str(out, text_of(reply, "sessionId"));
    say_commit(out, "base", text_of(reply, "baseCommit"));
    say_commit(out, "head", text_of(reply, "headCommit"));
    buf_append_char(out, '\n');
    if (json_bool(json_get(reply, "truncated"), false))
        buf_append_str(out, "The diff is cut: narrow it with path, raise maxBytes, or read the "
                            "resource run://RUNID/diff.\n");
    say_files(out, reply, 2000);
    if (!diff[0]) {
        buf_append_str(out, "No changes.\n");
        return;
    }
    buf_append_char(out, '\n');
    content_append_cut(out, diff, max > out->len + 256 ? max - out->len - 64 : 192);
}
