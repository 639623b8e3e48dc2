/* catalogue.c: which models an agent's program knows. It is asked in a sandbox of its own, with
 * nothing of any session in it, and only when a model is named that nobody has vouched for; what it
 * says is kept, beside what the program was, until that changes. Nobody waits for it but the run
 * that named the model. */
#include "run/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/nearest.h"
#include "common/paths.h"
#include "common/str.h"

#define NAMES_MAX 20000
#define NAME_MAX_BYTES 200
#define TEXT_MAX (2u << 20)
#define ASK_MS 60000

struct catalogue {
    struct list link; /* runs::catalogues */
    struct runs *runs;
    const struct agent_driver *driver;
    char *program; /* what the names come from; "" nothing is known */
    char **names;
    size_t count;
    char *failed; /* of which program it can't be had; "" none */

    char *asked; /* the program being asked; NULL: none */
    char *runtime_dir;
    struct sandbox *sandbox;
    struct command *command;
};

/* Names --------------------------------------------------------------------------------------- */

static void forget_names(struct catalogue *catalogue)
{
    for (size_t i = 0; i < catalogue->count; i++)
        free(catalogue->names[i]);
    free(STEAL(catalogue->names));
    catalogue->count = 0;
}

static bool usable(const char *name, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.:/@+~";

    return len > 0 && len <= NAME_MAX_BYTES && memchr(name, '/', len) != NULL &&
           strspn(name, letters) >= len;
}

/* One a line; other lines are left out. */
static void read_names(struct catalogue *catalogue, const char *text)
{
    forget_names(catalogue);
    catalogue->names = mem_new_zero(NAMES_MAX, sizeof(*catalogue->names));
    while (*text != '\0' && catalogue->count < NAMES_MAX) {
        size_t len = strcspn(text, "\n");

        if (usable(text, len))
            catalogue->names[catalogue->count++] = mem_strndup(text, len);
        text += len + (text[len] == '\n');
    }
}

static char *file_of(const struct catalogue *catalogue)
{
    return mem_printf("%s/models-%s", catalogue->runs->options.state_dir, catalogue->driver->name);
}

static void save(const struct catalogue *catalogue)
{
    AUTO_FREE
    char *path = file_of(catalogue);
    AUTO_BUF struct buf text = BUF_INIT(NAMES_MAX * NAME_MAX_BYTES);
    struct error err = ERROR_INIT;

    buf_printf(&text, "%s\n", catalogue->program);
    for (size_t i = 0; i < catalogue->count; i++)
        buf_printf(&text, "%s\n", catalogue->names[i]);
    if (text.failed || fd_replace_file(path, text.data, text.len, 0600, &err) < 0)
        log_warn("models", "not kept: %s", err.text);
}

static void load(struct catalogue *catalogue)
{
    AUTO_FREE
    char *path = file_of(catalogue);
    AUTO_FREE
    char *text = NULL;
    struct error err = ERROR_INIT;
    size_t len;

    if (fd_read_file(path, TEXT_MAX, &text, &len, &err) < 0)
        return;
    len = strcspn(text, "\n");
    free(catalogue->program);
    catalogue->program = mem_strndup(text, len);
    read_names(catalogue, text + len);
}

/* The program, and the providers that it is configured for. NULL: it isn't there. */
static char *program_now(const struct catalogue *catalogue, char **path, struct error *err)
{
    const struct runs_options *options = &catalogue->runs->options;
    AUTO_BUF struct buf text = BUF_INIT(64u << 10);
    struct stat st;

    if (catalogue->driver->locate == NULL ||
        catalogue->driver->locate(NULL, options->agent_opencode, options->data_dir, path, err) < 0)
        return NULL;
    if (stat(*path, &st) < 0)
        return NULL;
    buf_printf(&text, "%s %lld %lld", *path, (long long)st.st_size, (long long)st.st_mtime);
    for (size_t i = 0; i < options->model_service_count; i++) {
        const struct run_model_service *service = &options->model_services[i];

        buf_printf(&text, " %s", service->name);
        for (size_t k = 0; k < service->model_count; k++)
            buf_printf(&text, ",%s", service->models[k]);
    }
    return text.failed || strchr(buf_text(&text), '\n') != NULL ? NULL : buf_steal(&text);
}

