#include "mcp-stdio/call.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

/* The supervisor takes 128 requests of a connection at a time, and a call has up to two. */
#define BEGUN_MAX 50
#define BACKGROUND_MAX 24
#define CALLS_MAX 4096
#define ANSWER_MS 10000
#define LONG_ANSWER_MS 40000
#define QUESTION_PREFIX "\"question-"

struct calls {
    struct server *server;
    const struct clock *clock;
    struct backend *backend; /* NULL: none */
    struct list all;         /* call::link of those that somebody waits for, oldest first */
    struct list background;  /* call::link */
    size_t count;            /* in all */
    size_t begun;            /* of those */
    size_t background_count;
    uint64_t questions; /* so far */
};

static struct call *call_of(struct list *link)
{
    return LIST_ENTRY(link, struct call, link);
}

static uint64_t now_ms(const struct calls *calls)
{
    return clock_mono_ms(calls->clock);
}

static bool is_background(const struct call *call)
{
    return !call->target.id.data;
}

struct server *call_server(const struct call *call)
{
    return call->calls->server;
}

uint64_t call_now_ms(const struct call *call)
{
    return now_ms(call->calls);
}

/* Life ----------------------------------------------------------------------------------------- */

static struct call *call_new(struct calls *calls, const struct server_target *target,
                             const struct call_form *form, void *state)
{
    struct call *call = NEW(struct call);

    call->calls = calls;
    call->form = form;
    call->state = state;
    call->deadline_ms = call->due_ms = UINT64_MAX;
    if (target) {
        call->target = *target;
        call->target.id.data = mem_strndup(target->id.data, target->id.len);
        server_batch_hold(call->target.batch);
        list_append(&calls->all, &call->link);
        calls->count++;
    } else {
        list_append(&calls->background, &call->link);
        calls->background_count++;
    }
    return call;
}

static void set_begun(struct call *call, bool begun)
{
    if (!is_background(call) && begun != call->begun)
        call->calls->begun = begun ? call->calls->begun + 1 : call->calls->begun - 1;
    call->begun = begun;
}

static void give_back(struct call *call)
{
    struct backend *backend = call->calls->backend;

    if (backend) {
        backend_cancel(backend, call->request_id);
        backend_cancel(backend, call->events_id);
    }
    call->request_id = call->events_id = 0;
    call->deadline_ms = UINT64_MAX;
}

void call_end(struct call *call)
{
    struct calls *calls = call->calls;
    struct batch *batch = call->target.batch;

    give_back(call);
    call_question_drop(call, "the call that asked is over");
    set_begun(call, false);
    if (is_background(call))
        calls->background_count--;
    else
        calls->count--;
    list_remove(&call->link);
    free((char *)(uintptr_t)call->target.id.data);
    call->form->free_state(call->state);
    free(call);
    server_batch_release(calls->server, batch);
}

/* To the supervisor ---------------------------------------------------------------------------- */

static uint64_t answer_ms(enum method method)
{
    return method == METHOD_RUN_CANCEL || method == METHOD_RUN_DIFF ? LONG_ANSWER_MS : ANSWER_MS;
}

void call_ask(struct call *call, enum method method, const char *body, uint64_t wait_ms)
{
    call->request_id = backend_send(call->calls->backend, method, body);
    call->sent_ms = call_now_ms(call);
    call->deadline_ms = call->sent_ms + wait_ms + answer_ms(method);
}

static void write_about(struct buf *body, const char *name, const char *id)
{
    struct json_writer writer;

    json_write_init(&writer, body);
    json_write_object(&writer);
    json_member_string(&writer, name, id);
    json_write_object_end(&writer);
}

void call_ask_run(struct call *call, enum method method, const char *run_id)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);

    write_about(&body, "runId", run_id);
    call_ask(call, method, buf_text(&body), 0);
}

void call_follow_session(struct call *call, const char *session_id)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);

    write_about(&body, "sessionId", session_id);
    call->events_id = backend_send(call->calls->backend, METHOD_SESSION_WATCH, buf_text(&body));
}

void call_follow(struct call *call, const char *run_id, uint64_t cursor)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", run_id);
    json_member_u64(&writer, "after", cursor);
    json_member_bool(&writer, "follow", true);
    json_write_object_end(&writer);
    call->events_id = backend_send(call->calls->backend, METHOD_RUN_EVENTS, buf_text(&body));
}

static void begin(struct call *call)
{
    set_begun(call, true);
    call->form->begin(call);
}

