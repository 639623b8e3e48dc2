/* stream.h: one connected socket or pipe end on the loop: reads into one buffer shared by the whole
 * loop, writes that own their bytes, back-pressure by numbers. */
#ifndef IO_STREAM_H
#define IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/buf.h"
#include "common/error.h"

struct stream;

struct stream_callbacks {
    /* DATA is valid during the call. The callee may call stream_pause or stream_close. */
    void (*on_data)(void *data, const char *bytes, size_t len);
    /* Once: the peer sent its end (err NULL) or the connection broke. Writing may still work after
     * an orderly end. */
    void (*on_end)(void *data, const struct error *err);
    /* After stream_write left more than the high mark queued: the queue is below the low mark
     * again. May be NULL. */
    void (*on_drain)(void *data);
    void *data;
};

/* Takes FD (a stream socket or a pipe; closed also on failure) and begins to read. */
int stream_start(struct stream **out, uv_loop_t *loop, int fd,
                 const struct stream_callbacks *callbacks, struct error *err);
/* No callback after this returns, but DONE, once (may be NULL). Queued bytes are dropped; see
 * stream_finish. */
void stream_close(struct stream *stream, void (*done)(void *data), void *data);
/* Writes what is queued (for at most TIMEOUT_MS), sends our end, waits a little for the peer's
 * while throwing away what comes, then closes as above. */
void stream_finish(struct stream *stream, uint64_t timeout_ms, void (*done)(void *data),
                   void *data);
/* Closes so that the peer sees a reset rather than an orderly end (SO_LINGER 0). */
void stream_reset(struct stream *stream, void (*done)(void *data), void *data);

/* Sends our end behind what is queued; what the peer sends is still read. */
void stream_end(struct stream *stream);

/* Writes at once what the socket takes and queues a copy of the rest. False once the connection is
 * broken (on_end follows or has been called). */
bool stream_write(struct stream *stream, const void *data, size_t len);
/* Gathers; at most 8 pieces. */
bool stream_writev(struct stream *stream, const uv_buf_t *pieces, unsigned count);
size_t stream_queued(const struct stream *stream); /* bytes not yet taken by the socket */
/* Default 256 KiB and 64 KiB. */
void stream_set_marks(struct stream *stream, size_t high, size_t low);
bool stream_over_high(const struct stream *stream);

/* Stops reading: the kernel's buffer fills and the peer waits. */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
int stream_fd(const struct stream *stream);
bool stream_is_closing(const struct stream *stream);

/* What stands between the socket and the callbacks, such as TLS. It is freed with the stream. */
struct stream_filter {
    /* The socket's bytes and end come here. */
    void (*on_data)(void *data, const char *bytes, size_t len);
    void (*on_end)(void *data, const struct error *err);
    /* For stream_write and stream_writev. */
    bool (*write)(void *data, const uv_buf_t *pieces, unsigned count);
    /* Our end is sent right after. */
    void (*end)(void *data);
    void (*free)(void *data);
};
/* FILTER is borrowed for good, DATA is taken. One at most. */
void stream_set_filter(struct stream *stream, const struct stream_filter *filter, void *data);
/* DATA when FILTER is the stream's, else NULL. */
void *stream_filter_data(const struct stream *stream, const struct stream_filter *filter);
/* From a filter to the socket, and to the callbacks. These may close the stream, so that the filter
 * looks at stream_is_closing after them; its own memory stays until the loop's next turn. */
bool stream_write_raw(struct stream *stream, const void *data, size_t len);
void stream_deliver(struct stream *stream, const char *bytes, size_t len);
void stream_deliver_end(struct stream *stream, const struct error *err);

#endif
