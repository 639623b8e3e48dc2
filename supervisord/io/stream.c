/* stream.c: reads land in one scratch buffer of the thread; a write tries the socket first and
 * queues only what is left. */
#include "io/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"

#define READ_BUFFER_SIZE (64u << 10)
#define DEFAULT_HIGH (256u << 10)
#define DEFAULT_LOW (64u << 10)
#define WRITEV_MAX 8
#define KEEPALIVE_SECONDS 60
#define LINGER_MS 2000 /* for the peer's end once ours is sent */

struct stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } peer;
    uv_timer_t timer; /* reports a broken write; limits stream_finish */
    unsigned open_handles;
    int fd;
    struct stream_callbacks callbacks;
    const struct stream_filter *filter; /* NULL: none */
    void *filter_data;
    size_t high;
    size_t low;
    bool readable; /* the descriptor can be read at all */
    bool paused;
    bool ended;     /* on_end was called */
    bool broken;    /* a write failed; error says how */
    bool was_high;  /* on_drain is owed */
    bool finishing; /* stream_finish was called: reads are thrown away */
    bool ending;    /* our end is asked for */
    bool shut;      /* our end was sent */
    bool closing;
    struct error error;
    uv_shutdown_t shutdown;
    void (*done)(void *data);
    void *done_data;
};

struct write {
    uv_write_t request;
    char data[];
};

/* Scratch space, not state: libuv fills it right before on_read and nothing lives in it after that
 * returns. */
static _Thread_local char read_buffer[READ_BUFFER_SIZE];

static void on_read(uv_stream_t *peer, ssize_t count, const uv_buf_t *buf);

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, READ_BUFFER_SIZE);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct stream *stream = handle->data;

    if (--stream->open_handles > 0)
        return;
    if (stream->done != NULL)
        stream->done(stream->done_data);
    if (stream->filter != NULL)
        stream->filter->free(stream->filter_data);
    free(stream);
}

static void close_handles(struct stream *stream)
{
    stream->closing = true;
    uv_close(&stream->peer.handle, on_handle_closed);
    uv_close((uv_handle_t *)&stream->timer, on_handle_closed);
}

/* The callee may close the stream, so this is the last thing a function does with it. */
static void report_end(struct stream *stream, const struct error *err)
{
    if (stream->ended || stream->closing)
        return;
    stream->ended = true;
    uv_read_stop(&stream->peer.stream);
    stream->callbacks.on_end(stream->callbacks.data, err);
}

/* What comes from the socket goes through the filter. */
static void take_data(struct stream *stream, const char *bytes, size_t len)
{
    if (stream->filter != NULL)
        stream->filter->on_data(stream->filter_data, bytes, len);
    else
        stream->callbacks.on_data(stream->callbacks.data, bytes, len);
}

static void take_end(struct stream *stream, const struct error *err)
{
    if (stream->filter != NULL && !stream->ended)
        stream->filter->on_end(stream->filter_data, err);
    else
        report_end(stream, err);
}

static void on_timer(uv_timer_t *timer)
{
    struct stream *stream = timer->data;

    if (stream->finishing)
        close_handles(stream);
    else
        report_end(stream, &stream->error);
}

static bool is_reading(const struct stream *stream)
{
    return stream->readable && !stream->paused && !stream->ended;
}

/* Never calls back from inside the caller's call. While we read, what the peer sent before it went
 * away is still delivered: shutting the socket down makes the kernel report the end behind it. */
static void break_write(struct stream *stream, int status)
{
    struct error err = ERROR_INIT;

    if (stream->broken)
        return;
    stream->broken = true;
    error_set(&err, ERR_SYSTEM, -status, "write to peer");
    stream->error = err;
    if (is_reading(stream) && shutdown(stream->fd, SHUT_RDWR) == 0)
        return;
    uv_timer_start(&stream->timer, on_timer, 0, 0);
}

static void finish_when_written(struct stream *stream);

static void on_read(uv_stream_t *peer, ssize_t count, const uv_buf_t *buf)
{
    struct stream *stream = peer->data;
    struct error err = ERROR_INIT;

    if (count == 0)
        return;
    if (stream->finishing) {
        if (count < 0) {
            stream->ended = true;
            uv_read_stop(peer);
            if (stream->shut || count != UV_EOF)
                close_handles(stream);
        }
        return;
    }
    if (count > 0) {
        take_data(stream, buf->base, (size_t)count);
        return;
    }
    if (stream->broken) {
        report_end(stream, &stream->error);
    } else if (count == UV_EOF) {
        take_end(stream, NULL);
    } else {
        stream->broken = true;
        error_set(&err, ERR_SYSTEM, (int)-count, "read from peer");
        stream->error = err;
        take_end(stream, &stream->error);
    }
}

