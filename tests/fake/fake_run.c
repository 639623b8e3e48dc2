/* fake_run.c: the functions of run/run.h over a real store, with no sandbox behind them: a run does
 * what the test says. Tests of control and web include this file, so that their programs hold these
 * functions and the real library's stay out. */
#include "backup/backup.h"
#include "run/pull_request.h"
#include "run/run.h"
#include "run/take.h"

#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"

struct runs {
    uv_loop_t *loop;
    struct store *store;
    const struct clock *clock;
    struct id_source run_ids;
    struct id_source session_ids;
    struct list subscriptions; /* run_subscription::link */
    struct list watchers;      /* runs_watcher::link */
    uv_timer_t pump;
    const char *step;    /* of every run */
    const char *request; /* of every run */
    bool cancel_ends;    /* run_cancel makes it cancelled at once */
    struct run_exec *exec;
    struct run_request last_request; /* strings are gone; flags and numbers stay */
    char *last_answer;
    unsigned cancels;
    unsigned exec_cancels;
};

struct run_subscription {
    struct list link; /* runs::subscriptions */
    struct runs *runs;
    struct id run;
    uint64_t after;
    struct run_subscriber subscriber;
    bool paused;
    bool dead;
    bool busy;
};

struct run_exec {
    struct run_exec_callbacks callbacks;
};

static void fake_pump(uv_timer_t *timer);

__attribute__((unused)) static struct runs *fake_runs_new(uv_loop_t *loop, struct store *store,
                                                          const struct clock *clock)
{
    struct runs *runs = NEW(struct runs);

    runs->loop = loop;
    runs->store = store;
    runs->clock = clock;
    list_init(&runs->subscriptions);
    list_init(&runs->watchers);
    uv_timer_init(loop, &runs->pump);
    runs->pump.data = runs;
    return runs;
}

static void fake_closed(uv_handle_t *handle)
{
    struct runs *runs = handle->data;

    free(runs->last_answer);
    free(runs);
}

__attribute__((unused)) static void fake_runs_free(struct runs *runs)
{
    while (!list_empty(&runs->subscriptions))
        run_unsubscribe(LIST_ENTRY(runs->subscriptions.next, struct run_subscription, link));
    uv_close((uv_handle_t *)&runs->pump, fake_closed);
}

void runs_watch(struct runs *runs, struct runs_watcher *watcher)
{
    list_append(&runs->watchers, &watcher->link);
}

void runs_unwatch(struct runs_watcher *watcher)
{
    list_remove(&watcher->link);
}

static void fake_changed(struct runs *runs, const struct id *session, const struct id *run)
{
    LIST_EACH(&runs->watchers, link) {
        struct runs_watcher *watcher = LIST_ENTRY(link, struct runs_watcher, link);

        watcher->changed(watcher->data, session, run);
    }
}

static void fake_wake(struct runs *runs)
{
    uv_timer_start(&runs->pump, fake_pump, 0, 0);
}

/* Writes RUN in STATE with an event of KIND. */
__attribute__((unused)) static void fake_event(struct runs *runs, struct run_record *run,
                                               uint32_t state, uint32_t kind, const char *text,
                                               const char *data)
{
    struct event_record event;
    struct error err = ERROR_INIT;

    event_record_init(&event);
    event.number = ++run->last_event;
    event.time_ms = clock_wall_ms(runs->clock);
    event.kind = kind;
    record_set(&event.text, text);
    record_set(&event.data, data);
    run->state = state;
    if (run_state_final((enum run_state)state))
        run->ended_ms = event.time_ms;
    if (store_run_update(runs->store, run, NULL, &event, &err) < 0)
        BUG(err.text);
    event_record_finish(&event);
    fake_changed(runs, &run->session, &run->id);
    fake_wake(runs);
}

static bool fake_deliver(void *data, const struct event_record *event)
{
    struct run_subscription *subscription = data;

    subscription->after = event->number;
    subscription->subscriber.on_event(subscription->subscriber.data, event);
    return !subscription->dead && !subscription->paused;
}

static void fake_tell_end(struct run_subscription *subscription)
{
    struct run_record run;
    struct error err = ERROR_INIT;

    run_record_init(&run);
    if (run_load(subscription->runs, &subscription->run, &run, &err) == 0 && run_ended(&run) &&
        subscription->after >= run.last_event) {
        list_remove(&subscription->link);
        subscription->dead = true;
        subscription->subscriber.on_ended(subscription->subscriber.data, &run);
    }
    run_record_finish(&run);
}

