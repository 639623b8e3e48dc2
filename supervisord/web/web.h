/* web.h: a loopback page for people: one run's state and live events. */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/error.h"
#include "run/run.h"
#include "store/store.h"

struct web;

struct web_options {
    const char *listen;       /* "127.0.0.1" */
    uint16_t port;            /* 0: the port used last time if it is free, else any */
    const char *state_dir;    /* web.key (32 random bytes, 0600) and web.port are kept here */
    uint32_t max_connections; /* 0: 128 */
};

int web_start(struct web **out, uv_loop_t *loop, struct runs *runs, struct store *store,
              const struct clock *clock, const struct web_options *options, struct error *err);
void web_close(struct web *web, void (*done)(void *data), void *data);

/* "http://127.0.0.1:PORT" */
const char *web_origin(const struct web *web);
/* Appends the address of a run's page; its token is an HMAC of the run's id under web.key, so it
 * opens this run only. */
void web_run_url(const struct web *web, const char *run_id, struct buf *out);

#endif
