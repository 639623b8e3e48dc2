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

/* In this order, but for what take_… says. */
enum clone_step {
    CLONE_CLEAR,
    CLONE_ASK,
    CLONE_INIT,
    CLONE_FETCH,
    CLONE_FIRST_COMMIT, /* of a repository that has none */
    CLONE_CHECKOUT,
    CLONE_REST,
    CLONE_SUBMODULES,
    CLONE_LFS,
    CLONE_SIZE,
    CLONE_HEAD,
    CLONE_BRANCH,
    CLONE_NAME, /* only if STAGED */
    CLONE_CLEANUP,
    CLONE_STEPS
};

struct clone {
    enum clone_step step;
    struct repository repository;
    struct git_remote remote;
    struct git_base base;
    bool staged;
    bool without_mirror; /* a try with it failed */
    char *folder;        /* where git works: STAGING if STAGED */
    struct progress progress;
    char *failure; /* set when CLONE_CLEANUP ends a failed clone */
    const char *hint;
    const char *code;
    bool retryable;
};

/* How long a step may take. */
enum patience {
    PATIENCE_LOOK,
    PATIENCE_CHANGE,
    PATIENCE_PROGRESS, /* as long as it gets on: it talks with a server */
};

struct step {
    void (*build)(struct run *run, struct git_command *command);
    void (*take)(struct run *run, const struct command_result *result);
    enum patience patience;
};
static const struct step steps[CLONE_STEPS];

static void run_step(struct run *run);

