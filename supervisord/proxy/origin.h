/* origin.h: connections of one run to one service, in the clear or inside of TLS, kept for the next
 * request. They are never shared between runs. */
#ifndef PROXY_ORIGIN_H
#define PROXY_ORIGIN_H

#include <uv.h>

#include "io/tls.h"
#include "proxy/parent.h"
#include "proxy/services.h"
#include "proxy/upstream.h"

struct origin;
struct origin_conn;

struct origin_options {
    const struct service *service; /* borrowed, as TLS is */
    struct tls_context *tls;       /* NULL: in the clear */
    const struct parent *parent;   /* borrowed */
    uint64_t connect_timeout_ms;   /* for resolving, connecting and TLS */
};

struct origin *origin_start(uv_loop_t *loop, const struct origin_options *options);
/* Closes every connection at once, those in use too, without a callback of theirs; then DONE. */
void origin_close(struct origin *origin, void (*done)(void *data), void *data);

/* Who has a connection hears of it. All run from the loop. */
struct origin_callbacks {
    /* A new connection is there: nothing may be sent before. */
    void (*on_ready)(void *data);
    void (*on_data)(void *data, const char *bytes, size_t len);
    /* What was sent is below the stream's low mark again. */
    void (*on_drain)(void *data);
    /* OK: in order; RESOLVE, ADDRESS, CONNECT, PARENT, TLS and TIMEOUT before on_ready, CUT after.
     * The connection is gone. */
    void (*on_end)(void *data, enum upstream_end how);
    void *data;
};

/* A connection, *READY when it was used before, else on_ready follows. FRESH: a new one. */
int origin_take(struct origin *origin, bool fresh, const struct origin_callbacks *callbacks,
                struct origin_conn **out, bool *ready, struct error *err);
/* The caller is through with it: the next request may have it. It must be idle, with nothing to
 * come and nothing to send. */
void origin_give(struct origin_conn *conn);
/* Closes it at once; no callback follows. */
void origin_drop(struct origin_conn *conn);

/* NULL before on_ready. */
struct stream *origin_stream(const struct origin_conn *conn);

#endif
