/* apply.c: the only writer of a run's state. A change is on disk before anyone hears of it and
 * before its action starts. */
#include "run/internal.h"

#include "common/failure.h"
#include "common/str.h"

static const char *const phase_names[RUN_STATE_COUNT] = {
    [RUN_QUEUED] = "queue", [RUN_SANDBOX] = "sandbox",    [RUN_CLONE] = "clone",
    [RUN_AGENT] = "agent",  [RUN_PROMPT] = "prompt",      [RUN_WORKING] = "work",
    [RUN_WAITING] = "work", [RUN_COLLECTING] = "collect", [RUN_STOPPING] = "stop",
    [RUN_SETUP] = "setup",
};

/* By value those of the socket's protocol. */
static const struct {
    int status;
    const char *name;
} statuses[RUN_STATE_COUNT] = {
    [RUN_QUEUED] = { 0, "queued" },           [RUN_SANDBOX] = { 1, "started" },
    [RUN_CLONE] = { 1, "started" },           [RUN_AGENT] = { 1, "started" },
    [RUN_PROMPT] = { 1, "started" },          [RUN_WORKING] = { 2, "running" },
    [RUN_WAITING] = { 3, "waiting" },         [RUN_COLLECTING] = { 2, "running" },
    [RUN_STOPPING] = { 2, "running" },        [RUN_COMPLETED] = { 4, "completed" },
    [RUN_FAILED] = { 5, "failed" },           [RUN_CANCELLED] = { 6, "cancelled" },
    [RUN_INTERRUPTED] = { 7, "interrupted" }, [RUN_SETUP] = { 1, "started" },
};

int run_status_of(const struct run_record *run)
{
    return run->state < RUN_STATE_COUNT ? statuses[run->state].status : statuses[RUN_FAILED].status;
}

const char *run_phase_of(const struct run_record *run)
{
    const char *phase = run->state < RUN_STATE_COUNT ? phase_names[run->state] : NULL;

    return phase != NULL ? phase : "";
}

bool run_ended(const struct run_record *run)
{
    return run_state_final((enum run_state)run->state);
}

/* An action may end the run's memory: nothing touches RUN after it. */
static void act(struct run *run, enum run_action action)
{
    switch (action) {
    case RUN_ACT_NONE:
        break;
    case RUN_ACT_ENQUEUE:
        admission_wanted(run->runs);
        break;
    case RUN_ACT_START_SANDBOX:
        step_start_sandbox(run);
        break;
    case RUN_ACT_CLONE:
        step_clone(run);
        break;
    case RUN_ACT_SETUP:
        step_setup(run);
        break;
    case RUN_ACT_START_AGENT:
        checkpoint_first(run);
        step_start_agent(run);
        break;
    case RUN_ACT_PROMPT:
        step_prompt(run);
        break;
    case RUN_ACT_ABORT_AND_COLLECT:
        step_abort_and_collect(run);
        break;
    case RUN_ACT_COLLECT:
        step_collect(run);
        break;
    case RUN_ACT_STOP:
        step_stop(run);
        break;
    case RUN_ACT_FINISH:
        step_finish(run);
        break;
    }
}

void apply_act_again(struct run *run, enum run_action action)
{
    act(run, action);
}

static void describe(const struct run_record *record, enum run_state state, char **text,
                     char **data)
{
    const char *phase = phase_names[state];

    if (phase == NULL)
        *text = mem_printf("%s", statuses[state].name);
    else
        *text = mem_printf("%s: %s", statuses[state].name, phase);
    if (record->error.code[0] != '\0' && run_state_final(state))
        *data = mem_printf("{\"status\":\"%s\",\"phase\":\"%s\",\"error\":\"%s\"}",
                           statuses[state].name, phase != NULL ? phase : "", record->error.code);
    else
        *data = mem_printf("{\"status\":\"%s\",\"phase\":\"%s\"}", statuses[state].name,
                           phase != NULL ? phase : "");
}

static void stamp(struct run_record *record, enum run_state state, enum run_event event,
                  uint64_t now)
{
    record->state = state;
    record->updated_ms = now;
    if (record->outcome == RUN_OUTCOME_NONE)
        record->outcome = run_outcome_of_event(event);
    if (event == RUN_EV_ADMITTED) {
        record->agent_process = 0;
        record->started_ms = now;
        record->deadline_ms = now + record->timeout_ms;
    }
    if (event == RUN_EV_LOST_EARLY) {
        record->started_ms = 0;
        record->deadline_ms = 0;
    }
    if (run_state_final(state)) {
        record->ended_ms = now;
        if (record->verdict[0] == '\0')
            record_set(&record->verdict, state == RUN_COMPLETED ? "unknown" : "incomplete");
    }
}

/* In the transaction that makes it so: a notice is neither lost with this supervisor nor given for
 * what is not on disk. */
static void mark_due(const struct runs *runs, struct run_record *record)
{
    uint32_t kind = run_ended(record)              ? RUN_NOTICE_ENDED
                    : record->state == RUN_WAITING ? RUN_NOTICE_WAITING
                                                   : 0;

    if ((runs->options.notices & kind) != 0)
        record->notice_due = record->last_event;
}

