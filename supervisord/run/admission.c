/* admission.c: the queue. Oldest first; at most so many runs live at once, and one per session. */
#include "run/internal.h"

static void on_deadline(uv_timer_t *timer)
{
    struct run *run = timer->data;
    AUTO_FREE
    char *message = mem_printf("the run did not end within %llu minutes",
                               (unsigned long long)(run->record.timeout_ms / 60000));

    if (run->record.outcome != RUN_OUTCOME_NONE)
        return;
    run_note_error(run, "timeout", message,
                   "give a larger timeoutMinutes, or continue the session with a new run", true);
    run_apply(run, RUN_EV_DEADLINE);
}

void admission_arm_deadline(struct run *run)
{
    uint64_t now = clock_wall_ms(run->runs->clock);
    uint64_t at = run->record.deadline_ms;
    uint64_t left = at > now ? at - now : 0;

    /* A clock that jumped must not make it longer than it was meant to be. */
    if (left > run->record.timeout_ms)
        left = run->record.timeout_ms;
    uv_timer_start(&run->deadline, on_deadline, left, 0);
}

void admission_wanted(struct runs *runs)
{
    runs->admit_wanted = true;
    events_tick_soon(runs, 0);
}

size_t admission_queued(struct runs *runs)
{
    size_t count = 0;

    LIST_EACH(&runs->live, link) {
        count += LIST_ENTRY(link, struct run, link)->record.state == RUN_QUEUED;
    }
    return count;
}

static size_t count_active(struct runs *runs)
{
    size_t count = 0;

    LIST_EACH(&runs->live, link) {
        count += LIST_ENTRY(link, struct run, link)->record.state != RUN_QUEUED;
    }
    return count;
}

static struct run *next_in_queue(struct runs *runs)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->record.state == RUN_QUEUED && run->held_count == 0 && !run->finished &&
            registry_find_session(runs, &run->session.id, true) == NULL)
            return run;
    }
    return NULL;
}

static int admit(struct run *run)
{
    struct session_record session;
    struct error err = ERROR_INIT;

    session_record_init(&session);
    if (store_session_load(run->runs->store, &run->session.id, &session, &err) < 0) {
        log_error(run->record.id.text, "session can't be read: %s", err.text);
        session_record_finish(&session);
        return -1;
    }
    session_record_finish(&run->session);
    run->session = session;
    return run_apply(run, RUN_EV_ADMITTED);
}

void admission_admit(struct runs *runs)
{
    struct run *run;

    runs->admit_wanted = false;
    while (!runs->closing && count_active(runs) < runs->options.concurrent_runs &&
           (run = next_in_queue(runs)) != NULL) {
        if (admit(run) < 0)
            break;
    }
}