/* Calls that waited for a connection, or for others to end. */
static void begin_waiting(struct calls *calls)
{
    if (!calls->backend || !backend_is_connected(calls->backend))
        return;
    LIST_EACH(&calls->background, link)
        if (!call_of(link)->begun && call_of(link)->due_ms == UINT64_MAX)
            begin(call_of(link));
    if (calls->begun == calls->count)
        return;
    LIST_EACH(&calls->all, link)
        if (!call_of(link)->begun && calls->begun < BEGUN_MAX)
            begin(call_of(link));
}

static enum backend_need need_of(const struct call *call)
{
    return call->form->starts_supervisor ? BACKEND_START : BACKEND_IF_THERE;
}

void call_again(struct call *call)
{
    give_back(call);
    set_begun(call, false);
    if (backend_is_connected(call->calls->backend))
        begin(call);
    else
        backend_connect(call->calls->backend, need_of(call));
}

static bool is_full(const struct calls *calls, const struct call *call)
{
    return is_background(call) ? calls->background_count > BACKGROUND_MAX
                               : calls->count > CALLS_MAX;
}

struct call *calls_start(struct calls *calls, const struct server_target *target,
                         const struct call_form *form, void *state)
{
    struct call *call = call_new(calls, target, form, state);
    struct error err = ERROR_INIT;

    if (!calls->backend)
        error_set(&err, ERR_UNAVAILABLE, 0, "no supervisor can be reached");
    else if (is_full(calls, call))
        error_set(&err, ERR_LIMIT, 0, "too many calls are in flight");
    if (err.code != ERR_NONE) {
        form->fail(call, &err, CALL_IMPOSSIBLE);
        return NULL;
    }
    if (!backend_is_connected(calls->backend))
        backend_connect(calls->backend, need_of(call));
    else if (is_background(call) || calls->begun < BEGUN_MAX)
        begin(call);
    return call;
}

void calls_cancel(struct calls *calls, struct jsonrpc_slice id)
{
    LIST_EACH(&calls->all, link)
        if (jsonrpc_slice_equal(call_of(link)->target.id, id))
            call_end(call_of(link));
}

/* Questions to the client ---------------------------------------------------------------------- */

static void append_question_id(struct buf *out, uint64_t number)
{
    buf_printf(out, QUESTION_PREFIX "%llu\"", (unsigned long long)number);
}

void call_question_begin(struct call *call, struct json_writer *writer, const char *method)
{
    AUTO_BUF struct buf id = BUF_INIT(64);

    call->question = ++call->calls->questions;
    append_question_id(&id, call->question);
    server_ask_begin(call_server(call), writer, (struct jsonrpc_slice){ buf_text(&id), id.len },
                     method);
}

void call_question_end(struct call *call, struct json_writer *writer)
{
    server_notify_end(call_server(call), writer);
}

void call_question_drop(struct call *call, const char *reason)
{
    AUTO_BUF struct buf id = BUF_INIT(64);
    struct json_writer writer;

    if (!call->question)
        return;
    append_question_id(&id, call->question);
    call->question = 0;
    server_notify_begin(call_server(call), &writer, "notifications/cancelled");
    json_write_name(&writer, "requestId");
    json_write_raw(&writer, buf_text(&id), id.len);
    json_member_string(&writer, "reason", reason);
    server_notify_end(call_server(call), &writer);
}

void calls_response(struct calls *calls, struct jsonrpc_slice id, const struct json_value *result)
{
    LIST_EACH(&calls->all, link) {
        struct call *call = call_of(link);
        AUTO_BUF struct buf own = BUF_INIT(64);

        if (!call->question)
            continue;
        append_question_id(&own, call->question);
        if (!jsonrpc_slice_equal(id, (struct jsonrpc_slice){ buf_text(&own), own.len }))
            continue;
        call->question = 0;
        call->form->client_answer(call, result);
        return;
    }
}

/* From the supervisor -------------------------------------------------------------------------- */

static void on_connected(void *data)
{
    begin_waiting(data);
}

static void on_stream(struct call *call, const struct envelope *envelope)
{
    switch (envelope->kind) {
    case ENVELOPE_EVENT:
        if (call->form->event)
            call->form->event(call, envelope->body);
        break;
    case ENVELOPE_ERROR:
    case ENVELOPE_END:
        call->events_id = 0;
        if (call->form->event)
            call->form->event(call, NULL);
        break;
    case ENVELOPE_REPLY:
    case ENVELOPE_REQUEST:
    case ENVELOPE_CANCEL:
        break;
    }
}

/* It is one line only as the supervisor writes it, and nothing else can be passed on. */
static struct jsonrpc_slice text_of_result(const struct client_message *message)
{
    if (!message->body || memchr(message->body, '\n', message->body_len) ||
        memchr(message->body, '\r', message->body_len))
        return (struct jsonrpc_slice){ NULL, 0 };
    return (struct jsonrpc_slice){ message->body, message->body_len };
}

