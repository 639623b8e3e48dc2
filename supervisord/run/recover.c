/* recover.c: after a restart. Records say what was under way; nothing is guessed: what had not
 * reached the agent is done again, what may have reached it is never sent twice. */
#include "run/internal.h"

#include <dirent.h>

#include "common/str.h"

#define LEFTOVER_WAIT_MS 10000

struct found {
    struct runs *runs;
    struct list runs_found; /* in the order of the store: newest first */
};

static bool add_found(void *data, const struct run_record *record)
{
    struct found *found = data;
    struct session_record session;
    struct error err = ERROR_INIT;
    struct run *run;

    session_record_init(&session);
    if (store_session_load(found->runs->store, &record->session, &session, &err) < 0) {
        log_error(record->id.text, "left alone, its session can't be read: %s", err.text);
    } else {
        run = registry_add(found->runs, record, &session);
        run->driver = driver_find(found->runs, record->agent, &run->profile);
        /* The queue is oldest first. */
        list_remove(&run->link);
        list_append(found->runs->live.next, &run->link);
    }
    session_record_finish(&session);
    return true;
}

void recover_lost(struct run *run, const char *why)
{
    const struct run_recovery *recovery = run_recovery_find((enum run_state)run->record.state);

    if (recovery->no_life == RUN_EV_LOST_EARLY) {
        run_apply(run, RUN_EV_LOST_EARLY);
        return;
    }
    steer_lost(run);
    if (run->record.outcome == RUN_OUTCOME_NONE && admission_late(run)) {
        admission_time_out(run);
        return;
    }
    /* As far as it is known, its agent's last words. */
    if (run->record.outcome == RUN_OUTCOME_NONE && run->record.output[0] == '\0')
        record_set(&run->record.output, told_output(run->told));
    if (run->record.outcome == RUN_OUTCOME_NONE)
        run_note_error(run, "interrupted",
                       why != NULL ? why
                                   : "its sandbox ended while no supervisor ran, in the midst of "
                                     "the work",
                       "its files are kept: continue the session with a new run", true);
    run_apply(run, RUN_EV_LOST);
}

/* From the clone on a sandbox has all that it needs, and the record knows its token. */
static bool may_be_adopted(const struct run *run)
{
    return run->driver != NULL && run_state_has_sandbox((enum run_state)run->record.state);
}

static bool count_decision(void *data, const struct audit_record *audit)
{
    struct run_record *record = data;

    record->usage.counted_tokens += audit->input_tokens + audit->output_tokens;
    record->usage.counted_microdollars += audit->microdollars;
    if (audit->verdict == AUDIT_ALLOW)
        record->usage.requests++;
    else if (audit->verdict == AUDIT_DENY)
        record->evidence.refused_requests++;
    return true;
}

/* What was counted since the record was written last is only in the audit trail. */
static void count_again(struct run *run)
{
    struct run_usage_record usage = run->record.usage;
    uint64_t refused = run->record.evidence.refused_requests;
    struct error err = ERROR_INIT;

    run->record.usage.requests = 0;
    run->record.usage.counted_tokens = 0;
    run->record.usage.counted_microdollars = 0;
    run->record.evidence.refused_requests = 0;
    if (store_audit_each(run->runs->store, &run->record.id, 0, SIZE_MAX, count_decision,
                         &run->record, &err) == 0)
        return;
    run->record.usage = usage;
    run->record.evidence.refused_requests = refused;
    log_warn(run->record.id.text, "its requests can't be counted again: %s", err.text);
}

static void settle(struct run *run)
{
    uint64_t last = store_event_last(run->runs->store, &run->record.id);
    struct error err = ERROR_INIT;

    if (last > run->record.last_event)
        run->record.last_event = last;
    count_again(run);
    if (may_be_adopted(run) && adopt_begin(run, &err) == 0)
        return;
    if (run->record.state != RUN_QUEUED &&
        sandbox_kill_leftover(run->runtime_dir, LEFTOVER_WAIT_MS, &err) < 0)
        log_error(run->record.id.text, "its old sandbox can't be ended: %s", err.text);
    else if (run->record.state != RUN_QUEUED)
        sandbox_runtime_remove(run->runtime_dir, &err);
    if (run->driver == NULL) {
        run_fail(run, "agent_unknown", "this version doesn't know the run's agent", "", false);
        return;
    }
    recover_lost(run, NULL);
}

static bool has_owner(struct runs *runs, const char *session)
{
    LIST_EACH(&runs->live, link) {
        const struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->record.state != RUN_QUEUED && str_equal(run->session.id.text, session))
            return true;
    }
    return false;
}

/* Sandboxes of no run: one that removed a session, one that tried what holds here. The work that
 * they were for died with its supervisor. */
static void end_strays(struct runs *runs)
{
    AUTO_FREE
    char *folder = mem_printf("%s/sandboxes", runs->options.runtime_dir);
    const struct dirent *entry;
    DIR *dir = opendir(folder);

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct error err = ERROR_INIT;

        if (entry->d_name[0] == '.' || has_owner(runs, entry->d_name))
            continue;
        AUTO_FREE
        char *runtime_dir = mem_printf("%s/%s", folder, entry->d_name);
        if (sandbox_kill_leftover(runtime_dir, LEFTOVER_WAIT_MS, &err) < 0 ||
            sandbox_runtime_remove(runtime_dir, &err) < 0)
            log_error(entry->d_name, "its old sandbox can't be ended: %s", err.text);
        else
            log_info(entry->d_name, "its old sandbox is ended, it belonged to no run");
    }
    if (dir != NULL)
        closedir(dir);
}

int recover_all(struct runs *runs, struct error *err)
{
    struct store_run_filter filter = { .limit = SIZE_MAX };
    struct found found = { .runs = runs };

    for (int state = 0; state < RUN_STATE_COUNT; state++)
        if (!run_state_final((enum run_state)state))
            filter.states |= UINT64_C(1) << state;
    if (store_run_each(runs->store, &filter, add_found, &found, err) < 0)
        return error_wrap(err, "runs of the last supervisor");
    end_strays(runs);
    LIST_EACH(&runs->live, link) {
        settle(LIST_ENTRY(link, struct run, link));
    }
    return 0;
}
