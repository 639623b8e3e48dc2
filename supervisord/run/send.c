/* send.c: what a client says to a session's agent: into the run that is at work, or as a run of its
 * own. */
#include "run/internal.h"

#include "common/str.h"

static int load_newest(struct runs *runs, const struct id *session_id, struct run_record *newest,
                       struct error *err)
{
    struct session_record session;
    int rc;

    session_record_init(&session);
    rc = store_session_load(runs->store, session_id, &session, err);
    if (rc == 0)
        rc = run_load(runs, &session.last_run, newest, err);
    session_record_finish(&session);
    return rc;
}

static bool has_queued(struct runs *runs, const struct id *session)
{
    LIST_EACH(&runs->live, link) {
        const struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->record.state == RUN_QUEUED && str_equal(run->session.id.text, session->text))
            return true;
    }
    return false;
}

/* 0 done, 1 it has to become a run, -1 refused. */
static int try_to_steer(struct runs *runs, const struct run_message *message,
                        const struct message_key *key, struct run_record *record, struct error *err)
{
    struct run *run = registry_find_session(runs, message->session, true);
    struct error local = ERROR_INIT;

    if (message->mode == RUN_SEND_QUEUE)
        return 1;
    /* What waits already came first. */
    if (message->mode == RUN_SEND_AUTO && (run == NULL || has_queued(runs, message->session)))
        return 1;
    if (run == NULL) {
        error_set(err, ERR_CONFLICT, 0,
                  "no run of the session is at work; with mode queue the message becomes a run");
        return -1;
    }
    if (steer_send(run, message->text, key, &local) == 0) {
        run_record_finish(record);
        run_record_copy(record, &run->record);
        return 0;
    }
    if (message->mode == RUN_SEND_AUTO && local.code == ERR_CONFLICT)
        return 1;
    *err = local;
    return -1;
}

static int make_run(struct runs *runs, const struct run_message *message,
                    const struct message_key *key, struct run_record *run, struct error *err)
{
    struct run_record newest;
    struct run_request wanted = { .task = message->text,
                                  .repository = "",
                                  .branch = "",
                                  .session_id = message->session->text,
                                  .model = "",
                                  .title = "",
                                  .agent = "",
                                  .idempotency_key = key->text,
                                  .local_caller = message->local_caller };
    int rc;

    run_record_init(&newest);
    rc = load_newest(runs, message->session, &newest, err);
    wanted.timeout_minutes = (uint32_t)(newest.timeout_ms / 60000);
    if (rc == 0)
        rc = request_create(runs, &wanted, key->hash, run, err);
    run_record_finish(&newest);
    return rc;
}

/* Which action the earlier one was, as far as it shows still. */
static enum run_send_action earlier_action(const struct run_record *run, bool steered)
{
    if (steered)
        return RUN_SENT_STEERED;
    return run->state == RUN_QUEUED ? RUN_SENT_QUEUED : RUN_SENT_FOLLOW_UP;
}

int run_send(struct runs *runs, const struct run_message *message, enum run_send_action *action,
             struct run_record *run, struct error *err)
{
    bool busy = registry_find_session(runs, message->session, false) != NULL;
    const char *const parts[] = { "run.send", message->session->text, message->text };
    struct message_key key = { .text = message->idempotency_key };
    bool steered = false;
    int rc;

    if (str_blank(message->text))
        return error_argument(err, "message", "must say something; it is empty or blank");
    request_hash(parts, ARRAY_LEN(parts), (uint32_t)message->mode, key.hash);
    rc = request_find_repetition(runs, &key, run, &steered, err);
    if (rc <= 0) {
        *action = earlier_action(run, steered);
        return rc;
    }
    rc = try_to_steer(runs, message, &key, run, err);
    *action = rc == 0 ? RUN_SENT_STEERED : busy ? RUN_SENT_QUEUED : RUN_SENT_FOLLOW_UP;
    return rc <= 0 ? rc : make_run(runs, message, &key, run, err);
}