static int open_peer(struct stream *stream, uv_loop_t *loop, int fd)
{
    int status;

    if (uv_guess_handle(fd) == UV_TCP) {
        status = uv_tcp_init(loop, &stream->peer.tcp);
        if (status == 0) {
            stream->open_handles++;
            status = uv_tcp_open(&stream->peer.tcp, fd);
        }
        if (status == 0) {
            /* Best effort: both only tune. */
            (void)uv_tcp_nodelay(&stream->peer.tcp, 1);
            (void)uv_tcp_keepalive(&stream->peer.tcp, 1, KEEPALIVE_SECONDS);
        }
    } else {
        status = uv_pipe_init(loop, &stream->peer.pipe, 0);
        if (status == 0) {
            stream->open_handles++;
            status = uv_pipe_open(&stream->peer.pipe, fd);
        }
    }
    stream->peer.handle.data = stream;
    return status;
}

int stream_start(struct stream **out, uv_loop_t *loop, int fd,
                 const struct stream_callbacks *callbacks, struct error *err)
{
    struct stream *stream = NEW(struct stream);
    int status;

    stream->fd = fd;
    stream->callbacks = *callbacks;
    stream->high = DEFAULT_HIGH;
    stream->low = DEFAULT_LOW;
    status = uv_timer_init(loop, &stream->timer);
    BUG_ON(status != 0);
    stream->open_handles++;
    stream->timer.data = stream;
    status = open_peer(stream, loop, fd);
    if (status == 0) {
        stream->readable = uv_is_readable(&stream->peer.stream) != 0;
        if (stream->readable)
            status = uv_read_start(&stream->peer.stream, on_alloc, on_read);
    }
    if (status != 0) {
        int peer_fd;

        /* A descriptor that libuv did not take is still ours. */
        if (stream->peer.handle.type == UV_UNKNOWN_HANDLE ||
            uv_fileno(&stream->peer.handle, &peer_fd) != 0)
            close(fd);
        stream->closing = true;
        if (stream->peer.handle.type != UV_UNKNOWN_HANDLE)
            uv_close(&stream->peer.handle, on_handle_closed);
        uv_close((uv_handle_t *)&stream->timer, on_handle_closed);
        return error_set(err, ERR_SYSTEM, -status, "open stream");
    }
    *out = stream;
    return 0;
}

void stream_close(struct stream *stream, void (*done)(void *data), void *data)
{
    stream->done = done;
    stream->done_data = data;
    stream->finishing = false;
    if (!stream->closing)
        close_handles(stream);
}

void stream_reset(struct stream *stream, void (*done)(void *data), void *data)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };

    /* Fails on pipes, where an end of file is all a peer can see. */
    (void)setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    stream_close(stream, done, data);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct stream *stream = request->handle->data;

    if (stream->closing)
        return;
    stream->shut = true;
    if (!stream->finishing) {
        if (status != 0)
            break_write(stream, status);
        return;
    }
    /* With the peer's end already seen, or nothing to read, there is nothing to wait for. */
    if (status != 0 || stream->ended || !stream->readable) {
        close_handles(stream);
        return;
    }
    if (uv_timer_get_due_in(&stream->timer) > LINGER_MS)
        uv_timer_start(&stream->timer, on_timer, LINGER_MS, 0);
}

/* False when it can't be sent. */
static bool ask_end(struct stream *stream)
{
    if (stream->ending)
        return true;
    stream->ending = true;
    return uv_shutdown(&stream->shutdown, &stream->peer.stream, on_shutdown) == 0;
}

/* Sends our end and keeps reading until the peer's: closing with unread bytes in the socket would
 * send a reset that may destroy what the peer has not read yet. The timer bounds it. */
static void finish_when_written(struct stream *stream)
{
    bool sent = stream->shut; /* by stream_end, and long ago */

    if (stream->broken || !ask_end(stream) || (sent && (stream->ended || !stream->readable))) {
        close_handles(stream);
        return;
    }
    if (sent)
        uv_timer_start(&stream->timer, on_timer, LINGER_MS, 0);
    if (stream->readable && !stream->ended && stream->paused &&
        uv_read_start(&stream->peer.stream, on_alloc, on_read) != 0)
        stream->ended = true;
}

void stream_finish(struct stream *stream, uint64_t timeout_ms, void (*done)(void *data), void *data)
{
    if (stream->closing)
        return;
    stream->done = done;
    stream->done_data = data;
    if (stream->filter != NULL && !stream->ending)
        stream->filter->end(stream->filter_data);
    stream->finishing = true;
    uv_timer_start(&stream->timer, on_timer, timeout_ms, 0);
    /* uv_shutdown waits for the queue by itself. */
    finish_when_written(stream);
}

void stream_end(struct stream *stream)
{
    if (stream->closing || stream->finishing || stream->ending || stream->broken)
        return;
    if (stream->filter != NULL)
        stream->filter->end(stream->filter_data);
    if (!ask_end(stream))
        break_write(stream, UV_ENOTCONN);
}

