/* restore.c: a session is taken back to one of its checkpoints. That this was begun is on disk
 * before anything changes, so that a half restored session is never taken for a whole one: whoever
 * finds the note does it again. */
#include "run/internal.h"

struct restoring {
    struct runs *runs;
    struct session_task *task;
    struct session_record session;
    uint32_t number;
    session_cb done; /* NULL: nobody waits */
    void *data;
};

static void finish(struct restoring *restoring, const struct error *err)
{
    session_cb done = restoring->done;
    void *data = restoring->data;

    if (err != NULL)
        log_warn(restoring->session.id.text, "not taken back to checkpoint %u: %s",
                 (unsigned)restoring->number, err->text);
    else
        log_info(restoring->session.id.text, "taken back to checkpoint %u",
                 (unsigned)restoring->number);
    session_task_end(restoring->task);
    session_record_finish(&restoring->session);
    free(restoring);
    if (done != NULL)
        done(data, err);
}

static void set_restoring(struct session_record *session, const void *data)
{
    const uint32_t *number = data;

    session->restoring = *number;
}

static void set_restored(struct session_record *session, const void *data)
{
    session->restoring = 0;
    checkpoint_take_places(session, data);
}

static int write_down(struct restoring *restoring, struct error *err)
{
    struct checkpoint_record checkpoint;
    int rc;

    checkpoint_record_init(&checkpoint);
    rc = store_checkpoint_load(restoring->runs->store, &restoring->session.id, restoring->number,
                               &checkpoint, err);
    if (rc == 0)
        rc =
            session_change(restoring->runs, &restoring->session.id, set_restored, &checkpoint, err);
    checkpoint_record_finish(&checkpoint);
    return rc;
}

static void on_unpacked(void *data, const struct error *err)
{
    struct restoring *restoring = data;
    struct error local = ERROR_INIT;

    if (err != NULL) {
        local = *err;
        error_wrap(&local, "session %s is half taken back to checkpoint %u; do it again",
                   restoring->session.id.text, (unsigned)restoring->number);
    } else {
        write_down(restoring, &local);
    }
    finish(restoring, local.code != ERR_NONE ? &local : NULL);
}

static void unpack(struct restoring *restoring)
{
    struct error err = ERROR_INIT;

    if (session_change(restoring->runs, &restoring->session.id, set_restoring, &restoring->number,
                       &err) < 0 ||
        checkpoint_unpack(restoring->runs, &restoring->session, &restoring->session.id,
                          restoring->number, on_unpacked, restoring, &err) < 0)
        finish(restoring, &err);
}

static void on_safe(void *data, uint32_t number, const struct error *err)
{
    struct restoring *restoring = data;

    (void)number;
    if (err != NULL)
        finish(restoring, err);
    else
        unpack(restoring);
}

/* The one that is to be restored must not be dropped for the one of now: it is a reader, too. */
static int make_safe(struct restoring *restoring, struct error *err)
{
    const struct checkpoint_request request = { .session = &restoring->session,
                                                .reason = CHECKPOINT_SAFETY,
                                                .within = true,
                                                .keep_all = true,
                                                .done = on_safe,
                                                .data = restoring };

    return checkpoint_start(restoring->runs, &request, err);
}

static int load(struct restoring *restoring, const struct id *id, struct error *err)
{
    struct checkpoint_record checkpoint;
    int rc;

    if (store_session_load(restoring->runs->store, id, &restoring->session, err) < 0)
        return -1;
    if (restoring->session.making)
        return session_task_check_run(restoring->runs, &restoring->session, err);
    checkpoint_record_init(&checkpoint);
    rc = store_checkpoint_load(restoring->runs->store, id, restoring->number, &checkpoint, err);
    checkpoint_record_finish(&checkpoint);
    return rc;
}

static int start(struct runs *runs, const struct id *id, uint32_t number, session_cb done,
                 void *data, struct error *err)
{
    struct restoring *restoring = NEW(struct restoring);
    bool again;

    restoring->runs = runs;
    restoring->number = number;
    session_record_init(&restoring->session);
    if (session_task_begin(&restoring->task, runs, id, SESSION_TASK_CHANGE,
                           "being taken back to a checkpoint", err) == 0 &&
        load(restoring, id, err) == 0) {
        again = restoring->session.restoring != 0;
        restoring->done = done;
        restoring->data = data;
        if (!again && make_safe(restoring, err) == 0)
            return 0;
        /* Of files that are half taken back no checkpoint is worth anything. */
        if (again && checkpoint_unpack(runs, &restoring->session, id, number, on_unpacked,
                                       restoring, err) == 0)
            return 0;
    }
    session_task_end(restoring->task);
    session_record_finish(&restoring->session);
    free(restoring);
    return -1;
}

int session_restore(struct runs *runs, const struct id *id, uint32_t number, session_cb done,
                    void *data, struct error *err)
{
    return start(runs, id, number, done, data, err);
}

/* After a restart ----------------------------------------------------------------------------- */

static void on_removed(void *data, const struct error *err)
{
    (void)data;
    (void)err; /* session.c has logged it */
}

static bool look_at(void *data, const struct session_record *session)
{
    struct runs *runs = data;
    struct error err = ERROR_INIT;
    int rc = 0;

    if (session->making)
        rc = session_delete(runs, &session->id, on_removed, NULL, &err);
    else if (session->restoring != 0)
        rc = start(runs, &session->id, session->restoring, NULL, NULL, &err);
    if (rc < 0)
        log_warn(session->id.text, "left half done by the last supervisor: %s", err.text);
    return true;
}

int restore_recover(struct runs *runs, struct error *err)
{
    return store_session_each(runs->store, NULL, 0, look_at, runs, err);
}
