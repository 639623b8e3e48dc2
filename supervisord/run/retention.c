/* retention.c: sessions that were not used for long, or take too much disk, are deleted as a person
 * would delete them; and so are mirrors. What would go and what goes is found by the same steps. */
#include "run/retention.h"

#include <stdlib.h>

#include "run/internal.h"

#define FIRST_MS 60000
#define DAY_MS (UINT64_C(24) * 3600 * 1000)
#define MIB (UINT64_C(1) << 20)

static bool goes_before(const struct retention_session *a, const struct retention_session *b)
{
    return a->mirror != b->mirror ? a->mirror : a->used_ms < b->used_ms;
}

static struct retention_session *oldest(struct retention_session *const *sessions, size_t count)
{
    struct retention_session *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (sessions[i]->may_go && sessions[i]->verdict == RETENTION_KEEP &&
            (found == NULL || goes_before(sessions[i], found)))
            found = sessions[i];
    }
    return found;
}

void retention_choose(const struct retention_policy *policy, uint64_t now_ms,
                      struct retention_session *const *sessions, size_t count)
{
    uint64_t bytes = 0;
    struct retention_session *next;

    for (size_t i = 0; i < count; i++) {
        uint64_t max_age_ms = sessions[i]->mirror ? policy->max_mirror_age_ms : policy->max_age_ms;
        bool old = max_age_ms != 0 && sessions[i]->used_ms < now_ms &&
                   now_ms - sessions[i]->used_ms > max_age_ms;

        sessions[i]->verdict = old && sessions[i]->may_go ? RETENTION_AGE : RETENTION_KEEP;
        bytes += sessions[i]->verdict == RETENTION_KEEP ? sessions[i]->bytes : 0;
    }
    while (policy->max_bytes != 0 && bytes > policy->max_bytes &&
           (next = oldest(sessions, count)) != NULL) {
        next->verdict = RETENTION_DISK;
        bytes -= next->bytes;
    }
}

/* Doing it ------------------------------------------------------------------------------------ */

struct candidate {
    struct retention_session session;
    struct workspace_layout layout;
    struct workspace_mirror mirror; /* only of one */
    struct retained view;
};

struct retention {
    struct runs *runs;
    enum retention_mode mode;
    struct candidate **items;
    size_t count;
    size_t room;
    size_t at;
    uv_work_t work;
    atomic_bool cancel;
    retention_cb done; /* NULL: nobody waits */
    void *data;
};

static struct retention_policy policy_of(const struct runs *runs)
{
    return (struct retention_policy){ .max_age_ms = runs->options.retention_days * DAY_MS,
                                      .max_mirror_age_ms =
                                          runs->options.retention_mirror_days * DAY_MS,
                                      .max_bytes = runs->options.retention_mib * MIB };
}

static void retention_free(struct retention *retention)
{
    for (size_t i = 0; i < retention->count; i++) {
        free(retention->items[i]->view.title);
        workspace_layout_finish(&retention->items[i]->layout);
        workspace_mirror_finish(&retention->items[i]->mirror);
        free(retention->items[i]);
    }
    free(retention->items);
    free(retention);
}

static void finish(struct retention *retention)
{
    struct runs *runs = retention->runs;
    const struct retained **views = mem_new_zero(retention->count + 1, sizeof(*views));
    size_t count = 0;

    runs->retaining = false;
    for (size_t i = 0; i < retention->count; i++) {
        if (retention->items[i]->session.verdict != RETENTION_KEEP)
            views[count++] = &retention->items[i]->view;
    }
    if (retention->mode == RETENTION_REMOVE && count > 0)
        log_info("retention", "%zu of %zu were to go", count, retention->count);
    if (retention->done != NULL)
        retention->done(retention->data, views, count);
    free(views);
    retention_free(retention);
}

static bool may_go(struct runs *runs, const struct session_record *session)
{
    return !session->held && !session->making && session->restoring == 0 &&
           !session_task_any(runs, &session->id) &&
           registry_find_session(runs, &session->id, false) == NULL;
}

static struct candidate *add_item(struct retention *retention, uint64_t used_ms)
{
    struct candidate *item = NEW(struct candidate);

    if (retention->count == retention->room) {
        size_t room = retention->room != 0 ? retention->room * 2 : 64;
        struct candidate **more = mem_new_zero(room, sizeof(*more));

        for (size_t i = 0; i < retention->count; i++)
            more[i] = retention->items[i];
        free(retention->items);
        retention->items = more;
        retention->room = room;
    }
    item->view.used_ms = item->session.used_ms = used_ms;
    retention->items[retention->count++] = item;
    return item;
}

static bool add_session(void *data, const struct session_record *session)
{
    struct retention *retention = data;
    struct candidate *item = add_item(retention, session->updated_ms);

    item->view.id = session->id;
    item->view.title = mem_strdup(session->title);
    workspace_layout_init(&item->layout, retention->runs->options.state_dir, session->id.text);
    return true;
}

static void add_mirror(void *data, struct workspace_mirror *mirror, const char *url,
                       uint64_t used_ms)
{
    struct candidate *item = add_item(data, used_ms);

    item->mirror = *mirror;
    item->session.mirror = item->view.mirror = true;
    item->view.title = mem_strdup(url);
}

static void remove_next(struct retention *retention);

