/* events.c: a run's log and who listens to it. A subscription is a cursor into the store: what is
 * stored and what comes is delivered by the same reading, so nothing is lost or told twice, and a
 * slow reader costs no memory. */
#include "run/internal.h"

#include <string.h>

#include "common/str.h"

#define NOTE_TEXT_MAX (16u << 10)
#define NOTE_DATA_MAX (64u << 10)
#define PUMP_PAGE 64

struct run_subscription {
    struct runs *runs;
    struct list link; /* runs::subscriptions */
    struct id run;
    uint64_t after;
    bool news;
    bool paused;
    bool pumping;
    bool dead;
    struct run_subscriber subscriber;
};

static char *cut_text(const char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;

    return mem_strndup(text != NULL ? text : "",
                       len > NOTE_TEXT_MAX ? str_utf8_cut(text, NOTE_TEXT_MAX) : len);
}

static void append(struct run *run, enum run_note kind, const char *text, const char *data,
                   const char *key)
{
    struct event_record note;
    struct error err = ERROR_INIT;

    event_record_init(&note);
    note.number = run->record.last_event + 1;
    note.time_ms = clock_wall_ms(run->runs->clock);
    note.kind = (uint32_t)kind;
    free(note.text);
    note.text = cut_text(text);
    if (data != NULL && strlen(data) <= NOTE_DATA_MAX)
        record_set(&note.data, data);
    record_set(&note.key, key);
    if (store_event_append(run->runs->store, &run->record.id, &note, &err) == 0) {
        run->record.last_event = note.number;
        events_wake(run->runs, &run->record);
    } else {
        log_warn(run->record.id.text, "event dropped: %s", err.text);
    }
    event_record_finish(&note);
}

int events_note_message(struct run *run, const char *text, const char *data, const char *id,
                        const struct message_key *key, struct error *err)
{
    struct store *store = run->runs->store;
    struct event_record note;
    int rc;

    event_record_init(&note);
    note.number = ++run->record.last_event;
    note.time_ms = clock_wall_ms(run->runs->clock);
    note.kind = RUN_NOTE_MESSAGE;
    record_set(&note.text, text);
    record_set(&note.data, data);
    record_set(&note.key, id);
    rc = key->text[0] != '\0'
             ? store_run_told(store, &run->record, &note, key->text, key->hash, err)
             : store_run_update(store, &run->record, NULL, &note, err);
    if (rc < 0)
        run->record.last_event--;
    else
        events_wake(run->runs, &run->record);
    event_record_finish(&note);
    return rc;
}

void events_note(struct run *run, enum run_note kind, const char *text, const char *data)
{
    events_note_as(run, kind, text, data, NULL);
}

void events_note_as(struct run *run, enum run_note kind, const char *text, const char *data,
                    const char *key)
{
    size_t len = (text != NULL ? strlen(text) : 0) + (data != NULL ? strlen(data) : 0);

    checkpoint_touch(run);
    if (limits_take_output(run, len))
        append(run, kind, text, data, key);
}

void events_note_limit(struct run *run, const char *text, const char *data)
{
    append(run, RUN_NOTE_LOG, text, data, NULL);
}

void runs_watch(struct runs *runs, struct runs_watcher *watcher)
{
    list_append(&runs->watchers, &watcher->link);
}

void runs_unwatch(struct runs_watcher *watcher)
{
    list_remove(&watcher->link);
}

static void tell_watchers(struct runs *runs, const struct id *session, const struct id *run)
{
    LIST_EACH(&runs->watchers, link) {
        struct runs_watcher *watcher = LIST_ENTRY(link, struct runs_watcher, link);

        watcher->changed(watcher->data, session, run);
    }
}

void events_changed(struct runs *runs, const struct run_record *run)
{
    tell_watchers(runs, &run->session, &run->id);
}

void events_session_changed(struct runs *runs, const struct id *session)
{
    tell_watchers(runs, session, NULL);
}

