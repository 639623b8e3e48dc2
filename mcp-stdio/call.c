#include "mcp-stdio/call.h"

#include <stdlib.h>
#include <string.h>

#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/progress.h"
#include "proto/frame.h"
#include "proto/msg_run.h"

#define OPEN_MAX 1024 /* subscriptions */
#define CALLS_MAX 512
#define STRUCTURED_MAX (FRAME_JSON_MAX + 4096)
#define TEXT_ROOM (2u << 20) /* what a renderer may write before it is cut */

enum call_step {
    CALL_QUEUED,  /* no connection yet */
    CALL_LOOKING, /* how the run stands, before a wait with progress */
    CALL_SENT,    /* the request whose reply is the answer */
    CALL_OPEN,    /* a subscription */
};

struct call {
    struct list link;            /* calls::all */
    struct server_target target; /* its id is ours */
    const struct tool *tool;
    struct tool_request request;
    enum call_step step;
    uint64_t request_id; /* the supervisor's; 0: none */
    uint64_t events_id;
    uint64_t sent_ms;
    uint64_t deadline_ms;
    struct progress progress;
};

struct calls {
    struct server *server;
    const struct clock *clock;
    struct backend *backend; /* NULL: none */
    struct list all;         /* call::link, oldest first */
    size_t count;            /* without subscriptions */
    size_t open;             /* subscriptions */
};

static struct call *call_of(struct list *link)
{
    return LIST_ENTRY(link, struct call, link);
}

static uint64_t now_ms(const struct calls *calls)
{
    return clock_mono_ms(calls->clock);
}

/* Life ----------------------------------------------------------------------------------------- */

static struct call *call_new(struct calls *calls, const struct server_target *target,
                             enum call_step step)
{
    struct call *call = NEW(struct call);

    call->target = *target;
    call->target.id.data = mem_strndup(target->id.data, target->id.len);
    call->step = step;
    call->deadline_ms = UINT64_MAX;
    progress_init(&call->progress, (struct jsonrpc_slice){ NULL, 0 });
    server_batch_hold(call->target.batch);
    list_append(&calls->all, &call->link);
    if (step == CALL_OPEN)
        calls->open++;
    else
        calls->count++;
    return call;
}

/* What the supervisor still owes for it is cancelled. */
static void call_free(struct calls *calls, struct call *call)
{
    struct batch *batch = call->target.batch;

    if (call->step == CALL_OPEN)
        calls->open--;
    else
        calls->count--;
    if (calls->backend) {
        backend_cancel(calls->backend, call->request_id);
        backend_cancel(calls->backend, call->events_id);
    }
    list_remove(&call->link);
    free((char *)(uintptr_t)call->target.id.data);
    tool_request_finish(&call->request);
    progress_finish(&call->progress);
    free(call);
    server_batch_release(calls->server, batch);
}

/* Answers -------------------------------------------------------------------------------------- */

static void answer_error(struct calls *calls, struct call *call, const char *text)
{
    struct server_answer answer;

    server_answer_begin(&answer, calls->server, &call->target);
    content_write_error(&answer.writer, text);
    server_answer_end(&answer);
    call_free(calls, call);
}

static void answer_result(struct calls *calls, struct call *call, const struct json_value *reply)
{
    AUTO_BUF struct buf structured = BUF_INIT(STRUCTURED_MAX);
    AUTO_BUF struct buf text = BUF_INIT(TEXT_ROOM);
    struct server_answer answer;

    json_append(&structured, reply);
    if (structured.failed || structured.len == 0) {
        answer_error(calls, call, "The supervisor's answer is too large. Ask for less.");
        return;
    }
    call->tool->render(reply, call->request.text_max, &text);
    content_cut(&text, call->request.text_max);
    server_answer_begin(&answer, calls->server, &call->target);
    content_write(&answer.writer, &text, &structured);
    server_answer_end(&answer);
    call_free(calls, call);
}

/* How a call failed. */
enum fate {
    FATE_NOT_SENT,
    FATE_UNKNOWN, /* sent, and no reply came */
    FATE_REFUSED, /* the supervisor's reply is an error */
};

static const char *advice_when_lost(const struct call *call, enum fate fate)
{
    switch (fate) {
    case FATE_NOT_SENT:
        return "Nothing was done. Runs that exist are kept. Call again in a few seconds; if that "
               "does not help, ask the user to run `sandboxctl doctor`.";
    case FATE_UNKNOWN:
        if (call->tool->method == METHOD_RUN_CREATE)
            return "It is not known whether the run was started: look with opencode_list_runs "
                   "before you try again, or try again with the same idempotencyKey. Runs that "
                   "exist are kept.";
        return "Runs are kept and go on. Call again.";
    case FATE_REFUSED:
        break;
    }
    return "";
}

