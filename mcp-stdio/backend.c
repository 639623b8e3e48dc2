#include "mcp-stdio/backend.h"

#include <stdlib.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "proto/client.h"
#include "proto/launch.h"

#define LOG "backend"
#define FIRST_RETRY_MS 5
#define LAST_RETRY_MS 100

enum state {
    STATE_IDLE,
    STATE_STARTING, /* a supervisor was started; connecting is tried again and again */
    STATE_HELLO,    /* connected, hello is on its way */
    STATE_CONNECTED,
    STATE_LOST, /* `lost` is to be told in the next tick */
};

struct backend {
    const struct clock *clock;
    const struct backend_options *options;
    struct backend_events events;
    struct paths paths; /* found at first need */
    bool has_paths;
    enum state state;
    bool launched; /* in this attempt */
    int started;   /* launch_supervisor's; -1: none */
    bool ended;    /* it has ended: one more try to connect */
    bool may_launch;
    bool absent; /* LOST: only because none may be started */
    struct client *client;
    uint64_t give_up_ms;
    uint64_t retry_ms; /* STARTING: the moment of the next try */
    uint32_t retry_pause_ms;
    uint64_t heard_ms;
    struct error why; /* LOST */
};

static uint64_t now_ms(const struct backend *backend)
{
    return clock_mono_ms(backend->clock);
}

struct backend *backend_new(const struct clock *clock, const struct backend_options *options,
                            const struct backend_events *events)
{
    struct backend *backend = NEW(struct backend);

    backend->clock = clock;
    backend->options = options;
    backend->events = *events;
    backend->started = -1;
    return backend;
}

void backend_free(struct backend *backend)
{
    if (!backend)
        return;
    client_free(backend->client);
    fd_close(&backend->started);
    if (backend->has_paths)
        paths_finish(&backend->paths);
    free(backend);
}

static void lose(struct backend *backend, const struct error *why)
{
    client_free(STEAL(backend->client));
    backend->why = *why;
    backend->state = STATE_LOST;
}

/* Connecting ----------------------------------------------------------------------------------- */

static int find_paths(struct backend *backend, struct error *err)
{
    if (!backend->has_paths && paths_init(&backend->paths, err) < 0)
        return -1;
    backend->has_paths = true;
    return 0;
}

static void schedule_retry(struct backend *backend)
{
    backend->retry_ms = now_ms(backend) + backend->retry_pause_ms;
    if (backend->retry_pause_ms < LAST_RETRY_MS)
        backend->retry_pause_ms *= 2;
}

static int launch(struct backend *backend, struct error *err)
{
    if (!backend->may_launch) {
        backend->absent = true;
        return -1;
    }
    log_info(LOG, "no supervisor serves %s; starting one", backend->paths.socket);
    fd_close(&backend->started);
    if (backend->options->launch(&backend->paths, &backend->started, err) < 0)
        return -1;
    backend->ended = false;
    backend->launched = true;
    backend->state = STATE_STARTING;
    backend->give_up_ms = now_ms(backend) + backend->options->start_ms;
    backend->retry_pause_ms = FIRST_RETRY_MS;
    schedule_retry(backend);
    return 0;
}

static int retry_later(struct backend *backend, struct error *err)
{
    if (now_ms(backend) < backend->give_up_ms && !backend->ended) {
        backend->ended = launch_ended(backend->started); /* perhaps because another one serves */
        backend->state = STATE_STARTING;
        schedule_retry(backend);
        return 0;
    }
    return launch_explain(&backend->paths, backend->ended, err);
}

/* One try. -1: there is nothing more to try. */
static int try_connect(struct backend *backend, struct error *err)
{
    uint64_t hello_end_ms = now_ms(backend) + backend->options->hello_ms;

    if (client_open(&backend->client, backend->paths.socket, "mcp", err) == 0) {
        backend->state = STATE_HELLO;
        if (!backend->launched || backend->give_up_ms < hello_end_ms)
            backend->give_up_ms = hello_end_ms;
        return 0;
    }
    if (err->code != ERR_UNAVAILABLE)
        return -1;
    return backend->launched ? retry_later(backend, err) : launch(backend, err);
}

void backend_connect(struct backend *backend, enum backend_need need)
{
    struct error err = ERROR_INIT;

    /* Who may start one comes right behind someone who may not. */
    if (backend->state == STATE_LOST && backend->absent && need == BACKEND_START)
        backend->state = STATE_IDLE;
    else if (backend->state == STATE_IDLE)
        backend->may_launch = false;
    if (need == BACKEND_START)
        backend->may_launch = true;
    if (backend->state != STATE_IDLE)
        return;
    backend->launched = backend->absent = false;
    if (find_paths(backend, &err) < 0 || try_connect(backend, &err) < 0)
        lose(backend, &err);
}

