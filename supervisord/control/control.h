/* control.h: the Unix socket: hello, requests, replies, events. Only peers of the same uid (or
 * root) are served. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdint.h>
#include <uv.h>

#include "common/clock.h"
#include "common/error.h"
#include "run/run.h"
#include "store/store.h"
#include "vault/vault.h"

struct control;

struct control_service {
    const char *name;
    const char *target;
    const char *secret;
};

/* What came of trying a service: as proxy_probe says it. */
struct control_service_check {
    const char *outcome;
    uint32_t status; /* 0: no answer */
    const char *reason;
};
typedef void (*control_service_check_cb)(void *check, const struct control_service_check *result);

/* What came of a test notice on one way, in words of the socket's protocol. */
struct control_notice_trial {
    const char *way;
    const char *outcome; /* told, failed, refused */
    const char *why;
    const char *next;
};
typedef void (*control_notices_tried_cb)(void *trial, const struct control_notice_trial *trials,
                                         size_t count);

/* Where backups may go; the last two are names of secrets. */
struct control_storage {
    char *endpoint; /* "" none */
    char *region;
    char *bucket;
    char *access_key;
    char *secret_key;
};

struct control_options {
    int listen_fd; /* a listening socket (taken); the roof bound it early so that a second daemon
                      can't start */
    const char *socket_path; /* for system.status */
    const char *state_dir;
    const char *sandbox_tool; /* bubblewrap's name or path, for system.status; NULL unknown */
    const char *version;
    uint32_t max_connections; /* 0: 256 */
    uint32_t max_requests;    /* in flight per connection; 0: 128 */
    const struct control_service *services;
    size_t service_count;
    struct control_storage storage; /* borrowed for the call; NULL counts as "" */
    /* The web address of a run, written into OUT ("" when there is no web view). */
    void (*web_url)(void *data, const char *run_id, struct buf *out);
    /* Tries a service's credential. DONE runs once, perhaps before this returns. */
    int (*check_service)(void *data, const char *service, control_service_check_cb done,
                         void *check, struct error *err);
    /* Sends a test notice by every way. DONE runs once, later. NULL: not here. */
    int (*try_notices)(void *data, control_notices_tried_cb done, void *trial, struct error *err);
    /* An address that signs a browser in once and shows PAGE: a run's id, a session's or "". NULL
     * when there is no web view. */
    int (*web_login)(void *data, const char *page, struct buf *out, uint64_t *expires_ms,
                     struct error *err);
    /* The same for the pages of the session's agent itself. */
    int (*web_agent)(void *data, const struct id *session, struct buf *out, uint64_t *expires_ms,
                     struct error *err);
    /* system.shutdown was asked for. Runs from the loop after the reply was queued. */
    void (*on_shutdown)(void *data);
    void *data;
};

int control_start(struct control **out, uv_loop_t *loop, struct runs *runs, struct store *store,
                  struct vault *vault, const struct clock *clock,
                  const struct control_options *options, struct error *err);
/* Stops accepting, lets queued replies leave for at most a second, then DONE. */
void control_close(struct control *control, void (*done)(void *data), void *data);
/* An audit record was appended to the store: those who follow are told, soon. */
void control_audited(struct control *control);
size_t control_connections(const struct control *control);

#endif
