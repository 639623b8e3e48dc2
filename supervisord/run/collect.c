/* collect.c: evidence. What a run did is established by git inside the sandbox, not by what the
 * agent says of itself. The workspace may lie, but only about itself; everything read is bounded.
 */
#include "run/internal.h"

#include "common/str.h"

#define ABORT_WAIT_MS 15000
/* A pipe in the place of a file that git reads, and git waits for ever. */
#define STEP_MS 60000
#define STAGE_MS 180000

enum collect_step {
    COLLECT_HEAD,
    COLLECT_BRANCH,
    COLLECT_UNTRACKED,
    COLLECT_READ_TREE,
    COLLECT_STAGE,
    COLLECT_WRITE_TREE,
    COLLECT_COUNT,
    COLLECT_STAT,
    COLLECT_KINDS,
    COLLECT_PATCH,
    COLLECT_REMOTE, /* only when something was pushed */
    COLLECT_END,
};

struct collect {
    enum collect_step step;
    char *folder;
    char tree[65];
    struct git_kinds kinds;
    uint64_t names;    /* untracked files, counted as they come */
    uint64_t left_out; /* not 0: there are files that couldn't be looked at, or are too large */
    bool checkpoint;   /* one is being made beside */
    bool over;         /* but for that */
    bool known;
};

static void run_step(struct run *run);

void collect_free(struct run *run)
{
    struct collect *collect = STEAL(run->collect);

    if (collect == NULL)
        return;
    git_kinds_finish(&collect->kinds);
    free(collect->folder);
    free(collect);
}

static void decide_verdict(struct run *run)
{
    const struct run_evidence_record *evidence = &run->record.evidence;
    const char *verdict = "unknown";

    if (run->record.outcome != RUN_OUTCOME_COMPLETED ||
        str_equal(run->record.verdict, "incomplete"))
        verdict = "incomplete";
    else if (evidence->known)
        verdict = evidence->commits > 0 || evidence->files_changed > 0 ? "changed"
                  : run->collect->left_out > 0                         ? "unknown"
                                                                       : "no_change";
    record_set(&run->record.verdict, verdict);
}

static void finish(struct run *run, bool known)
{
    if (run->collect->checkpoint) {
        run->collect->over = true;
        run->collect->known = known;
        return;
    }
    run->record.evidence.known = known;
    record_set(&run_place(run)->tree, known ? run->collect->tree : "");
    decide_verdict(run);
    collect_free(run);
    run_apply(run, RUN_EV_COLLECTED);
}

void collect_checkpoint_done(struct run *run)
{
    if (run->collect == NULL || !run->collect->checkpoint)
        return;
    run->collect->checkpoint = false;
    if (run->collect->over)
        finish(run, run->collect->known);
}

static void store_patch(struct run *run, const struct command_result *result)
{
    struct error err = ERROR_INIT;

    run->record.evidence.diff_truncated =
        result->truncated || result->timed_out || run->collect->left_out > 0;
    if (store_diff_put(run->runs->store, &run->record.id, result->out->data, result->out->len,
                       &err) < 0) {
        log_warn(run->record.id.text, "diff not kept: %s", err.text);
        run->record.evidence.diff_truncated = true;
    }
}

static void take_kinds(struct run *run)
{
    const struct git_kinds *kinds = &run->collect->kinds;

    run->record.evidence.binary_files = kinds->binary_files;
    run->record.evidence.renames = kinds->renames;
    run->record.evidence.submodules = kinds->submodules;
}

/* A push that said "done" is one thing, the branch at the remote another. */
static void take_remote(struct run *run, const struct command_result *result)
{
    struct run_evidence_record *evidence = &run->record.evidence;
    char object[65];
    const char *state = "unknown";

    git_parse_object(result->out, object);
    if (result->code == 0 && !result->timed_out)
        state = object[0] == '\0'                          ? "absent"
                : str_equal(object, evidence->head_commit) ? "same"
                                                           : "other";
    record_set(&evidence->remote_state, state);
    record_set(&evidence->remote_commit, object);
}

