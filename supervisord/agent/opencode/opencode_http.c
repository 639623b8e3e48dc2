#include "agent/opencode/opencode_http.h"

#include <string.h>

#include "agent/agent_json.h"
#include "agent/opencode/opencode_reply.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/fd.h"
#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/io.h"

/* Not libcurl: it has to take a connected socket, and 7.88 (Debian 12) connects it again and fails.
 */

#define BODY_MAX (16u * 1024 * 1024)

struct opencode_http {
    uv_loop_t *loop;
    struct agent_host host;
    char *authorization; /* value of the header */
    uint16_t port;
    uv_timer_t deadline; /* fires at the earliest deadline of all exchanges */
    struct handles handles;
    struct list exchanges; /* opencode_exchange::link */
    void (*done)(void *data);
    void *done_data;
};

/* What the host's connect callback holds: it may come after the exchange is gone. */
struct connect_call {
    struct opencode_exchange
        *exchange; /* NULL once the exchange doesn't want the connection any more */
};

struct opencode_exchange {
    struct list link; /* opencode_http::exchanges */
    struct opencode_http *http;
    struct connect_call *call; /* while connecting */
    struct stream *stream;     /* once connected */
    char *path;
    struct buf request; /* the whole request, until it is sent */
    uint64_t timeout_ms;
    uint64_t deadline_ms; /* loop time */
    struct opencode_reply reply;
    struct buf body; /* so far; of an event stream what was not yet handed on */
    bool is_stream;
    opencode_response_cb on_response;
    struct opencode_stream_callbacks on_stream;
    void *data;
};

/* Ends ---------------------------------------------------------------------------------------- */

static void exchange_free(struct opencode_exchange *exchange)
{
    if (exchange->call != NULL)
        exchange->call->exchange = NULL;
    if (exchange->stream != NULL)
        stream_close(exchange->stream, NULL, NULL);
    list_remove(&exchange->link);
    opencode_reply_finish(&exchange->reply);
    buf_finish(&exchange->body);
    buf_finish(&exchange->request);
    free(exchange->path);
    free(exchange);
}

void opencode_exchange_cancel(struct opencode_exchange *exchange)
{
    exchange_free(exchange);
}

static void fail(struct opencode_exchange *exchange, const struct error *err)
{
    struct opencode_response response = { .err = err };
    struct opencode_stream_callbacks on_stream = exchange->on_stream;
    opencode_response_cb on_response = exchange->on_response;
    void *data = exchange->data;
    bool is_stream = exchange->is_stream;

    exchange_free(exchange);
    if (is_stream)
        on_stream.on_end(on_stream.data, err);
    else
        on_response(data, &response);
}

static void fail_with(struct opencode_exchange *exchange, struct error *err)
{
    error_wrap(err, "%s", exchange->path);
    fail(exchange, err);
}

static void respond(struct opencode_exchange *exchange)
{
    struct opencode_response response = { .status = exchange->reply.status };
    opencode_response_cb on_response = exchange->on_response;
    void *data = exchange->data;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    struct buf *body = &exchange->body;

    if (body->len > 0 && !exchange->reply.is_json)
        error_set(&err, ERR_UNAVAILABLE, 0, "%s answered status %d without JSON", exchange->path,
                  response.status);
    else if (body->len > 0 && agent_json_parse(&doc, body->data, body->len, BODY_MAX, &err) < 0)
        error_wrap(&err, "%s", exchange->path);
    if (err.code != ERR_NONE) {
        response.err = &err;
        response.status = 0;
    }
    response.json = doc != NULL ? json_root(doc) : NULL;
    exchange_free(exchange);
    on_response(data, &response);
}

/* Reading ------------------------------------------------------------------------------------- */

static bool still_there(const struct opencode_http *http, const struct opencode_exchange *wanted)
{
    LIST_EACH(&http->exchanges, link) {
        if (LIST_ENTRY(link, struct opencode_exchange, link) == wanted)
            return true;
    }
    return false;
}

