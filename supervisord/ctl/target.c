#include "ctl/target.h"

#include "common/str.h"

#define RUN_PREFIX "run_"
#define SESSION_PREFIX "ses_"

/* MEMBER of the newest run, or of the run ID. */
static int ask(struct session *session, const char *id, const char *member, struct buf *out,
               struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct client_message message;
    struct json_writer writer;
    const struct json_value *run;
    const char *found;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    if (id != NULL)
        json_member_string(&writer, "runId", id);
    else
        json_member_u64(&writer, "limit", 1);
    json_write_object_end(&writer);
    if (session_call(session, id != NULL ? "run.get" : "run.list", &body, &message, err) < 0)
        return -1;
    run = message.envelope.body;
    if (id == NULL)
        run = json_first(json_get(run, "runs"));
    found = json_string(json_get(run, member));
    if (found != NULL)
        buf_append_str(out, found);
    client_message_finish(&message);
    return found != NULL ? 0 : error_set(err, ERR_NOT_FOUND, 0, "there is no run yet");
}

static int refuse(const char *word, const char *wanted, struct error *err)
{
    return error_set(err, ERR_INVALID, 0,
                     "\"%.60s\" is no %s: sandboxctl %s shows them, and \"last\" is the newest run",
                     word, wanted, str_equal(wanted, "session's id") ? "sessions" : "list");
}

int target_run(struct session *session, const char *word, struct buf *id, struct error *err)
{
    if (str_equal(word, "last"))
        return ask(session, NULL, "runId", id, err);
    if (str_starts(word, SESSION_PREFIX))
        return error_set(err, ERR_INVALID, 0,
                         "%.40s is a session, and a run is wanted: sandboxctl list --session %.40s "
                         "shows its runs",
                         word, word);
    if (!str_starts(word, RUN_PREFIX))
        return refuse(word, "run's id", err);
    buf_append_str(id, word);
    return 0;
}

int target_session(struct session *session, const char *word, struct buf *id, struct error *err)
{
    if (str_equal(word, "last"))
        return ask(session, NULL, "sessionId", id, err);
    if (str_starts(word, RUN_PREFIX))
        return ask(session, word, "sessionId", id, err);
    if (!str_starts(word, SESSION_PREFIX))
        return refuse(word, "session's id", err);
    buf_append_str(id, word);
    return 0;
}

int target_session_only(const char *word, struct buf *id, struct error *err)
{
    if (!str_starts(word, SESSION_PREFIX))
        return error_set(
            err, ERR_INVALID, 0,
            "\"%.60s\" is no session's id, and a session is deleted with all its runs: "
            "sandboxctl sessions shows them",
            word);
    buf_append_str(id, word);
    return 0;
}

int target_either(struct session *session, const char *word, struct buf *id, struct error *err)
{
    if (str_equal(word, "last"))
        return ask(session, NULL, "runId", id, err);
    if (!str_starts(word, RUN_PREFIX) && !str_starts(word, SESSION_PREFIX))
        return refuse(word, "run's or session's id", err);
    buf_append_str(id, word);
    return 0;
}

const char *target_member(const char *id)
{
    return str_starts(id, SESSION_PREFIX) ? "sessionId" : "runId";
}
