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

#endif