static void fake_pump_one(struct run_subscription *subscription)
{
    struct error err = ERROR_INIT;

    subscription->busy = true;
    store_event_each(subscription->runs->store, &subscription->run, subscription->after, 0,
                     fake_deliver, subscription, &err);
    if (!subscription->dead && !subscription->paused)
        fake_tell_end(subscription);
    subscription->busy = false;
    if (subscription->dead)
        free(subscription);
}

static void fake_pump(uv_timer_t *timer)
{
    struct runs *runs = timer->data;
    struct list todo;

    list_init(&todo);
    while (!list_empty(&runs->subscriptions)) {
        struct list *link = runs->subscriptions.next;

        list_remove(link);
        list_append(&todo, link);
    }
    while (!list_empty(&todo)) {
        struct run_subscription *subscription =
            LIST_ENTRY(todo.next, struct run_subscription, link);

        list_remove(&subscription->link);
        list_append(&runs->subscriptions, &subscription->link);
        if (!subscription->paused)
            fake_pump_one(subscription);
    }
}

int run_create(struct runs *runs, const struct run_request *request, struct run_record *run,
               struct error *err)
{
    struct session_record session;
    struct event_record event;
    uint64_t now = clock_wall_ms(runs->clock);
    int rc;

    runs->last_request = *request;
    if (str_equal(request->repository, "nowhere"))
        return error_argument(err, "repository", "there is no repository at nowhere");
    id_make(&runs->run_ids, ID_KIND_RUN, now, &run->id);
    id_make(&runs->session_ids, ID_KIND_SESSION, now, &run->session);
    record_set(&run->task, request->task);
    record_set(&run->title, request->title);
    record_set(&run->repository, request->repository);
    run->created_ms = now;
    run->last_event = 1;
    session_record_init(&session);
    session.id = run->session;
    session.created_ms = session.updated_ms = now;
    session.run_count = 1;
    session.last_run = run->id;
    event_record_init(&event);
    event.number = 1;
    event.time_ms = now;
    record_set(&event.text, "queued: queue");
    rc = store_run_create(runs->store, run, &session, &event, err);
    session_record_finish(&session);
    event_record_finish(&event);
    return rc;
}

int run_cancel(struct runs *runs, const struct id *id, struct error *err)
{
    struct run_record run;
    int rc;

    run_record_init(&run);
    rc = run_load(runs, id, &run, err);
    runs->cancels++;
    if (rc == 0 && !run_ended(&run) && runs->cancel_ends)
        fake_event(runs, &run, RUN_CANCELLED, 0, "cancelled", "");
    run_record_finish(&run);
    return rc;
}

int run_answer(struct runs *runs, const struct id *id, const char *request_id, const char *answer,
               struct error *err)
{
    (void)id;
    if (runs->request == NULL)
        return error_set(err, ERR_CONFLICT, 0, "the run waits for no answer");
    free(runs->last_answer);
    runs->last_answer = mem_printf("%s=%s", request_id, answer);
    return 0;
}

struct fake_deletion {
    uv_timer_t timer;
    void (*done)(void *data, const struct error *err);
    void *data;
};

static void fake_deletion_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void fake_deleted(uv_timer_t *timer)
{
    struct fake_deletion *deletion = timer->data;

    deletion->done(deletion->data, NULL);
    uv_close((uv_handle_t *)timer, fake_deletion_closed);
}

int session_delete(struct runs *runs, const struct id *id,
                   void (*done)(void *data, const struct error *err), void *data, struct error *err)
{
    struct fake_deletion *deletion;

    if (store_session_delete(runs->store, id, err) < 0)
        return -1;
    fake_changed(runs, id, NULL);
    deletion = NEW(struct fake_deletion);
    deletion->done = done;
    deletion->data = data;
    uv_timer_init(runs->loop, &deletion->timer);
    deletion->timer.data = deletion;
    uv_timer_start(&deletion->timer, fake_deleted, 1, 0);
    return 0;
}

int session_rename(struct runs *runs, const struct id *id, const char *title, struct error *err)
{
    struct session_record session;
    int rc;

    session_record_init(&session);
    rc = store_session_load(runs->store, id, &session, err);
    record_set(&session.title, title);
    if (rc == 0)
        rc = store_session_update(runs->store, &session, err);
    session_record_finish(&session);
    return rc;
}

