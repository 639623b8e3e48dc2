/* web.h: pages for people: a board of runs, each run, session and the audit, live. A page is seen
 * by a browser that was signed in with a one-time link, or, one run only, by whoever has the link
 * of that run. Nothing is served to other hosts' names or other sites' pages. */
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
    const char *listen;    /* "127.0.0.1" */
    uint16_t port;         /* 0: the port used last time if it is free, else any */
    const char *state_dir; /* web.key (32 random bytes, 0600), web.port and web.sessions (hashes of
                              the browsers that are signed in) are kept here */
    bool remote;           /* LISTEN may be another machine's to reach: it is said in the log */
    const char *const *names; /* further names of this machine that a remote page is asked for by */
    size_t name_count;
    /* The token that signs a browser in without a link; NULL: there is none. */
    bool (*token_matches)(void *data, const char *token);
    void *token_data;
    uint32_t max_connections; /* 0: 512 */
    uint32_t max_streams;     /* live pages; 0: 256 */
};

int web_start(struct web **out, uv_loop_t *loop, struct runs *runs, struct store *store,
              const struct clock *clock, const struct web_options *options, struct error *err);
void web_close(struct web *web, void (*done)(void *data), void *data);

/* "http://127.0.0.1:PORT" */
const char *web_origin(const struct web *web);
/* Appends the address of a run's page; its token is an HMAC of the run's id under web.key, so it
 * opens this run only. */
void web_run_url(const struct web *web, const char *run_id, struct buf *out);
/* Appends an address that signs one browser in, once, within five minutes, and shows PAGE there: a
 * run's id, a session's, or "" for the board. *EXPIRES_MS: wall clock. */
int web_login_url(struct web *web, const char *page, struct buf *out, uint64_t *expires_ms,
                  struct error *err);
/* The same for the pages that the session's agent itself shows while it is at work, on this machine
 * and under a name of their own. ERR_CONFLICT: there are none now. */
int web_agent_url(struct web *web, const struct id *session, struct buf *out, uint64_t *expires_ms,
                  struct error *err);
/* Pages that are live now. */
unsigned web_streams(const struct web *web);

#endif
