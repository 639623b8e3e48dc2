/* upstream_direct.c: the request written to a connection to the service, the answer read off it. */
#include "proxy/upstream_internal.h"

#include <sodium.h>
#include <strings.h>

#include "common/mem.h"
#include "io/stream.h"
#include "proxy/inject.h"
#include "proxy/origin.h"

#define HELD_MAX                                                                                   \
    (512u << 10) /* one read of a connection, and what comes while it is being paused */
#define EARLY_HIGH (64u << 10) /* of a body, while there is no connection yet */
#define EARLY_MAX (512u << 10) /* the same and one read of the client */

struct direct {
    struct upstream base;
    uv_timer_t idle;
    struct origin *origin;
    struct origin_conn *conn; /* NULL once it is given back or gone */
    struct upstream_callbacks callbacks;
    uint64_t head_timeout_ms;
    uint64_t idle_timeout_ms;
    uint64_t last_ms; /* loop time of the last byte either way */
    struct buf
        head; /* of the request; wiped when the answer begins, since then it isn't sent again */
    struct buf early; /* of its body, until there is a connection */
    struct buf held;  /* of the answer, while the client has no room */
    struct http_reply reply;
    bool ready;      /* the connection is there */
    bool reused;     /* it has served before, and may have been closed meanwhile */
    bool chunked;    /* how the body is sent */
    bool body_ended; /* of the request */
    bool body_sent;  /* some of it: it can't be sent again */
    bool full;       /* on_room is owed */
    bool resumed;    /* the client has room again for what is held */
    bool broken;     /* the answer breaks the rules */
    bool ended;      /* the connection has ended behind what is held */
};

static struct direct *direct_of(struct upstream *base)
{
    return CONTAINER_OF(base, struct direct, base);
}

static void wipe_head(struct direct *direct)
{
    if (direct->head.data != NULL)
        sodium_memzero(direct->head.data, direct->head.cap);
    buf_finish(&direct->head);
}

static void on_idle_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF(handle, struct direct, idle));
}

/* Memory goes with the timer; everything else now. */
static void release(struct direct *direct)
{
    if (direct->conn != NULL)
        origin_drop(STEAL(direct->conn));
    wipe_head(direct);
    buf_finish(&direct->early);
    buf_finish(&direct->held);
    http_reply_finish(&direct->reply);
    uv_close((uv_handle_t *)&direct->idle, on_idle_closed);
}

static void end(struct direct *direct, enum upstream_end how)
{
    struct upstream_callbacks callbacks = direct->callbacks;

    release(direct);
    callbacks.on_end(callbacks.data, how);
}

static void touch(struct direct *direct)
{
    direct->last_ms = uv_now(direct->idle.loop);
}

/* Request
 * ------------------------------------------------------------------------------------------------------
 */

static size_t head_size(const struct upstream_options *options)
{
    return strlen(options->request->method) + strlen(options->path) +
           strlen(options->service->host) + options->lines->len + 128;
}

static bool takes_body(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

/* Into memory of the right size: growing would leave copies of the credential behind. */
static void write_head(struct direct *direct, const struct upstream_options *options)
{
    const struct http_request *request = options->request;
    struct buf *out = &direct->head;
    size_t size = head_size(options);

    buf_init(out, size);
    if (buf_reserve(out, size) == NULL)
        BUG("no memory for a request");
    buf_append_str(out, request->method);
    buf_append_char(out, ' ');
    buf_append_str(out, options->path);
    buf_append_str(out, " HTTP/1.1\r\nHost: ");
    buf_append_str(out, options->service->host);
    buf_append_str(out, "\r\n");
    buf_append(out, options->lines->data, options->lines->len);
    if (request->body_kind == HTTP_BODY_CHUNKED)
        buf_append_str(out, "Transfer-Encoding: chunked\r\n");
    else if (request->body_kind == HTTP_BODY_LENGTH || takes_body(request->method))
        buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)request->content_length);
    buf_append_str(out, "\r\n");
    BUG_ON(out->failed);
}

static void write_body(struct direct *direct, const void *data, size_t len)
{
    char size[20];
    uv_buf_t pieces[3];
    unsigned count = 0;

    /* libuv takes a plain char pointer but only reads through it. */
    if (direct->chunked)
        pieces[count++] = uv_buf_init(size, (unsigned)snprintf(size, sizeof(size), "%zx\r\n", len));
    pieces[count++] = uv_buf_init((char *)(uintptr_t)data, (unsigned)len);
    if (direct->chunked)
        pieces[count++] = uv_buf_init((char *)(uintptr_t) "\r\n", 2);
    direct->body_sent = true;
    stream_writev(origin_stream(direct->conn), pieces, count);
}