static struct catalogue *find(struct runs *runs, const struct agent_driver *driver)
{
    struct catalogue *catalogue;

    LIST_EACH(&runs->catalogues, link) {
        catalogue = LIST_ENTRY(link, struct catalogue, link);
        if (catalogue->driver == driver)
            return catalogue;
    }
    catalogue = NEW(struct catalogue);
    catalogue->runs = runs;
    catalogue->driver = driver;
    catalogue->program = mem_strdup("");
    catalogue->failed = mem_strdup("");
    list_append(&runs->catalogues, &catalogue->link);
    load(catalogue);
    return catalogue;
}

void catalogue_free_all(struct runs *runs)
{
    while (!list_empty(&runs->catalogues)) {
        struct catalogue *catalogue = LIST_ENTRY(runs->catalogues.next, struct catalogue, link);

        list_remove(&catalogue->link);
        forget_names(catalogue);
        free(catalogue->program);
        free(catalogue->failed);
        free(catalogue->asked);
        free(catalogue->runtime_dir);
        free(catalogue);
    }
}

/* Asking -------------------------------------------------------------------------------------- */

/* Runs that waited for it go on, and find out. */
static void wake_runs(struct catalogue *catalogue)
{
    LIST_EACH(&catalogue->runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->driver == catalogue->driver && run->model_awaited) {
            run->model_awaited = false;
            if (run->record.state == RUN_PROMPT)
                step_prompt(run);
        }
    }
}

static void on_closed(void *data)
{
    struct catalogue *catalogue = data;
    struct runs *runs = catalogue->runs;
    struct error err = ERROR_INIT;

    if (sandbox_runtime_remove(catalogue->runtime_dir, &err) < 0)
        log_warn("models", "%s", err.text);
    catalogue->sandbox = NULL;
    free(STEAL(catalogue->runtime_dir));
    free(STEAL(catalogue->asked));
    runs->open_runs--;
    if (!runs->closing)
        wake_runs(catalogue);
    else if (runs->open_runs == 0)
        events_tick_soon(runs, 0);
}

static void fail(struct catalogue *catalogue, const char *why)
{
    log_warn("models", "%s can't tell which models it knows: %s", catalogue->driver->name, why);
    free(catalogue->failed);
    catalogue->failed = mem_strdup(catalogue->asked);
}

static void on_told(void *data, const struct command_result *result, const struct error *err)
{
    struct catalogue *catalogue = data;

    catalogue->command = NULL;
    if (err != NULL) {
        fail(catalogue, err->text);
    } else if (result->code != 0 || result->timed_out || result->truncated) {
        fail(catalogue, result->timed_out ? "it takes too long" : result->err_tail);
    } else {
        read_names(catalogue, buf_text(result->out));
        if (catalogue->count == 0) {
            fail(catalogue, "it names none");
        } else {
            free(catalogue->program);
            catalogue->program = mem_strdup(catalogue->asked);
            log_info("models", "%s knows %zu", catalogue->driver->name, catalogue->count);
            save(catalogue);
        }
    }
    sandbox_stop(catalogue->sandbox);
}

static void on_ready(void *data, const struct error *err)
{
    static const char *const environment[] = { "PATH=/usr/bin:/bin", NULL };
    struct catalogue *catalogue = data;
    struct error local = ERROR_INIT;
    const struct command_options options = { .argv = catalogue->driver->models_command,
                                             .env = environment,
                                             .cwd = "/tmp",
                                             .max_output_bytes = TEXT_MAX,
                                             .end_when_full = true,
                                             .timeout_ms = ASK_MS,
                                             .on_done = on_told,
                                             .data = catalogue };

    if (err != NULL) {
        fail(catalogue, err->text);
        sandbox_close(catalogue->sandbox, on_closed, catalogue);
    } else if (command_start(&catalogue->command, catalogue->runs->loop, catalogue->sandbox,
                             &options, &local) < 0) {
        fail(catalogue, local.text);
        sandbox_stop(catalogue->sandbox);
    }
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct catalogue *catalogue = data;

    (void)end;
    if (catalogue->command != NULL)
        command_cancel(STEAL(catalogue->command));
    sandbox_close(catalogue->sandbox, on_closed, catalogue);
}

