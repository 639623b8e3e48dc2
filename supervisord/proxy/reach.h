/* reach.h: a socket that leads to a host: straight there, with every address judged, or through the
 * parent (parent.h) by CONNECT. What comes from it then is the host's own. */
#ifndef PROXY_REACH_H
#define PROXY_REACH_H

#include <uv.h>

#include "proxy/parent.h"
#include "proxy/upstream.h"

struct reach;

struct reach_options {
    const struct host *host; /* copied, as the exception is */
    const struct addr_exception *exception;
    const struct parent *parent; /* borrowed */
    uint64_t timeout_ms;         /* for all of it */
    /* Once, from the loop, unless reach_cancel was called. FD is connected, non-blocking and the
     * callee's; -1 with HOW: RESOLVE, ADDRESS, CONNECT, PARENT, TIMEOUT. */
    void (*on_done)(void *data, int fd, enum upstream_end how);
    void *data;
};

int reach_start(struct reach **out, uv_loop_t *loop, const struct reach_options *options,
                struct error *err);
/* No callback follows; what is open is closed by the loop. */
void reach_cancel(struct reach *reach);

#endif