/* Whether the run's branch may be at its remote. */
static bool may_be_pushed(struct run *run)
{
    const struct session_place *place = run_place(run);

    return run->session.pushed[0] != '\0' && str_starts(place->repository, "http") &&
           run->record.evidence.branch[0] != '\0';
}

/* True when the next step may follow. */
static bool take(struct run *run, const struct command_result *result)
{
    struct run_evidence_record *evidence = &run->record.evidence;
    struct git_stat stat;
    char text[256];

    if (result->timed_out && run->collect->step < COLLECT_KINDS)
        return false;
    switch (run->collect->step) {
    case COLLECT_HEAD:
        git_parse_object(result->out, text);
        record_set(&evidence->head_commit, text);
        return result->code == 0 && text[0] != '\0';
    case COLLECT_BRANCH:
        git_parse_line(result->out, text, sizeof(text));
        record_set(&evidence->branch, result->code == 0 ? text : "");
        return true;
    case COLLECT_UNTRACKED:
        evidence->untracked = run->collect->names;
        return true;
    case COLLECT_READ_TREE:
        return result->code == 0;
    case COLLECT_STAGE:
        /* What can't be read, or is no file any more, is left out, and git's status says so. */
        run->collect->left_out = git_parse_count(result->out) + (result->code != 0);
        return true;
    case COLLECT_WRITE_TREE:
        git_parse_object(result->out, run->collect->tree);
        return result->code == 0 && run->collect->tree[0] != '\0';
    case COLLECT_COUNT:
        evidence->commits = git_parse_count(result->out);
        return result->code == 0;
    case COLLECT_STAT:
        git_parse_shortstat(result->out, &stat);
        evidence->files_changed = stat.files;
        evidence->insertions = stat.insertions;
        evidence->deletions = stat.deletions;
        return result->code == 0;
    case COLLECT_KINDS:
        take_kinds(run);
        return true;
    case COLLECT_PATCH:
        store_patch(run, result);
        return true;
    case COLLECT_REMOTE:
        take_remote(run, result);
        return true;
    case COLLECT_END:
        break;
    }
    return false;
}

static void on_counted(void *data, bool is_stderr, const char *bytes, size_t len)
{
    struct run *run = data;

    if (is_stderr)
        return;
    if (run->collect->step == COLLECT_KINDS)
        git_kinds_feed(&run->collect->kinds, bytes, len);
    else
        run->collect->names += git_count_names(bytes, len);
}

/* No ref holds the files that it began with, so whoever cleans up the repository may take them. */
static bool is_start_gone(const struct run *run, const struct command_result *result)
{
    return run->collect->step == COLLECT_STAT && result->code != 0 && !result->timed_out &&
           run->record.evidence.start_tree[0] != '\0';
}

static void on_done(void *data, const struct command_result *result, const struct error *err)
{
    struct run *run = data;

    run->command = NULL;
    if (err == NULL && is_start_gone(run, result)) {
        record_set(&run->record.evidence.start_tree, "");
        run_step(run);
        return;
    }
    if (err != NULL || !take(run, result)) {
        log_info(run->record.id.text, "evidence ends at step %d: %s", (int)run->collect->step,
                 err != NULL         ? err->text
                 : result->timed_out ? "git took too long"
                                     : "git refused");
        finish(run, false);
        return;
    }
    run->collect->step++;
    run_step(run);
}

