/* adopt.c: a run whose sandbox outlived the supervisor is taken up again: its sandbox, then the
 * proxy's socket in it, then the agent where it stands. Its state stays what it is on disk. */
#include "run/internal.h"

#include "common/fd.h"

static void on_given_up(void *data)
{
    struct run *run = data;
    struct error err = ERROR_INIT;

    run->sandbox = NULL;
    run->sandbox_closing = false;
    if (sandbox_runtime_remove(run->runtime_dir, &err) < 0)
        log_warn(run->record.id.text, "%s", err.text);
    recover_lost(run, NULL);
}

/* The sandbox is over: what can't be done again is lost. */
static void give_up(struct run *run, const struct error *err)
{
    log_warn(run->record.id.text, "its sandbox can't be taken up again: %s", err->text);
    run->adopting = false;
    run->sandbox_over = true;
    if (run->record.state == RUN_STOPPING) {
        step_stop(run);
        return;
    }
    proxy_revoke(run->runs->proxy, run->record.id.text);
    run->sandbox_closing = true;
    sandbox_close(run->sandbox, on_given_up, run);
}

static enum run_action again(const struct run *run)
{
    const struct run_recovery *recovery = run_recovery_find((enum run_state)run->record.state);

    return recovery != NULL ? recovery->again : RUN_ACT_NONE;
}

static void on_cleared(void *data, const struct error *err)
{
    struct run *run = data;

    run->adopting = false;
    if (err != NULL)
        log_warn(run->record.id.text, "programs in its sandbox may still run: %s", err->text);
    /* It may have been cancelled meanwhile. */
    apply_act_again(run, again(run));
}

static void clear(struct run *run)
{
    struct error err = ERROR_INIT;

    if (sandbox_kill_programs(run->sandbox, on_cleared, run, &err) < 0)
        give_up(run, &err);
}

static void resume_agent(struct run *run)
{
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *why = NULL;

    run->adopting = false;
    run->told = told_load(run->runs->store, &run->record.id);
    if (driver_resume(run, &err) == 0)
        return;
    log_warn(run->record.id.text, "its agent can't be taken up again: %s", err.text);
    if (again(run) != RUN_ACT_NONE) {
        run->adopting = true;
        clear(run);
        return;
    }
    why = mem_printf("its agent can't be taken up again: %s", err.text);
    recover_lost(run, why);
}

static void go_on(struct run *run)
{
    log_info(run->record.id.text, "taken up again in phase %s, init is process %lld",
             run_phase_of(&run->record), (long long)sandbox_init_pid(run->sandbox));
    events_note(run, RUN_NOTE_LOG, "a new supervisor has taken the run up", NULL);
    if (again(run) == RUN_ACT_NONE ||
        (run->record.state == RUN_AGENT && run->record.agent_process != 0))
        resume_agent(run);
    else
        clear(run);
}

static void on_listen(void *data, int fd, const struct error *err)
{
    struct run *run = data;
    struct proxy_grant grant = { .run_id = run->record.id.text,
                                 .model_retries = run_model_retries(run),
                                 .model_requests = run->record.usage.requests,
                                 .model_used = { .tokens = run->record.usage.counted_tokens,
                                                 .microdollars =
                                                     run->record.usage.counted_microdollars } };
    struct git_grant repositories;
    struct error local = ERROR_INIT;
    int rc;

    if (err != NULL && !run->sandbox_over) {
        give_up(run, err);
        return;
    }
    if (err != NULL) {
        run->adopting = false;
        if (run->record.state == RUN_COLLECTING)
            step_collect(run);
        return;
    }
    if (run->record.state == RUN_STOPPING) {
        fd_close(&fd);
        return;
    }
    git_grant_init(&repositories, run, &grant);
    rc = proxy_restore_run(run->runs->proxy, &grant, run->record.token_hash, &local);
    git_grant_finish(&repositories);
    if (rc < 0) {
        fd_close(&fd);
        give_up(run, &local);
    } else if (proxy_attach(run->runs->proxy, run->record.id.text, fd, &local) < 0) {
        give_up(run, &local);
    } else {
        run_open_listener(run);
        go_on(run);
    }
}

static void on_ready(void *data, const struct error *err)
{
    struct run *run = data;
    struct error local = ERROR_INIT;

    if (err != NULL) {
        give_up(run, err);
        return;
    }
    admission_bind_sandbox(run);
    if (run->record.state != RUN_STOPPING)
        limits_watch(run);
    if (run->record.state != RUN_STOPPING &&
        sandbox_listen(run->sandbox, RUN_PROXY_PORT, on_listen, run, &local) < 0)
        give_up(run, &local);
}

int adopt_begin(struct run *run, struct error *err)
{
    const struct sandbox_callbacks callbacks = {
        .on_ready = on_ready, .on_end = step_on_sandbox_end, .on_limit = limits_on_hit, .data = run
    };

    trust_find(run->runs);
    if (sandbox_adopt(&run->sandbox, run->runs->loop, &run->runs->options.sandbox,
                      run->record.id.text, run->runtime_dir, &callbacks, err) < 0)
        return -1;
    run->adopting = true;
    admission_arm_deadline(run);
    run_touch(run);
    return 0;
}
