/* stop.c: the way out: whatever is there is closed in order, until nothing is left. Each callback
 * comes back here. */
#include "run/internal.h"

static void on_agent_closed(void *data)
{
    struct run *run = data;

    run->agent = NULL;
    run->agent_closing = false;
    step_stop(run);
}

static void on_sandbox_closed(void *data)
{
    struct run *run = data;
    struct error err = ERROR_INIT;

    run->sandbox = NULL;
    run->sandbox_closing = false;
    if (sandbox_runtime_remove(run->runtime_dir, &err) < 0)
        log_warn(run->record.id.text, "%s", err.text);
    step_stop(run);
}

static void cut_work(struct run *run)
{
    watch_end(run);
    waiting_forget_all(run);
    uv_timer_stop(&run->deadline);
    if (run->command != NULL)
        command_cancel(STEAL(run->command));
    clone_free(run);
    setup_free(run);
    collect_free(run);
    exec_cut_all(run);
    pages_cut_all(run);
    limits_end(run);
    proxy_revoke(run->runs->proxy, run->record.id.text);
}

void step_stop(struct run *run)
{
    if (run->record.state != RUN_STOPPING || run->agent_closing || run->sandbox_closing)
        return;
    cut_work(run);
    if (checkpoint_end(run))
        return;
    if (run->agent != NULL) {
        run->agent_closing = true;
        run->driver->close(run->agent, on_agent_closed, run);
        return;
    }
    if (run->sandbox != NULL && !run->sandbox_over) {
        sandbox_stop(run->sandbox);
        return;
    }
    if (run->sandbox != NULL) {
        run->sandbox_closing = true;
        sandbox_close(run->sandbox, on_sandbox_closed, run);
        return;
    }
    run_apply(run, run_event_for_outcome((enum run_outcome)run->record.outcome));
}

void step_finish(struct run *run)
{
    struct runs *runs = run->runs;
    struct error err = ERROR_INIT;

    run->finished = true;
    /* What a broken clone left is removed with the session, or by its next run. */
    if (!places_any_cloned(&run->session) && workspace_remove_empty(&run->layout, &err) < 0)
        log_info(run->record.id.text, "kept: %s", err.text);
    log_info(run->record.id.text, "ended: %s, verdict %s",
             run_state_name((enum run_state)run->record.state), run->record.verdict);
    registry_release(run);
    admission_wanted(runs);
}