int session_hold(struct runs *runs, const struct id *id, enum session_hold hold, struct error *err)
{
    struct session_record session;
    int rc;

    session_record_init(&session);
    rc = store_session_load(runs->store, id, &session, err);
    session.held = hold == SESSION_HELD;
    if (rc == 0)
        rc = store_session_update(runs->store, &session, err);
    session_record_finish(&session);
    return rc;
}

/* What needs a sandbox is refused. */
static int no_sandbox(struct error *err)
{
    return error_set(err, ERR_CONFLICT, 0, "there is no sandbox here");
}

bool runs_backup_at_work(const struct runs *runs)
{
    (void)runs;
    return false;
}

int session_backup(struct runs *runs, const struct id *id, struct backup_place *place,
                   session_cb done, void *data, struct error *err)
{
    (void)runs;
    (void)id;
    (void)done;
    (void)data;
    backup_place_free(place);
    return no_sandbox(err);
}

int session_bring_back(struct runs *runs, struct backup_place *place,
                       void (*done)(void *data, const struct id *session, const struct error *err),
                       void *data, struct error *err)
{
    (void)runs;
    (void)done;
    (void)data;
    backup_place_free(place);
    return no_sandbox(err);
}

int retention_run(struct runs *runs, enum retention_mode mode, retention_cb done, void *data,
                  struct error *err)
{
    (void)runs;
    (void)mode;
    (void)done;
    (void)data;
    return error_set(err, ERR_CONFLICT, 0, "there is no sandbox here");
}

const char *session_state(struct runs *runs, const struct session_record *session)
{
    (void)runs;
    (void)session;
    return "idle";
}

int session_checkpoint(struct runs *runs, const struct id *id,
                       void (*done)(void *data, uint32_t number, const struct error *err),
                       void *data, struct error *err)
{
    (void)runs;
    (void)id;
    (void)done;
    (void)data;
    return no_sandbox(err);
}

int session_restore(struct runs *runs, const struct id *id, uint32_t number, session_cb done,
                    void *data, struct error *err)
{
    (void)runs;
    (void)id;
    (void)number;
    (void)done;
    (void)data;
    return no_sandbox(err);
}

int session_fork(struct runs *runs, const struct id *id, uint32_t number, const char *title,
                 void (*done)(void *data, const struct id *session, const struct error *err),
                 void *data, struct error *err)
{
    (void)runs;
    (void)id;
    (void)number;
    (void)title;
    (void)done;
    (void)data;
    return no_sandbox(err);
}

int session_count(struct runs *runs, const struct id *id,
                  void (*done)(void *data, const struct session_usage *usage,
                               const struct error *err),
                  void *data, struct error *err)
{
    (void)runs;
    (void)id;
    (void)done;
    (void)data;
    return no_sandbox(err);
}

int run_exec_start(struct run_exec **out, struct runs *runs, const struct id *id,
                   const char *const *argv, const struct run_exec_callbacks *callbacks,
                   struct error *err)
{
    (void)id;
    if (str_equal(argv[0], "refused"))
        return error_set(err, ERR_CONFLICT, 0, "no live sandbox now");
    runs->exec = NEW(struct run_exec);
    runs->exec->callbacks = *callbacks;
    *out = runs->exec;
    return 0;
}

void run_exec_cancel(struct run_exec *exec)
{
    free(exec);
}

/* Here no agent has pages. */
int run_pages_path(struct runs *runs, const struct id *session, struct buf *path, struct error *err)
{
    (void)runs;
    (void)session;
    (void)path;
    return error_set(err, ERR_CONFLICT, 0, "no agent that has pages of its own is at work");
}

int run_pages_connect(struct run_pages **out, struct runs *runs, const struct id *session,
                      const struct run_pages_callbacks *callbacks, struct error *err)
{
    (void)out;
    (void)callbacks;
    return run_pages_path(runs, session, NULL, err);
}

void run_pages_release(struct run_pages *pages)
{
    (void)pages;
}

int run_load(struct runs *runs, const struct id *id, struct run_record *run, struct error *err)
{
    return store_run_load(runs->store, id, run, err);
}

int run_send(struct runs *runs, const struct run_message *message, enum run_send_action *action,
             struct run_record *run, struct error *err)
{
    struct run_request wanted = { .task = message->text, .repository = "", .title = "" };

