#include "control/control.h"

#include <unistd.h>

#include "common/fd.h"
#include "control/internal.h"
#include "control/reply_cache.h"

#define DEFAULT_CONNECTIONS 256
#define DEFAULT_REQUESTS 128
#define SWEEP_MS 2000

static char **storage_slot(struct control_storage *storage, size_t index)
{
    char **slots[] = { &storage->endpoint, &storage->region, &storage->bucket, &storage->access_key,
                       &storage->secret_key };

    return index < ARRAY_LEN(slots) ? slots[index] : NULL;
}

static void control_free(struct control *control)
{
    char **slot;

    for (size_t i = 0; i < control->service_count; i++) {
        free(control->services[i].name);
        free(control->services[i].target);
        free(control->services[i].secret);
    }
    free(control->services);
    reply_cache_free(control->replies);
    for (size_t i = 0; (slot = storage_slot(&control->storage, i)) != NULL; i++)
        free(*slot);
    free(control->socket_path);
    free(control->state_dir);
    free(control->sandbox_tool);
    free(control->version);
    free(control);
}

/* The listener, the handles and each connection are parts; the last one to go ends it. */
static void on_part_closed(void *data)
{
    struct control *control = data;
    void (*done)(void *) = control->done;
    void *done_data = control->done_data;

    if (--control->open_parts > 0)
        return;
    control_free(control);
    if (done != NULL)
        done(done_data);
}

void control_conn_gone(struct control *control)
{
    control->conn_count--;
    if (control->listener != NULL)
        listener_release(control->listener);
    on_part_closed(control);
}

static bool peer_allowed(int fd)
{
    struct error err = ERROR_INIT;
    uid_t uid = 0;

    if (fd_peer(fd, &uid, NULL, &err) < 0) {
        log_warn("control", "connection refused: %s", err.text);
        return false;
    }
    if (uid != 0 && uid != geteuid()) {
        log_warn("control", "connection of uid %u refused", (unsigned)uid);
        return false;
    }
    return true;
}

static void on_accept(void *data, int fd)
{
    struct control *control = data;
    struct error err = ERROR_INIT;

    if (!peer_allowed(fd)) {
        close(fd);
        listener_release(control->listener);
        return;
    }
    if (conn_start(control, fd, &err) < 0) {
        log_warn("control", "connection lost: %s", err.text);
        listener_release(control->listener);
        return;
    }
    control->conn_count++;
    control->open_parts++;
}

static void on_sweep(uv_timer_t *timer)
{
    struct control *control = timer->data;
    uint64_t now = clock_mono_ms(control->clock);
    bool waiting = false;

    LIST_EACH(&control->conns, link)
        waiting |= conn_sweep(conn_of(link), now);
    if (waiting)
        control_sweep_soon(control);
}

void control_sweep_rest(struct control *control)
{
    LIST_EACH(&control->conns, link) {
        if (conn_awaits_hello(conn_of(link)))
            return;
    }
    uv_timer_stop(&control->sweep);
}

void control_sweep_soon(struct control *control)
{
    if (!uv_is_closing((uv_handle_t *)&control->sweep) &&
        !uv_is_active((uv_handle_t *)&control->sweep))
        uv_timer_start(&control->sweep, on_sweep, SWEEP_MS, 0);
}

static void copy_options(struct control *control, const struct control_options *options)
{
    char **slot;
    control->socket_path = mem_strdup(options->socket_path);
    control->state_dir = mem_strdup(options->state_dir);
    control->sandbox_tool = mem_strdup(options->sandbox_tool);
    control->version = mem_strdup(options->version);
    control->max_requests = options->max_requests != 0 ? options->max_requests : DEFAULT_REQUESTS;
    control->web_url = options->web_url;
    control->web_login = options->web_login;
    control->web_agent = options->web_agent;
    control->on_shutdown = options->on_shutdown;
    control->check_service = options->check_service;
    control->try_notices = options->try_notices;
    control->data = options->data;
    control->storage = options->storage;
    for (size_t i = 0; (slot = storage_slot(&control->storage, i)) != NULL; i++)
        *slot = mem_strdup(*slot != NULL ? *slot : "");
    control->services = mem_new_zero(options->service_count + 1, sizeof(*control->services));
    control->service_count = options->service_count;
    for (size_t i = 0; i < options->service_count; i++) {
        const char *secret = options->services[i].secret;

        control->services[i].name = mem_strdup(options->services[i].name);
        control->services[i].target = mem_strdup(options->services[i].target);
        control->services[i].secret = mem_strdup(secret != NULL ? secret : "");
    }
}

int control_start(struct control **out, uv_loop_t *loop, struct runs *runs, struct store *store,
                  struct vault *vault, const struct clock *clock,
                  const struct control_options *options, struct error *err)
{
    struct control *control = NEW(struct control);
    uint32_t connections =
        options->max_connections != 0 ? options->max_connections : DEFAULT_CONNECTIONS;

    control->loop = loop;
    control->runs = runs;
    control->store = store;
    control->vault = vault;
    control->clock = clock;
    control->started_mono_ms = clock_mono_ms(clock);
    control->started_wall_ms = clock_wall_ms(clock);
    control->replies = reply_cache_new();
    list_init(&control->conns);
    copy_options(control, options);
    if (listener_start(&control->listener, loop, options->listen_fd, connections, on_accept,
                       control, err) < 0) {
        control_free(control);
        return error_wrap(err, "control");
    }
    handles_init(&control->handles, on_part_closed, control);
    uv_timer_init(loop, &control->sweep);
    handles_add(&control->handles, (uv_handle_t *)&control->sweep, control);
    control_watch_start(control);
    control_audit_start(control);
    control->open_parts = 2;
    *out = control;
    return 0;
}

void control_close(struct control *control, void (*done)(void *data), void *data)
{
    uv_handle_t *handles[] = { (uv_handle_t *)&control->sweep, (uv_handle_t *)&control->flush,
                               (uv_handle_t *)&control->audit_tick };
    struct listener *listener = STEAL(control->listener);

    if (control->closing)
        return;
    control->closing = true;
    runs_unwatch(&control->watcher);
    control->done = done;
    control->done_data = data;
    LIST_EACH(&control->conns, link)
        conn_finish(conn_of(link));
    listener_close(listener, on_part_closed, control);
    handles_close_all(&control->handles, control->loop, handles, ARRAY_LEN(handles));
}

size_t control_connections(const struct control *control)
{
    return control->conn_count;
}

void control_web_url(struct control *control, const char *run_id, struct buf *out)
{
    if (control->web_url != NULL)
        control->web_url(control->data, run_id, out);
}
