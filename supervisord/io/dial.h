/* dial.h: a connection to a name: resolves it, lets every address be judged before one is used, and
 * tries them in order. */
#ifndef IO_DIAL_H
#define IO_DIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "common/error.h"

struct dial;

struct dial_options {
    const char *name; /* or an address */
    uint16_t port;
    uint64_t timeout_ms; /* for all of it */
    /* One address that is not allowed spoils them all. */
    bool (*allow)(void *data, const struct sockaddr *address);
    /* Once, unless dial_cancel was called. FD is connected, non-blocking and the callee's; -1 with
     * ERR: ERR_NOT_FOUND (no address), ERR_DENIED (by allow), ERR_TIMEOUT, ERR_SYSTEM (refused or
     * unreachable). */
    void (*on_done)(void *data, int fd, const struct error *err);
    void *data;
};

/* NAME is copied. */
int dial_start(struct dial **out, uv_loop_t *loop, const struct dial_options *options,
               struct error *err);
/* No callback follows; what is open is closed by the loop. */
void dial_cancel(struct dial *dial);

#endif
