#include "mcp-stdio/server.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/call.h"
#include "mcp-stdio/memo.h"
#include "mcp-stdio/subscriptions.h"

#define LOG "mcp"
#define LINE_MAX (10u << 20) /* bytes: clients close the connection on longer ones */
#define OUT_MAX (64u << 20)
#define OUT_HIGH (1u << 20)
#define BATCH_MAX 1000 /* messages */

struct server {
    const struct clock *clock;
    struct calls *calls;
    struct memo *memo;
    struct subscriptions *subscriptions;
    struct jsonrpc_lines lines;
    struct buf out;
    const char *revision;  /* legacy, negotiated by initialize; NULL before */
    unsigned capabilities; /* the client's, by initialize */
    bool modern_seen;
};

struct batch {
    struct buf out; /* "[" and the answers so far */
    size_t holders;
};

/* Life ----------------------------------------------------------------------------------------- */

struct server *server_new(const struct server_options *options)
{
    struct server *server = NEW(struct server);

    server->clock = options->clock;
    jsonrpc_lines_init(&server->lines);
    buf_init(&server->out, OUT_MAX);
    server->memo = memo_new();
    server->calls = calls_new(server, options->clock, options->backend);
    server->subscriptions = subscriptions_new(server);
    return server;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    subscriptions_free(server->subscriptions);
    calls_free(server->calls);
    memo_free(server->memo);
    jsonrpc_lines_finish(&server->lines);
    buf_finish(&server->out);
    free(server);
}

struct calls *server_calls(struct server *server)
{
    return server->calls;
}

struct memo *server_memo(struct server *server)
{
    return server->memo;
}

struct subscriptions *server_subscriptions(struct server *server)
{
    return server->subscriptions;
}

void server_set_client(struct server *server, const char *revision, unsigned capabilities)
{
    server->revision = revision;
    server->capabilities = capabilities;
}

const struct json_value *request_param(const struct request *request, const char *name)
{
    return json_get(request->message->params, name);
}

/* Answers -------------------------------------------------------------------------------------- */

void server_batch_hold(struct batch *batch)
{
    if (batch)
        batch->holders++;
}

void server_batch_release(struct server *server, struct batch *batch)
{
    if (!batch || --batch->holders)
        return;
    if (batch->out.len > 1 && !batch->out.failed) {
        buf_append(&server->out, batch->out.data, batch->out.len);
        buf_append_str(&server->out, "]\n");
    }
    buf_finish(&batch->out);
    free(batch);
}

static void open_answer(struct server_answer *answer, struct server *server,
                        const struct server_target *target)
{
    answer->server = server;
    answer->target = target;
    answer->out = target->batch ? &target->batch->out : &server->out;
    answer->start = answer->out->len;
    if (target->batch && answer->out->len > 1)
        buf_append_char(answer->out, ',');
    json_write_init(&answer->writer, answer->out);
}

/* False when it was too large, and taken back. */
static bool close_answer(struct server_answer *answer)
{
    struct buf *out = answer->out;
    bool line = !answer->target->batch;

    if (line)
        buf_append_char(out, '\n');
    if (!out->failed && out->len - answer->start <= LINE_MAX)
        return true;
    out->len = answer->start;
    out->failed = false;
    if (out->data)
        out->data[out->len] = '\0';
    return false;
}

void server_answer_begin_as(struct server_answer *answer, struct server *server,
                            const struct server_target *target, const char *type)
{
    open_answer(answer, server, target);
    jsonrpc_write_head(&answer->writer, target->id);
    json_write_name(&answer->writer, "result");
    json_write_object(&answer->writer);
    target->era->write_first(&answer->writer, type);
}

void server_answer_begin(struct server_answer *answer, struct server *server,
                         const struct server_target *target)
{
    server_answer_begin_as(answer, server, target, "complete");
}

void server_answer_end(struct server_answer *answer)
{
    answer->target->era->write_last(&answer->writer);
    json_write_object_end(&answer->writer);
    json_write_object_end(&answer->writer);
    if (!close_answer(answer))
        server_refuse(answer->server, answer->target, JSONRPC_INTERNAL_ERROR,
                      "the answer is too large for one message; ask for less", NULL);
}

void server_acknowledge(struct server *server, const struct server_target *target)
{
    struct server_answer answer;

    server_answer_begin(&answer, server, target);
    server_answer_end(&answer);
}

void server_refuse(struct server *server, const struct server_target *target, int code,
                   const char *message, const char *data)
{
    struct server_answer answer;

    open_answer(&answer, server, target);
    jsonrpc_write_error(&answer.writer, target->id, code, message, data);
    if (!close_answer(&answer))
        log_error(LOG, "an answer was lost: too much output waits");
}

void server_refuse_params(struct server *server, const struct request *request, const char *message)
{
    server_refuse(server, &request->target, JSONRPC_INVALID_PARAMS, message, NULL);
}

int server_refuse_cursor(struct server *server, const struct request *request)
{
    if (json_kind(request_param(request, "cursor")) == JSON_KIND_NULL)
        return 0;
    server_refuse_params(server, request, "unknown cursor: everything is on one page");
    return -1;
}

void server_notify_begin(struct server *server, struct json_writer *writer, const char *method)
{
    json_write_init(writer, &server->out);
    jsonrpc_write_notification(writer, method);
}

void server_ask_begin(struct server *server, struct json_writer *writer, struct jsonrpc_slice id,
                      const char *method)
{
    json_write_init(writer, &server->out);
    jsonrpc_write_request(writer, id, method);
}