    if (message->mode == RUN_SEND_STEER)
        return error_set(err, ERR_CONFLICT, 0, "no run of the session is at work");
    *action = RUN_SENT_QUEUED;
    return run_create(runs, &wanted, run, err);
}

int runs_try_sandbox(struct runs *runs, runs_trial_cb done, void *data, struct error *err)
{
    (void)runs;
    (void)done;
    (void)data;
    return error_set(err, ERR_UNAVAILABLE, 0, "no sandbox here");
}

void runs_each_agent(const struct runs *runs,
                     void (*each)(void *data, const struct runs_agent *agent), void *data)
{
    const struct runs_agent there = { .name = "opencode", .program = "/p", .is_default = true };
    const struct runs_agent missing = { .name = "other", .problem = "not there", .install = "do" };

    (void)runs;
    each(data, &there);
    each(data, &missing);
}

void runs_describe_limits(const struct runs *runs, struct buf *out)
{
    (void)runs;
    buf_append_str(out, "memory");
}

int run_status_of(const struct run_record *run)
{
    static const int statuses[RUN_STATE_COUNT] = { 0, 1, 1, 1, 1, 2, 3, 2, 2, 4, 5, 6, 7, 1 };

    return statuses[run->state];
}

const char *run_phase_of(const struct run_record *run)
{
    static const char *const phases[RUN_STATE_COUNT] = { "queue",  "sandbox", "clone", "agent",
                                                         "prompt", "work",    "work",  "collect",
                                                         "stop",   "",        "",      "",
                                                         "",       "setup" };

    return phases[run->state];
}

bool run_ended(const struct run_record *run)
{
    return run_state_final((enum run_state)run->state);
}

const char *run_current_step(struct runs *runs, const struct id *id)
{
    (void)id;
    return runs->step;
}

void runs_model_limits(const struct runs *runs, uint64_t *tokens, uint64_t *microdollars)
{
    (void)runs;
    *tokens = 0;
    *microdollars = 0;
}

const char *run_retrying(struct runs *runs, const struct id *id)
{
    (void)runs;
    (void)id;
    return NULL;
}

const char *run_open_request(struct runs *runs, const struct id *id)
{
    (void)id;
    return runs->request;
}

uint64_t run_waiting_since_ms(struct runs *runs, const struct id *id)
{
    (void)id;
    return runs->request != NULL ? 1 : 0;
}

int run_subscribe(struct run_subscription **out, struct runs *runs, const struct id *id,
                  uint64_t after, const struct run_subscriber *subscriber, struct error *err)
{
    struct run_subscription *subscription;
    struct run_record run;
    int rc;

    run_record_init(&run);
    rc = run_load(runs, id, &run, err);
    run_record_finish(&run);
    if (rc < 0)
        return -1;
    subscription = NEW(struct run_subscription);
    subscription->runs = runs;
    subscription->run = *id;
    subscription->after = after;
    subscription->subscriber = *subscriber;
    list_append(&runs->subscriptions, &subscription->link);
    fake_wake(runs);
    *out = subscription;
    return 0;
}

void run_subscription_pause(struct run_subscription *subscription)
{
    subscription->paused = true;
}

void run_subscription_resume(struct run_subscription *subscription)
{
    subscription->paused = false;
    fake_wake(subscription->runs);
}

void run_unsubscribe(struct run_subscription *subscription)
{
    if (subscription == NULL || subscription->dead)
        return;
    list_remove(&subscription->link);
    subscription->dead = true;
    if (!subscription->busy)
        free(subscription);
}

/* Nothing is published or taken here: the system tests do that. */
int pull_request_open(struct pull_request_wait **out, struct runs *runs,
                      const struct pull_request_options *options, pull_request_cb done, void *data,
                      struct error *err)
{
    (void)out, (void)runs, (void)options, (void)done, (void)data;
    return error_set(err, ERR_UNAVAILABLE, 0, "no sandbox here");
}

void pull_request_forget(struct pull_request_wait *wait)
{
    (void)wait;
}

int take_start(struct take **out, struct runs *runs, const struct take_options *options,
               const struct take_callbacks *callbacks, struct error *err)
{
    (void)out, (void)runs, (void)options, (void)callbacks;
    return error_set(err, ERR_UNAVAILABLE, 0, "no sandbox here");
}

void take_pause(struct take *take)
{
    (void)take;
}

void take_resume(struct take *take)
{
    (void)take;
}

void take_cancel(struct take *take)
{
    (void)take;
}