static void on_removed(void *data, const struct error *err)
{
    struct retention *retention = data;

    retention->items[retention->at]->view.removed = err == NULL;
    retention->at++;
    remove_next(retention);
}

/* It may have been used, or put on hold, since it was chosen. */
static bool still_may_go(struct runs *runs, const struct candidate *item)
{
    struct session_record session;
    struct error err = ERROR_INIT;
    bool may;

    if (item->view.mirror)
        return !mirror_busy(runs, &item->mirror);
    session_record_init(&session);
    may = store_session_load(runs->store, &item->view.id, &session, &err) == 0 &&
          may_go(runs, &session) && session.updated_ms == item->view.used_ms;
    session_record_finish(&session);
    return may;
}

static const char *name_of(const struct candidate *item)
{
    return item->view.mirror ? item->mirror.own : item->view.id.text;
}

static int remove_one(struct retention *retention, const struct candidate *item, struct error *err)
{
    return item->view.mirror
               ? mirror_remove(retention->runs, &item->mirror, on_removed, retention, err)
               : session_delete(retention->runs, &item->view.id, on_removed, retention, err);
}

static void remove_next(struct retention *retention)
{
    struct runs *runs = retention->runs;

    for (; retention->at < retention->count && !runs->closing; retention->at++) {
        const struct candidate *item = retention->items[retention->at];
        struct error err = ERROR_INIT;

        if (item->session.verdict == RETENTION_KEEP || !still_may_go(runs, item))
            continue;
        log_info(name_of(item), "deleted by retention, for its %s",
                 item->session.verdict == RETENTION_AGE ? "age" : "disk use");
        if (remove_one(retention, item, &err) == 0)
            return;
        log_warn(name_of(item), "%s", err.text);
    }
    finish(retention);
}

static int by_use(const void *a, const void *b)
{
    const struct candidate *const *one = a;
    const struct candidate *const *two = b;

    return (*one)->view.used_ms < (*two)->view.used_ms   ? -1
           : (*one)->view.used_ms > (*two)->view.used_ms ? 1
                                                         : 0;
}

static void choose(struct retention *retention)
{
    struct runs *runs = retention->runs;
    const struct retention_policy policy = policy_of(runs);
    struct retention_session **sessions = mem_new_zero(retention->count + 1, sizeof(*sessions));

    if (retention->count > 0)
        qsort(retention->items, retention->count, sizeof(*retention->items), by_use);
    for (size_t i = 0; i < retention->count; i++) {
        struct candidate *item = retention->items[i];

        item->session.may_go = still_may_go(runs, item);
        sessions[i] = &item->session;
    }
    retention_choose(&policy, clock_wall_ms(runs->clock), sessions, retention->count);
    for (size_t i = 0; i < retention->count; i++)
        retention->items[i]->view.by_age = retention->items[i]->session.verdict == RETENTION_AGE;
    free(sessions);
    retention->at = 0;
    if (retention->mode == RETENTION_REMOVE)
        remove_next(retention);
    else
        finish(retention);
}

/* In a thread. */
static void walk(uv_work_t *work)
{
    struct retention *retention = work->data;

    for (size_t i = 0; i < retention->count; i++) {
        struct candidate *item = retention->items[i];

        item->view.bytes =
            item->view.mirror
                ? session_count_folder(item->mirror.own, &retention->cancel)
                : session_count_folder(item->layout.session, &retention->cancel) +
                      session_count_folder(item->layout.checkpoints, &retention->cancel);
        item->session.bytes = item->view.bytes;
    }
}

static void after_walk(uv_work_t *work, int status)
{
    struct retention *retention = work->data;
    struct runs *runs = retention->runs;

    runs->retention_cancel = NULL;
    if (status == 0 && !runs->closing)
        choose(retention);
    else
        finish(retention);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

int retention_run(struct runs *runs, enum retention_mode mode, retention_cb done, void *data,
                  struct error *err)
{
    struct retention *retention;

    if (runs->retaining)
        return error_set(err, ERR_CONFLICT, 0, "retention is at work already");
    retention = NEW(struct retention);
    retention->runs = runs;
    retention->mode = mode;
    retention->done = done;
    retention->data = data;
    retention->work.data = retention;
    workspace_mirrors_each(runs->options.state_dir, mirror_uid(runs), add_mirror, retention);
    if (store_session_each(runs->store, NULL, 0, add_session, retention, err) < 0 ||
        uv_queue_work(runs->loop, &retention->work, walk, after_walk) != 0) {
        retention_free(retention);
        return err->code != ERR_NONE ? -1
                                     : error_set(err, ERR_SYSTEM, 0, "files can't be counted now");
    }
    runs->retaining = true;
    runs->retention_cancel = &retention->cancel;
    runs->open_runs++;
    return 0;
}

static void on_time(uv_timer_t *timer)
{
    struct error err = ERROR_INIT;

    if (retention_run(timer->data, RETENTION_REMOVE, NULL, NULL, &err) < 0)
        log_warn("retention", "%s", err.text);
}

void retention_start(struct runs *runs)
{
    const struct retention_policy policy = policy_of(runs);

    if (policy.max_age_ms != 0 || policy.max_mirror_age_ms != 0 || policy.max_bytes != 0)
        uv_timer_start(&runs->retention, on_time, FIRST_MS, DAY_MS);
}
