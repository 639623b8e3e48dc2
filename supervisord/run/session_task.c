/* session_task.c: what is being done with whole sessions beside their runs: who has to wait. */
#include "run/internal.h"

#include "common/str.h"

struct session_task {
    struct list link; /* runs::tasks */
    struct id session;
    enum session_task_kind kind;
    const char *doing;
};

static struct session_task *find(struct runs *runs, const struct id *session,
                                 enum session_task_kind kind)
{
    LIST_EACH(&runs->tasks, link) {
        struct session_task *task = LIST_ENTRY(link, struct session_task, link);

        if (task->kind == kind && str_equal(task->session.text, session->text))
            return task;
    }
    return NULL;
}

static int refuse(const struct id *session, const char *doing, struct error *err)
{
    return error_set(err, ERR_CONFLICT, 0, "session %s is %s; try it again a little later",
                     session->text, doing);
}

/* Which kinds don't go beside KIND. */
static bool collides(enum session_task_kind kind, enum session_task_kind other)
{
    if (kind == SESSION_TASK_CHANGE || other == SESSION_TASK_CHANGE)
        return true;
    return kind == SESSION_TASK_CHECKPOINT && other == SESSION_TASK_CHECKPOINT;
}

int session_task_begin(struct session_task **out, struct runs *runs, const struct id *session,
                       enum session_task_kind kind, const char *doing, struct error *err)
{
    static const enum session_task_kind kinds[] = { SESSION_TASK_CHECKPOINT, SESSION_TASK_READ,
                                                    SESSION_TASK_CHANGE };
    struct session_task *task;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        task = find(runs, session, kinds[i]);
        if (task != NULL && collides(kind, kinds[i]))
            return refuse(session, task->doing, err);
    }
    if (kind == SESSION_TASK_CHANGE && registry_find_session(runs, session, false) != NULL)
        return error_set(err, ERR_CONFLICT, 0,
                         "session %s has a run that hasn't ended; cancel it first", session->text);
    task = NEW(struct session_task);
    task->session = *session;
    task->kind = kind;
    task->doing = doing;
    list_append(&runs->tasks, &task->link);
    *out = task;
    return 0;
}

void session_task_end(struct session_task *task)
{
    if (task == NULL)
        return;
    list_remove(&task->link);
    free(task);
}

bool session_task_any(struct runs *runs, const struct id *session)
{
    return find(runs, session, SESSION_TASK_CHECKPOINT) != NULL ||
           find(runs, session, SESSION_TASK_READ) != NULL ||
           find(runs, session, SESSION_TASK_CHANGE) != NULL;
}

bool session_task_reads(struct runs *runs, const struct id *session)
{
    return find(runs, session, SESSION_TASK_READ) != NULL;
}

int session_task_check_run(struct runs *runs, const struct session_record *session,
                           struct error *err)
{
    const struct session_task *task = find(runs, &session->id, SESSION_TASK_CHANGE);

    if (task != NULL)
        error_argument(err, "sessionId", "this session is %s; start a new one", task->doing);
    else if (session->making)
        error_argument(err, "sessionId", "this session is not whole; start a new one");
    else if (session->restoring != 0)
        error_argument(err, "sessionId",
                       "this session was being taken back to checkpoint %u, which did not end; do "
                       "it again: sandboxctl session restore %s %u",
                       (unsigned)session->restoring, session->id.text,
                       (unsigned)session->restoring);
    else
        return 0;
    err->code = ERR_CONFLICT;
    return -1;
}

const char *session_state(struct runs *runs, const struct session_record *session)
{
    const struct session_task *task = find(runs, &session->id, SESSION_TASK_CHANGE);

    if (task != NULL)
        return task->doing;
    if (session->making)
        return "not whole";
    if (session->restoring != 0)
        return "half taken back";
    return registry_find_session(runs, &session->id, false) != NULL ? "working" : "idle";
}
