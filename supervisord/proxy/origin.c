/* origin.c: reach, TLS, and a list of those that wait. */
#include "proxy/origin.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/stream.h"
#include "proxy/reach.h"

#define IDLE_MAX 128u /* connections that wait */
#define IDLE_MS 50000u
#define LIFE_MS 600000u

struct origin {
    uv_timer_t timer; /* closes what waits too long */
    uv_loop_t *loop;
    struct origin_options options;
    struct list idle; /* origin_conn::link, the one used last at the end */
    struct list used; /* origin_conn::link */
    unsigned idle_count;
    unsigned open; /* the timer and connections with a stream */
    bool closing;
    void (*done)(void *data);
    void *done_data;
};

struct origin_conn {
    struct list link; /* origin::idle or origin::used */
    struct origin *origin;
    struct reach *reach;   /* until connected */
    struct stream *stream; /* from then on */
    uv_timer_t *deadline;  /* of connecting; NULL: over */
    struct origin_callbacks callbacks;
    uint64_t born_ms;
    uint64_t idle_ms;
    bool ready;
    bool waits;   /* nobody has it */
    bool reading; /* inside on_data */
};

static void part_closed(struct origin *origin)
{
    if (--origin->open > 0)
        return;
    if (origin->done != NULL)
        origin->done(origin->done_data);
    free(origin);
}

static void on_stream_closed(void *data)
{
    struct origin_conn *conn = data;

    part_closed(conn->origin);
    free(conn);
}

static void on_deadline_closed(uv_handle_t *handle)
{
    free(handle);
}

static void end_deadline(struct origin_conn *conn)
{
    if (conn->deadline != NULL)
        uv_close((uv_handle_t *)STEAL(conn->deadline), on_deadline_closed);
}

/* Its memory goes with the stream. */
static void shut(struct origin_conn *conn)
{
    struct reach *reach = STEAL(conn->reach);
    struct stream *stream = STEAL(conn->stream);

    list_remove(&conn->link);
    end_deadline(conn);
    if (conn->waits)
        conn->origin->idle_count--;
    conn->waits = false;
    if (reach != NULL)
        reach_cancel(reach);
    if (stream != NULL) {
        stream_close(stream, on_stream_closed, conn);
        return;
    }
    free(conn);
}

void origin_drop(struct origin_conn *conn)
{
    shut(conn);
}

static void end(struct origin_conn *conn, enum upstream_end how)
{
    struct origin_callbacks callbacks = conn->callbacks;
    bool waited = conn->waits;

    shut(conn);
    if (!waited)
        callbacks.on_end(callbacks.data, how);
}

/* Those that wait
 * -------------------------------------------------------------------------------------------------
 */

static void on_timer(uv_timer_t *timer)
{
    struct origin *origin = CONTAINER_OF(timer, struct origin, timer);
    uint64_t now = uv_now(origin->loop);

    while (!list_empty(&origin->idle)) {
        struct origin_conn *oldest = LIST_ENTRY(origin->idle.next, struct origin_conn, link);

        if (now - oldest->idle_ms < IDLE_MS) {
            uv_timer_start(timer, on_timer, IDLE_MS - (now - oldest->idle_ms), 0);
            return;
        }
        shut(oldest);
    }
}

void origin_give(struct origin_conn *conn)
{
    struct origin *origin = conn->origin;

    if (origin->idle_count >= IDLE_MAX || origin->closing ||
        uv_now(origin->loop) - conn->born_ms >= LIFE_MS || stream_queued(conn->stream) > 0) {
        shut(conn);
        return;
    }
    list_remove(&conn->link);
    list_append(&origin->idle, &conn->link);
    origin->idle_count++;
    conn->waits = true;
    conn->idle_ms = uv_now(origin->loop);
    stream_resume(conn->stream);
    if (!uv_is_active((uv_handle_t *)&origin->timer))
        uv_timer_start(&origin->timer, on_timer, IDLE_MS, 0);
}

/* Bytes that nobody asked for would be taken for the answer to the next request; also those that
 * the loop hasn't seen yet, and half a record of TLS. So would an end be. */
