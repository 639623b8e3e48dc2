/* server_conn.c: one server-side connection: bytes to requests, responses to bytes, one request at
 * a time. */
#include "http/http_internal.h"

#include <time.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/stream.h"

#define DEFAULT_HEAD_TIMEOUT_MS 30000
#define DEFAULT_IDLE_TIMEOUT_MS 120000
#define FINISH_TIMEOUT_MS 10000 /* for the peer to take the last response */
#define BACKLOG_MAX (64u << 10) /* pipelined bytes after which reading stops */
#define INPUT_MAX (HTTP_HEAD_MAX + (192u << 10))
#define RESPONSE_HEAD_MAX (256u << 10)

enum conn_state {
    CONN_HEAD,   /* between requests or inside a head */
    CONN_BODY,   /* a request is under way, its body isn't all there */
    CONN_ANSWER, /* the request is all there, its response isn't finished */
    CONN_TUNNEL, /* bytes both ways until both have ended */
};

struct http_conn {
    struct stream *stream;
    uv_timer_t timer; /* idle, head or body time, by state */
    uv_idle_t later;  /* what may not happen inside a caller's call */
    unsigned open;    /* handles and the stream */
    struct http_conn_options options;
    struct http_conn_callbacks callbacks;

    struct buf in; /* head being read, or bytes that wait */
    struct http_scan scan;
    struct http_parser *parser;
    struct http_request request;
    enum conn_state state;
    bool running;      /* inside run() */
    bool request_open; /* on_request was called, the response isn't finished */
    bool body_paused;
    bool closing;
    bool peer_ended; /* of a tunnel: there will be no more of its bytes */
    bool in_ended;   /* of a tunnel: the peer's end was told */
    bool out_ended;  /* of a tunnel: ours was sent */

    struct buf
        pending_head; /* of a streamed response; leaves with the first bytes or in the next turn */
    bool begun;
    bool continued;
    bool head_only; /* HEAD, 204, 304 */
    bool chunked;
    bool close_after;
    int64_t left; /* bytes of a body with a length still to come; -1: no length */
};

