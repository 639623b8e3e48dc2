/* on_audit.c: audit.list: what the proxy decided, page by page, or as it happens. A follower is a
 * cursor into the store, so what is stored and what comes is told by the same reading, and a client
 * that reads slowly costs no memory. */
#include "control/internal.h"
#include "proto/msg_service.h"
#include "view/view.h"

#define TELL_MS 10                   /* decisions come in bursts: one commit for many of them */
#define PUMP_PAGE 64                 /* records that one follower is told in one turn */
#define AFTER_ALL (INT64_C(1) << 53) /* no event of a run has such a number */

/* Pages
 * ---------------------------------------------------------------------------------------------------------------
 */

struct audit_page {
    struct json_writer writer;
    uint32_t left;
    uint64_t cursor;
    bool more;
};

static bool write_audit(void *data, const struct audit_record *audit)
{
    struct audit_page *page = data;

    if (page->left == 0) {
        page->more = true;
        return false;
    }
    page->left--;
    page->cursor = audit->number;
    view_audit(&page->writer, audit);
    return true;
}

static void reply_page(struct request *request, const struct audit_list_params *params,
                       const struct id *run)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct audit_page page = { .left = params->limit };
    struct error err = ERROR_INIT;

    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    json_write_name(&page.writer, "records");
    json_write_array(&page.writer);
    if (store_audit_each(request->control->store, run, params->before, (size_t)params->limit + 1,
                         write_audit, &page, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    json_write_array_end(&page.writer);
    json_member_bool(&page.writer, "hasMore", page.more);
    json_member_u64(&page.writer, "cursor", page.cursor);
    json_write_object_end(&page.writer);
    request_reply(request, &body);
}

/* Following
 * -----------------------------------------------------------------------------------------------------------
 */

struct audit_follow {
    struct list link; /* control::audit_follows */
    struct request *request;
    bool of_run;
    struct id run;
    struct run_subscription *until; /* its end; NULL once that came, or when all runs are meant */
    bool ended;
    uint64_t after; /* the number that was told last */
    size_t told;    /* in this turn */
    bool news;
    bool paused;
};

static void on_tick(uv_timer_t *timer);

static void tick_soon(struct control *control)
{
    if (!control->closing && !uv_is_active((uv_handle_t *)&control->audit_tick))
        uv_timer_start(&control->audit_tick, on_tick, TELL_MS, 0);
}

void control_audited(struct control *control)
{
    if (list_empty(&control->audit_follows))
        return;
    LIST_EACH(&control->audit_follows, link)
        LIST_ENTRY(link, struct audit_follow, link)->news = true;
    tick_soon(control);
}

static bool tell(void *data, const struct audit_record *audit)
{
    struct audit_follow *follow = data;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct json_writer writer;

    json_write_init(&writer, &body);
    view_audit(&writer, audit);
    follow->after = audit->number;
    follow->told++;
    follow->paused = !request_event(follow->request, &body);
    return !follow->paused;
}

static void follow_free(struct audit_follow *follow)
{
    list_remove(&follow->link);
    run_unsubscribe(follow->until);
    free(follow);
}

static void finish(struct audit_follow *follow)
{
    AUTO_BUF struct buf body = BUF_INIT(256);
    struct request *request = follow->request;
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_u64(&writer, "cursor", follow->after);
    json_write_object_end(&writer);
    follow_free(follow);
    request_end(request, &body);
}

static void pump(struct audit_follow *follow)
{
    struct control *control = follow->request->control;
    struct error err = ERROR_INIT;

    follow->news = false;
    follow->told = 0;
    if (store_audit_after(control->store, follow->of_run ? &follow->run : NULL, follow->after,
                          PUMP_PAGE, tell, follow, &err) < 0)
        log_warn("audit", "records can't be read: %s", err.text);
    if (follow->paused)
        return;
    if (follow->told == PUMP_PAGE) {
        follow->news = true;
        tick_soon(control);
    } else if (follow->ended) {
        finish(follow);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct control *control = timer->data;
    struct error err = ERROR_INIT;

    /* What is told is on disk: a number must not mean another record after a crash. */
    if (store_has_batch(control->store) && store_flush(control->store, &err) < 0)
        log_warn("audit", "not on disk: %s", err.text);
    LIST_EACH(&control->audit_follows, link) {
        struct audit_follow *follow = LIST_ENTRY(link, struct audit_follow, link);

        if (follow->news && !follow->paused)
            pump(follow);
    }
}

static void follow_drop(struct request *request)
{
    follow_free(request->state);
}

static void follow_drain(struct request *request)
{
    struct audit_follow *follow = request->state;

    follow->paused = false;
    follow->news = true;
    tick_soon(request->control);
}

static void on_run_event(void *data, const struct event_record *event)
{
    (void)data;
    (void)event;
}

/* Nothing more is decided for the run, but some of it may have to be told still. */
static void on_run_ended(void *data, const struct run_record *run)
{
    struct audit_follow *follow = data;

    (void)run;
    follow->until = NULL;
    follow->ended = true;
    follow->news = true;
    tick_soon(follow->request->control);
}

static void start_follow(struct request *request, const struct audit_list_params *params,
                         const struct id *run)
{
    AUTO_BUF struct buf body = BUF_INIT(256);
    struct audit_follow *follow = NEW(struct audit_follow);
    const struct run_subscriber subscriber = { .on_event = on_run_event,
                                               .on_ended = on_run_ended,
                                               .data = follow };
    struct error err = ERROR_INIT;

    if (run != NULL && run_subscribe(&follow->until, request->control->runs, run, AFTER_ALL,
                                     &subscriber, &err) < 0) {
        free(follow);
        request_fail(request, &err);
        return;
    }
    follow->request = request;
    follow->after = params->after;
    follow->news = true;
    follow->of_run = run != NULL;
    if (run != NULL)
        follow->run = *run;
    list_append(&request->control->audit_follows, &follow->link);
    request->state = follow;
    request->drop = follow_drop;
    request->drain = follow_drain;
    buf_printf(&body, "{\"records\":[],\"hasMore\":false,\"cursor\":%llu}",
               (unsigned long long)params->after);
    request_reply_open(request, &body);
    tick_soon(request->control);
}

/* The request
 * --------------------------------------------------------------------------------------------------------
 */

void on_audit_list(struct request *request)
{
    struct audit_list_params params = { .limit = 100 };
    struct error err = ERROR_INIT;
    struct id run;

    if (request_read(request, audit_list_fields, &params) < 0)
        return;
    if (params.runId != NULL && !id_parse(ID_KIND_RUN, params.runId, &run))
        error_argument(&err, "runId", "not a run's id");
    else if (params.follow && params.before != 0)
        error_argument(&err, "before", "has no meaning with follow");
    else if (!params.follow && params.after != 0)
        error_argument(&err, "after", "has a meaning with follow only");
    if (err.code != ERR_NONE)
        request_fail(request, &err);
    else if (params.follow)
        start_follow(request, &params, params.runId != NULL ? &run : NULL);
    else
        reply_page(request, &params, params.runId != NULL ? &run : NULL);
}

void control_audit_start(struct control *control)
{
    list_init(&control->audit_follows);
    uv_timer_init(control->loop, &control->audit_tick);
    handles_add(&control->handles, (uv_handle_t *)&control->audit_tick, control);
}