/* What a model should do about it. */
static const char *advice(const struct call *call, enum error_code code, enum fate fate)
{
    switch (code) {
    case ERR_INVALID:
        return "Correct the argument and call again.";
    case ERR_NOT_FOUND:
        return "Call opencode_list_runs to find the runs and sessions that exist.";
    case ERR_LIMIT:
        return "Ask for less, or wait until a run has ended or cancel one, then call again.";
    case ERR_CONFLICT:
    case ERR_DENIED:
        return fate == FATE_NOT_SENT ? "Nothing was done. Tell the user, who can put this right."
                                     : "";
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
    case ERR_SYSTEM:
    case ERR_BUG:
        return advice_when_lost(call, fate);
    case ERR_CANCELLED:
    case ERR_NONE:
        break;
    }
    return "";
}

static void answer_failure(struct calls *calls, struct call *call, const struct error *err,
                           enum fate fate)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    const char *what_to_do = advice(call, err->code, fate);

    buf_append_str(&text, err->text);
    if (text.len && text.data[0] >= 'a' && text.data[0] <= 'z' && !err->argument[0])
        text.data[0] = (char)(text.data[0] - 'a' + 'A');
    if (text.len && !strchr(".!?", text.data[text.len - 1]))
        buf_append_char(&text, '.');
    if (what_to_do[0])
        buf_printf(&text, " %s", what_to_do);
    answer_error(calls, call, buf_text(&text));
}

/* Sending -------------------------------------------------------------------------------------- */

static void send_request(struct calls *calls, struct call *call, const char *body, uint64_t wait_ms)
{
    call->request_id = backend_send(calls->backend, call->tool->method, body);
    call->sent_ms = now_ms(calls);
    call->deadline_ms = call->sent_ms + wait_ms + call->tool->answer_ms;
}

static void send_wait(struct calls *calls, struct call *call)
{
    call->step = CALL_SENT;
    send_request(calls, call, buf_text(&call->request.body),
                 (uint64_t)call->request.wait_seconds * 1000);
}

/* A wait with progress looks first: a run that has ended needs no wait, and else its cursor tells
 * from where to follow. */
static void send_look(struct calls *calls, struct call *call)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", call->request.run_id);
    json_write_object_end(&writer);
    call->step = CALL_LOOKING;
    send_request(calls, call, buf_text(&body), 0);
}

static void send_follow(struct calls *calls, struct call *call, uint64_t cursor)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", call->request.run_id);
    json_member_u64(&writer, "after", cursor);
    json_member_bool(&writer, "follow", true);
    json_write_object_end(&writer);
    call->events_id = backend_send(calls->backend, METHOD_RUN_EVENTS, buf_text(&body));
}

static void send_first(struct calls *calls, struct call *call)
{
    if (progress_wanted(&call->progress) && call->request.wait_seconds)
        send_look(calls, call);
    else
        send_wait(calls, call);
}

void calls_start(struct calls *calls, const struct server_target *target, const struct tool *tool,
                 struct tool_request *tool_request, struct jsonrpc_slice progress_token)
{
    struct call *call = call_new(calls, target, CALL_QUEUED);
    struct error err = ERROR_INIT;

    call->tool = tool;
    call->request = *tool_request;
    *tool_request = (struct tool_request){ .text_max = 0 };
    progress_init(&call->progress, progress_token);
    if (!calls->backend) {
        error_set(&err, ERR_UNAVAILABLE, 0, "no supervisor can be reached");
        answer_failure(calls, call, &err, FATE_NOT_SENT);
    } else if (calls->count > CALLS_MAX) {
        error_set(&err, ERR_LIMIT, 0, "%u calls are in flight", CALLS_MAX);
        answer_failure(calls, call, &err, FATE_NOT_SENT);
    } else if (backend_is_connected(calls->backend)) {
        send_first(calls, call);
    } else {
        backend_connect(calls->backend);
    }
}

int calls_keep_open(struct calls *calls, const struct server_target *target)
{
    if (calls->open >= OPEN_MAX)
        return -1;
    call_new(calls, target, CALL_OPEN);
    return 0;
}

void calls_cancel(struct calls *calls, struct jsonrpc_slice id)
{
    LIST_EACH(&calls->all, link) {
        struct call *call = call_of(link);

        if (jsonrpc_slice_equal(call->target.id, id))
            call_free(calls, call);
    }
}

/* The supervisor's side ------------------------------------------------------------------------ */

static void on_connected(void *data)
{
    struct calls *calls = data;

    LIST_EACH(&calls->all, link)
        if (call_of(link)->step == CALL_QUEUED)
            send_first(calls, call_of(link));
}

/* The run goes on without asking anything: its events are followed while its end is waited for. */
static bool wants_wait(const struct json_value *view)
{
    const char *status = json_string(json_get(view, "status"));

    return str_equal(status, run_status_names[RUN_STATUS_QUEUED]) ||
           str_equal(status, run_status_names[RUN_STATUS_STARTED]) ||
           str_equal(status, run_status_names[RUN_STATUS_RUNNING]);
}

