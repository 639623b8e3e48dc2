/* clone.c: code comes in, by git inside the sandbox. Until the session's record says `cloned`
 * nothing that lies in the workspace counts, and a repeated step begins with an empty folder. When
 * the workspace holds other repositories already, a new one is cloned beside them and gets its name
 * when it is whole: what an agent has put under that name stays. */
#include "run/internal.h"

#include <string.h>

#include "common/str.h"

/* In a session's next run the repository is what the last one left: a pipe in the place of HEAD,
 * and git waits for ever. */
#define LOOK_MS 60000
#define CHANGE_MS 600000

#define STAGING SANDBOX_WORKSPACE "/.sandbox-mcp-clone"

enum clone_step {
    CLONE_CLEAR,
    CLONE_FETCH,
    CLONE_FIRST_COMMIT,
    CLONE_HEAD,
    CLONE_BRANCH,
    CLONE_NAME, /* only if STAGED */
    CLONE_CLEANUP
};

struct clone {
    enum clone_step step;
    struct repository repository;
    bool staged;
    char *folder; /* where git works: STAGING if STAGED */
    struct progress progress;
    char *failure; /* set when CLONE_CLEANUP ends a failed clone */
    const char *hint;
    const char *code;
    bool retryable;
};

static void run_step(struct run *run);

void clone_free(struct run *run)
{
    struct clone *clone = STEAL(run->clone);

    if (clone == NULL)
        return;
    repository_finish(&clone->repository);
    progress_finish(&clone->progress);
    free(clone->folder);
    free(clone->failure);
    free(clone);
}

static void on_output(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct run *run = data;

    if (is_stderr && run->clone != NULL)
        progress_feed(run, &run->clone->progress, bytes, len);
}

static void give_up(struct run *run)
{
    struct clone *clone = run->clone;
    AUTO_FREE
    char *failure = STEAL(clone->failure);
    const char *hint = clone->hint;
    const char *code = clone->code;
    bool retryable = clone->retryable;

    clone_free(run);
    run_fail(run, code, failure, hint, retryable);
}

static void fail(struct run *run, const char *code, char *message, const char *hint, bool retryable)
{
    struct clone *clone = run->clone;

    free(clone->failure);
    clone->failure = message;
    clone->code = code;
    clone->hint = hint;
    clone->retryable = retryable;
    /* A half clone isn't left lying about. */
    clone->step = CLONE_CLEANUP;
    run_step(run);
}

static const char *last_line(const char *text)
{
    const char *start = text;

    for (const char *p = text; *p != '\0'; p++) {
        if ((*p == '\n' || *p == '\r') && p[1] != '\0' && p[1] != '\n')
            start = p + 1;
    }
    return start;
}

/* git's first "fatal:" or "error:" line says most. */
static const char *telling_line(const char *text)
{
    const char *line = strstr(text, "fatal: ");

    if (line == NULL)
        line = strstr(text, "error: ");
    return line != NULL ? line : last_line(text);
}

static void fetch_failed(struct run *run, const struct command_result *result)
{
    bool local = run->clone->repository.kind == REPOSITORY_LOCAL;
    const char *line = telling_line(result->err_tail);
    const char *reason;
    const char *hint;
    AUTO_BUF struct buf words;

    buf_init(&words, 4096);
    str_append_escaped(&words, line, strcspn(line, "\r\n"), 400);
    git_clone_diagnose(result->err_tail, local, &reason, &hint);
    if (result->timed_out) {
        fail(run, "clone_failed", mem_printf("repository: git clone made no progress in time"),
             "raise workspace.cloneMinutes, or check the connection to the git server", true);
        return;
    }
    if (result->signal != 0) {
        fail(run, "clone_failed",
             mem_printf("repository: git was ended by signal %d", result->signal),
             "try it again; for want of memory raise limits.memoryMiB", true);
        return;
    }
    fail(run, str_equal(reason, "disk_full") ? "disk_full" : "clone_failed",
         mem_printf("%s: %s (%s)", str_equal(reason, "branch_not_found") ? "branch" : "repository",
                    buf_text(&words), reason),
         hint, str_equal(reason, "unreachable"));
}

static void done(struct run *run)
{
    clone_free(run);
    run_place(run)->cloned = true;
    run_apply(run, RUN_EV_CLONED);
}

static void named(struct run *run, const struct command_result *result)
{
    if (result->code == 0)
        done(run);
    else
        fail(run, "clone_failed",
             mem_printf("repository: the workspace has something else at %s",
                        run_place(run)->directory),
             "let the agent rename it, or use a new session", false);
}

static void next(struct run *run, enum clone_step step)
{
    run->clone->step = step;
    run_step(run);
}

