/* session.c: the end of a session. Its files are removed inside a sandbox of its own uid, where
 * nothing but them can be reached; only the emptied folders are removed from outside. */
#include "run/internal.h"

#include "workspace/checkpoint.h"

#define CACHES "/caches" /* inside, for the removal only */
#define EMPTY_MS 600000

struct removal {
    struct runs *runs;
    struct session_task *task;
    struct session_record session;
    struct workspace_layout layout;
    struct chore *chore;
    session_cb done;
    void *data;
};

static void removal_free(struct removal *removal)
{
    session_task_end(removal->task);
    session_record_finish(&removal->session);
    workspace_layout_finish(&removal->layout);
    free(removal);
}

static int judge(const struct command_result *result, struct error *err)
{
    if (result->timed_out)
        return error_set(
            err, ERR_TIMEOUT, 0,
            "to empty its folders takes longer than ten minutes; delete it again to go on");
    if (result->code != 0)
        return error_set(err, ERR_SYSTEM, 0, "some files could not be removed (%.100s)",
                         result->err_tail);
    return 0;
}

static void on_emptied(void *data, const struct command_result *result, const struct error *err)
{
    struct removal *removal = data;
    session_cb done = removal->done;
    void *done_data = removal->data;
    struct error local = ERROR_INIT;

    if (err != NULL)
        local = *err;
    else if (judge(result, &local) == 0 && workspace_remove_empty(&removal->layout, &local) == 0)
        store_session_delete(removal->runs->store, &removal->session.id, &local);
    if (local.code != ERR_NONE)
        error_wrap(&local, "session %s can't be removed", removal->session.id.text);
    log_info(removal->session.id.text, "%s", local.code != ERR_NONE ? local.text : "deleted");
    if (local.code == ERR_NONE)
        events_session_changed(removal->runs, &removal->session.id);
    removal_free(removal);
    done(done_data, local.code != ERR_NONE ? &local : NULL);
}

static int start(struct removal *removal, struct error *err)
{
    const struct workspace_layout *layout = &removal->layout;
    AUTO_FREE
    char *name = mem_printf("%s-c", removal->session.id.text);
    struct git_command command;
    const struct chore_options options = {
        .name = name,
        .host_uid = removal->session.host_uid,
        .mounts = { { layout->workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE },
                    { layout->home, SANDBOX_HOME, SANDBOX_READ_WRITE },
                    { layout->caches, CACHES, SANDBOX_READ_WRITE },
                    { layout->checkpoints, CHECKPOINT_FOLDER, SANDBOX_READ_WRITE } },
        .command = &command,
        .timeout_ms = EMPTY_MS,
        .on_done = on_emptied,
        .data = removal,
    };

    if (workspace_make(layout, removal->session.host_uid, err) < 0)
        return -1;
    workspace_clear_caches(layout);
    checkpoint_clear_command(&command,
                             SANDBOX_WORKSPACE " " SANDBOX_HOME " " CACHES " " CHECKPOINT_FOLDER);
    return chore_start(&removal->chore, removal->runs, &options, err);
}

/* Who puts it on hold wants it kept, whatever is asked for later by a slip. A copy that was never
 * finished is nobody's. */
static int refuse_held(const struct session_record *session, struct error *err)
{
    return session->held && !session->making
               ? error_set(err, ERR_CONFLICT, 0, "session %s is on hold; release it first",
                           session->id.text)
               : 0;
}

int session_delete(struct runs *runs, const struct id *id, session_cb done, void *data,
                   struct error *err)
{
    struct removal *removal = NEW(struct removal);

    removal->runs = runs;
    removal->done = done;
    removal->data = data;
    session_record_init(&removal->session);
    workspace_layout_init(&removal->layout, runs->options.state_dir, id->text);
    if (store_session_load(runs->store, id, &removal->session, err) == 0 &&
        refuse_held(&removal->session, err) == 0 &&
        session_task_begin(&removal->task, runs, id, SESSION_TASK_CHANGE, "being deleted", err) ==
            0 &&
        start(removal, err) == 0)
        return 0;
    removal_free(removal);
    return -1;
}
