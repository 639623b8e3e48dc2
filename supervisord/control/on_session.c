/* on_session.c: the methods of sessions. */
#include "control/internal.h"
#include "proto/msg_session.h"
#include "view/view.h"

struct session_page {
    struct runs *runs;
    struct json_writer writer;
    uint32_t left;
    struct id cursor;
    bool more;
};

static bool write_session(void *data, const struct session_record *session)
{
    struct session_page *page = data;

    if (page->left == 0) {
        page->more = true;
        return false;
    }
    page->left--;
    page->cursor = session->id;
    view_session(&page->writer, page->runs, session);
    return true;
}

void on_session_list(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct session_list_params params = { .limit = 10 };
    struct session_page page = { .runs = request->control->runs };
    struct error err = ERROR_INIT;
    struct id before;

    if (request_read(request, session_list_fields, &params) < 0)
        return;
    if (params.before != NULL && session_id_parse(params.before, &before, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    page.left = params.limit;
    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    json_write_name(&page.writer, "sessions");
    json_write_array(&page.writer);
    if (store_session_each(request->control->store, params.before != NULL ? &before : NULL,
                           (size_t)params.limit + 1, write_session, &page, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    json_write_array_end(&page.writer);
    json_member_bool(&page.writer, "hasMore", page.more);
    json_member_string(&page.writer, "cursor", page.cursor.text);
    json_write_object_end(&page.writer);
    request_reply(request, &body);
}

/* What takes a while ------------------------------------------------------------------------ */

/* Outlives its request when the client goes away first. */
struct pending {
    struct request *request;
    struct control *control;
    struct id session;
};

static void on_drop(struct request *request)
{
    struct pending *pending = request->state;

    pending->request = NULL;
}

static struct pending *pending_new(struct request *request)
{
    struct pending *pending = NEW(struct pending);

    pending->request = request;
    pending->control = request->control;
    return pending;
}

/* The operation has begun (RC 0), or the request fails. */
static void pending_begun(struct pending *pending, int rc, const struct error *err)
{
    struct request *request = pending->request;

    if (rc < 0) {
        free(pending);
        request_fail(request, err);
        return;
    }
    request->state = pending;
    request->drop = on_drop;
}

/* NAME may be NULL. */
static void reply(struct pending *pending, const struct error *err, const char *name,
                  uint64_t number)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    if (pending->request != NULL && err != NULL) {
        request_fail(pending->request, err);
    } else if (pending->request != NULL) {
        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_member_string(&writer, "sessionId", pending->session.text);
        if (name != NULL)
            json_member_u64(&writer, name, number);
        json_write_object_end(&writer);
        request_reply(pending->request, &body);
    }
    free(pending);
}

static void on_over(void *data, const struct error *err)
{
    reply(data, err, NULL, 0);
}

void on_session_delete(struct request *request)
{
    struct session_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;
    int rc;

    if (request_read(request, session_fields, &params) < 0)
        return;
    pending = pending_new(request);
    rc = session_id_parse(params.sessionId, &pending->session, &err);
    if (rc == 0)
        rc = session_delete(request->control->runs, &pending->session, on_over, pending, &err);
    pending_begun(pending, rc, &err);
}

void on_session_restore(struct request *request)
{
    struct session_restore_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;
    int rc;

    if (request_read(request, session_restore_fields, &params) < 0)
        return;
    pending = pending_new(request);
    rc = session_id_parse(params.sessionId, &pending->session, &err);
    if (rc == 0)
        rc = session_restore(request->control->runs, &pending->session, params.checkpoint, on_over,
                             pending, &err);
    pending_begun(pending, rc, &err);
}

static void on_checkpoint(void *data, uint32_t number, const struct error *err)
{
    reply(data, err, "checkpoint", number);
}

void on_session_checkpoint(struct request *request)
{
    struct session_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;
    int rc;

    if (request_read(request, session_fields, &params) < 0)
        return;
    pending = pending_new(request);
    rc = session_id_parse(params.sessionId, &pending->session, &err);
    if (rc == 0)
        rc = session_checkpoint(request->control->runs, &pending->session, on_checkpoint, pending,
                                &err);
    pending_begun(pending, rc, &err);
}

static void on_forked(void *data, const struct id *session, const struct error *err)
{
    struct pending *pending = data;

    if (err == NULL)
        pending->session = *session;
    reply(pending, err, NULL, 0);
}

void on_session_fork(struct request *request)
{
    struct session_fork_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;
    int rc;

    if (request_read(request, session_fork_fields, &params) < 0)
        return;
    pending = pending_new(request);
    rc = session_id_parse(params.sessionId, &pending->session, &err);
    if (rc == 0)
        rc = session_fork(request->control->runs, &pending->session, params.checkpoint,
                          params.title != NULL ? params.title : "", on_forked, pending, &err);
    pending_begun(pending, rc, &err);
}

/* session.get --------------------------------------------------------------------------------- */

static bool write_checkpoint(void *data, const struct checkpoint_record *record)
{
    struct json_writer *writer = data;
    bool known = record->reason <= CHECKPOINT_ASKED;
    const struct checkpoint_view view = {
        .checkpoint = record->number,
        .reason = known ? checkpoint_reason_names[record->reason] : "unknown",
        .time = record->time_ms,
        .runId = record->run.text,
        .bytes = record->bytes,
        .files = record->entries,
        .leftOut = record->left_out,
    };

    checkpoint_view_write(writer, &view);
    return true;
}

static int write_whole(struct control *control, const struct id *id, struct buf *body,
                       struct error *err)
{
    struct session_record session;
    struct json_writer writer;
    int rc;

    session_record_init(&session);
    rc = store_session_load(control->store, id, &session, err);
    if (rc == 0) {
        json_write_init(&writer, body);
        json_write_object(&writer);
        view_session_members(&writer, control->runs, &session);
        json_write_name(&writer, "checkpoints");
        json_write_array(&writer);
        rc = store_checkpoint_each(control->store, id, 0, write_checkpoint, &writer, err);
        json_write_array_end(&writer);
        json_write_object_end(&writer);
    }
    session_record_finish(&session);
    return rc;
}

static void on_counted(void *data, const struct session_usage *usage, const struct error *err)
{
    struct pending *pending = data;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct error local = ERROR_INIT;

    (void)usage; /* it is in the record */
    (void)err;   /* … or what was known before is */
    if (pending->request == NULL)
        free(pending);
    else if (write_whole(pending->control, &pending->session, &body, &local) < 0)
        reply(pending, &local, NULL, 0);
    else {
        request_reply(pending->request, &body);
        free(pending);
    }
}

void on_session_get(struct request *request)
{
    struct session_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;
    int rc;

    if (request_read(request, session_fields, &params) < 0)
        return;
    pending = pending_new(request);
    rc = session_id_parse(params.sessionId, &pending->session, &err);
    if (rc == 0)
        rc = session_count(request->control->runs, &pending->session, on_counted, pending, &err);
    pending_begun(pending, rc, &err);
}

/* What is done at once ------------------------------------------------------------------------ */

static void reply_id(struct request *request, const struct id *session)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", session->text);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

void on_session_rename(struct request *request)
{
    struct session_rename_params params = { 0 };
    struct error err = ERROR_INIT;
    struct id session;

    if (request_read(request, session_rename_fields, &params) < 0)
        return;
    if (session_id_parse(params.sessionId, &session, &err) < 0 ||
        session_rename(request->control->runs, &session, params.title, &err) < 0)
        request_fail(request, &err);
    else
        reply_id(request, &session);
}

void on_session_hold(struct request *request)
{
    struct session_hold_params params = { .hold = true };
    struct error err = ERROR_INIT;
    struct id session;

    if (request_read(request, session_hold_fields, &params) < 0)
        return;
    if (session_id_parse(params.sessionId, &session, &err) < 0 ||
        session_hold(request->control->runs, &session,
                     params.hold ? SESSION_HELD : SESSION_RELEASED, &err) < 0)
        request_fail(request, &err);
    else
        reply_id(request, &session);
}