void clone_free(struct run *run)
{
    struct clone *clone = STEAL(run->clone);

    if (clone == NULL)
        return;
    repository_finish(&clone->repository);
    git_remote_finish(&clone->remote);
    git_base_finish(&clone->base);
    progress_finish(&clone->progress);
    free(clone->folder);
    free(clone->failure);
    free(clone);
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

static void next(struct run *run, enum clone_step step)
{
    run->clone->step = step;
    run_step(run);
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
    next(run, CLONE_CLEANUP);
}

/* What git says ------------------------------------------------------------------------------- */

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

static void git_failed(struct run *run, const struct command_result *result)
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
        fail(run, "clone_failed",
             mem_printf("repository: git made no progress for %u minute%s",
                        run->runs->options.clone_minutes,
                        run->runs->options.clone_minutes == 1 ? "" : "s"),
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

static bool succeeded(const struct command_result *result)
{
    return result->code == 0 && !result->timed_out;
}

/* Steps --------------------------------------------------------------------------------------- */

static void build_clear(struct run *run, struct git_command *command)
{
    if (run->clone->staged)
        git_remove_folder(command, STAGING);
    else
        git_clear_folder(command, SANDBOX_WORKSPACE);
}

static void take_cleared(struct run *run, const struct command_result *result)
{
    (void)result;
    next(run, run->clone->repository.kind == REPOSITORY_NONE ? CLONE_INIT : CLONE_ASK);
}

static void build_ask(struct run *run, struct git_command *command)
{
    git_remote_finish(&run->clone->remote);
    git_remote_init(&run->clone->remote, run_place(run)->branch);
    git_base_finish(&run->clone->base);
    git_ask(command, run->clone->repository.url);
}

static void take_remote(struct run *run, const struct command_result *result)
{
    struct clone *clone = run->clone;
    struct error err = ERROR_INIT;
    bool named = run_place(run)->branch[0] != '\0';

    if (!succeeded(result)) {
        git_failed(run, result);
    } else if (git_remote_base(&clone->remote, &clone->base, &err) < 0) {
        fail(run, "clone_failed", mem_printf("%s: %s", named ? "branch" : "repository", err.text),
             "name another branch, tag, ref or commit with the argument `branch`", false);
    } else if (clone->base.kind == GIT_BASE_NONE && named) {
        fail(run, "clone_failed", mem_printf("branch: the repository is empty"),
             "leave out the argument `branch`", false);
    } else {
        next(run, CLONE_INIT);
    }
}

static const char *mirror_of(const struct run *run)
{
    return run->mirrored && !run->clone->without_mirror ? GIT_MIRROR_DIR : "";
}

/* A mirror makes it quicker, and is no reason to fail. */
static void copy_failed(struct run *run, const struct command_result *result)
{
    struct clone *clone = run->clone;

    if (mirror_of(run)[0] == '\0' || result->timed_out || result->signal != 0) {
        git_failed(run, result);
        return;
    }
    clone->without_mirror = true;
    next(run, CLONE_CLEAR);
}

static void build_init(struct run *run, struct git_command *command)
{
    const struct clone *clone = run->clone;

    if (clone->repository.kind == REPOSITORY_NONE)
        git_init(command, clone->folder);
    else
        git_clone_init(command, &clone->repository, &clone->base, mirror_of(run), clone->folder);
}

static void take_init(struct run *run, const struct command_result *result)
{
    struct clone *clone = run->clone;

    if (!succeeded(result)) {
        copy_failed(run, result);
        return;
    }
    if (clone->repository.kind != REPOSITORY_NONE && clone->base.kind == GIT_BASE_NONE)
        run_warn(run, "the repository was empty: work begins with an empty first commit");
    next(run, clone->repository.kind == REPOSITORY_NONE || clone->base.kind == GIT_BASE_NONE
                  ? CLONE_FIRST_COMMIT
                  : CLONE_FETCH);
}

/* The folder on this machine is whole, and what isn't asked for again costs nothing. */
static const char *filter_of(struct run *run)
{
    return run->clone->repository.kind == REPOSITORY_LOCAL ? "" : place_filter(run);
}

static void build_fetch(struct run *run, struct git_command *command)
{
    const struct clone *clone = run->clone;

    git_clone_base(command, &clone->base, filter_of(run), clone->folder);
}

static void take_fetched(struct run *run, const struct command_result *result)
{
    if (succeeded(result))
        next(run, CLONE_CHECKOUT);
    else
        copy_failed(run, result);
}

static void build_first_commit(struct run *run, struct git_command *command)
{
    git_first_commit(command, run->clone->folder);
}

static void take_first_commit(struct run *run, const struct command_result *result)
{
    if (!succeeded(result))
        git_failed(run, result);
    else
        next(run, run->clone->repository.kind == REPOSITORY_NONE ? CLONE_HEAD : CLONE_CHECKOUT);
}

static void build_checkout(struct run *run, struct git_command *command)
{
    const struct clone *clone = run->clone;

    git_clone_checkout(command, &clone->base, run_place(run)->work_branch, clone->folder);
}

static void take_checkout(struct run *run, const struct command_result *result)
{
    const struct git_base *base = &run->clone->base;

    if (!succeeded(result))
        git_failed(run, result);
    else
        next(run, base->kind == GIT_BASE_NONE ? CLONE_HEAD
                  : base->more                ? CLONE_REST
                                              : CLONE_SUBMODULES);
}

static void build_rest(struct run *run, struct git_command *command)
{
    const struct clone *clone = run->clone;

    git_clone_rest(command, filter_of(run), clone->folder);
}

/* What the work begins with is there. */
static void take_rest(struct run *run, const struct command_result *result)
{
    if (!succeeded(result))
        run_warn(run, "other branches and tags could not be fetched: git fetch origin tries again");
    next(run, CLONE_SUBMODULES);
}

static void build_submodules(struct run *run, struct git_command *command)
{
    git_clone_submodules(command, run->clone->folder);
}

static void take_submodules(struct run *run, const struct command_result *result)
{
    AUTO_BUF struct buf paths = BUF_INIT(4096);
    AUTO_FREE
    char *text = NULL;
    const char *out = buf_text(result->out);

    for (; *out != '\0'; out += strspn(out, "\n")) {
        if (paths.len > 0)
            buf_append_str(&paths, ", ");
        str_append_escaped(&paths, out, strcspn(out, "\n"), 200);
        out += strcspn(out, "\n");
    }
    if (result->timed_out)
        run_warn(run, "the submodules took too long: git submodule update --init goes on");
    else if (paths.len > 0 || !succeeded(result)) {
        text = mem_printf("submodules could not be had: %.1000s; a private one must be listed in "
                          "its service's `repositories` in the configuration",
                          paths.len > 0 ? buf_text(&paths) : "all");
        run_warn(run, text);
    }
    next(run, CLONE_LFS);
}

static void build_lfs(struct run *run, struct git_command *command)
{
    git_count_lfs(command, run->clone->folder);
}

static void take_lfs(struct run *run, const struct command_result *result)
{
    uint64_t count = succeeded(result) ? git_parse_count(result->out) : 0;
    AUTO_FREE
    char *text = NULL;

    if (count > 0) {
        text = mem_printf("%llu file%s kept in Git LFS: only pointers are here, not the contents",
                          (unsigned long long)count, count == 1 ? " is" : "s are");
        run_warn(run, text);
    }
    next(run, run->clone->repository.kind == REPOSITORY_URL ? CLONE_SIZE : CLONE_HEAD);
}

static void build_size(struct run *run, struct git_command *command)
{
    git_size(command, run->clone->folder);
}

static void take_size(struct run *run, const struct command_result *result)
{
    if (succeeded(result))
        mirror_refresh(run, git_parse_count(result->out), run->clone->base.format);
    next(run, CLONE_HEAD);
}

static void build_head(struct run *run, struct git_command *command)
{
    git_head(command, run->clone->folder);
}

static void done(struct run *run)
{
    clone_free(run);
    run_place(run)->cloned = true;
    run_apply(run, RUN_EV_CLONED);
}

/* A run's evidence is judged against the commit and the files that it began with, not the session's
 * first ones. */
static void take_head(struct run *run, const struct command_result *result)
{
    char object[65];

    git_parse_object(result->out, object);
    if (result->code != 0)
        object[0] = '\0';
    if (run_place(run)->cloned) {
        record_set(&run->record.evidence.base_commit,
                   object[0] != '\0' ? object : run_place(run)->base_commit);
        record_set(&run->record.evidence.start_tree, run_place(run)->tree);
        done(run);
        return;
    }
    if (object[0] == '\0') {
        fail(run, "clone_failed", mem_printf("repository: nothing could be checked out"),
             "name a branch that has commits with the argument `branch`", false);
        return;
    }
    record_set(&run_place(run)->base_commit, object);
    record_set(&run->record.evidence.base_commit, object);
    next(run, CLONE_BRANCH);
}

static void build_branch(struct run *run, struct git_command *command)
{
    git_branch(command, run->clone->folder);
}

static void take_branch(struct run *run, const struct command_result *result)
{
    struct clone *clone = run->clone;
    struct session_place *place = run_place(run);
    char line[256];

    git_parse_line(result->out, line, sizeof(line));
    if (clone->base.name != NULL)
        record_set(&place->branch, clone->base.name);
    else if (result->code == 0 && place->branch[0] == '\0')
        record_set(&place->branch, line);
    if (clone->repository.kind == REPOSITORY_NONE)
        record_set(&place->work_branch, "");
    else if (result->code == 0 && place->work_branch[0] != '\0')
        record_set(&place->work_branch, line);
    if (clone->staged)
        next(run, CLONE_NAME);
    else
        done(run);
}

static void build_name(struct run *run, struct git_command *command)
{
    AUTO_FREE
    char *directory = run_directory(run);

    git_name_clone(command, run->clone->folder, directory, run->record.id.text);
}

static void take_named(struct run *run, const struct command_result *result)
{
    if (result->code == 0)
        done(run);
    else
        fail(run, "clone_failed",
             mem_printf("repository: the workspace has something else at %s",
                        run_place(run)->directory),
             "let the agent rename it, or use a new session", false);
}

static void take_cleanup(struct run *run, const struct command_result *result)
{
    (void)result;
    give_up(run);
}

static const struct step steps[CLONE_STEPS] = {
    [CLONE_CLEAR] = { build_clear, take_cleared, PATIENCE_CHANGE },
    [CLONE_ASK] = { build_ask, take_remote, PATIENCE_PROGRESS },
    [CLONE_INIT] = { build_init, take_init, PATIENCE_CHANGE },
    [CLONE_FETCH] = { build_fetch, take_fetched, PATIENCE_PROGRESS },
    [CLONE_FIRST_COMMIT] = { build_first_commit, take_first_commit, PATIENCE_CHANGE },
    [CLONE_CHECKOUT] = { build_checkout, take_checkout, PATIENCE_PROGRESS },
    [CLONE_REST] = { build_rest, take_rest, PATIENCE_PROGRESS },
    [CLONE_SUBMODULES] = { build_submodules, take_submodules, PATIENCE_PROGRESS },
    [CLONE_LFS] = { build_lfs, take_lfs, PATIENCE_LOOK },
    [CLONE_SIZE] = { build_size, take_size, PATIENCE_LOOK },
    [CLONE_HEAD] = { build_head, take_head, PATIENCE_LOOK },
    [CLONE_BRANCH] = { build_branch, take_branch, PATIENCE_LOOK },
    [CLONE_NAME] = { build_name, take_named, PATIENCE_CHANGE },
    [CLONE_CLEANUP] = { build_clear, take_cleanup, PATIENCE_CHANGE },
};

/* One step ------------------------------------------------------------------------------------ */

static void on_output(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct run *run = data;
    struct clone *clone = run->clone;

    if (clone == NULL)
        return;
    if (is_stderr)
        progress_feed(run, &clone->progress, bytes, len);
    else if (clone->step == CLONE_ASK)
        git_remote_feed(&clone->remote, bytes, len);
}

static void on_done(void *data, const struct command_result *result, const struct error *err)
{
    struct run *run = data;
    enum clone_step step = run->clone->step;

    run->command = NULL;
    if (err != NULL && step != CLONE_CLEANUP) {
        run->clone->failure = mem_strdup(err->text);
        run->clone->code = "clone_failed";
        run->clone->hint = "git must be installed where the sandbox sees it";
        run->clone->retryable = true;
        give_up(run);
        return;
    }
    steps[step].take(run, result);
}

static void run_step(struct run *run)
{
    static const uint64_t timeouts[] = {
        [PATIENCE_LOOK] = LOOK_MS, [PATIENCE_CHANGE] = CHANGE_MS, [PATIENCE_PROGRESS] = 0
    };
    struct clone *clone = run->clone;
    const struct step *step = &steps[clone->step];
    bool talks = step->patience == PATIENCE_PROGRESS;
    struct git_command command;
    struct error err = ERROR_INIT;
    int rc;

    step->build(run, &command);
    struct command_options options = {
        .argv = (const char *const *)command.argv,
        .env = git_environment(),
        .cwd = SANDBOX_WORKSPACE,
        .max_output_bytes = clone->step == CLONE_ASK ? 0 : 4096,
        .timeout_ms = timeouts[step->patience],
        .silence_ms = talks ? (uint64_t)run->runs->options.clone_minutes * 60000 : 0,
        .on_output = talks ? on_output : NULL,
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
    git_remote_init(&run->clone->remote, run_place(run)->branch);
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