static void on_part_closed(struct http_conn *conn)
{
    if (--conn->open > 0)
        return;
    if (conn->callbacks.on_closed != NULL)
        conn->callbacks.on_closed(conn->callbacks.data, conn);
    http_request_finish(&conn->request);
    http_parser_free(conn->parser);
    buf_finish(&conn->in);
    buf_finish(&conn->pending_head);
    free(conn);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void on_stream_closed(void *data)
{
    on_part_closed(data);
}

enum close_way { CLOSE_NOW, CLOSE_WRITTEN, CLOSE_RESET };

static void close_conn(struct http_conn *conn, enum close_way way)
{
    if (conn->closing)
        return;
    conn->closing = true;
    conn->request_open = false;
    uv_close((uv_handle_t *)&conn->timer, on_handle_closed);
    uv_close((uv_handle_t *)&conn->later, on_handle_closed);
    switch (way) {
    case CLOSE_NOW:
        stream_close(conn->stream, on_stream_closed, conn);
        break;
    case CLOSE_WRITTEN:
        stream_finish(conn->stream, FINISH_TIMEOUT_MS, on_stream_closed, conn);
        break;
    case CLOSE_RESET:
        stream_reset(conn->stream, on_stream_closed, conn);
        break;
    }
}

void http_conn_close(struct http_conn *conn)
{
    close_conn(conn, CLOSE_NOW);
}

void http_conn_reset(struct http_conn *conn)
{
    close_conn(conn, CLOSE_RESET);
}

static void on_timeout(uv_timer_t *timer);

static void arm_timer(struct http_conn *conn, uint64_t timeout_ms)
{
    uv_timer_start(&conn->timer, on_timeout, timeout_ms, 0);
}

static void on_later(uv_idle_t *idle);

static void do_later(struct http_conn *conn)
{
    uv_idle_start(&conn->later, on_later);
}

/* Writing
 * ---------------------------------------------------------------------------------------------------------
 */

static int64_t unix_now(void)
{
    return (int64_t)time(NULL);
}

/* Pieces behind the head that still waits. */
static bool write_pieces(struct http_conn *conn, const uv_buf_t *pieces, unsigned count)
{
    uv_buf_t all[5];
    unsigned total = 0;
    bool ok;

    if (conn->pending_head.len > 0)
        all[total++] = uv_buf_init(conn->pending_head.data, (unsigned)conn->pending_head.len);
    for (unsigned i = 0; i < count; i++)
        all[total++] = pieces[i];
    ok = stream_writev(conn->stream, all, total);
    buf_clear(&conn->pending_head);
    return ok;
}

static uv_buf_t piece(const void *data, size_t len)
{
    /* libuv takes a plain char pointer but only reads through it. */
    return (uv_buf_t){ .base = (char *)(uintptr_t)data, .len = len };
}

static void finish_exchange(struct http_conn *conn)
{
    conn->request_open = false;
    if (conn->close_after) {
        close_conn(conn, CLOSE_WRITTEN);
        return;
    }
    http_request_finish(&conn->request);
    conn->state = CONN_HEAD;
    conn->scan = (struct http_scan){ 0 };
    arm_timer(conn, conn->options.idle_timeout_ms);
    if (!conn->running)
        do_later(conn);
}

static void build_head(struct http_conn *conn, struct http_response *response)
{
    bool has_body = http_status_has_body(response->status);

    conn->begun = true;
    conn->head_only =
        !has_body || (conn->request.method != NULL && strcmp(conn->request.method, "HEAD") == 0);
    conn->chunked = false;
    conn->left = response->length;
    if (!has_body && response->status != 304)
        response->length = -1;
    if (has_body && response->length < 0 && !conn->head_only) {
        conn->chunked = conn->request.minor == 1;
        conn->close_after |= !conn->chunked;
    }
    /* A body that nobody will read can't be told from the next request. */
    if (!conn->request.keep_alive || conn->state == CONN_BODY)
        conn->close_after = true;
    response->chunked = conn->chunked;
    response->minor = conn->request.minor;
    response->close = conn->close_after;
    buf_clear(&conn->pending_head);
    http_response_head(&conn->pending_head, response, unix_now());
}

void http_conn_respond(struct http_conn *conn, int status, const struct http_headers *headers,
                       const void *body, size_t len)
{
    struct http_response response = { .status = status,
                                      .headers = headers,
                                      .length = (int64_t)len };
    uv_buf_t bytes = piece(body, len);

    if (conn->closing || !conn->request_open)
        return;
    BUG_ON(conn->begun);
    build_head(conn, &response);
    write_pieces(conn, &bytes, conn->head_only || len == 0 ? 0 : 1);
    finish_exchange(conn);
}

static void error_body(struct buf *out, const char *code, const char *message)
{
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    json_write_name(&writer, "error");
    json_write_object(&writer);
    json_member_string(&writer, "code", code);
    json_member_string(&writer, "message", message);
    json_write_object_end(&writer);
    json_write_object_end(&writer);
}

void http_conn_respond_error(struct http_conn *conn, int status, const char *code,
                             const char *message)
{
    struct http_headers headers;
    AUTO_BUF struct buf body;

    buf_init(&body, 16u << 10);
    error_body(&body, code, message);
    http_headers_init(&headers);
    http_headers_add(&headers, "content-type", "application/json");
    http_conn_respond(conn, status, &headers, buf_text(&body), body.len);
    http_headers_finish(&headers);
}

void http_conn_begin(struct http_conn *conn, int status, const char *reason,
                     const struct http_headers *headers, int64_t length)
{
    struct http_response response = {
        .status = status, .reason = reason, .headers = headers, .length = length
    };

    if (conn->closing || !conn->request_open)
        return;
    BUG_ON(conn->begun);
    build_head(conn, &response);
    do_later(conn);
}

static bool send_chunk(struct http_conn *conn, const void *data, size_t len)
{
    char size[20];
    int size_len = snprintf(size, sizeof(size), "%zx\r\n", len);
    uv_buf_t pieces[3] = { piece(size, (size_t)size_len), piece(data, len), piece("\r\n", 2) };

    return write_pieces(conn, pieces, 3);
}

bool http_conn_send(struct http_conn *conn, const void *data, size_t len)
{
    uv_buf_t bytes;
    bool ok;

    if (conn->closing || !conn->request_open)
        return false;
    BUG_ON(!conn->begun);
    if (conn->head_only || len == 0)
        return true;
    if (conn->chunked) {
        ok = send_chunk(conn, data, len);
    } else {
        BUG_ON(conn->left >= 0 && (uint64_t)conn->left < len);
        if (conn->left >= 0)
            conn->left -= (int64_t)len;
        bytes = piece(data, len);
        ok = write_pieces(conn, &bytes, 1);
    }
    return ok && !stream_over_high(conn->stream);
}

/* Our side of it. */
static void end_tunnel(struct http_conn *conn)
{
    if (conn->out_ended)
        return;
    write_pieces(conn, NULL, 0);
    conn->out_ended = true;
    if (conn->in_ended)
        close_conn(conn, CLOSE_WRITTEN);
    else
        stream_end(conn->stream);
}

void http_conn_end(struct http_conn *conn)
{
    uv_buf_t last = piece("0\r\n\r\n", 5);

    if (conn->closing || !conn->request_open)
        return;
    BUG_ON(!conn->begun);
    if (conn->state == CONN_TUNNEL) {
        end_tunnel(conn);
        return;
    }
    if (!conn->chunked && !conn->head_only && conn->left > 0) {
        http_conn_reset(conn); /* fewer bytes than the head promised */
        return;
    }
    write_pieces(conn, &last, conn->chunked ? 1 : 0);
    finish_exchange(conn);
}

bool http_conn_secure(const struct http_conn *conn)
{
    return tls_is_secure(conn->stream);
}

bool http_conn_over_high(const struct http_conn *conn)
{
    return !conn->closing && stream_over_high(conn->stream);
}

size_t http_conn_queued(const struct http_conn *conn)
{
    return conn->closing ? 0 : stream_queued(conn->stream);
}

void http_conn_begin_tunnel(struct http_conn *conn, int status, const struct http_headers *headers)
{
    if (conn->closing || !conn->request_open)
        return;
    BUG_ON(conn->begun || conn->state != CONN_ANSWER);
    conn->begun = true;
    conn->head_only = conn->chunked = false;
    conn->left = -1;
    conn->state = CONN_TUNNEL;
    buf_clear(&conn->pending_head);
    http_response_switch(&conn->pending_head, status, headers);
    do_later(conn);
}

int http_conn_begin_tls(struct http_conn *conn, struct tls_context *context, const char *name,
                        const struct tls_identity *identity, struct error *err)
{
    static const char head[] = "HTTP/1.1 200 Connection established\r\n\r\n";

    if (conn->closing || !conn->request_open)
        return error_set(err, ERR_CANCELLED, 0, "the client is gone");
    if (conn->in.len > 0)
        return error_argument(err, "early_data", "bytes came before the tunnel was there");
    stream_write(conn->stream, head, sizeof(head) - 1);
    if (tls_accept(conn->stream, context, name, identity, err) < 0) {
        http_conn_reset(conn);
        return 0; /* it was answered */
    }
    finish_exchange(conn);
    /* The handshake and the head of the first request together. */
    arm_timer(conn, conn->options.head_timeout_ms);
    return 0;
}

void http_conn_continue(struct http_conn *conn)
{
    if (conn->closing || !conn->request_open || conn->begun || conn->continued ||
        !conn->request.expect_continue || conn->state != CONN_BODY)
        return;
    conn->continued = true;
    stream_write(conn->stream, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

/* Reading
 * ---------------------------------------------------------------------------------------------------------
 */

/* Answers by itself, or cuts when an answer has begun, and tells the owner. */
static void refuse(struct http_conn *conn, const struct error *err)
{
    struct http_conn_callbacks callbacks = conn->callbacks;
    bool was_open = conn->request_open;
    int status = err->sys;

    if (callbacks.on_refused != NULL)
        callbacks.on_refused(callbacks.data, conn, status, err->argument);
    if (conn->closing)
        return;
    if (conn->begun && was_open) {
        close_conn(conn, CLOSE_RESET);
    } else {
        conn->request_open = true;
        conn->begun = false;
        conn->close_after = true;
        conn->request.minor = 1;
        http_conn_respond_error(conn, status, err->argument, err->text);
    }
    if (was_open)
        callbacks.on_abort(callbacks.data, conn);
}

static void abort_conn(struct http_conn *conn)
{
    bool was_open = conn->request_open;

    conn->request_open = false;
    if (was_open)
        conn->callbacks.on_abort(conn->callbacks.data, conn);
    close_conn(conn, stream_queued(conn->stream) > 0 && !was_open ? CLOSE_WRITTEN : CLOSE_NOW);
}

static void on_timeout(uv_timer_t *timer)
{
    struct http_conn *conn = timer->data;
    struct error err = ERROR_INIT;

    if (conn->state == CONN_HEAD && conn->in.len == 0) {
        abort_conn(conn);
        return;
    }
    http_refuse(&err, 408, conn->state == CONN_HEAD ? "head_timeout" : "body_timeout",
                "the request took too long");
    refuse(conn, &err);
}

static void on_parsed_body(void *data, const char *bytes, size_t len)
{
    struct http_conn *conn = data;

    if (conn->request_open)
        conn->callbacks.on_body(conn->callbacks.data, conn, bytes, len);
}

static void end_body(struct http_conn *conn)
{
    uv_timer_stop(&conn->timer);
    if (conn->request_open)
        conn->callbacks.on_body_end(conn->callbacks.data, conn);
}

static void open_request(struct http_conn *conn)
{
    conn->request_open = true;
    conn->begun = conn->continued = conn->close_after = conn->body_paused = false;
    conn->state = http_parser_done(conn->parser) ? CONN_ANSWER : CONN_BODY;
    if (conn->state == CONN_BODY)
        arm_timer(conn, conn->options.idle_timeout_ms);
    else
        uv_timer_stop(&conn->timer);
    conn->callbacks.on_request(conn->callbacks.data, conn, &conn->request);
    if (!conn->closing && conn->request_open && http_parser_done(conn->parser))
        end_body(conn);
}

/* The forms that only a proxy takes. */
static int check_form(const struct http_conn *conn, struct error *err)
{
    if (conn->request.target_kind == HTTP_TARGET_ABSOLUTE && !conn->options.allow_absolute)
        return http_refuse(err, 400, "bad_target", "this server is no proxy");
    if (conn->request.target_kind == HTTP_TARGET_AUTHORITY && !conn->options.allow_connect)
        return http_refuse(err, 405, "bad_method", "this server is no proxy");
    return 0;
}

/* True when something was done and more may follow. */
static bool run_head(struct http_conn *conn)
{
    struct error err = ERROR_INIT;
    struct http_head head;
    size_t head_len = 0;
    bool first = conn->scan.at == 0;
    int found;

    if (conn->in.len == 0)
        return false;
    found = http_scan(&conn->scan, conn->in.data, conn->in.len, &head_len, &err);
    if (found == 0) {
        if (first)
            arm_timer(conn, conn->options.head_timeout_ms);
        return false;
    }
    if (found < 0 || http_head_read(conn->in.data, head_len, &head, &err) < 0 ||
        http_parser_head(conn->parser, conn->in.data, head_len, &head, &conn->request, &err) < 0 ||
        check_form(conn, &err) < 0) {
        refuse(conn, &err);
        return false;
    }
    buf_consume(&conn->in, head_len);
    open_request(conn);
    return true;
}

/* Takes body bytes; *USED of them belonged to the message. False when the connection is over. */
static bool take_body(struct http_conn *conn, const char *data, size_t len, size_t *used)
{
    struct error err = ERROR_INIT;
    int status = http_parser_body(conn->parser, data, len, used, &err);

    if (conn->closing)
        return false;
    if (status < 0) {
        refuse(conn, &err);
        return false;
    }
    if (!http_parser_done(conn->parser)) {
        if (!conn->body_paused) /* who doesn't read can't wait for the next byte */
            arm_timer(conn, conn->options.idle_timeout_ms);
        return true;
    }
    conn->state = CONN_ANSWER;
    end_body(conn);
    return !conn->closing;
}

static bool run_body(struct http_conn *conn)
{
    size_t used = 0;

    if (conn->in.len == 0 || conn->body_paused)
        return false;
    /* The bytes leave the buffer first: a callback may come back here. */
    AUTO_BUF struct buf bytes = conn->in;
    buf_init(&conn->in, INPUT_MAX);
    if (!take_body(conn, bytes.data, bytes.len, &used))
        return false;
    buf_append(&conn->in, bytes.data + used, bytes.len - used);
    return true;
}

/* What came while the tunnel was being made, or while it was paused. */
static bool run_tunnel(struct http_conn *conn)
{
    if (conn->body_paused || conn->closing)
        return false;
    if (conn->in.len > 0) {
        AUTO_BUF struct buf bytes = conn->in;

        buf_init(&conn->in, INPUT_MAX);
        conn->callbacks.on_body(conn->callbacks.data, conn, bytes.data, bytes.len);
        return !conn->closing;
    }
    if (conn->peer_ended && !conn->in_ended) {
        conn->in_ended = true;
        conn->callbacks.on_body_end(conn->callbacks.data, conn);
        if (!conn->closing && conn->out_ended)
            close_conn(conn, CLOSE_WRITTEN);
    }
    return false;
}

static void update_reading(struct http_conn *conn)
{
    bool takes_body = conn->state == CONN_BODY || conn->state == CONN_TUNNEL;

    if (conn->closing)
        return;
    if (conn->in.len > BACKLOG_MAX || (takes_body && conn->body_paused))
        stream_pause(conn->stream);
    else
        stream_resume(conn->stream);
}

static void run(struct http_conn *conn)
{
    bool more = true;

    conn->running = true;
    while (more && !conn->closing) {
        switch (conn->state) {
        case CONN_HEAD:
            more = run_head(conn);
            break;
        case CONN_BODY:
            more = run_body(conn);
            break;
        case CONN_ANSWER:
            more = false;
            break;
        case CONN_TUNNEL:
            more = run_tunnel(conn);
            break;
        }
    }
    conn->running = false;
    update_reading(conn);
}

static void on_later(uv_idle_t *idle)
{
    struct http_conn *conn = idle->data;

    uv_idle_stop(idle);
    if (conn->pending_head.len > 0)
        write_pieces(conn, NULL, 0);
    run(conn);
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct http_conn *conn = data;
    size_t used = 0;

    if (conn->closing)
        return;
    /* The usual case of a body needs no copy. */
    if (conn->state == CONN_BODY && conn->in.len == 0 && !conn->body_paused) {
        bool going;

        conn->running = true;
        going = take_body(conn, bytes, len, &used);
        conn->running = false;
        if (!going)
            return;
    }
    if (conn->state == CONN_TUNNEL && conn->in.len == 0 && !conn->body_paused) {
        conn->callbacks.on_body(conn->callbacks.data, conn, bytes, len);
        return;
    }
    buf_append(&conn->in, bytes + used, len - used);
    BUG_ON(conn->in.failed);
    run(conn);
}

static void on_end(void *data, const struct error *err)
{
    struct http_conn *conn = data;

    if (conn->closing)
        return;
    if (conn->state == CONN_TUNNEL && err == NULL) {
        conn->peer_ended = true;
        run(conn);
        return;
    }
    /* Only TLS says which rule was broken. Afterwards it is a client that went away. */
    if (err != NULL && err->argument[0] != '\0' && !conn->request_open &&
        conn->callbacks.on_refused != NULL && !str_equal(err->argument, "tls_cut"))
        conn->callbacks.on_refused(conn->callbacks.data, conn, 0, err->argument);
    abort_conn(conn);
}

static void on_drain(void *data)
{
    struct http_conn *conn = data;

    if (!conn->closing && conn->request_open && conn->callbacks.on_drain != NULL)
        conn->callbacks.on_drain(conn->callbacks.data, conn);
}

void http_conn_pause_body(struct http_conn *conn)
{
    if (conn->closing || (conn->state != CONN_BODY && conn->state != CONN_TUNNEL))
        return;
    conn->body_paused = true;
    uv_timer_stop(&conn->timer);
    update_reading(conn);
}

void http_conn_resume_body(struct http_conn *conn)
{
    if (conn->closing || !conn->body_paused)
        return;
    conn->body_paused = false;
    if (conn->state != CONN_BODY && conn->state != CONN_TUNNEL)
        return;
    if (conn->state == CONN_BODY)
        arm_timer(conn, conn->options.idle_timeout_ms);
    update_reading(conn);
    if (conn->in.len > 0 || conn->peer_ended)
        do_later(conn);
}

int http_conn_start(struct http_conn **out, uv_loop_t *loop, int fd,
                    const struct http_conn_options *options,
                    const struct http_conn_callbacks *callbacks, struct error *err)
{
    struct stream_callbacks stream_callbacks = { .on_data = on_data,
                                                 .on_end = on_end,
                                                 .on_drain = on_drain };
    struct http_conn *conn = NEW(struct http_conn);

    stream_callbacks.data = conn;
    if (stream_start(&conn->stream, loop, fd, &stream_callbacks, err) < 0) {
        free(conn);
        return -1;
    }
    uv_timer_init(loop, &conn->timer);
    uv_idle_init(loop, &conn->later);
    conn->open = 3;
    conn->timer.data = conn;
    conn->later.data = conn;
    conn->options = *options;
    if (conn->options.head_timeout_ms == 0)
        conn->options.head_timeout_ms = DEFAULT_HEAD_TIMEOUT_MS;
    if (conn->options.idle_timeout_ms == 0)
        conn->options.idle_timeout_ms = DEFAULT_IDLE_TIMEOUT_MS;
    conn->callbacks = *callbacks;
    conn->parser = http_parser_new(on_parsed_body, conn);
    buf_init(&conn->in, INPUT_MAX);
    buf_init(&conn->pending_head, RESPONSE_HEAD_MAX);
    arm_timer(conn, conn->options.idle_timeout_ms);
    *out = conn;
    return 0;
}

void http_conn_set_data(struct http_conn *conn, void *data)
{
    conn->callbacks.data = data;
}

void *http_conn_data(const struct http_conn *conn)
{
    return conn->callbacks.data;
}
