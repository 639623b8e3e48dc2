/* exec.c: a person's command in the sandbox of a live run. */
#include "run/internal.h"

struct run_exec {
    struct list link; /* run::execs */
    struct command *command;
    struct run_exec_callbacks callbacks;
};

static void on_output(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct run_exec *exec = data;

    exec->callbacks.on_output(exec->callbacks.data, is_stderr, bytes, len);
}

static void on_done(void *data, const struct command_result *result, const struct error *err)
{
    struct run_exec *exec = data;
    struct run_exec_callbacks callbacks = exec->callbacks;

    list_remove(&exec->link);
    free(exec);
    callbacks.on_exit(callbacks.data, result->code, result->signal, err);
}

int run_exec_start(struct run_exec **out, struct runs *runs, const struct id *id,
                   const char *const *argv, const struct run_exec_callbacks *callbacks,
                   struct error *err)
{
    struct run *run = registry_find(runs, id->text);
    AUTO_FREE
    char *cwd = NULL;
    char **env;
    struct run_exec *exec;
    int rc;

    if (run == NULL || run->sandbox == NULL || run->sandbox_over ||
        !run_state_has_sandbox((enum run_state)run->record.state))
        return error_set(err, ERR_CONFLICT, 0, "run %s has no live sandbox now", id->text);
    cwd = run_place(run)->cloned ? run_directory(run) : mem_strdup(SANDBOX_WORKSPACE);
    exec = NEW(struct run_exec);
    exec->callbacks = *callbacks;
    env = environment_new(run);
    struct command_options options = { .argv = argv,
                                       .env = (const char *const *)env,
                                       .cwd = cwd,
                                       .on_output = on_output,
                                       .on_done = on_done,
                                       .data = exec };
    rc = command_start(&exec->command, runs->loop, run->sandbox, &options, err);
    environment_free(env);
    if (rc < 0) {
        free(exec);
        return -1;
    }
    list_append(&run->execs, &exec->link);
    *out = exec;
    return 0;
}

void run_exec_cancel(struct run_exec *exec)
{
    list_remove(&exec->link);
    command_cancel(exec->command);
    free(exec);
}

void exec_cut_all(struct run *run)
{
    static const struct error cut = { ERR_CANCELLED, 0, "", "the run ended" };

    while (!list_empty(&run->execs)) {
        struct run_exec *exec = LIST_ENTRY(run->execs.next, struct run_exec, link);
        struct run_exec_callbacks callbacks = exec->callbacks;

        run_exec_cancel(exec);
        callbacks.on_exit(callbacks.data, -1, 0, &cut);
    }
}