void events_wake(struct runs *runs, const struct run_record *run)
{
    events_changed(runs, run);
    LIST_EACH(&runs->subscriptions, link) {
        struct run_subscription *subscription = LIST_ENTRY(link, struct run_subscription, link);

        if (str_equal(subscription->run.text, run->id.text))
            subscription->news = true;
    }
    /* A little waiting makes one commit of many events. */
    events_tick_soon(runs, 4);
}

struct page {
    struct run_subscription *subscription;
    size_t count;
};

static bool deliver(void *data, const struct event_record *event)
{
    struct page *page = data;
    struct run_subscription *subscription = page->subscription;

    page->count++;
    subscription->after = event->number;
    subscription->subscriber.on_event(subscription->subscriber.data, event);
    return !subscription->dead && !subscription->paused;
}

static void tell_end(struct run_subscription *subscription)
{
    struct run_record record;
    struct error err = ERROR_INIT;

    run_record_init(&record);
    if (run_load(subscription->runs, &subscription->run, &record, &err) == 0 &&
        run_ended(&record)) {
        struct run_subscriber subscriber = subscription->subscriber;

        list_remove(&subscription->link);
        subscription->dead = true;
        subscriber.on_ended(subscriber.data, &record);
    }
    run_record_finish(&record);
}

static void pump(struct run_subscription *subscription)
{
    struct page page = { .subscription = subscription };
    struct error err = ERROR_INIT;

    subscription->news = false;
    subscription->pumping = true;
    if (store_event_each(subscription->runs->store, &subscription->run, subscription->after,
                         PUMP_PAGE, deliver, &page, &err) < 0)
        log_warn(subscription->run.text, "events can't be read: %s", err.text);
    if (!subscription->dead && !subscription->paused) {
        if (page.count == PUMP_PAGE) {
            subscription->news = true;
            events_tick_soon(subscription->runs, 0);
        } else {
            tell_end(subscription);
        }
    }
    subscription->pumping = false;
    if (subscription->dead)
        free(subscription);
}

void events_pump(struct runs *runs)
{
    struct list todo;

    /* Callbacks may end any subscription, so each is found anew from a list of its own. */
    list_init(&todo);
    while (!list_empty(&runs->subscriptions)) {
        struct list *link = runs->subscriptions.next;

        list_remove(link);
        list_append(&todo, link);
    }
    while (!list_empty(&todo)) {
        struct list *link = todo.next;
        struct run_subscription *subscription = LIST_ENTRY(link, struct run_subscription, link);

        list_remove(link);
        list_append(&runs->subscriptions, link);
        if (subscription->news && !subscription->paused)
            pump(subscription);
    }
}

int run_subscribe(struct run_subscription **out, struct runs *runs, const struct id *id,
                  uint64_t after, const struct run_subscriber *subscriber, struct error *err)
{
    struct run_subscription *subscription;
    struct run_record record;
    int rc;

    run_record_init(&record);
    rc = run_load(runs, id, &record, err);
    run_record_finish(&record);
    if (rc < 0)
        return -1;
    subscription = NEW(struct run_subscription);
    subscription->runs = runs;
    subscription->run = *id;
    subscription->after = after;
    subscription->news = true;
    subscription->subscriber = *subscriber;
    list_append(&runs->subscriptions, &subscription->link);
    events_tick_soon(runs, 0);
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
    subscription->news = true;
    events_tick_soon(subscription->runs, 0);
}

void run_unsubscribe(struct run_subscription *subscription)
{
    if (subscription == NULL || subscription->dead)
        return;
    list_remove(&subscription->link);
    subscription->dead = true;
    if (!subscription->pumping)
        free(subscription);
}

void events_drop_all(struct runs *runs)
{
    while (!list_empty(&runs->subscriptions))
        run_unsubscribe(LIST_ENTRY(runs->subscriptions.next, struct run_subscription, link));
}