void server_notify_end(struct server *server, struct json_writer *writer)
{
    json_write_object_end(writer);
    json_write_object_end(writer);
    buf_append_char(&server->out, '\n');
}

/* Messages ------------------------------------------------------------------------------------- */

static void dispatch(struct server *server, const struct request *request)
{
    const struct json_value *params = request->message->params;
    const struct era_method *method = request->target.era->methods;

    while (method->name && strcmp(method->name, request->message->method) != 0)
        method++;
    if (!method->name) {
        AUTO_BUF struct buf text = BUF_INIT(256);

        buf_append_str(&text, "Method not found: ");
        str_append_escaped(&text, request->message->method, strlen(request->message->method), 100);
        server_refuse(server, &request->target, JSONRPC_METHOD_NOT_FOUND, buf_text(&text), NULL);
    } else if (params && json_kind(params) != JSON_KIND_OBJECT) {
        server_refuse_params(server, request, "params must be an object");
    } else {
        method->handle(server, request);
    }
}

static void on_request(struct server *server, const struct jsonrpc_message *message,
                       struct batch *batch)
{
    struct request request = {
        .message = message,
        .target = { .id = message->id,
                    .era = &era_legacy,
                    .revision = server->revision ? server->revision : ERA_NEWEST_LEGACY,
                    .capabilities = server->capabilities,
                    .batch = batch },
    };

    if (era_modern_claims(message)) {
        server->modern_seen = true;
        request.target.era = &era_modern;
        request.target.revision = ERA_MODERN_REVISION;
        if (era_modern_check(server, &request) == 0)
            dispatch(server, &request);
    } else if (!server->revision && server->modern_seen &&
               strcmp(message->method, "initialize") != 0) {
        server_refuse_params(server, &request,
                             "missing _meta[\"" ERA_META "protocolVersion\"], and there was no "
                             "initialize");
    } else {
        dispatch(server, &request);
    }
}

static void on_notification(struct server *server, const struct jsonrpc_message *message)
{
    const struct json_value *id = json_get(message->params, "requestId");
    struct jsonrpc_slice params;
    struct jsonrpc_slice id_text;

    if (strcmp(message->method, "notifications/cancelled") != 0 || !jsonrpc_is_id(id))
        return;
    params = jsonrpc_member_text(message->text, json_root(message->doc), "params");
    id_text = jsonrpc_member_text(params, message->params, "requestId");
    calls_cancel(server->calls, id_text);
    subscriptions_close(server->subscriptions, id_text);
}

static void on_message(struct server *server, struct jsonrpc_slice text, struct batch *batch);

/* Batches existed in one revision only. */
static void on_batch(struct server *server, const struct jsonrpc_message *message)
{
    struct jsonrpc_slice element;
    struct batch *batch;
    size_t at = 0;

    if (!str_equal(server->revision, "2025-03-26") ||
        json_count(json_root(message->doc)) > BATCH_MAX) {
        log_warn(LOG, "an array of messages is passed over");
        return;
    }
    batch = NEW(struct batch);
    buf_init(&batch->out, LINE_MAX);
    buf_append_char(&batch->out, '[');
    batch->holders = 1;
    while (jsonrpc_next_element(message->text, &at, &element))
        on_message(server, element, batch);
    server_batch_release(server, batch);
}

/* TEXT is a line, or an element of BATCH. */
static void on_message(struct server *server, struct jsonrpc_slice text, struct batch *batch)
{
    struct jsonrpc_message message;
    struct error why = ERROR_INIT;
    enum jsonrpc_verdict verdict = jsonrpc_read(&message, text, &why);

    switch (verdict) {
    case JSONRPC_REQUEST:
        on_request(server, &message, batch);
        break;
    case JSONRPC_NOTIFICATION:
        on_notification(server, &message);
        break;
    case JSONRPC_RESPONSE:
        calls_response(server->calls, message.id, json_get(json_root(message.doc), "result"));
        break;
    case JSONRPC_BATCH:
        if (!batch)
            on_batch(server, &message);
        break;
    case JSONRPC_REFUSED:
    case JSONRPC_SILENT:
        log_warn(LOG, "a message is refused: %s", why.text);
        if (verdict == JSONRPC_REFUSED) {
            struct server_target target = { .id = message.id, .era = &era_legacy, .batch = batch };

            server_refuse(server, &target, JSONRPC_INVALID_REQUEST, "Invalid request", NULL);
        }
        break;
    }
    jsonrpc_finish(&message);
}

char *server_input_reserve(struct server *server, size_t len)
{
    return jsonrpc_lines_reserve(&server->lines, len);
}

void server_input_commit(struct server *server, size_t len)
{
    struct jsonrpc_slice line;

    jsonrpc_lines_commit(&server->lines, len);
    while (jsonrpc_lines_next(&server->lines, &line))
        on_message(server, line, NULL);
}

/* The owner's side ----------------------------------------------------------------------------- */

struct buf *server_output(struct server *server)
{
    return &server->out;
}

bool server_is_full(const struct server *server)
{
    return server->out.len >= OUT_HIGH;
}

bool server_is_busy(const struct server *server)
{
    return calls_busy(server->calls);
}

bool server_poll(const struct server *server, struct pollfd *entry)
{
    return calls_poll(server->calls, entry);
}

void server_supervisor_ready(struct server *server)
{
    calls_supervisor_ready(server->calls);
}

uint64_t server_deadline_ms(const struct server *server)
{
    return calls_deadline_ms(server->calls);
}

void server_tick(struct server *server)
{
    calls_tick(server->calls);
}