/* A run's evidence is judged against the commit that it began with, not the session's first one. */
static void take_head(struct run *run, const struct command_result *result)
{
    char object[65];

    git_parse_object(result->out, object);
    if (result->code != 0)
        object[0] = '\0';
    if (run_place(run)->cloned) {
        record_set(&run->record.evidence.base_commit,
                   object[0] != '\0' ? object : run_place(run)->base_commit);
        done(run);
        return;
    }
    if (object[0] == '\0') {
        fail(run, "clone_failed",
             mem_printf("repository: it has no commit yet, so there is nothing to work on"),
             "push a first commit, or start the run without `repository`", false);
        return;
    }
    record_set(&run_place(run)->base_commit, object);
    record_set(&run->record.evidence.base_commit, object);
    next(run, CLONE_BRANCH);
}

static void on_done(void *data, const struct command_result *result, const struct error *err)
{
    struct run *run = data;
    enum clone_step step = run->clone->step;
    char line[256];

    run->command = NULL;
    if (step == CLONE_CLEANUP) {
        give_up(run);
        return;
    }
    if (err != NULL) {
        run->clone->failure = mem_strdup(err->text);
        run->clone->code = "clone_failed";
        run->clone->hint = "git must be installed where the sandbox sees it";
        run->clone->retryable = true;
        give_up(run);
        return;
    }
    switch (step) {
    case CLONE_CLEAR:
        next(run, CLONE_FETCH);
        break;
    case CLONE_FETCH:
        if (result->code != 0)
            fetch_failed(run, result);
        else
            next(run,
                 run->clone->repository.kind == REPOSITORY_NONE ? CLONE_FIRST_COMMIT : CLONE_HEAD);
        break;
    case CLONE_FIRST_COMMIT:
        next(run, CLONE_HEAD);
        break;
    case CLONE_HEAD:
        take_head(run, result);
        break;
    case CLONE_BRANCH:
        git_parse_line(result->out, line, sizeof(line));
        if (result->code == 0 && run_place(run)->branch[0] == '\0')
            record_set(&run_place(run)->branch, line);
        if (run->clone->staged)
            next(run, CLONE_NAME);
        else
            done(run);
        break;
    case CLONE_NAME:
        named(run, result);
        break;
    case CLONE_CLEANUP:
        break;
    }
}

static void build(struct run *run, struct git_command *command)
{
    const struct clone *clone = run->clone;
    AUTO_FREE char *directory = run_directory(run);

    switch (clone->step) {
    case CLONE_CLEAR:
    case CLONE_CLEANUP:
        if (clone->staged)
            git_remove_folder(command, STAGING);
        else
            git_clear_folder(command, SANDBOX_WORKSPACE);
        break;
    case CLONE_FETCH:
        if (clone->repository.kind == REPOSITORY_NONE)
            git_init(command, clone->folder);
        else
            git_clone(command, &clone->repository, run_place(run)->branch, clone->folder);
        break;
    case CLONE_FIRST_COMMIT:
        git_first_commit(command, clone->folder);
        break;
    case CLONE_HEAD:
        git_head(command, clone->folder);
        break;
    case CLONE_BRANCH:
        git_branch(command, clone->folder);
        break;
    case CLONE_NAME:
        git_name_clone(command, clone->folder, directory, run->record.id.text);
        break;
    }
}

static void run_step(struct run *run)
{
    struct clone *clone = run->clone;
    bool fetch = clone->step == CLONE_FETCH;
    bool look = clone->step == CLONE_HEAD || clone->step == CLONE_BRANCH;
    struct git_command command;
    struct error err = ERROR_INIT;
    int rc;

    build(run, &command);
    struct command_options options = {
        .argv = (const char *const *)command.argv,
        .env = git_environment(),
        .cwd = SANDBOX_WORKSPACE,
        .max_output_bytes = 4096,
        .timeout_ms = fetch  ? 0
                      : look ? LOOK_MS
                             : CHANGE_MS,
        .silence_ms = fetch ? (uint64_t)run->runs->options.clone_minutes * 60000 : 0,
        .on_output = fetch ? on_output : NULL,
        .on_done = on_done,
        .data = run,
    };
    rc = command_start(&run->command, run->runs->loop, run->sandbox, &options, &err);
    git_command_finish(&command);
    if (rc == 0)
        return;
    if (clone->failure == NULL) {
        clone->failure = mem_strdup(err.text);
        clone->code = "clone_failed";
        clone->hint = "";
        clone->retryable = true;
    }
    give_up(run);
}

void step_clone(struct run *run)
{
    const struct repository_rules rules = { .any_local = true, .any_target = true };
    struct error err = ERROR_INIT;
    int rc;

    run->clone = NEW(struct clone);
    progress_init(&run->clone->progress);
    if (run_place(run)->cloned) {
        run->clone->folder = run_directory(run);
        next(run, CLONE_HEAD);
        return;
    }
    /* It was judged when the run was made; only its form is needed here. */
    rc = repository_parse(run_place(run)->repository, &rules, &run->clone->repository, &err);
    if (rc < 0) {
        clone_free(run);
        run_fail(run, "clone_failed", err.text, "check the argument `repository`", false);
        return;
    }
    run->clone->staged = places_any_cloned(&run->session);
    run->clone->folder = run->clone->staged ? mem_strdup(STAGING) : run_directory(run);
    next(run, CLONE_CLEAR);
}
