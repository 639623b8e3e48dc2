/* fork.c: a new session with the files and the conversation that another one had, and with branches
 * of its own. Its record says that it is not whole until it is. */
#include "run/internal.h"

#define BRANCH_MS 60000

struct fork {
    struct runs *runs;
    struct session_task *reading; /* of the other one */
    struct session_task *task;
    struct workspace_layout layout;
    struct chore *chore;
    struct session_record from;
    struct session_record session;
    char *title;
    void (*done)(void *data, const struct id *session, const struct error *err);
    void *data;
};

static void fork_free(struct fork *fork)
{
    session_task_end(fork->reading);
    session_task_end(fork->task);
    session_record_finish(&fork->from);
    session_record_finish(&fork->session);
    workspace_layout_finish(&fork->layout);
    free(fork->title);
    free(fork);
}

static void on_removed(void *data, const struct error *err)
{
    (void)data;
    (void)err; /* session.c has logged it */
}

/* What there is of the new session goes as well. */
static void away_with(struct fork *fork)
{
    struct runs *runs = fork->runs;
    struct id id = fork->session.id;
    bool begun = fork->task != NULL;
    struct error err = ERROR_INIT;

    fork_free(fork);
    if (begun && !runs->closing && session_delete(runs, &id, on_removed, NULL, &err) < 0)
        log_warn(id.text, "left for the next start: %s", err.text);
}

static void finish(struct fork *fork, const struct error *err)
{
    void (*done)(void *, const struct id *, const struct error *) = fork->done;
    void *data = fork->data;
    struct id id = fork->session.id;

    if (err != NULL)
        log_warn(fork->from.id.text, "not forked: %s", err->text);
    else
        log_info(id.text, "forked from checkpoint %u of %s", (unsigned)fork->session.forked_number,
                 fork->from.id.text);
    if (err != NULL)
        away_with(fork);
    else
        fork_free(fork);
    done(data, &id, err);
}

static void set_whole(struct session_record *session, const void *data)
{
    const struct fork *fork = data;

    for (size_t i = 0; i < SESSION_PLACES_MAX; i++)
        record_set(&session->places[i].work_branch, fork->session.places[i].work_branch);
    session->making = false;
}

static bool has_branch(const struct session_place *place)
{
    return place->cloned && place->work_branch[0] != '\0';
}

/* A repository where that went wrong is as its agent left it; the name stays the session's own. */
static void take_branches(struct fork *fork, const struct buf *output)
{
    size_t at = 0;

    for (size_t i = 0; i < fork->session.place_count; i++) {
        struct session_place *place = &fork->session.places[i];
        AUTO_FREE
        char *flat = branch_flat(place->work_branch);
        char said = '\0';

        if (!has_branch(place))
            continue;
        if (at < output->len)
            said = output->data[at++];
        if (said == GIT_BRANCHED_FLAT)
            record_set(&place->work_branch, flat);
        else if (said != GIT_BRANCHED)
            log_warn(fork->session.id.text, "%s is still on the branch of the session it is from",
                     place->directory);
    }
}

static void settle(struct fork *fork, const struct buf *output)
{
    struct error err = ERROR_INIT;

    take_branches(fork, output);
    session_change(fork->runs, &fork->session.id, set_whole, fork, &err);
    finish(fork, err.code != ERR_NONE ? &err : NULL);
}

static void on_branched(void *data, const struct command_result *result, const struct error *err)
{
    if (err != NULL)
        finish(data, err);
    else
        settle(data, result->out);
}

/* Two sessions on one branch would overwrite each other's work where it is pushed. */
static int branch_off(struct fork *fork, struct error *err)
{
    AUTO_FREE
    char *name = mem_printf("%s-c", fork->session.id.text);
    struct git_command command;
    const struct chore_options options = {
        .name = name,
        .host_uid = fork->session.host_uid,
        .mounts = { { fork->layout.workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE } },
        .command = &command,
        .timeout_ms = BRANCH_MS,
        .on_done = on_branched,
        .data = fork,
    };

    git_branch_off(&command);
    for (size_t i = 0; i < fork->session.place_count; i++) {
        const struct session_place *place = &fork->session.places[i];
        AUTO_FREE
        char *folder = place_directory(place);

        if (has_branch(place))
            git_branch_off_add(&command, folder, place->work_branch);
    }
    return chore_start(&fork->chore, fork->runs, &options, err);
}