static void on_reply(struct call *call, struct client_message *message)
{
    struct error err = ERROR_INIT;

    call->reply_text = text_of_result(message);
    if (call->reply_text.data && call->form->reply_text && call->form->reply_text(call))
        return;
    if (client_message_read(message, &err) == 0)
        call->form->reply(call, message->envelope.body);
    else
        backend_abandon(call->calls->backend, &err);
}

static void on_call_message(struct call *call, struct client_message *message)
{
    const struct envelope *envelope = &message->envelope;

    if (envelope->id == call->events_id) {
        on_stream(call, envelope);
        return;
    }
    call->request_id = 0;
    call->deadline_ms = UINT64_MAX;
    if (envelope->kind == ENVELOPE_REPLY)
        on_reply(call, message);
    else if (envelope->kind == ENVELOPE_ERROR)
        call->form->fail(call, &envelope->error, CALL_REFUSED);
}

static bool pass_on(struct list *list, struct client_message *message)
{
    LIST_EACH(list, link) {
        struct call *call = call_of(link);

        if (call->request_id == message->envelope.id || call->events_id == message->envelope.id) {
            on_call_message(call, message);
            return true;
        }
    }
    return false;
}

/* Ids that nobody knows were cancelled. */
static void on_message(void *data, struct client_message *message)
{
    struct calls *calls = data;

    if (!pass_on(&calls->all, message))
        pass_on(&calls->background, message);
}

static void lose(struct call *call, const struct error *err)
{
    bool begun = call->begun;

    call->request_id = call->events_id = 0;
    call->deadline_ms = UINT64_MAX;
    set_begun(call, false);
    call->form->fail(call, err, begun ? CALL_UNKNOWN : CALL_NOT_SENT);
}

static void on_lost(void *data, const struct error *err)
{
    struct calls *calls = data;

    LIST_EACH(&calls->all, link)
        lose(call_of(link), err);
    LIST_EACH(&calls->background, link)
        lose(call_of(link), err);
}

struct calls *calls_new(struct server *server, const struct clock *clock,
                        const struct backend_options *options)
{
    struct calls *calls = NEW(struct calls);
    struct backend_events events = { on_connected, on_message, on_lost, calls };

    calls->server = server;
    calls->clock = clock;
    list_init(&calls->all);
    list_init(&calls->background);
    if (options)
        calls->backend = backend_new(clock, options, &events);
    return calls;
}

void calls_free(struct calls *calls)
{
    LIST_EACH(&calls->all, link)
        call_end(call_of(link));
    LIST_EACH(&calls->background, link)
        call_end(call_of(link));
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

static uint64_t earliest(const struct list *list, uint64_t deadline_ms)
{
    for (struct list *link = list->next; link != list; link = link->next) {
        if (call_of(link)->deadline_ms < deadline_ms)
            deadline_ms = call_of(link)->deadline_ms;
        if (call_of(link)->due_ms < deadline_ms)
            deadline_ms = call_of(link)->due_ms;
    }
    return deadline_ms;
}

uint64_t calls_deadline_ms(const struct calls *calls)
{
    uint64_t deadline_ms = calls->backend ? backend_deadline_ms(calls->backend) : UINT64_MAX;

    return earliest(&calls->background, earliest(&calls->all, deadline_ms));
}

/* A supervisor that said nothing at all since the request is hung, and its connection of no use any
 * more. */
static void on_deadline(struct call *call)
{
    struct backend *backend = call->calls->backend;
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TIMEOUT, 0, "the supervisor did not answer within %llu s",
              (unsigned long long)((call_now_ms(call) - call->sent_ms) / 1000));
    if (backend_heard_ms(backend) <= call->sent_ms)
        backend_abandon(backend, &err);
    give_back(call);
    call->form->fail(call, &err, CALL_UNKNOWN);
}

static void tick(struct list *list, uint64_t now)
{
    LIST_EACH(list, link) {
        struct call *call = call_of(link);

        if (call->deadline_ms <= now) {
            on_deadline(call);
        } else if (call->due_ms <= now) {
            call->due_ms = UINT64_MAX;
            call->form->due(call);
        }
    }
}

void calls_tick(struct calls *calls)
{
    if (!calls->backend)
        return;
    tick(&calls->all, now_ms(calls));
    tick(&calls->background, now_ms(calls));
    begin_waiting(calls);
    backend_tick(calls->backend);
    backend_flush(calls->backend);
}