/* Hands on what has come of an event stream. False when the exchange is gone afterwards. */
static bool deliver(struct opencode_exchange *exchange, struct error *err)
{
    struct opencode_http *http = exchange->http;
    struct opencode_stream_callbacks on_stream = exchange->on_stream;
    AUTO_BUF struct buf bytes = exchange->body;

    buf_init(&exchange->body, BODY_MAX);
    if (opencode_reply_has_head(&exchange->reply) &&
        (exchange->reply.status != 200 || !exchange->reply.is_event_stream)) {
        error_set(err, ERR_UNAVAILABLE, 0, "status %d and no event stream", exchange->reply.status);
        fail_with(exchange, err);
        return false;
    }
    if (bytes.len > 0)
        on_stream.on_data(on_stream.data, bytes.data, bytes.len);
    return still_there(http, exchange);
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct opencode_exchange *exchange = data;
    struct error err = ERROR_INIT;

    if (opencode_reply_feed(&exchange->reply, bytes, len, &exchange->body, &err) < 0) {
        fail_with(exchange, &err);
        return;
    }
    if (exchange->body.failed) {
        error_set(&err, ERR_LIMIT, 0, "the answer has more than %u bytes", BODY_MAX);
        fail_with(exchange, &err);
        return;
    }
    if (exchange->is_stream) {
        exchange->deadline_ms = uv_now(exchange->http->loop) + exchange->timeout_ms;
        if (!deliver(exchange, &err))
            return;
    }
    if (exchange->reply.state != OPENCODE_REPLY_DONE)
        return;
    if (exchange->is_stream) {
        error_set(&err, ERR_UNAVAILABLE, 0, "the stream ended");
        fail_with(exchange, &err);
    } else {
        respond(exchange);
    }
}

static void on_end(void *data, const struct error *end)
{
    struct opencode_exchange *exchange = data;
    struct error err = ERROR_INIT;

    if (end != NULL)
        err = *end;
    else if (opencode_reply_end(&exchange->reply, &err) == 0 && exchange->is_stream)
        error_set(&err, ERR_UNAVAILABLE, 0, "the stream ended");
    if (err.code != ERR_NONE)
        fail_with(exchange, &err);
    else
        respond(exchange);
}

/* Deadlines ----------------------------------------------------------------------------------- */

static void on_deadline(uv_timer_t *timer);

static void arm_deadline(struct opencode_http *http)
{
    uint64_t earliest = UINT64_MAX;
    uint64_t now = uv_now(http->loop);

    LIST_EACH(&http->exchanges, link) {
        const struct opencode_exchange *exchange = LIST_ENTRY(link, struct opencode_exchange, link);

        if (exchange->deadline_ms < earliest)
            earliest = exchange->deadline_ms;
    }
    if (earliest == UINT64_MAX)
        uv_timer_stop(&http->deadline);
    else
        uv_timer_start(&http->deadline, on_deadline, earliest > now ? earliest - now : 0, 0);
}

static struct opencode_exchange *next_late(const struct opencode_http *http)
{
    LIST_EACH(&http->exchanges, link) {
        struct opencode_exchange *exchange = LIST_ENTRY(link, struct opencode_exchange, link);

        if (exchange->deadline_ms <= uv_now(http->loop))
            return exchange;
    }
    return NULL;
}

static void on_deadline(uv_timer_t *timer)
{
    struct opencode_http *http = timer->data;
    struct opencode_exchange *exchange;

    while (!http->handles.closing && (exchange = next_late(http)) != NULL) {
        struct error err = ERROR_INIT;

        error_set(&err, ERR_TIMEOUT, 0, "no answer within %llu ms",
                  (unsigned long long)exchange->timeout_ms);
        fail_with(exchange, &err);
    }
    if (!http->handles.closing)
        arm_deadline(http);
}

/* Beginnings ---------------------------------------------------------------------------------- */

static void on_connected(void *context, int fd, const struct error *err)
{
    struct connect_call *call = context;
    struct opencode_exchange *exchange = call->exchange;
    struct stream_callbacks callbacks = { .on_data = on_data, .on_end = on_end, .data = exchange };
    struct error failed = ERROR_INIT;

    free(call);
    if (exchange == NULL) {
        fd_close(&fd);
        return;
    }
    exchange->call = NULL;
    if (err != NULL)
        failed = *err;
    else
        (void)stream_start(&exchange->stream, exchange->http->loop, fd, &callbacks, &failed);
    if (failed.code != ERR_NONE) {
        fail_with(exchange, &failed);
        return;
    }
    /* A connection that broke meanwhile tells by on_end. */
    (void)stream_write(exchange->stream, exchange->request.data, exchange->request.len);
    buf_finish(&exchange->request);
}

static void write_request(const struct opencode_http *http, const struct opencode_request *request,
                          const char *accept, struct buf *out)
{
    size_t len = request->body != NULL ? strlen(request->body) : 0;

    buf_printf(out,
               "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\nAuthorization: "
               "%s\r\nAccept: %s\r\n",
               request->method, request->path, http->port, http->authorization, accept);
    if (request->body != NULL)
        buf_append_str(out, "Content-Type: application/json\r\n");
    if (!str_equal(request->method, "GET"))
        buf_printf(out, "Content-Length: %zu\r\n", len);
    buf_append_str(out, "\r\n");
    buf_append(out, request->body, len);
}