static int write_change(struct run *run, const struct run_rule *rule, struct error *err)
{
    struct runs *runs = run->runs;
    struct run_record next;
    struct event_record note;
    int rc;

    run_record_copy(&next, &run->record);
    stamp(&next, rule->to, rule->event, clock_wall_ms(runs->clock));
    event_record_init(&note);
    note.number = ++next.last_event;
    mark_due(runs, &next);
    note.time_ms = next.updated_ms;
    note.kind = RUN_NOTE_STATE;
    free(note.text);
    free(note.data);
    describe(&next, rule->to, &note.text, &note.data);
    run->session.updated_ms = next.updated_ms;
    /* A queued run's copy of the session may be old: the run before it in the session writes it. */
    rc = store_run_update(runs->store, &next, rule->from == RUN_QUEUED ? NULL : &run->session,
                          &note, err);
    if (rc == 0) {
        run_record_finish(&run->record);
        run->record = next;
    } else {
        run_record_finish(&next);
    }
    event_record_finish(&note);
    return rc;
}

int run_save(struct run *run, struct error *err)
{
    run->record.updated_ms = clock_wall_ms(run->runs->clock);
    return store_run_update(run->runs->store, &run->record, &run->session, NULL, err);
}

static int apply_now(struct run *run, const struct run_rule *rule)
{
    struct error err = ERROR_INIT;

    if (write_change(run, rule, &err) < 0) {
        log_error(run->record.id.text, "%s can't be recorded, will be tried again: %s",
                  run_event_name(rule->event), err.text);
        return -1;
    }
    log_info(run->record.id.text, "%s -> %s (%s)", run_state_name(rule->from),
             run_state_name(rule->to), run_event_name(rule->event));
    events_wake(run->runs, &run->record);
    if (run->record.notice_due == run->record.last_event)
        run->runs->options.on_notice(run->runs->options.on_notice_data);
    act(run, rule->then);
    return 0;
}

static int hold(struct run *run, enum run_event event)
{
    if (run->held_count < RUN_HELD_MAX)
        run->held[run->held_count++] = event;
    return -1;
}

int run_apply(struct run *run, enum run_event event)
{
    const struct run_rule *rule = run_rule_find((enum run_state)run->record.state, event);
    struct runs *runs = run->runs;

    if (run->held_count > 0)
        return hold(run, event);
    if (rule == NULL) {
        log_debug(run->record.id.text, "event %s means nothing in state %s", run_event_name(event),
                  run_state_name((enum run_state)run->record.state));
        return -1;
    }
    if (apply_now(run, rule) == 0)
        return 0;
    runs_try_again_soon(runs);
    return hold(run, event);
}

static void retry_one(struct run *run)
{
    enum run_event events[RUN_HELD_MAX];
    size_t count = run->held_count;
    struct runs *runs = run->runs;
    struct id id = run->record.id;

    for (size_t i = 0; i < count; i++)
        events[i] = run->held[i];
    run->held_count = 0;
    for (size_t i = 0; i < count; i++) {
        /* The action before may have ended it. */
        run = registry_find(runs, id.text);
        if (run != NULL)
            run_apply(run, events[i]);
    }
}

void apply_retry_held(struct runs *runs)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->held_count > 0)
            retry_one(run);
    }
}

#define WARNINGS_MAX 4000

void run_warn(struct run *run, const char *text)
{
    char **warnings = &run->record.evidence.warnings;
    AUTO_FREE
    char *data = mem_printf("{\"phase\":\"%s\",\"warning\":true}", run_phase_of(&run->record));
    AUTO_FREE
    char *all = mem_printf("%s%s%s", *warnings, (*warnings)[0] != '\0' ? "\n" : "", text);

    events_note(run, RUN_NOTE_LOG, text, data);
    if (strlen(all) <= WARNINGS_MAX)
        record_set(warnings, all);
}

void run_note_error(struct run *run, const char *code, const char *message, const char *hint,
                    bool retryable)
{
    struct run_error_record *error = &run->record.error;
    const struct failure_kind *kind = failure_find(code);

    if (error->code[0] != '\0')
        return;
    record_set(&error->code, code);
    record_set(&error->phase, run_phase_of(&run->record));
    record_set(&error->message, message);
    record_set(&error->hint, hint[0] != '\0' || kind == NULL ? hint : kind->hint);
    error->retryable = retryable;
    log_warn(run->record.id.text, "%s in phase %s: %s", code, error->phase, message);
}

void run_fail(struct run *run, const char *code, const char *message, const char *hint,
              bool retryable)
{
    /* Once the outcome is decided a later failure on the way out doesn't change it. */
    if (run->record.outcome == RUN_OUTCOME_NONE && !limits_explain(run, code, message))
        run_note_error(run, code, message, hint, retryable);
    run_apply(run, RUN_EV_STEP_FAILED);
}
