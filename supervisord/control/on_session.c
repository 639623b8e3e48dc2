/* on_session.c: the methods of sessions. */
#include "control/pending.h"
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

void on_session_delete(struct request *request)
{
    struct session_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;

    if (request_read(request, session_fields, &params) < 0 ||
        (pending = pending_about(request, params.sessionId)) == NULL)
        return;
    pending_begun(
        pending,
        session_delete(request->control->runs, &pending->session, pending_over, pending, &err),
        &err);
}

void on_session_restore(struct request *request)
{
    struct session_restore_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;

    if (request_read(request, session_restore_fields, &params) < 0 ||
        (pending = pending_about(request, params.sessionId)) == NULL)
        return;
    pending_begun(pending,
                  session_restore(request->control->runs, &pending->session, params.checkpoint,
                                  pending_over, pending, &err),
                  &err);
}

static void on_checkpoint(void *data, uint32_t number, const struct error *err)
{
    pending_reply(data, err, "checkpoint", number);
}

void on_session_checkpoint(struct request *request)
{
    struct session_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;

    if (request_read(request, session_fields, &params) < 0 ||
        (pending = pending_about(request, params.sessionId)) == NULL)
        return;
    pending_begun(
        pending,
        session_checkpoint(request->control->runs, &pending->session, on_checkpoint, pending, &err),
        &err);
}

static void on_forked(void *data, const struct id *session, const struct error *err)
{
    struct pending *pending = data;

    if (err == NULL)
        pending->session = *session;
    pending_over(pending, err);
}

void on_session_fork(struct request *request)
{
    struct session_fork_params params = { 0 };
    struct error err = ERROR_INIT;
    struct pending *pending;

    if (request_read(request, session_fork_fields, &params) < 0 ||
        (pending = pending_about(request, params.sessionId)) == NULL)
        return;
    pending_begun(pending,
                  session_fork(request->control->runs, &pending->session, params.checkpoint,
                               params.title != NULL ? params.title : "", on_forked, pending, &err),
                  &err);
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
        pending_over(pending, &local);
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

    if (request_read(request, session_fields, &params) < 0 ||
        (pending = pending_about(request, params.sessionId)) == NULL)
        return;
    pending_begun(
        pending,
        session_count(request->control->runs, &pending->session, on_counted, pending, &err), &err);
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
