/* on_get.c: run.get and run.cancel: a run's view, now or once it has changed. Waiting costs a
 * subscription and a timer. */
#include "control/internal.h"
#include "control/reply_cache.h"
#include "proto/msg_event.h"
#include "proto/msg_run.h"
#include "view/view.h"

#define CANCEL_WAIT_MS 10000

static void reply_view(struct request *request, const struct run_record *run)
{
    struct control *control = request->control;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    AUTO_BUF struct buf web = BUF_INIT(4096);
    struct view_context context;
    struct json_writer writer;

    run_context(control, run, &web, &context);
    json_write_init(&writer, &body);
    view_run(&writer, control->store, run, &context);
    if (run_ended(run))
        reply_cache_keep(control->replies, run->id.text, store_changes(control->store),
                         buf_text(&web), &body);
    request_reply(request, &body);
}

/* True when REQUEST has been answered: the run has ended, and nothing was written since somebody
 * looked at it. */
static bool reply_kept(struct request *request, const char *run_id)
{
    struct control *control = request->control;
    AUTO_BUF struct buf web = BUF_INIT(4096);
    const struct buf *body;

    control_web_url(control, run_id, &web);
    body =
        reply_cache_find(control->replies, run_id, store_changes(control->store), buf_text(&web));
    if (body == NULL)
        return false;
    request_reply(request, body);
    return true;
}

/* Waiting
 * ---------------------------------------------------------------------------------------------------------
 */

enum wait_for { WAIT_FOR_END_OR_QUESTION, WAIT_FOR_END };

struct wait {
    struct request *request;
    struct id run;
    enum wait_for what;
    struct run_subscription *subscription;
    uv_timer_t timer;
};

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void wait_finish(struct wait *wait)
{
    run_unsubscribe(STEAL(wait->subscription));
    uv_close((uv_handle_t *)&wait->timer, on_timer_closed);
}

static void on_drop(struct request *request)
{
    wait_finish(request->state);
}

static bool is_reached(const struct run_record *run, enum wait_for what)
{
    if (run_ended(run))
        return true;
    return what == WAIT_FOR_END_OR_QUESTION && run_status_of(run) == RUN_STATUS_WAITING;
}

static void answer(struct wait *wait)
{
    struct request *request = wait->request;
    struct error err = ERROR_INIT;
    struct run_record run;

    run_record_init(&run);
    if (run_load(request->control->runs, &wait->run, &run, &err) < 0)
        request_fail(request, &err); /* deleted meanwhile */
    else
        reply_view(request, &run);
    run_record_finish(&run);
    wait_finish(wait);
}

static void on_event(void *data, const struct event_record *event)
{
    struct wait *wait = data;
    struct error err = ERROR_INIT;
    struct run_record run;
    bool reached;

    if (wait->what == WAIT_FOR_END || event->kind != EVENT_KIND_STATE)
        return;
    run_record_init(&run);
    reached = run_load(wait->request->control->runs, &wait->run, &run, &err) < 0 ||
              is_reached(&run, wait->what);
    run_record_finish(&run);
    if (reached)
        answer(wait);
}

static void on_ended(void *data, const struct run_record *run)
{
    struct wait *wait = data;

    (void)run;
    wait->subscription = NULL; /* it ends with this call */
    answer(wait);
}

static void on_timeout(uv_timer_t *timer)
{
    answer(timer->data);
}

/* Replies at once when RUN is already there, else later. */
static void reply_when(struct request *request, const struct run_record *run, enum wait_for what,
                       uint64_t wait_ms)
{
    struct run_subscriber subscriber = { .on_event = on_event, .on_ended = on_ended };
    struct error err = ERROR_INIT;
    struct wait *wait;

    if (wait_ms == 0 || is_reached(run, what)) {
        reply_view(request, run);
        return;
    }
    wait = NEW(struct wait);
    wait->request = request;
    wait->run = run->id;
    wait->what = what;
    subscriber.data = wait;
    if (run_subscribe(&wait->subscription, request->control->runs, &run->id, run->last_event,
                      &subscriber, &err) < 0) {
        free(wait);
        request_fail(request, &err);
        return;
    }
    uv_timer_init(request->control->loop, &wait->timer);
    wait->timer.data = wait;
    uv_timer_start(&wait->timer, on_timeout, wait_ms, 0);
    request->state = wait;
    request->drop = on_drop;
}

void on_run_get(struct request *request)
{
    struct run_get_params params = { 0 };
    struct error err = ERROR_INIT;
    struct run_record run;

    if (request_read(request, run_get_fields, &params) < 0 || reply_kept(request, params.runId))
        return;
    run_record_init(&run);
    if (run_load_by_text(request->control, params.runId, &run, &err) < 0)
        request_fail(request, &err);
    else
        reply_when(request, &run, WAIT_FOR_END_OR_QUESTION, (uint64_t)params.waitSeconds * 1000);
    run_record_finish(&run);
}

void on_run_cancel(struct request *request)
{
    struct control *control = request->control;
    struct run_id_params params = { 0 };
    struct error err = ERROR_INIT;
    struct run_record run;

    if (request_read(request, run_id_fields, &params) < 0)
        return;
    run_record_init(&run);
    /* Loaded again behind it: a queued run is over at once. */
    if (run_load_by_text(control, params.runId, &run, &err) < 0 ||
        run_cancel(control->runs, &run.id, &err) < 0 ||
        run_load_by_text(control, params.runId, &run, &err) < 0)
        request_fail(request, &err);
    else
        reply_when(request, &run, WAIT_FOR_END, CANCEL_WAIT_MS);
    run_record_finish(&run);
}
