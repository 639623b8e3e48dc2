/* setup.c: a repository's set-up command, once per session, after the clone. It comes from the
 * configuration; a file in the repository can only ask for one that the operator allows. */
#include "run/internal.h"

#include <string.h>

#include "common/json.h"
#include "common/json_write.h"
#include "common/str.h"

#define FILE_NAME ".sandbox-mcp.json"
#define FILE_MAX (16u << 10)
#define READ_MS 10000

struct setup {
    char *command;
    uint32_t minutes;
    uint64_t begun_ms;
    struct progress progress;
};

void setup_free(struct run *run)
{
    struct setup *setup = STEAL(run->setup);

    if (setup == NULL)
        return;
    progress_finish(&setup->progress);
    free(setup->command);
    free(setup);
}

static void done(struct run *run)
{
    setup_free(run);
    run_place(run)->set_up = true;
    run_apply(run, RUN_EV_SET_UP);
}

/* The command ------------------------------------------------------------------------------------
 */

static void on_output(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct run *run = data;

    (void)is_stderr;
    if (run->setup != NULL)
        progress_feed(run, &run->setup->progress, bytes, len);
}

static void note_end(struct run *run, const struct command_result *result)
{
    const struct setup *setup = run->setup;
    AUTO_BUF struct buf data = BUF_INIT(16u << 10);
    AUTO_FREE
    char *text = mem_printf("set-up command ended with code %d", result->code);
    struct json_writer writer;

    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_member_string(&writer, "phase", "setup");
    json_member_string(&writer, "command", setup->command);
    json_write_name(&writer, "exitCode");
    json_write_i64(&writer, result->code);
    json_member_u64(&writer, "milliseconds", uv_now(run->runs->loop) - setup->begun_ms);
    json_write_object_end(&writer);
    events_note(run, RUN_NOTE_LOG, text, buf_text(&data));
}

static void fail(struct run *run, char *message, const char *hint, bool retryable)
{
    AUTO_FREE
    char *text = message;

    setup_free(run);
    run_fail(run, "setup_failed", text, hint, retryable);
}

static void on_command_done(void *data, const struct command_result *result,
                            const struct error *err)
{
    static const char hint[] = "sandboxctl logs shows what it printed; the command stands in the "
                               "configuration (repositories) or in the repository's " FILE_NAME;
    struct run *run = data;

    run->command = NULL;
    if (err != NULL) {
        fail(run, mem_printf("the set-up command could not be run: %s", err->text), hint, true);
        return;
    }
    progress_feed(run, &run->setup->progress, "\n", 1);
    note_end(run, result);
    if (result->timed_out)
        fail(run,
             mem_printf("the set-up command did not end within %u minute%s", run->setup->minutes,
                        run->setup->minutes == 1 ? "" : "s"),
             "raise setup.minutes, or the repository's setupMinutes", true);
    else if (result->signal != 0)
        fail(run, mem_printf("the set-up command was ended by signal %d", result->signal), hint,
             true);
    else if (result->code != 0)
        fail(run, mem_printf("the set-up command exited with code %d", result->code), hint, false);
    else
        done(run);
}

static void start(struct run *run)
{
    struct setup *setup = run->setup;
    const char *const argv[] = { "sh", "-c", setup->command, NULL };
    char **env = environment_new(run);
    AUTO_FREE
    char *folder = run_directory(run);
    struct command_options options = { .argv = argv,
                                       .env = (const char *const *)env,
                                       .cwd = folder,
                                       .timeout_ms = (uint64_t)setup->minutes * 60000,
                                       .on_output = on_output,
                                       .on_done = on_command_done,
                                       .data = run };
    struct error err = ERROR_INIT;
    int rc;

    setup->begun_ms = uv_now(run->runs->loop);
    rc = command_start(&run->command, run->runs->loop, run->sandbox, &options, &err);
    environment_free(env);
    if (rc < 0)
        fail(run, mem_strdup(err.text), "", true);
}

/* The repository's own file ----------------------------------------------------------------------
 */

static bool is_allowed(const struct runs_options *options, const char *command)
{
    for (size_t i = 0; i < options->setup_allow_count; i++) {
        if (str_equal(options->setup_allow[i], command))
            return true;
    }
    return false;
}

/* What the file asks for, on the heap, or NULL. */
static char *read_wish(const struct buf *text, struct error *err)
{
    AUTO_JSON struct json_doc *doc = NULL;
    const char *command;

    if (json_parse(&doc, text->data, text->len, FILE_MAX, err) < 0)
        return NULL;
    command = json_string(json_get(json_root(doc), "setup"));
    if (command == NULL || command[0] == '\0')
        return NULL;
    return mem_strdup(command);
}

static void on_file_read(void *data, const struct command_result *result, const struct error *err)
{
    struct run *run = data;
    struct error wrong = ERROR_INIT;
    AUTO_FREE
    char *wish = NULL;
    AUTO_FREE
    char *text = NULL;

    run->command = NULL;
    if (err == NULL && result->code == 0 && !result->truncated && result->out->len > 0)
        wish = read_wish(result->out, &wrong);
    if (wish != NULL && is_allowed(&run->runs->options, wish)) {
        run->setup->command = STEAL(wish);
        start(run);
        return;
    }
    if (wish != NULL)
        text = mem_printf("the repository's " FILE_NAME " asks for the set-up command \"%.200s\", "
                          "which setup.allow in the configuration doesn't list: not run",
                          wish);
    else if (wrong.code != ERR_NONE)
        text = mem_printf("the repository's " FILE_NAME " is not read: %s", wrong.text);
    if (text != NULL)
        events_note(run, RUN_NOTE_LOG, text, "{\"phase\":\"setup\"}");
    done(run);
}

static void read_file(struct run *run)
{
    /* Whatever lies there under that name: bounded in bytes and time. */
    static const char *const argv[] = { "head", "-c", "16384", "--", FILE_NAME, NULL };
    AUTO_FREE
    char *folder = run_directory(run);
    struct command_options options = { .argv = argv,
                                       .env = git_environment(),
                                       .cwd = folder,
                                       .max_output_bytes = FILE_MAX,
                                       .timeout_ms = READ_MS,
                                       .on_done = on_file_read,
                                       .data = run };
    struct error err = ERROR_INIT;

    if (command_start(&run->command, run->runs->loop, run->sandbox, &options, &err) < 0)
        fail(run, mem_strdup(err.text), "", true);
}

/* Which ------------------------------------------------------------------------------------------
 */

void step_setup(struct run *run)
{
    const struct run_repository *repository = place_settings(run);

    if (run_place(run)->set_up || run_place(run)->repository[0] == '\0') {
        done(run);
        return;
    }
    run->setup = NEW(struct setup);
    progress_init(&run->setup->progress);
    run->setup->minutes = run->runs->options.setup_minutes;
    if (repository != NULL && repository->setup_minutes > 0)
        run->setup->minutes = repository->setup_minutes;
    if (repository == NULL || repository->setup[0] == '\0') {
        read_file(run);
        return;
    }
    run->setup->command = mem_strdup(repository->setup);
    start(run);
}
