/* on_stream.c: the methods that go on after their reply: run.events and run.exec. */
#include "control/internal.h"
#include "view/view.h"
#include "proto/msg_run.h"

/* run.events
 * ------------------------------------------------------------------------------------------------------
 */

#define EVENTS_PAGE_BYTES (4u << 20) /* a page ends early beyond this */

struct event_page {
    struct json_writer writer;
    struct buf *body;
    uint32_t left;
    uint64_t cursor;
    bool more;
};

static bool write_event(void *data, const struct event_record *event)
{
    struct event_page *page = data;

    if (page->left == 0 || page->body->len > EVENTS_PAGE_BYTES) {
        page->more = true;
        return false;
    }
    page->left--;
    page->cursor = event->number;
    view_event(&page->writer, event);
    return true;
}

static int write_events(struct control *control, const struct id *run,
                        const struct run_events_params *params, struct buf *body, struct error *err)
{
    struct event_page page = { .body = body, .left = params->limit, .cursor = params->after };

    json_write_init(&page.writer, body);
    json_write_object(&page.writer);
    json_write_name(&page.writer, "events");
    json_write_array(&page.writer);
    if (!params->follow && store_event_each(control->store, run, params->after,
                                            (size_t)params->limit + 1, write_event, &page, err) < 0)
        return -1;
    json_write_array_end(&page.writer);
    json_member_u64(&page.writer, "cursor", page.cursor);
    json_member_bool(&page.writer, "hasMore", page.more);
    json_write_object_end(&page.writer);
    return 0;
}

static void follow_drop(struct request *request)
{
    run_unsubscribe(request->state);
}

static void follow_drain(struct request *request)
{
    run_subscription_resume(request->state);
}

static void follow_event(void *data, const struct event_record *event)
{
    struct request *request = data;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct json_writer writer;

    json_write_init(&writer, &body);
    view_event(&writer, event);
    if (!request_event(request, &body))
        run_subscription_pause(request->state);
}

static void follow_ended(void *data, const struct run_record *run)
{
    struct request *request = data;
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "status", run_status_names[run_status_of(run)]);
    json_member_u64(&writer, "cursor", run->last_event);
    json_write_object_end(&writer);
    request_end(request, &body);
}

static void follow(struct request *request, const struct id *run,
                   const struct run_events_params *params, const struct buf *body)
{
    struct run_subscriber subscriber = { .on_event = follow_event,
                                         .on_ended = follow_ended,
                                         .data = request };
    struct run_subscription *subscription = NULL;
    struct error err = ERROR_INIT;

    if (run_subscribe(&subscription, request->control->runs, run, params->after, &subscriber,
                      &err) < 0) {
        request_fail(request, &err);
        return;
    }
    request->state = subscription;
    request->drop = follow_drop;
    request->drain = follow_drain;
    request_reply_open(request, body);
}

void on_run_events(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct run_events_params params = { .limit = 100 };
    struct error err = ERROR_INIT;
    struct run_record run;

    if (request_read(request, run_events_fields, &params) < 0)
        return;
    run_record_init(&run);
    if (run_load_by_text(request->control, params.runId, &run, &err) < 0 ||
        write_events(request->control, &run.id, &params, &body, &err) < 0)
        request_fail(request, &err);
    else if (params.follow)
        follow(request, &run.id, &params, &body);
    else
        request_reply(request, &body);
    run_record_finish(&run);
}

/* run.exec
 * --------------------------------------------------------------------------------------------------------
 */

#define EXEC_ARGV_MAX 256
#define EXEC_QUEUE_MAX (8u << 20) /* unread output at which a command is ended */
#define EXEC_CHUNK_MAX (64u << 10)

struct exec {
    struct request *request;
    struct run_exec *process;
    /* The start of a character whose rest has not come yet, for stdout and stderr. */
    struct {
        char bytes[4];
        size_t len;
    } rest[2];
};

static void exec_drop(struct request *request)
{
    struct exec *exec = request->state;

    run_exec_cancel(exec->process);
    free(exec);
}

static void send_output(struct exec *exec, bool is_stderr, const char *bytes, size_t len)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct json_writer writer;

    if (len == 0)
        return;
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "stream", is_stderr ? "stderr" : "stdout");
    json_write_name(&writer, "data");
    json_write_bytes(&writer, bytes, len);
    json_write_object_end(&writer);
    request_event(exec->request, &body);
}

