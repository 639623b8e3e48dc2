/* trial.c: a sandbox for its own sake: what this machine gives, found out by doing it. */
#include "run/internal.h"

#include <unistd.h>

#include "common/paths.h"

struct trial {
    struct runs *runs;
    char *runtime_dir;
    struct sandbox *sandbox;
    uint32_t layers;
    struct error error;
    bool failed;
    runs_trial_cb done;
    void *data;
};

static void on_closed(void *data)
{
    struct trial *trial = data;
    struct runs *runs = trial->runs;
    struct error err = ERROR_INIT;

    if (sandbox_runtime_remove(trial->runtime_dir, &err) < 0)
        log_warn("trial", "%s", err.text);
    runs->trying = false;
    trial->done(trial->data, trial->layers, trial->failed ? &trial->error : NULL);
    free(trial->runtime_dir);
    free(trial);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void on_ready(void *data, const struct error *err)
{
    struct trial *trial = data;

    if (err != NULL) {
        trial->failed = true;
        trial->error = *err;
        sandbox_close(trial->sandbox, on_closed, trial);
        return;
    }
    trial->layers = sandbox_layers(trial->sandbox);
    sandbox_stop(trial->sandbox);
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct trial *trial = data;

    (void)end;
    sandbox_close(trial->sandbox, on_closed, trial);
}

static int start(struct trial *trial, struct error *err)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = trial };
    const struct runs_options *options = &trial->runs->options;
    struct sandbox_spec spec;
    int rc;

    if (paths_make_private(trial->runtime_dir, err) < 0)
        return -1;
    sandbox_spec_init(&spec);
    spec.id = mem_strdup("trial");
    spec.runtime_dir = mem_strdup(trial->runtime_dir);
    /* The last of our uids; it has no files to share with whoever may have it as well. */
    spec.host_uid =
        geteuid() == 0 ? options->host_uid_base + options->host_uid_count - 1 : geteuid();
    spec.hostname = mem_strdup("sandbox");
    spec.limits = options->limits;
    rc = sandbox_start(&trial->sandbox, trial->runs->loop, &options->sandbox, &spec, &callbacks,
                       err);
    sandbox_spec_finish(&spec);
    return rc;
}

int runs_try_sandbox(struct runs *runs, runs_trial_cb done, void *data, struct error *err)
{
    struct trial *trial;

    if (runs->trying)
        return error_set(err, ERR_CONFLICT, 0, "a sandbox is being tried already");
    trial = NEW(struct trial);
    trial->runs = runs;
    trial->done = done;
    trial->data = data;
    trial->runtime_dir = mem_printf("%s/sandboxes/trial", runs->options.runtime_dir);
    if (start(trial, err) < 0) {
        free(trial->runtime_dir);
        free(trial);
        return -1;
    }
    runs->trying = true;
    runs->open_runs++;
    return 0;
}