static int start(struct catalogue *catalogue, const char *path, struct error *err)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = catalogue };
    const struct runs_options *options = &catalogue->runs->options;
    struct sandbox_spec spec;
    int rc;

    if (paths_make_private(catalogue->runtime_dir, err) < 0)
        return -1;
    sandbox_spec_init(&spec);
    spec.id = mem_strdup("models");
    spec.runtime_dir = mem_strdup(catalogue->runtime_dir);
    /* As for a trial: a uid without files. */
    spec.host_uid =
        geteuid() == 0 ? options->host_uid_base + options->host_uid_count - 1 : geteuid();
    spec.hostname = mem_strdup("sandbox");
    spec.limits = options->limits;
    rc = driver_prepare_bare(catalogue->runs, catalogue->driver, path, &spec, err);
    if (rc == 0)
        rc = sandbox_start(&catalogue->sandbox, catalogue->runs->loop, &options->sandbox, &spec,
                           &callbacks, err);
    sandbox_spec_finish(&spec);
    return rc;
}

static void ask(struct catalogue *catalogue, const char *program, const char *path)
{
    struct error err = ERROR_INIT;

    catalogue->asked = mem_strdup(program);
    catalogue->runtime_dir = mem_printf(
        "%s/sandboxes/models-%s", catalogue->runs->options.runtime_dir, catalogue->driver->name);
    if (start(catalogue, path, &err) == 0) {
        catalogue->runs->open_runs++;
        return;
    }
    fail(catalogue, err.text);
    free(STEAL(catalogue->asked));
    free(STEAL(catalogue->runtime_dir));
}

void catalogue_close(struct runs *runs)
{
    LIST_EACH(&runs->catalogues, link) {
        struct catalogue *catalogue = LIST_ENTRY(link, struct catalogue, link);

        if (catalogue->command != NULL)
            command_cancel(STEAL(catalogue->command));
        if (catalogue->sandbox != NULL)
            sandbox_stop(catalogue->sandbox);
    }
}

/* Judging ------------------------------------------------------------------------------------- */

static bool knows(const struct catalogue *catalogue, const char *model)
{
    for (size_t i = 0; i < catalogue->count; i++) {
        if (str_equal(catalogue->names[i], model))
            return true;
    }
    return false;
}

static int refuse(const struct catalogue *catalogue, const char *model, struct error *err)
{
    AUTO_BUF struct buf nearest = BUF_INIT(2048);

    nearest_append(&nearest, (const char *const *)catalogue->names, catalogue->count, model);
    return error_argument(err, "model", "%.80s is not known; the nearest are %s", model,
                          buf_text(&nearest));
}

enum catalogue_verdict catalogue_check(struct runs *runs, const struct agent_driver *driver,
                                       const char *model, enum catalogue_need need,
                                       struct error *err)
{
    struct catalogue *catalogue;
    AUTO_FREE
    char *path = NULL;
    AUTO_FREE
    char *program = NULL;
    struct error ignored = ERROR_INIT;

    if (driver->models_command == NULL)
        return CATALOGUE_FINE;
    catalogue = find(runs, driver);
    program = program_now(catalogue, &path, &ignored);
    if (program == NULL)
        return CATALOGUE_FINE; /* its absence is told elsewhere */
    if (str_equal(program, catalogue->program)) {
        if (knows(catalogue, model))
            return CATALOGUE_FINE;
        (void)refuse(catalogue, model, err);
        return CATALOGUE_UNKNOWN;
    }
    if (need == CATALOGUE_ASK && catalogue->asked == NULL && !str_equal(program, catalogue->failed))
        ask(catalogue, program, path);
    return catalogue->asked != NULL ? CATALOGUE_PENDING : CATALOGUE_FINE;
}