static void on_reply(struct calls *calls, struct call *call, const struct json_value *reply)
{
    call->request_id = 0;
    if (call->step == CALL_LOOKING && wants_wait(reply)) {
        progress_begin(&call->progress, reply, now_ms(calls));
        send_follow(calls, call, json_u64(json_get(reply, "cursor"), 0));
        send_wait(calls, call);
        return;
    }
    answer_result(calls, call, reply);
}

static void on_events_message(struct calls *calls, struct call *call,
                              const struct envelope *envelope)
{
    switch (envelope->kind) {
    case ENVELOPE_EVENT:
        progress_event(&call->progress, envelope->body, now_ms(calls));
        break;
    case ENVELOPE_ERROR: /* no progress then but the beat */
    case ENVELOPE_END:
        call->events_id = 0;
        break;
    case ENVELOPE_REPLY:
    case ENVELOPE_REQUEST:
    case ENVELOPE_CANCEL:
        break;
    }
}

static void on_call_message(struct calls *calls, struct call *call, const struct envelope *envelope)
{
    if (envelope->id == call->events_id) {
        on_events_message(calls, call, envelope);
    } else if (envelope->kind == ENVELOPE_REPLY) {
        on_reply(calls, call, envelope->body);
    } else if (envelope->kind == ENVELOPE_ERROR) {
        call->request_id = 0;
        answer_failure(calls, call, &envelope->error, FATE_REFUSED);
    }
}

/* Ids that nobody knows were cancelled. */
static void on_message(void *data, const struct envelope *envelope)
{
    struct calls *calls = data;

    LIST_EACH(&calls->all, link) {
        struct call *call = call_of(link);

        if (call->request_id == envelope->id || call->events_id == envelope->id) {
            on_call_message(calls, call, envelope);
            return;
        }
    }
}

static void on_lost(void *data, const struct error *err)
{
    struct calls *calls = data;

    LIST_EACH(&calls->all, link) {
        struct call *call = call_of(link);

        call->request_id = call->events_id = 0;
        if (call->step != CALL_OPEN)
            answer_failure(calls, call, err,
                           call->step == CALL_QUEUED ? FATE_NOT_SENT : FATE_UNKNOWN);
    }
}

struct calls *calls_new(struct server *server, const struct clock *clock,
                        const struct backend_options *options)
{
    struct calls *calls = NEW(struct calls);
    struct backend_events events = { on_connected, on_message, on_lost, calls };

    calls->server = server;
    calls->clock = clock;
    list_init(&calls->all);
    if (options)
        calls->backend = backend_new(clock, options, &events);
    return calls;
}

void calls_free(struct calls *calls)
{
    LIST_EACH(&calls->all, link)
        call_free(calls, call_of(link));
    backend_free(calls->backend);
    free(calls);
}

/* The owner's side ----------------------------------------------------------------------------- */

bool calls_busy(const struct calls *calls)
{
    return calls->count > 0;
}

bool calls_poll(const struct calls *calls, struct pollfd *entry)
{
    return calls->backend && backend_poll(calls->backend, entry);
}

void calls_supervisor_ready(struct calls *calls)
{
    if (calls->backend)
        backend_ready(calls->backend);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t calls_deadline_ms(const struct calls *calls)
{
    uint64_t deadline_ms = calls->backend ? backend_deadline_ms(calls->backend) : UINT64_MAX;

    for (struct list *link = calls->all.next; link != &calls->all; link = link->next) {
        deadline_ms = earlier(deadline_ms, call_of(link)->deadline_ms);
        deadline_ms = earlier(deadline_ms, call_of(link)->progress.due_ms);
    }
    return deadline_ms;
}

static void send_progress(struct calls *calls, struct call *call)
{
    struct json_writer writer;

    server_notify_begin(calls->server, &writer, "notifications/progress");
    progress_write(&call->progress, &writer, now_ms(calls));
    server_notify_end(calls->server, &writer);
}

/* A supervisor that said nothing at all since the request is hung, and its connection of no use any
 * more. */
static void on_deadline(struct calls *calls, struct call *call)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TIMEOUT, 0, "the supervisor did not answer within %llu s",
              (unsigned long long)((now_ms(calls) - call->sent_ms) / 1000));
    if (backend_heard_ms(calls->backend) <= call->sent_ms)
        backend_abandon(calls->backend, &err);
    answer_failure(calls, call, &err, FATE_UNKNOWN);
}

void calls_tick(struct calls *calls)
{
    uint64_t now = now_ms(calls);

    if (!calls->backend)
        return;
    LIST_EACH(&calls->all, link) {
        struct call *call = call_of(link);

        if (call->deadline_ms <= now)
            on_deadline(calls, call);
        else if (call->progress.due_ms <= now)
            send_progress(calls, call);
    }
    backend_tick(calls->backend);
    backend_flush(calls->backend);
}