static void write_exec_end(struct buf *body, int code, int signal, const struct error *err)
{
    struct json_writer writer;

    json_write_init(&writer, body);
    json_write_object(&writer);
    if (err != NULL) {
        json_write_name(&writer, "error");
        json_write_object(&writer);
        json_member_string(&writer, "code", error_code_name(err->code));
        json_member_string(&writer, "message", err->text);
        json_write_object_end(&writer);
    } else if (signal != 0) {
        json_member_u64(&writer, "signal", (uint64_t)signal);
    } else {
        json_member_u64(&writer, "exitCode", (uint64_t)(code & 0xff));
    }
    json_write_object_end(&writer);
}

static void exec_end(struct exec *exec, int code, int signal, const struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);

    for (int i = 0; i < 2; i++)
        send_output(exec, i == 1, exec->rest[i].bytes, exec->rest[i].len);
    write_exec_end(&body, code, signal, err);
    request_end(exec->request, &body);
    free(exec);
}

/* A character split between two reads is sent as one. */
static void exec_chunk(struct exec *exec, bool is_stderr, const char *bytes, size_t len)
{
    AUTO_BUF struct buf all = BUF_INIT(EXEC_CHUNK_MAX + sizeof(exec->rest[0].bytes));
    size_t cut;

    buf_append(&all, exec->rest[is_stderr].bytes, exec->rest[is_stderr].len);
    buf_append(&all, bytes, len);
    cut = str_utf8_cut(all.data, all.len);
    exec->rest[is_stderr].len = all.len - cut;
    memcpy(exec->rest[is_stderr].bytes, all.data + cut, all.len - cut);
    send_output(exec, is_stderr, all.data, cut);
}

static void exec_output(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct exec *exec = data;
    struct error err = ERROR_INIT;

    while (len > 0) {
        size_t take = len < EXEC_CHUNK_MAX ? len : EXEC_CHUNK_MAX;

        exec_chunk(exec, is_stderr, bytes, take);
        bytes += take;
        len -= take;
    }
    if (request_queued(exec->request) > EXEC_QUEUE_MAX) {
        error_set(&err, ERR_LIMIT, 0, "the command was ended: its output was not read");
        run_exec_cancel(exec->process);
        exec_end(exec, 0, 0, &err);
    }
}

static void exec_exit(void *data, int code, int signal, const struct error *err)
{
    exec_end(data, code, signal, err);
}

/* ARGV has room for EXEC_ARGV_MAX + 1; its strings are borrowed from the request. */
static int read_argv(const struct json_value *value, const char *argv[], struct error *err)
{
    size_t count = 0;

    if (json_kind(value) != JSON_KIND_ARRAY || json_count(value) == 0 ||
        json_count(value) > EXEC_ARGV_MAX)
        return error_argument(err, "argv", "an array of 1 to %d strings", EXEC_ARGV_MAX);
    for (const struct json_value *item = json_first(value); item != NULL; item = json_next(item)) {
        argv[count] = json_string(item);
        if (argv[count++] == NULL)
            return error_argument(err, "argv", "an array of strings");
    }
    argv[count] = NULL;
    return 0;
}

void on_run_exec(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(256);
    const char *argv[EXEC_ARGV_MAX + 1];
    struct run_exec_params params = { 0 };
    struct run_exec_callbacks callbacks = { .on_output = exec_output, .on_exit = exec_exit };
    struct error err = ERROR_INIT;
    struct run_record run;
    struct exec *exec;
    struct id id;
    int rc;

    if (request_read(request, run_exec_fields, &params) < 0)
        return;
    run_record_init(&run);
    rc = run_load_by_text(request->control, params.runId, &run, &err);
    id = run.id;
    run_record_finish(&run);
    exec = NEW(struct exec);
    exec->request = request;
    callbacks.data = exec;
    if (rc < 0 || read_argv(params.argv, argv, &err) < 0 ||
        run_exec_start(&exec->process, request->control->runs, &id, argv, &callbacks, &err) < 0) {
        free(exec);
        request_fail(request, &err);
        return;
    }
    request->state = exec;
    request->drop = exec_drop;
    buf_append_str(&body, "{\"started\":true}");
    request_reply_open(request, &body);
}
