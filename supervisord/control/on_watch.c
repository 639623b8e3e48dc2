/* on_watch.c: session.watch: which runs of a session have changed, as it happens. States are told
 * and not events: a run that changed twice before it could be told is told once, and a client that
 * reads slowly costs no more than its list of runs. */
#include "control/internal.h"
#include "proto/msg_session.h"

#define TELL_MS 100 /* changes come in bursts */
#define RUNS_MAX 16 /* with more than these "something" has changed */

struct session_watch {
    struct list link; /* control::watches */
    struct request *request;
    struct id session;
    struct id runs[RUNS_MAX]; /* that changed and were not told */
    size_t run_count;
    bool dirty; /* anything to tell */
    bool paused;
};

static struct session_watch *watch_of(struct list *link)
{
    return LIST_ENTRY(link, struct session_watch, link);
}

/* Noting
 * -------------------------------------------------------------------------------------------------------------
 */

static void note(struct session_watch *watch, const struct id *run)
{
    bool all = watch->dirty && watch->run_count == 0;
    size_t i = 0;

    watch->dirty = true;
    if (all)
        return;
    while (run != NULL && i < watch->run_count && !str_equal(watch->runs[i].text, run->text))
        i++;
    if (run == NULL || i == RUNS_MAX)
        watch->run_count = 0;
    else if (i == watch->run_count)
        watch->runs[watch->run_count++] = *run;
}

static void on_flush(uv_timer_t *timer);

static void flush_soon(struct control *control)
{
    if (!control->closing && !uv_is_active((uv_handle_t *)&control->flush))
        uv_timer_start(&control->flush, on_flush, TELL_MS, 0);
}

/* In the midst of a change: only notes. */
static void on_changed(void *data, const struct id *session, const struct id *run)
{
    struct control *control = data;

    LIST_EACH(&control->watches, link) {
        struct session_watch *watch = watch_of(link);

        if (!str_equal(watch->session.text, session->text))
            continue;
        note(watch, run);
        flush_soon(control);
    }
}

/* Telling
 * ------------------------------------------------------------------------------------------------------------
 */

/* RUN NULL: something of the session. */
static void tell(struct session_watch *watch, const struct id *run)
{
    AUTO_BUF struct buf body = BUF_INIT(256);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string_opt(&writer, "runId", run != NULL ? run->text : NULL);
    json_write_object_end(&writer);
    if (!request_event(watch->request, &body))
        watch->paused = true;
}

static void tell_all(struct session_watch *watch)
{
    size_t count = watch->run_count;

    watch->dirty = false;
    watch->run_count = 0;
    if (count == 0)
        tell(watch, NULL);
    for (size_t i = 0; i < count; i++)
        tell(watch, &watch->runs[i]);
}

static bool is_deleted(struct session_watch *watch)
{
    struct error err = ERROR_INIT;
    struct id session;

    return session_known(watch->request->control, watch->session.text, &session, &err) < 0 &&
           err.code == ERR_NOT_FOUND;
}

static void finish(struct session_watch *watch)
{
    AUTO_BUF struct buf body = BUF_INIT(64);
    struct request *request = watch->request;

    tell_all(watch);
    list_remove(&watch->link);
    free(watch);
    buf_append_str(&body, "{\"deleted\":true}");
    request_end(request, &body);
}

static void on_flush(uv_timer_t *timer)
{
    struct control *control = timer->data;

    LIST_EACH(&control->watches, link) {
        struct session_watch *watch = watch_of(link);

        if (!watch->dirty || watch->paused)
            continue;
        if (is_deleted(watch))
            finish(watch);
        else
            tell_all(watch);
    }
}

/* The request
 * --------------------------------------------------------------------------------------------------------
 */

static void on_drop(struct request *request)
{
    struct session_watch *watch = request->state;

    list_remove(&watch->link);
    free(watch);
}

static void on_drain(struct request *request)
{
    struct session_watch *watch = request->state;

    watch->paused = false;
    if (watch->dirty)
        flush_soon(request->control);
}

void on_session_watch(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(256);
    struct session_params params = { 0 };
    struct error err = ERROR_INIT;
    struct session_watch *watch;
    struct id session;

    if (request_read(request, session_fields, &params) < 0)
        return;
    if (session_known(request->control, params.sessionId, &session, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    watch = NEW(struct session_watch);
    watch->request = request;
    watch->session = session;
    list_append(&request->control->watches, &watch->link);
    request->state = watch;
    request->drop = on_drop;
    request->drain = on_drain;
    buf_printf(&body, "{\"sessionId\":\"%s\"}", watch->session.text);
    request_reply_open(request, &body);
}

/* Life
 * ---------------------------------------------------------------------------------------------------------------
 */

void control_watch_start(struct control *control)
{
    list_init(&control->watches);
    control->watcher.changed = on_changed;
    control->watcher.data = control;
    runs_watch(control->runs, &control->watcher);
    uv_timer_init(control->loop, &control->flush);
    handles_add(&control->handles, (uv_handle_t *)&control->flush, control);
}
