/* admission.c: the queue. Oldest first; at most so many runs live at once, and one per session. */
#include "run/internal.h"

#define CARRY_EVERY_MS 5000
#define INIT_GRACE_MS 60000 /* what a sandbox has after the deadline when no supervisor ends it */

bool admission_late(const struct run *run)
{
    return run->record.deadline_ms != 0 &&
           clock_wall_ms(run->runs->clock) >= run->record.deadline_ms;
}

void admission_time_out(struct run *run)
{
    AUTO_FREE
    char *message = mem_printf("the run did not end within %llu minutes",
                               (unsigned long long)(run->record.timeout_ms / 60000));

    if (run->record.outcome != RUN_OUTCOME_NONE)
        return;
    run_note_error(run, "timeout", message,
                   "give a larger timeoutMinutes, or continue the session with a new run", true);
    run_apply(run, RUN_EV_DEADLINE);
}

static void on_deadline(uv_timer_t *timer)
{
    admission_time_out(timer->data);
}

static uint64_t time_left(const struct run *run)
{
    uint64_t now = clock_wall_ms(run->runs->clock);
    uint64_t at = run->record.deadline_ms;
    uint64_t left = at > now ? at - now : 0;

    /* A clock that jumped must not make it longer than it was meant to be. */
    return left < run->record.timeout_ms ? left : run->record.timeout_ms;
}

void admission_bind_sandbox(struct run *run)
{
    sandbox_set_deadline(run->sandbox, time_left(run) + INIT_GRACE_MS);
}

void admission_arm_deadline(struct run *run)
{
    uv_timer_start(&run->deadline, on_deadline, time_left(run), 0);
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

static void on_carry(uv_timer_t *timer)
{
    admission_wanted(timer->data);
}

/* Told once, whatever the reason is later. */
static bool machine_carries(struct run *run)
{
    struct runs *runs = run->runs;
    struct machine_reading reading;
    char reason[200];

    machine_read(runs->options.machine_root != NULL ? runs->options.machine_root : "",
                 runs->options.state_dir, &reading);
    if (machine_can_carry(&runs->options.machine, &reading, reason, sizeof(reason)))
        return true;
    if (!run->wait_told) {
        AUTO_FREE
        char *text = mem_printf("waits: %s", reason);

        run->wait_told = true;
        events_note(run, RUN_NOTE_LOG, text, NULL);
        log_info(run->record.id.text, "%s", text);
    }
    uv_timer_start(&runs->carry, on_carry, CARRY_EVERY_MS, 0);
    return false;
}

void admission_admit(struct runs *runs)
{
    struct run *run;

    runs->admit_wanted = false;
    uv_timer_stop(&runs->carry);
    while (!runs->closing && count_active(runs) < runs->options.concurrent_runs &&
           (run = next_in_queue(runs)) != NULL) {
        if (!machine_carries(run) || admit(run) < 0)
            break;
    }
}