static void write_last_chunk(struct direct *direct)
{
    if (direct->chunked)
        stream_write(origin_stream(direct->conn), "0\r\n\r\n", 5);
}

/* What there is of the request, on a connection that has seen nothing of it. */
static void write_request(struct direct *direct)
{
    struct stream *stream = origin_stream(direct->conn);

    direct->ready = true;
    touch(direct);
    stream_write(stream, direct->head.data, direct->head.len);
    if (direct->early.len > 0)
        write_body(direct, direct->early.data, direct->early.len);
    buf_finish(&direct->early);
    if (direct->body_ended)
        write_last_chunk(direct);
    if (direct->full && !stream_over_high(stream)) {
        direct->full = false;
        direct->callbacks.on_room(direct->callbacks.data);
    }
}

static bool send_body(struct upstream *base, const void *data, size_t len)
{
    struct direct *direct = direct_of(base);

    touch(direct);
    if (len == 0)
        return !direct->full;
    if (direct->ready) {
        if (direct->conn != NULL)
            write_body(direct, data, len);
        direct->full = direct->conn != NULL && stream_over_high(origin_stream(direct->conn));
    } else {
        buf_append(&direct->early, data, len);
        BUG_ON(direct->early.failed);
        direct->full = direct->early.len > EARLY_HIGH;
    }
    return !direct->full;
}

static void send_end(struct upstream *base)
{
    struct direct *direct = direct_of(base);

    direct->body_ended = true;
    if (direct->ready && direct->conn != NULL)
        write_last_chunk(direct);
}

static void on_conn_ready(void *data)
{
    write_request(data);
}

static void on_conn_drain(void *data)
{
    struct direct *direct = data;

    touch(direct);
    if (!direct->full)
        return;
    direct->full = false;
    direct->callbacks.on_room(direct->callbacks.data);
}

/* Response
 * -----------------------------------------------------------------------------------------------------
 */

static void on_idle(uv_timer_t *timer);

static void on_reply_head(void *data, const struct http_response_head *head)
{
    struct direct *direct = data;

    if (direct->idle_timeout_ms < direct->head_timeout_ms)
        uv_timer_start(&direct->idle, on_idle, direct->idle_timeout_ms, 0);
    direct->callbacks.on_head(direct->callbacks.data, head);
}

static void hold(struct direct *direct, const char *bytes, size_t len)
{
    buf_append(&direct->held, bytes, len);
    BUG_ON(direct->held.failed);
    if (direct->conn != NULL)
        stream_pause(origin_stream(direct->conn));
}

static void on_reply_body(void *data, const char *bytes, size_t len)
{
    struct direct *direct = data;

    if (direct->held.len > 0 || !direct->callbacks.on_body(direct->callbacks.data, bytes, len))
        hold(direct, bytes, len);
}

/* The whole answer was taken by the client. */
static void finish(struct direct *direct)
{
    struct origin_conn *conn = STEAL(direct->conn);

    if (conn != NULL && direct->reply.kept && direct->body_ended)
        origin_give(conn);
    else if (conn != NULL)
        origin_drop(conn);
    end(direct, UPSTREAM_END_OK);
}

static void on_conn_data(void *data, const char *bytes, size_t len)
{
    struct direct *direct = data;
    struct error err = ERROR_INIT;
    size_t used;

    touch(direct);
    if (direct->broken || direct->reply.done) {
        direct->reply.kept = false; /* more than was asked for */
        return;
    }
    wipe_head(direct);
    if (http_reply_feed(&direct->reply, bytes, len, &used, &err) < 0) {
        direct->broken = true;
        if (direct->held.len == 0)
            end(direct, direct->reply.head_done ? UPSTREAM_END_CUT : UPSTREAM_END_RESPONSE);
        return;
    }
    if (used < len)
        direct->reply.kept = false;
    if (direct->reply.done && direct->held.len == 0)
        finish(direct);
}

/* What was held goes on first; the end of the answer may be behind it. */
static void resume(struct upstream *base)
{
    struct direct *direct = direct_of(base);

    if (direct->held.len == 0)
        return;
    direct->resumed = true;
    touch(direct);
    uv_timer_start(&direct->idle, on_idle, 0, 0);
}

