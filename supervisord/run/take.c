#include "run/take.h"

#include <string.h>

#include "common/str.h"
#include "run/internal.h"
#include "run/visit.h"
#include "workspace/outgoing.h"
#include "workspace/publish.h"

#define LOOK_MS 120000
#define TAKE_MS 1800000

struct take {
    struct runs *runs;
    struct list link; /* runs::takes */
    struct session_record session;
    enum take_what what;
    uint32_t place;
    char *path;
    char *have; /* names of commits, a space between */
    char *base;
    char *folder;
    uint64_t left;
    bool truncated;
    bool renames;
    bool looking; /* at HEAD, before what is wanted */
    struct publish_look look;
    struct visit *visit;
    struct command *command;
    struct take_callbacks callbacks;
};

static void take_free(struct take *take)
{
    if (take->command != NULL)
        command_cancel(take->command);
    if (take->visit != NULL)
        visit_close(take->visit);
    list_remove(&take->link);
    session_record_finish(&take->session);
    publish_look_finish(&take->look);
    free(take->path);
    free(take->have);
    free(take->base);
    free(take->folder);
    free(take);
}

static void end(struct take *take, const struct error *err)
{
    struct take_callbacks callbacks = take->callbacks;
    bool truncated = take->truncated;

    take_free(take);
    callbacks.on_end(callbacks.data, truncated, err);
}

static bool of_git(const struct take *take)
{
    return take->what == TAKE_BUNDLE || take->what == TAKE_PATCH;
}

static void begin(struct take *take)
{
    const struct session_place *place = &take->session.places[take->place];
    const struct take_source source = { .session = take->session.id.text,
                                        .directory = place->directory,
                                        .repository = place->repository,
                                        .branch = take->look.branch,
                                        .head = take->look.head,
                                        .base = take->base,
                                        .uncommitted = take->look.dirty };

    take->callbacks.on_begin(take->callbacks.data, &source);
}

/* Programs
 * -------------------------------------------------------------------------------------------- */

static const char *failure_text(const struct take *take, int code)
{
    if (code == OUTGOING_NOT_THERE)
        return take->path[0] != '\0' ? "there is no such file" : "there is no such folder";
    if (code == OUTGOING_NO_FILE)
        return "this is no file whose bytes can be read";
    return of_git(take) ? "git can't read the session's repository" : "not all of it can be read";
}

static void finish(struct take *take, const struct command_result *result)
{
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf words = BUF_INIT(2048);

    if (result->code == 0 || (take->what == TAKE_BUNDLE && result->code == OUTGOING_NOTHING_NEW)) {
        end(take, NULL);
        return;
    }
    if (result->timed_out)
        error_set(&err, ERR_TIMEOUT, 0, "to read it takes too long");
    else if (result->code == OUTGOING_NOT_THERE || result->code == OUTGOING_NO_FILE)
        error_set(&err, ERR_NOT_FOUND, 0, "%s", failure_text(take, result->code));
    if (err.code == ERR_NONE) {
        str_append_escaped(&words, result->err_tail, strcspn(result->err_tail, "\n"), 150);
        error_set(&err, ERR_SYSTEM, 0, "%s%s%s", failure_text(take, result->code),
                  words.len > 0 ? ": " : "", buf_text(&words));
    }
    end(take, &err);
}

static void run_command(struct take *take);

static void on_done(void *data, const struct command_result *result, const struct error *err)
{
    struct take *take = data;
    struct error local = ERROR_INIT;

    take->command = NULL;
    if (err != NULL) {
        end(take, err);
    } else if (!take->looking) {
        finish(take, result);
    } else if (result->code != 0 || !publish_read_look(result->out, &take->look)) {
        error_set(&local, ERR_CONFLICT, 0,
                  "the session's workspace holds no commit that git reads");
        end(take, &local);
    } else {
        take->looking = false;
        begin(take);
        run_command(take);
    }
}

static void on_output(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct take *take = data;

    if (is_stderr || take->looking)
        return;
    if (len > take->left) {
        len = (size_t)take->left;
        take->truncated = true;
    }
    take->left -= len;
    if (len > 0)
        take->callbacks.on_bytes(take->callbacks.data, bytes, len);
    if (take->truncated)
        end(take, NULL);
}

static void build(const struct take *take, struct git_command *command)
{
    if (take->looking) {
        publish_look(command, take->folder);
        return;
    }
    switch (take->what) {
    case TAKE_LIST:
        outgoing_list(command, take->folder, take->path);
        break;
    case TAKE_FILE:
        outgoing_file(command, take->folder, take->path);
        break;
    case TAKE_TAR:
        outgoing_tar(command, take->folder, take->path);
        break;
    case TAKE_BUNDLE:
        outgoing_bundle(command, take->folder, take->have);
        break;
    case TAKE_PATCH:
        outgoing_patch(command, take->folder, take->base, take->path,
                       take->renames ? "--find-renames" : "--no-renames");
        break;
    case TAKE_WHAT_COUNT:
        BUG("nothing is taken");
    }
}

