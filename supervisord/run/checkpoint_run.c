/* checkpoint_run.c: when a run's checkpoints are made: before its agent begins, if that is not
 * known already, at its end, and now and then while it works, if something happened. */
#include "run/internal.h"

struct run_checkpoint {
    struct runs *runs;
    struct id run; /* which may be gone when it is done */
};

static void begin(struct run *run, enum checkpoint_reason reason);

static void go_on(struct run *run)
{
    struct run_checkpoints *state = &run->checkpoints;

    if (state->holds_prompt) {
        state->holds_prompt = false;
        if (run->record.state == RUN_PROMPT) {
            step_prompt(run);
            return;
        }
    }
    if (run->record.state == RUN_STOPPING)
        step_stop(run);
    else if (run->record.state == RUN_COLLECTING && !state->busy)
        collect_checkpoint_done(run);
}

static void on_done(void *data, uint32_t number, const struct error *err)
{
    struct run_checkpoint *one = data;
    struct runs *runs = one->runs;
    struct run *run = registry_find(runs, one->run.text);

    if (err != NULL)
        log_warn(one->run.text, "%s", err->text);
    else
        log_info(one->run.text, "checkpoint %u of its session is there", (unsigned)number);
    free(one);
    if (run == NULL || runs->closing)
        return;
    if (err != NULL && err->code != ERR_CANCELLED)
        events_note(run, RUN_NOTE_LOG, err->text, "{\"phase\":\"checkpoint\"}");
    run->checkpoints.busy = run->checkpoints.first = false;
    if (run->checkpoints.last_wanted) {
        run->checkpoints.last_wanted = false;
        begin(run, CHECKPOINT_TURN);
    }
    go_on(run);
}

static void begin(struct run *run, enum checkpoint_reason reason)
{
    struct run_checkpoint *one = NEW(struct run_checkpoint);
    const struct checkpoint_request request = { .session = &run->session,
                                                .run = &run->record.id,
                                                .reason = reason,
                                                .done = on_done,
                                                .data = one };
    struct error err = ERROR_INIT;

    one->runs = run->runs;
    one->run = run->record.id;
    uv_timer_stop(&run->checkpoints.timer);
    if (checkpoint_start(run->runs, &request, &err) == 0) {
        run->checkpoints.busy = true;
        return;
    }
    log_warn(run->record.id.text, "no checkpoint: %s", err.text);
    free(one);
}

/* What the newest one holds is what there is: nothing but runs changes a session's files, and each
 * ends with a checkpoint. */
static bool is_known(struct run *run)
{
    struct checkpoint_record newest;
    struct error err = ERROR_INIT;
    uint32_t number = checkpoint_newest(run->runs, &run->session.id);
    bool known;

    checkpoint_record_init(&newest);
    known = number != 0 &&
            store_checkpoint_load(run->runs->store, &run->session.id, number, &newest, &err) == 0 &&
            newest.places[run->record.place].cloned;
    checkpoint_record_finish(&newest);
    return known;
}

void checkpoint_first(struct run *run)
{
    if (!checkpoint_wanted(run->runs, &run->session) || run->checkpoints.busy ||
        run_place(run)->repository[0] == '\0' || is_known(run))
        return;
    begin(run, CHECKPOINT_START);
    run->checkpoints.first = run->checkpoints.busy;
}

bool checkpoint_holds_prompt(struct run *run)
{
    if (!run->checkpoints.first)
        return false;
    run->checkpoints.holds_prompt = true;
    run->agent_done = true; /* nothing is to be stopped until then */
    return true;
}

static void on_timer(uv_timer_t *timer)
{
    struct run *run = timer->data;

    if (run->record.state == RUN_WORKING && !run->checkpoints.busy)
        begin(run, CHECKPOINT_PERIOD);
}

void checkpoint_touch(struct run *run)
{
    uint64_t delay = UINT64_C(1000) * run->runs->options.checkpoint_seconds;

    if (run->record.state != RUN_WORKING || delay == 0 || run->checkpoints.busy ||
        uv_is_active((uv_handle_t *)&run->checkpoints.timer) ||
        !checkpoint_wanted(run->runs, &run->session))
        return;
    uv_timer_start(&run->checkpoints.timer, on_timer, delay, 0);
}

bool checkpoint_last(struct run *run)
{
    struct run_checkpoints *state = &run->checkpoints;

    uv_timer_stop(&state->timer);
    if (!checkpoint_wanted(run->runs, &run->session) || state->last_done)
        return state->busy;
    state->last_done = true;
    state->holds_prompt = false;
    if (state->busy)
        state->last_wanted = true;
    else
        begin(run, CHECKPOINT_TURN);
    return state->busy;
}

bool checkpoint_end(struct run *run)
{
    struct run_checkpoints *state = &run->checkpoints;

    uv_timer_stop(&state->timer);
    state->holds_prompt = false;
    return state->busy;
}