static bool is_quiet(const struct origin_conn *conn)
{
    char byte;

    return !conn->reading && !tls_has_rest(conn->stream) &&
           recv(stream_fd(conn->stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct origin_conn *take_idle(struct origin *origin)
{
    while (!list_empty(&origin->idle)) {
        struct origin_conn *last = LIST_ENTRY(origin->idle.prev, struct origin_conn, link);

        if (is_quiet(last)) {
            list_remove(&last->link);
            list_append(&origin->used, &last->link);
            origin->idle_count--;
            last->waits = false;
            return last;
        }
        shut(last);
    }
    return NULL;
}

/* Connecting
 * ---------------------------------------------------------------------------------------------------
 */

static void on_data(void *data, const char *bytes, size_t len)
{
    struct origin_conn *conn = data;

    if (conn->waits) {
        shut(conn);
        return;
    }
    conn->reading = true;
    conn->callbacks.on_data(conn->callbacks.data, bytes, len);
    /* The connection's memory goes in a later turn of the loop, whatever was done with it. */
    conn->reading = false;
}

static void on_stream_end(void *data, const struct error *err)
{
    struct origin_conn *conn = data;

    if (err == NULL)
        end(conn, conn->ready ? UPSTREAM_END_OK : UPSTREAM_END_CUT);
    else
        end(conn, str_equal(err->argument, "upstream_tls") ? UPSTREAM_END_TLS : UPSTREAM_END_CUT);
}

static void on_drain(void *data)
{
    struct origin_conn *conn = data;

    if (!conn->waits)
        conn->callbacks.on_drain(conn->callbacks.data);
}

static void on_ready(void *data)
{
    struct origin_conn *conn = data;

    end_deadline(conn);
    conn->ready = true;
    conn->callbacks.on_ready(conn->callbacks.data);
}

static int start_stream(struct origin_conn *conn, int fd, struct error *err)
{
    const struct origin_options *options = &conn->origin->options;
    const struct stream_callbacks callbacks = {
        .on_data = on_data, .on_end = on_stream_end, .on_drain = on_drain, .data = conn
    };

    if (stream_start(&conn->stream, conn->origin->loop, fd, &callbacks, err) < 0) {
        conn->stream = NULL;
        return -1;
    }
    conn->origin->open++;
    if (options->tls == NULL)
        return 0;
    if (tls_connect(conn->stream, options->tls, options->service->where.name,
                    options->service->where.literal, err) < 0)
        return -1;
    tls_when_ready(conn->stream, on_ready, conn);
    return 0;
}

static void on_reached(void *data, int fd, enum upstream_end how)
{
    struct origin_conn *conn = data;
    struct error err = ERROR_INIT;

    conn->reach = NULL;
    if (fd < 0)
        end(conn, how);
    else if (start_stream(conn, fd, &err) < 0)
        end(conn, UPSTREAM_END_OTHER);
    else if (conn->origin->options.tls == NULL)
        on_ready(conn);
}

static void on_deadline(uv_timer_t *timer)
{
    end(timer->data, UPSTREAM_END_TIMEOUT);
}

static int connect_new(struct origin *origin, struct origin_conn **out, struct error *err)
{
    const struct origin_options *options = &origin->options;
    struct origin_conn *conn = NEW(struct origin_conn);
    const struct reach_options reach = { .host = &options->service->where,
                                         .exception = &options->service->exception,
                                         .parent = options->parent,
                                         .timeout_ms = options->connect_timeout_ms,
                                         .on_done = on_reached,
                                         .data = conn };

    conn->origin = origin;
    if (reach_start(&conn->reach, origin->loop, &reach, err) < 0) {
        free(conn);
        return -1;
    }
    conn->born_ms = uv_now(origin->loop);
    conn->deadline = NEW(uv_timer_t);
    uv_timer_init(origin->loop, conn->deadline);
    conn->deadline->data = conn;
    uv_timer_start(conn->deadline, on_deadline, options->connect_timeout_ms, 0);
    list_append(&origin->used, &conn->link);
    *out = conn;
    return 0;
}

int origin_take(struct origin *origin, bool fresh, const struct origin_callbacks *callbacks,
                struct origin_conn **out, bool *ready, struct error *err)
{
    struct origin_conn *conn = fresh ? NULL : take_idle(origin);

    if (origin->closing)
        return error_set(err, ERR_CANCELLED, 0, "connection pool is closing");
    *ready = conn != NULL;
    if (conn == NULL && connect_new(origin, &conn, err) < 0)
        return -1;
    conn->callbacks = *callbacks;
    *out = conn;
    return 0;
}

struct stream *origin_stream(const struct origin_conn *conn)
{
    return conn->stream;
}

/* Life
 * ---------------------------------------------------------------------------------------------------------
 */

struct origin *origin_start(uv_loop_t *loop, const struct origin_options *options)
{
    struct origin *origin = NEW(struct origin);

    origin->loop = loop;
    origin->options = *options;
    list_init(&origin->idle);
    list_init(&origin->used);
    uv_timer_init(loop, &origin->timer);
    origin->open = 1;
    return origin;
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_closed(CONTAINER_OF(handle, struct origin, timer));
}

void origin_close(struct origin *origin, void (*done)(void *data), void *data)
{
    if (origin->closing)
        return;
    origin->closing = true;
    origin->done = done;
    origin->done_data = data;
    while (!list_empty(&origin->idle))
        shut(LIST_ENTRY(origin->idle.next, struct origin_conn, link));
    while (!list_empty(&origin->used))
        shut(LIST_ENTRY(origin->used.next, struct origin_conn, link));
    uv_close((uv_handle_t *)&origin->timer, on_timer_closed);
}
