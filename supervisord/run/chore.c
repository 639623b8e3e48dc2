#include "run/chore.h"

#include <string.h>

#include "common/paths.h"
#include "run/internal.h"

#define OUTPUT_MAX 65536

struct chore {
    struct runs *runs;
    struct list link; /* runs::chores */
    char *name;
    char *runtime_dir;
    struct git_command argv;
    uint64_t timeout_ms;
    struct sandbox *sandbox;
    struct command *command;
    struct error error;
    struct command_result result; /* its texts are the two below */
    struct buf out;
    char *err_tail;
    void (*on_done)(void *data, const struct command_result *result, const struct error *err);
    void *data;
};

static void chore_free(struct chore *chore)
{
    list_remove(&chore->link);
    git_command_finish(&chore->argv);
    buf_finish(&chore->out);
    free(chore->err_tail);
    free(chore->runtime_dir);
    free(chore->name);
    free(chore);
}

/* The first failure says most. To a client "unavailable" would mean the supervisor. */
static void fail(struct chore *chore, const struct error *err)
{
    if (chore->error.code != ERR_NONE)
        return;
    chore->error = *err;
    if (err->code == ERR_UNAVAILABLE)
        chore->error.code = ERR_SYSTEM;
}

static void on_closed(void *data)
{
    struct chore *chore = data;
    struct runs *runs = chore->runs;
    struct error err = ERROR_INIT;

    if (sandbox_runtime_remove(chore->runtime_dir, &err) < 0)
        log_warn(chore->name, "%s", err.text);
    chore->on_done(chore->data, &chore->result,
                   chore->error.code != ERR_NONE ? &chore->error : NULL);
    chore_free(chore);
    runs->open_runs--;
    if (runs->closing && runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void on_command_done(void *data, const struct command_result *result,
                            const struct error *err)
{
    struct chore *chore = data;

    chore->command = NULL;
    if (err != NULL) {
        fail(chore, err);
    } else {
        chore->result = *result;
        buf_append(&chore->out, result->out->data, result->out->len);
        free(chore->err_tail);
        chore->err_tail = mem_strdup(result->err_tail);
        chore->result.out = &chore->out;
        chore->result.err_tail = chore->err_tail;
    }
    sandbox_stop(chore->sandbox);
}

static void on_ready(void *data, const struct error *err)
{
    struct chore *chore = data;
    struct error local = ERROR_INIT;
    struct command_options options = { .argv = (const char *const *)chore->argv.argv,
                                       .env = git_environment(),
                                       .cwd = "/",
                                       .max_output_bytes = OUTPUT_MAX,
                                       .timeout_ms = chore->timeout_ms,
                                       .on_done = on_command_done,
                                       .data = chore };

    if (err != NULL) {
        fail(chore, err);
        sandbox_close(chore->sandbox, on_closed, chore);
        return;
    }
    if (chore->error.code != ERR_NONE) {
        sandbox_stop(chore->sandbox);
    } else if (command_start(&chore->command, chore->runs->loop, chore->sandbox, &options, &local) <
               0) {
        fail(chore, &local);
        sandbox_stop(chore->sandbox);
    }
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct chore *chore = data;
    struct error lost = ERROR_INIT;

    if (end->kind == SANDBOX_END_LOST) {
        error_set(&lost, ERR_SYSTEM, 0, "its sandbox ended too early: %s", end->text);
        fail(chore, &lost);
    }
    if (chore->command != NULL)
        command_cancel(STEAL(chore->command));
    sandbox_close(chore->sandbox, on_closed, chore);
}

static int start(struct chore *chore, const struct chore_options *options, struct error *err)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = chore };
    const struct runs_options *all = &chore->runs->options;
    struct sandbox_spec spec;
    int rc;

    if (paths_make_private(chore->runtime_dir, err) < 0)
        return -1;
    sandbox_spec_init(&spec);
    spec.id = mem_strdup(chore->name);
    spec.runtime_dir = mem_strdup(chore->runtime_dir);
    spec.host_uid = options->host_uid;
    spec.hostname = mem_strdup("sandbox");
    spec.limits = all->limits;
    for (const struct chore_mount *mount = options->mounts; mount->source != NULL; mount++)
        sandbox_spec_add_mount(&spec, mount->source, mount->target, mount->access);
    rc = sandbox_start(&chore->sandbox, chore->runs->loop, &all->sandbox, &spec, &callbacks, err);
    sandbox_spec_finish(&spec);
    return rc;
}

int chore_start(struct chore **out, struct runs *runs, const struct chore_options *options,
                struct error *err)
{
    struct chore *chore = NEW(struct chore);

    chore->runs = runs;
    list_append(&runs->chores, &chore->link);
    chore->name = mem_strdup(options->name);
    chore->runtime_dir = mem_printf("%s/sandboxes/%s", runs->options.runtime_dir, options->name);
    chore->argv = *options->command;
    *options->command = (struct git_command){ .argc = 0 };
    chore->timeout_ms = options->timeout_ms;
    chore->result.code = -1;
    chore->err_tail = mem_strdup("");
    chore->result.err_tail = chore->err_tail;
    chore->result.out = &chore->out;
    buf_init(&chore->out, OUTPUT_MAX);
    chore->on_done = options->on_done;
    chore->data = options->data;
    if (start(chore, options, err) < 0) {
        chore_free(chore);
        return -1;
    }
    runs->open_runs++;
    *out = chore;
    return 0;
}

void chore_cancel(struct chore *chore)
{
    struct error cancelled = ERROR_INIT;

    error_set(&cancelled, ERR_CANCELLED, 0, "it was called off");
    fail(chore, &cancelled);
    if (chore->command != NULL)
        command_cancel(STEAL(chore->command));
    sandbox_stop(chore->sandbox);
}

void chores_cancel(struct runs *runs)
{
    LIST_EACH(&runs->chores, link) {
        chore_cancel(LIST_ENTRY(link, struct chore, link));
    }
}