static struct opencode_exchange *exchange_new(struct opencode_http *http,
                                              const struct opencode_request *request)
{
    struct opencode_exchange *exchange = NEW(struct opencode_exchange);

    exchange->http = http;
    exchange->path = mem_strdup(request->path);
    exchange->timeout_ms = request->timeout_ms;
    exchange->deadline_ms = uv_now(http->loop) + request->timeout_ms;
    opencode_reply_init(&exchange->reply);
    buf_init(&exchange->body, BODY_MAX);
    buf_init(&exchange->request, BODY_MAX);
    list_append(&http->exchanges, &exchange->link);
    return exchange;
}

static int start_exchange(struct opencode_exchange **out, struct opencode_exchange *exchange,
                          struct error *err)
{
    struct opencode_http *http = exchange->http;
    struct connect_call *call;

    if (exchange->request.failed) {
        exchange_free(exchange);
        return error_set(err, ERR_LIMIT, 0, "the request is too long");
    }
    exchange->call = call = NEW(struct connect_call);
    call->exchange = exchange;
    if (http->host.connect(http->host.data, http->port, on_connected, call, err) < 0) {
        exchange_free(exchange);
        free(call);
        return -1;
    }
    arm_deadline(http);
    *out = exchange;
    return 0;
}

int opencode_http_send(struct opencode_exchange **out, struct opencode_http *http,
                       const struct opencode_request *request, opencode_response_cb done,
                       void *data, struct error *err)
{
    struct opencode_exchange *exchange;

    if (http->handles.closing)
        return error_set(err, ERR_CANCELLED, 0, "closing");
    exchange = exchange_new(http, request);
    exchange->on_response = done;
    exchange->data = data;
    write_request(http, request, "application/json", &exchange->request);
    return start_exchange(out, exchange, err);
}

int opencode_http_listen(struct opencode_exchange **out, struct opencode_http *http,
                         const char *path, uint64_t silence_ms,
                         const struct opencode_stream_callbacks *callbacks, struct error *err)
{
    struct opencode_request request = { .method = "GET", .path = path, .timeout_ms = silence_ms };
    struct opencode_exchange *exchange;

    if (http->handles.closing)
        return error_set(err, ERR_CANCELLED, 0, "closing");
    exchange = exchange_new(http, &request);
    exchange->is_stream = true;
    exchange->on_stream = *callbacks;
    write_request(http, &request, "text/event-stream", &exchange->request);
    return start_exchange(out, exchange, err);
}

/* Life ---------------------------------------------------------------------------------------- */

/* "Basic " and the base64 of USER:PASSWORD (RFC 7617). */
static char *basic_authorization(const char *user, const char *password)
{
    AUTO_FREE
    char *plain = mem_printf("%s:%s", user, password);
    AUTO_FREE
    char *coded = base64_encode(plain, strlen(plain));

    return mem_printf("Basic %s", coded);
}

const char *opencode_http_authorization(const struct opencode_http *http)
{
    return http->authorization;
}

static void on_handles_closed(void *data)
{
    struct opencode_http *http = data;
    void (*done)(void *data) = http->done;
    void *done_data = http->done_data;

    free(http->authorization);
    free(http);
    if (done != NULL)
        done(done_data);
}

int opencode_http_start(struct opencode_http **out, uv_loop_t *loop, const struct agent_host *host,
                        uint16_t port, const char *password, struct error *err)
{
    struct opencode_http *http = NEW(struct opencode_http);

    (void)err;
    http->loop = loop;
    http->host = *host;
    http->port = port;
    http->authorization = basic_authorization("opencode", password);
    list_init(&http->exchanges);
    handles_init(&http->handles, on_handles_closed, http);
    uv_timer_init(loop, &http->deadline);
    handles_add(&http->handles, (uv_handle_t *)&http->deadline, http);
    *out = http;
    return 0;
}

void opencode_http_close(struct opencode_http *http, void (*done)(void *data), void *data)
{
    uv_handle_t *all[] = { (uv_handle_t *)&http->deadline };

    if (http->handles.closing)
        return;
    http->done = done;
    http->done_data = data;
    while (!list_empty(&http->exchanges))
        exchange_free(LIST_ENTRY(http->exchanges.next, struct opencode_exchange, link));
    handles_close_all(&http->handles, http->loop, all, ARRAY_LEN(all));
}