static void on_written(uv_write_t *request, int status)
{
    struct stream *stream = request->handle->data;

    free(CONTAINER_OF(request, struct write, request));
    if (stream->closing)
        return;
    if (status != 0) {
        if (stream->finishing)
            close_handles(stream);
        else
            break_write(stream, status);
        return;
    }
    if (stream->was_high && !stream->finishing && stream_queued(stream) <= stream->low) {
        stream->was_high = false;
        if (stream->callbacks.on_drain != NULL)
            stream->callbacks.on_drain(stream->callbacks.data);
    }
}

/* Copies what is left of PIECES behind the first SKIP bytes into one request. */
static int queue_rest(struct stream *stream, const uv_buf_t *pieces, unsigned count, size_t skip,
                      size_t left)
{
    struct write *write = mem_new(sizeof(struct write) + left);
    size_t at = 0;
    uv_buf_t buf;
    int status;

    for (unsigned i = 0; i < count; i++) {
        size_t drop = skip < pieces[i].len ? skip : pieces[i].len;

        if (pieces[i].len > drop)
            memcpy(write->data + at, pieces[i].base + drop, pieces[i].len - drop);
        at += pieces[i].len - drop;
        skip -= drop;
    }
    buf = uv_buf_init(write->data, (unsigned)left);
    status = uv_write(&write->request, &stream->peer.stream, &buf, 1, on_written);
    if (status != 0)
        free(write);
    return status;
}

static bool write_raw(struct stream *stream, const uv_buf_t *pieces, unsigned count)
{
    size_t total = 0;
    size_t sent = 0;
    int status;

    for (unsigned i = 0; i < count; i++)
        total += pieces[i].len;
    if (total == 0)
        return true;
    if (stream_queued(stream) == 0) {
        status = uv_try_write(&stream->peer.stream, pieces, count);
        if (status < 0 && status != UV_EAGAIN) {
            break_write(stream, status);
            return false;
        }
        sent = status > 0 ? (size_t)status : 0;
    }
    if (sent < total) {
        status = queue_rest(stream, pieces, count, sent, total - sent);
        if (status != 0) {
            break_write(stream, status);
            return false;
        }
    }
    if (stream_over_high(stream))
        stream->was_high = true;
    return true;
}

static bool is_writable(const struct stream *stream)
{
    return !stream->broken && !stream->closing && !stream->finishing && !stream->ending;
}

bool stream_writev(struct stream *stream, const uv_buf_t *pieces, unsigned count)
{
    BUG_ON(count > WRITEV_MAX);
    if (!is_writable(stream))
        return false;
    if (stream->filter != NULL)
        return stream->filter->write(stream->filter_data, pieces, count);
    return write_raw(stream, pieces, count);
}

bool stream_write_raw(struct stream *stream, const void *data, size_t len)
{
    /* libuv takes a plain char pointer but only reads through it. */
    uv_buf_t piece = { .base = (char *)(uintptr_t)data, .len = len };

    return is_writable(stream) && write_raw(stream, &piece, 1);
}

bool stream_write(struct stream *stream, const void *data, size_t len)
{
    /* libuv takes a plain char pointer but only reads through it. */
    uv_buf_t piece = { .base = (char *)(uintptr_t)data, .len = len };

    return stream_writev(stream, &piece, 1);
}

size_t stream_queued(const struct stream *stream)
{
    return uv_stream_get_write_queue_size(&stream->peer.stream);
}

void stream_set_marks(struct stream *stream, size_t high, size_t low)
{
    stream->high = high;
    stream->low = low;
}

bool stream_over_high(const struct stream *stream)
{
    return stream_queued(stream) > stream->high;
}

void stream_pause(struct stream *stream)
{
    if (stream->paused || stream->closing || stream->finishing)
        return;
    stream->paused = true;
    uv_read_stop(&stream->peer.stream);
}

void stream_resume(struct stream *stream)
{
    if (!stream->paused || stream->closing || stream->finishing)
        return;
    stream->paused = false;
    if (stream->readable && !stream->ended)
        (void)uv_read_start(&stream->peer.stream, on_alloc, on_read);
}

int stream_fd(const struct stream *stream)
{
    return stream->fd;
}

bool stream_is_closing(const struct stream *stream)
{
    return stream->closing || stream->finishing;
}

void stream_set_filter(struct stream *stream, const struct stream_filter *filter, void *data)
{
    BUG_ON(stream->filter != NULL);
    stream->filter = filter;
    stream->filter_data = data;
}

void *stream_filter_data(const struct stream *stream, const struct stream_filter *filter)
{
    return stream->filter == filter ? stream->filter_data : NULL;
}

void stream_deliver(struct stream *stream, const char *bytes, size_t len)
{
    if (!stream->closing && !stream->finishing && !stream->ended)
        stream->callbacks.on_data(stream->callbacks.data, bytes, len);
}

void stream_deliver_end(struct stream *stream, const struct error *err)
{
    if (!stream->finishing)
        report_end(stream, err);
}