static void pass_held(struct direct *direct)
{
    AUTO_BUF struct buf held = direct->held;

    buf_init(&direct->held, HELD_MAX);
    direct->resumed = false;
    if (!direct->callbacks.on_body(direct->callbacks.data, held.data, held.len)) {
        hold(direct, held.data, held.len);
        return;
    }
    if (direct->broken || (direct->ended && !direct->reply.done))
        end(direct, UPSTREAM_END_CUT);
    else if (direct->reply.done)
        finish(direct);
    else if (direct->conn != NULL)
        stream_resume(origin_stream(direct->conn));
}

/* End
 * ----------------------------------------------------------------------------------------------------------
 */

static int take_conn(struct direct *direct, bool fresh, struct error *err);

/* A connection that waited may have been closed by the service just as it was used again. Nothing
 * of an answer came, and nothing that can't be said twice was said. */
static bool try_again(struct direct *direct)
{
    struct error err = ERROR_INIT;

    if (!direct->reused || direct->head.len == 0 || direct->body_sent)
        return false;
    direct->ready = false;
    return take_conn(direct, true, &err) == 0;
}

static void on_conn_end(void *data, enum upstream_end how)
{
    struct direct *direct = data;

    direct->conn = NULL;
    if (direct->ready && try_again(direct))
        return;
    if (how == UPSTREAM_END_OK && http_reply_end(&direct->reply))
        how = UPSTREAM_END_OK;
    else if (how == UPSTREAM_END_OK || direct->reply.head_done)
        how = UPSTREAM_END_CUT;
    direct->ended = true;
    if (direct->held.len > 0)
        return; /* pass_held goes on */
    if (how == UPSTREAM_END_OK)
        finish(direct);
    else
        end(direct, how);
}

/* Looks at the clock rather than being started anew for each byte. */
static void on_idle(uv_timer_t *timer)
{
    struct direct *direct = CONTAINER_OF(timer, struct direct, idle);
    uint64_t quiet_ms = uv_now(timer->loop) - direct->last_ms;
    uint64_t limit_ms = direct->reply.head_done ? direct->idle_timeout_ms : direct->head_timeout_ms;

    if (quiet_ms >= limit_ms) {
        end(direct, UPSTREAM_END_TIMEOUT);
        return;
    }
    uv_timer_start(timer, on_idle, limit_ms - quiet_ms, 0);
    if (direct->resumed)
        pass_held(direct);
}

static void cancel(struct upstream *base)
{
    release(direct_of(base));
}

/* Start
 * --------------------------------------------------------------------------------------------------------
 */

static int take_conn(struct direct *direct, bool fresh, struct error *err)
{
    const struct origin_callbacks callbacks = { .on_ready = on_conn_ready,
                                                .on_data = on_conn_data,
                                                .on_drain = on_conn_drain,
                                                .on_end = on_conn_end,
                                                .data = direct };

    return origin_take(direct->origin, fresh, &callbacks, &direct->conn, &direct->reused, err);
}

static const struct upstream_way directly = {
    .send = send_body, .send_end = send_end, .resume = resume, .cancel = cancel
};

int upstream_direct_start(struct upstream **out, uv_loop_t *loop,
                          const struct upstream_options *options,
                          const struct upstream_callbacks *callbacks, struct error *err)
{
    struct direct *direct = NEW(struct direct);

    direct->base.way = &directly;
    direct->origin = options->origin;
    direct->callbacks = *callbacks;
    direct->head_timeout_ms = options->head_timeout_ms;
    direct->idle_timeout_ms = options->idle_timeout_ms;
    direct->chunked = options->request->body_kind == HTTP_BODY_CHUNKED;
    direct->body_ended = options->request->body_kind == HTTP_BODY_NONE;
    buf_init(&direct->early, EARLY_MAX);
    buf_init(&direct->held, HELD_MAX);
    http_reply_init(&direct->reply, options->request->method);
    direct->reply.on_head = on_reply_head;
    direct->reply.on_body = on_reply_body;
    direct->reply.data = direct;
    write_head(direct, options);
    uv_timer_init(loop, &direct->idle);
    touch(direct);
    if (take_conn(direct, false, err) < 0) {
        direct->conn = NULL;
        release(direct);
        return -1;
    }
    uv_timer_start(&direct->idle, on_idle, direct->head_timeout_ms, 0);
    if (direct->reused)
        write_request(direct);
    *out = &direct->base;
    return 0;
}
