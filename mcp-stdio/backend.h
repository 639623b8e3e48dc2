/* backend.h: the one connection to the supervisor, made when it is first needed and again after it
 * broke. A supervisor that is absent is started. Nothing here waits: connecting, starting and hello
 * go on between turns of the poll loop. */
#ifndef MCP_STDIO_BACKEND_H
#define MCP_STDIO_BACKEND_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/paths.h"
#include "proto/client.h"
#include "proto/methods.h"

struct backend_options {
    /* Starts a supervisor and returns at once: launch_supervisor, or a test's own. */
    int (*launch)(const struct paths *paths, int *started, struct error *err);
    uint32_t start_ms; /* how long a started supervisor may take until it serves */
    uint32_t hello_ms; /* how long one that serves may take to say hello */
};

/* Called from backend_ready and backend_tick, never from inside another call. */
struct backend_events {
    void (*connected)(void *data); /* requests may be sent now */
    void (*message)(void *data, struct client_message *message);
    /* No connection could be made, or the one there was is over; no request of before will be
     * answered. */
    void (*lost)(void *data, const struct error *err);
    void *data;
};

struct backend;

/* OPTIONS, CLOCK are borrowed for life. */
struct backend *backend_new(const struct clock *clock, const struct backend_options *options,
                            const struct backend_events *events);
void backend_free(struct backend *backend);

enum backend_need {
    BACKEND_IF_THERE, /* `lost` when no supervisor runs */
    BACKEND_START,    /* one is started then */
};

/* Begins to connect, unless that is done or under way; `connected` or `lost` tells. */
void backend_connect(struct backend *backend, enum backend_need need);
bool backend_is_connected(const struct backend *backend);
/* Only while connected. The request's id, or 0: then `lost` follows. */
uint64_t backend_send(struct backend *backend, enum method method, const char *body);
void backend_cancel(struct backend *backend, uint64_t id);
/* Ends the connection, because the supervisor is hung; `lost` follows with WHY. */
void backend_abandon(struct backend *backend, const struct error *why);
/* When anything last came from the supervisor (monotonic ms). */
uint64_t backend_heard_ms(const struct backend *backend);

bool backend_poll(const struct backend *backend, struct pollfd *entry);
void backend_ready(struct backend *backend);
uint64_t backend_deadline_ms(const struct backend *backend);
/* Does what is due. */
void backend_tick(struct backend *backend);
/* Sends what was gathered. */
void backend_flush(struct backend *backend);

#endif
