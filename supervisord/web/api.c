/* api.c: a run as JSON for the page, its diff, and the one action that a page may take. */
#include "web/internal.h"

#define VIEW_MAX (4u << 20)
#define DIFF_SHOWN_MAX (1u << 20)

static const char *status_name(const struct run_record *run)
{
    /* By value those of the socket's protocol, which this folder doesn't see. */
    static const char *const names[] = { "queued",    "started", "running",   "waiting",
                                         "completed", "failed",  "cancelled", "interrupted" };
    int status = run_status_of(run);

    return status >= 0 && (size_t)status < ARRAY_LEN(names) ? names[status] : "failed";
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = { "state",   "log",      "text",       "reasoning", "tool",
                                         "todo",    "question", "permission", "retry",     "usage",
                                         "refused", "error",    "message" };

    return kind < ARRAY_LEN(names) ? names[kind] : "log";
}

static void write_error(struct json_writer *writer, const struct run_error_record *error)
{
    if (error->code[0] == '\0')
        return;
    json_write_name(writer, "error");
    json_write_object(writer);
    json_member_string(writer, "code", error->code);
    json_member_string_opt(writer, "phase", error->phase);
    json_member_string(writer, "message", error->message);
    json_member_string_opt(writer, "hint", error->hint);
    json_member_bool(writer, "retryable", error->retryable);
    json_member_u64_opt(writer, "retryAt", error->retry_at_ms);
    json_write_object_end(writer);
}

static void write_evidence(struct json_writer *writer, const struct run_evidence_record *evidence)
{
    if (!evidence->known)
        return;
    json_write_name(writer, "evidence");
    json_write_object(writer);
    json_member_string_opt(writer, "branch", evidence->branch);
    json_member_string_opt(writer, "headCommit", evidence->head_commit);
    json_member_u64(writer, "commits", evidence->commits);
    json_member_u64(writer, "filesChanged", evidence->files_changed);
    json_member_u64(writer, "insertions", evidence->insertions);
    json_member_u64(writer, "deletions", evidence->deletions);
    json_member_u64(writer, "untracked", evidence->untracked);
    json_member_u64(writer, "refusedRequests", evidence->refused_requests);
    json_write_object_end(writer);
}

static void write_usage(struct json_writer *writer, const struct run_usage_record *usage)
{
    json_write_name(writer, "usage");
    json_write_object(writer);
    json_member_u64(writer, "inputTokens", usage->input_tokens);
    json_member_u64(writer, "outputTokens", usage->output_tokens);
    json_member_u64(writer, "requests", usage->requests);
    json_member_double(writer, "costUsd", (double)usage->cost_microdollars / 1e6);
    json_write_object_end(writer);
}

void api_write_run(struct json_writer *writer, const struct run_record *run, uint64_t now_ms,
                   const char *step, const char *request)
{
    json_write_object(writer);
    json_member_string(writer, "runId", run->id.text);
    json_member_string(writer, "sessionId", run->session.text);
    json_member_string(writer, "status", status_name(run));
    json_member_string(writer, "phase", run_phase_of(run));
    json_member_bool(writer, "ended", run_ended(run));
    json_member_string(writer, "task", run->task);
    json_member_string_opt(writer, "title", run->title);
    json_member_string_opt(writer, "agent", run->agent);
    json_member_string_opt(writer, "model", run->model);
    json_member_string_opt(writer, "repository", run->repository);
    json_member_string_opt(writer, "branch", run->branch);
    json_member_u64(writer, "now", now_ms);
    json_member_u64(writer, "createdAt", run->created_ms);
    json_member_u64_opt(writer, "startedAt", run->started_ms);
    json_member_u64_opt(writer, "completedAt", run->ended_ms);
    json_member_u64_opt(writer, "deadlineAt", run->deadline_ms);
    json_member_string_opt(writer, "step", step);
    if (request != NULL) {
        json_write_name(writer, "request");
        json_write_raw(writer, request, strlen(request));
    }
    json_member_string_opt(writer, "verdict", run->verdict);
    json_member_string_opt(writer, "output", run->output);
    write_error(writer, &run->error);
    write_evidence(writer, &run->evidence);
    write_usage(writer, &run->usage);
    json_member_u64(writer, "cursor", run->last_event);
    json_write_object_end(writer);
}

void api_write_event(struct json_writer *writer, const struct event_record *event)
{
    json_write_object(writer);
    json_member_u64(writer, "number", event->number);
    json_member_u64(writer, "time", event->time_ms);
    json_member_string(writer, "kind", kind_name(event->kind));
    json_member_string(writer, "text", event->text);
    json_write_object_end(writer);
}

void api_get_run(struct web_conn *conn, const struct run_record *run)
{
    struct web *web = conn->web;
    AUTO_BUF struct buf body = BUF_INIT(VIEW_MAX);
    struct json_writer writer;
    bool over = run_ended(run);

    json_write_init(&writer, &body);
    api_write_run(&writer, run, clock_wall_ms(web->clock),
                  over ? NULL : run_current_step(web->runs, &run->id),
                  over ? NULL : run_open_request(web->runs, &run->id));
    web_respond_json(conn->http, 200, &body);
}

void api_get_diff(struct web_conn *conn, const struct run_record *run)
{
    AUTO_BUF struct buf diff = BUF_INIT(STORE_DIFF_MAX);
    struct error err = ERROR_INIT;
    size_t shown;

    if (store_diff_load(conn->web->store, &run->id, &diff, &err) < 0 && err.code != ERR_NOT_FOUND) {
        log_warn(run->id.text, "diff can't be read: %s", err.text);
        web_respond_error(conn->http, 500, "internal", "the diff can't be read");
        return;
    }
    shown = diff.len;
    if (shown > DIFF_SHOWN_MAX) {
        for (shown = DIFF_SHOWN_MAX; shown > 0 && diff.data[shown - 1] != '\n';)
            shown--;
        diff.len = shown;
        buf_append_str(&diff, "[diff truncated: the page shows its first part]\n");
    }
    web_respond(conn->http, 200, "text/plain; charset=utf-8", buf_text(&diff), diff.len);
}

void api_cancel(struct web_conn *conn, const struct run_record *run)
{
    AUTO_BUF struct buf body = BUF_INIT(256);
    struct error err = ERROR_INIT;

    if (run_cancel(conn->web->runs, &run->id, &err) < 0) {
        log_warn(run->id.text, "can't be cancelled from the page: %s", err.text);
        web_respond_error(conn->http, 409, error_code_name(err.code), err.text);
        return;
    }
    log_info(run->id.text, "cancelled from the page");
    buf_append_str(&body, "{\"cancelling\":true}");
    web_respond_json(conn->http, 202, &body);
}