static void build(const struct run *run, struct git_command *command)
{
    const struct collect *collect = run->collect;
    const struct run_evidence_record *evidence = &run->record.evidence;
    const char *start =
        evidence->start_tree[0] != '\0' ? evidence->start_tree : evidence->base_commit;

    switch (collect->step) {
    case COLLECT_HEAD:
        git_head(command, collect->folder);
        break;
    case COLLECT_BRANCH:
        git_branch(command, collect->folder);
        break;
    case COLLECT_UNTRACKED:
        git_untracked(command, collect->folder);
        break;
    case COLLECT_READ_TREE:
        git_read_head_tree(command, collect->folder);
        break;
    case COLLECT_STAGE:
        git_stage_all(command, collect->folder);
        break;
    case COLLECT_WRITE_TREE:
        git_write_tree(command, collect->folder);
        break;
    case COLLECT_COUNT:
        git_count_commits(command, collect->folder, evidence->base_commit);
        break;
    case COLLECT_STAT:
        git_shortstat(command, collect->folder, start, collect->tree);
        break;
    case COLLECT_KINDS:
        git_kinds(command, collect->folder, start, collect->tree);
        break;
    case COLLECT_PATCH:
        git_patch(command, collect->folder, start, collect->tree);
        break;
    case COLLECT_REMOTE:
        git_read_back(command, run->session.places[run->record.place].repository,
                      run->record.evidence.branch);
        break;
    case COLLECT_END:
        BUG("no command for the end");
    }
}

static bool scratch_index(enum collect_step step)
{
    return step == COLLECT_READ_TREE || step == COLLECT_STAGE || step == COLLECT_WRITE_TREE;
}

/* What such a step prints is counted as it comes, and not kept. */
static bool is_counted(enum collect_step step)
{
    return step == COLLECT_UNTRACKED || step == COLLECT_KINDS;
}

static void run_step(struct run *run)
{
    struct collect *collect = run->collect;
    struct git_command command;
    struct error err = ERROR_INIT;
    int rc;

    if (collect->step == COLLECT_REMOTE && !may_be_pushed(run))
        collect->step++;
    if (collect->step == COLLECT_END) {
        finish(run, true);
        return;
    }
    build(run, &command);
    struct command_options options = {
        .argv = (const char *const *)command.argv,
        .env = scratch_index(collect->step) ? git_environment_scratch() : git_environment(),
        .cwd = SANDBOX_WORKSPACE,
        .max_output_bytes = collect->step == COLLECT_PATCH ? RUN_DIFF_MAX
                            : is_counted(collect->step)    ? 0
                                                           : 4096,
        .end_when_full = true,
        .timeout_ms = collect->step == COLLECT_STAGE ? STAGE_MS : STEP_MS,
        .on_output = is_counted(collect->step) ? on_counted : NULL,
        .on_done = on_done,
        .data = run,
    };
    rc = command_start(&run->command, run->runs->loop, run->sandbox, &options, &err);
    git_command_finish(&command);
    if (rc < 0)
        finish(run, false);
}

static void begin(struct run *run)
{
    if (run->record.evidence.base_commit[0] == '\0')
        finish(run, false);
    else
        run_step(run);
}

/* What git says is worth more: it is asked also when this could not be found out. */
static void on_left(void *data, const struct command_result *result, const struct error *err)
{
    struct run *run = data;

    run->command = NULL;
    if (err == NULL)
        leftovers_take(run, result);
    begin(run);
}

void step_collect(struct run *run)
{
    /* While it is being taken up again, adopt.c comes back here. */
    if (run->collect != NULL || run->adopting)
        return;
    watch_end(run);
    limits_look(run);
    run->collect = NEW(struct collect);
    git_kinds_init(&run->collect->kinds);
    run->collect->folder = run_directory(run);
    run->collect->checkpoint = checkpoint_last(run);
    if (run->sandbox == NULL || run->sandbox_over) {
        finish(run, false);
        return;
    }
    if (leftovers_start(run, on_left) < 0)
        begin(run);
}

static void on_abort_late(uv_timer_t *timer)
{
    struct run *run = timer->data;

    log_warn(run->record.id.text, "the agent didn't stop when asked");
    if (run->record.state == RUN_COLLECTING)
        step_collect(run);
}

void step_abort_and_collect(struct run *run)
{
    if (run->agent == NULL || run->agent_done || run->sandbox_over) {
        step_collect(run);
        return;
    }
    watch_end(run);
    uv_timer_start(&run->watch, on_abort_late, ABORT_WAIT_MS, 0);
    run->driver->abort(run->agent);
}