bool backend_is_connected(const struct backend *backend)
{
    return backend->state == STATE_CONNECTED;
}

/* Requests ------------------------------------------------------------------------------------- */

uint64_t backend_send(struct backend *backend, enum method method, const char *body)
{
    struct error err = ERROR_INIT;
    uint64_t id;

    if (backend->state != STATE_CONNECTED)
        return 0;
    id = client_send(backend->client, method_infos[method].name, body, NULL, 0, &err);
    if (id == 0)
        lose(backend, &err);
    return id;
}

void backend_cancel(struct backend *backend, uint64_t id)
{
    struct error err = ERROR_INIT;

    if (id && backend->state == STATE_CONNECTED && client_cancel(backend->client, id, &err) < 0)
        lose(backend, &err);
}

void backend_abandon(struct backend *backend, const struct error *why)
{
    if (backend->client)
        lose(backend, why);
}

uint64_t backend_heard_ms(const struct backend *backend)
{
    return backend->heard_ms;
}

/* The owner's side ----------------------------------------------------------------------------- */

bool backend_poll(const struct backend *backend, struct pollfd *entry)
{
    if (!backend->client)
        return false;
    entry->fd = client_fd(backend->client);
    entry->events = (short)(POLLIN | (client_sending(backend->client) ? POLLOUT : 0));
    return true;
}

static void say_how_to_change_version(struct error *err)
{
    struct error before = *err;

    error_set(err, before.code, 0,
              "%s; stop the supervisor that is running, and the next call starts the right one",
              before.text);
}

/* A supervisor that went away between connect and hello was stopping: another may be started. */
static void on_read_failed(struct backend *backend, struct error *err)
{
    if (backend->state == STATE_HELLO && err->code == ERR_UNAVAILABLE) {
        client_free(STEAL(backend->client));
        if (backend->launched ? retry_later(backend, err) == 0 : launch(backend, err) == 0)
            return;
    }
    if (backend->state == STATE_HELLO && err->code == ERR_CONFLICT)
        say_how_to_change_version(err);
    lose(backend, err);
}

static void note_hello(struct backend *backend)
{
    if (backend->state != STATE_HELLO || !client_ready(backend->client))
        return;
    backend->state = STATE_CONNECTED;
    backend->events.connected(backend->events.data);
}

static void tell_lost(struct backend *backend)
{
    struct error why = backend->why;

    if (backend->state != STATE_LOST)
        return;
    if (!backend->absent)
        log_warn(LOG, "%s", why.text);
    backend->state = STATE_IDLE;
    backend->events.lost(backend->events.data, &why);
}

static void read_messages(struct backend *backend)
{
    struct client_message message;
    struct error err = ERROR_INIT;

    while (backend->client) {
        int rc = client_next(backend->client, 0, &message, &err);

        if (rc < 0) {
            on_read_failed(backend, &err);
            return;
        }
        backend->heard_ms = now_ms(backend);
        note_hello(backend);
        if (rc == 0)
            return;
        backend->events.message(backend->events.data, &message);
        client_message_finish(&message);
    }
}

/* An end is told at once, so that a call which comes in the same turn finds a backend that can
 * connect again. */
void backend_ready(struct backend *backend)
{
    read_messages(backend);
    tell_lost(backend);
}

uint64_t backend_deadline_ms(const struct backend *backend)
{
    switch (backend->state) {
    case STATE_STARTING:
        return backend->retry_ms;
    case STATE_HELLO:
        return backend->give_up_ms;
    case STATE_LOST:
        return 0;
    case STATE_IDLE:
    case STATE_CONNECTED:
        break;
    }
    return UINT64_MAX;
}

static void give_up_hello(struct backend *backend)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TIMEOUT, 0, "the supervisor accepts connections but does not answer");
    lose(backend, &err);
}

void backend_tick(struct backend *backend)
{
    struct error err = ERROR_INIT;

    if (backend->state == STATE_STARTING && now_ms(backend) >= backend->retry_ms &&
        try_connect(backend, &err) < 0)
        lose(backend, &err);
    if (backend->state == STATE_HELLO && now_ms(backend) >= backend->give_up_ms)
        give_up_hello(backend);
    tell_lost(backend);
}

void backend_flush(struct backend *backend)
{
    struct error err = ERROR_INIT;

    if (backend->client && client_sending(backend->client) &&
        client_flush(backend->client, &err) < 0)
        on_read_failed(backend, &err);
}