static bool has_branches(const struct session_record *session)
{
    for (size_t i = 0; i < session->place_count; i++) {
        if (has_branch(&session->places[i]))
            return true;
    }
    return false;
}

static void on_unpacked(void *data, const struct error *err)
{
    struct fork *fork = data;
    struct error local = ERROR_INIT;
    const struct buf none = BUF_INIT(1);

    if (err != NULL)
        finish(fork, err);
    else if (!has_branches(&fork->session))
        settle(fork, &none);
    else if (branch_off(fork, &local) < 0)
        finish(fork, &local);
}

static int name_branches(struct fork *fork, struct error *err)
{
    struct session_record *session = &fork->session;

    if (session_new_id(fork->runs, session, err) < 0)
        return -1;
    for (size_t i = 0; i < session->place_count; i++) {
        struct session_place *place = &session->places[i];
        AUTO_FREE
        char *name =
            places_work_branch(fork->runs, place->repository, session->title, &session->id);

        record_set(&place->work_branch, place->repository[0] != '\0' ? name : "");
    }
    workspace_layout_init(&fork->layout, fork->runs->options.state_dir, session->id.text);
    return 0;
}

static int fill(struct fork *fork, uint32_t number, struct error *err)
{
    struct runs *runs = fork->runs;
    struct session_record *session = &fork->session;
    struct checkpoint_record checkpoint;
    int rc;

    checkpoint_record_init(&checkpoint);
    rc = store_checkpoint_load(runs->store, &fork->from.id, number, &checkpoint, err);
    if (rc == 0)
        checkpoint_take_places(session, &checkpoint);
    checkpoint_record_finish(&checkpoint);
    session->created_ms = session->updated_ms = clock_wall_ms(runs->clock);
    session->forked_from = fork->from.id;
    session->forked_number = number;
    session->making = true;
    record_set(&session->title, fork->title[0] != '\0' ? fork->title : fork->from.title);
    return rc < 0 ? -1 : name_branches(fork, err);
}

static int copy_from(struct fork *fork, uint32_t number, struct error *err)
{
    struct runs *runs = fork->runs;

    if (fill(fork, number, err) < 0 ||
        session_task_begin(&fork->task, runs, &fork->session.id, SESSION_TASK_CHANGE,
                           "still being made", err) < 0 ||
        store_session_update(runs->store, &fork->session, err) < 0)
        return -1;
    return checkpoint_unpack(runs, &fork->session, &fork->from.id, number, on_unpacked, fork, err);
}

static void on_checkpoint(void *data, uint32_t number, const struct error *err)
{
    struct fork *fork = data;
    struct error local = ERROR_INIT;

    if (err != NULL)
        finish(fork, err);
    else if (copy_from(fork, number, &local) < 0)
        finish(fork, &local);
}

static int begin(struct fork *fork, const struct id *id, uint32_t number, struct error *err)
{
    const struct checkpoint_request request = {
        .session = &fork->from, .reason = CHECKPOINT_ASKED, .done = on_checkpoint, .data = fork
    };
    struct runs *runs = fork->runs;

    if (store_session_load(runs->store, id, &fork->from, err) < 0 ||
        session_task_check_run(runs, &fork->from, err) < 0 ||
        session_task_begin(&fork->reading, runs, id, SESSION_TASK_READ, "being copied", err) < 0)
        return -1;
    return number == 0 ? checkpoint_start(runs, &request, err) : copy_from(fork, number, err);
}

int session_fork(struct runs *runs, const struct id *id, uint32_t number, const char *title,
                 void (*done)(void *data, const struct id *session, const struct error *err),
                 void *data, struct error *err)
{
    struct fork *fork = NEW(struct fork);

    fork->runs = runs;
    fork->done = done;
    fork->data = data;
    fork->title = mem_strdup(title);
    session_record_init(&fork->from);
    session_record_init(&fork->session);
    if (begin(fork, id, number, err) == 0)
        return 0;
    away_with(fork);
    return -1;
}