static void run_command(struct take *take)
{
    struct git_command command;
    struct error err = ERROR_INIT;
    int rc;

    build(take, &command);
    const struct command_options options = {
        .argv = (const char *const *)command.argv,
        .env = git_environment(),
        .cwd = SANDBOX_WORKSPACE,
        .max_output_bytes = take->looking ? PUBLISH_OUTPUT_MAX : 0,
        .timeout_ms = take->looking ? LOOK_MS : TAKE_MS,
        .on_output = on_output,
        .on_done = on_done,
        .data = take,
    };
    rc =
        command_start(&take->command, take->runs->loop, visit_sandbox(take->visit), &options, &err);
    git_command_finish(&command);
    if (rc < 0)
        end(take, &err);
}

static void on_ready(void *data, const struct error *err)
{
    struct take *take = data;

    if (err != NULL) {
        end(take, err);
        return;
    }
    take->looking = of_git(take);
    if (!take->looking)
        begin(take);
    run_command(take);
}

/* Beginning
 * ------------------------------------------------------------------------------------------- */

static int find_place(struct take *take, const struct id *run, struct error *err)
{
    const struct session_place *place;
    struct run_record record;
    int rc = 0;

    take->place = take->session.place;
    run_record_init(&record);
    if (run != NULL)
        rc = run_load(take->runs, run, &record, err);
    if (run != NULL && rc == 0 && record.place < take->session.place_count) {
        take->place = record.place;
        take->base = mem_strdup(record.evidence.base_commit);
    }
    run_record_finish(&record);
    if (rc < 0)
        return -1;
    place = &take->session.places[take->place];
    if (take->base == NULL || take->base[0] == '\0') {
        free(take->base);
        take->base = mem_strdup(place->base_commit);
    }
    take->folder = place->directory[0] == '\0'
                       ? mem_strdup(SANDBOX_WORKSPACE)
                       : mem_printf("%s/%s", SANDBOX_WORKSPACE, place->directory);
    if (of_git(take) && (!place->cloned || take->base[0] == '\0'))
        return error_set(err, ERR_CONFLICT, 0,
                         "the session's workspace has no repository that is whole");
    return 0;
}

static void join_have(struct take *take, const struct take_options *options)
{
    AUTO_BUF struct buf text = BUF_INIT(TAKE_HAVE_MAX * 66);

    for (size_t i = 0; i < options->have_count && i < TAKE_HAVE_MAX; i++) {
        AUTO_BUF struct buf line = BUF_INIT(128);
        char object[65];

        buf_append_str(&line, options->have[i]);
        git_parse_object(&line, object);
        if (object[0] != '\0')
            buf_printf(&text, "%s ", object);
    }
    take->have = mem_strdup(buf_text(&text));
}

static int start(struct take *take, const struct take_options *options, struct error *err)
{
    const struct visit_options visit = {
        .session = &take->session, .access = SANDBOX_READ_ONLY, .on_ready = on_ready, .data = take
    };

    if (outgoing_check_path(take->path, err) < 0 ||
        store_session_load(take->runs->store, options->session, &take->session, err) < 0 ||
        find_place(take, options->run, err) < 0)
        return -1;
    return visit_start(&take->visit, take->runs, &visit, err);
}

int take_start(struct take **out, struct runs *runs, const struct take_options *options,
               const struct take_callbacks *callbacks, struct error *err)
{
    struct take *take = NEW(struct take);

    take->runs = runs;
    list_append(&runs->takes, &take->link);
    session_record_init(&take->session);
    take->what = options->what;
    take->path = mem_strdup(options->path);
    take->left = options->max_bytes;
    take->renames = options->renames;
    take->callbacks = *callbacks;
    join_have(take, options);
    if (start(take, options, err) < 0) {
        take_free(take);
        return -1;
    }
    *out = take;
    return 0;
}

void take_pause(struct take *take)
{
    if (take->command != NULL)
        command_pause(take->command);
}

void take_resume(struct take *take)
{
    if (take->command != NULL)
        command_resume(take->command);
}

void take_cancel(struct take *take)
{
    take_free(take);
}

void take_close_all(struct runs *runs)
{
    static const struct error stopping = { ERR_UNAVAILABLE, 0, "", "the supervisor is stopping" };

    while (!list_empty(&runs->takes))
        end(LIST_ENTRY(runs->takes.next, struct take, link), &stopping);
}
