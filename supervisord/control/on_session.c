/* on_session.c: session.list, session.delete. */
#include "control/internal.h"
#include "proto/msg_session.h"

struct session_page {
    struct json_writer writer;
    uint32_t left;
    struct id cursor;
    bool more;
};

static bool write_session(void *data, const struct session_record *session)
{
    struct session_page *page = data;
    struct session_place_view places[SESSION_PLACES_MAX];
    struct session_view view = {
        .sessionId = session->id.text,
        .title = session->title,
        .repository = session->places[session->place].repository,
        .branch = session->places[session->place].branch,
        .createdAt = session->created_ms,
        .updatedAt = session->updated_ms,
        .runs = session->run_count,
        .lastRunId = session->last_run.text,
        .places = places,
        .place_count = session->place_count,
    };

    for (size_t i = 0; i < session->place_count; i++)
        places[i] =
            (struct session_place_view){ session->places[i].repository, session->places[i].branch,
                                         session->places[i].directory };

    if (page->left == 0) {
        page->more = true;
        return false;
    }
    page->left--;
    page->cursor = session->id;
    session_view_write(&page->writer, &view);
    return true;
}

void on_session_list(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct session_list_params params = { .limit = 10 };
    struct session_page page = { .more = false };
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

/* Outlives its request when the client goes away first. */
struct deletion {
    struct request *request;
    struct id session;
};

static void on_drop(struct request *request)
{
    struct deletion *deletion = request->state;

    deletion->request = NULL;
}

static void on_deleted(void *data, const struct error *err)
{
    struct deletion *deletion = data;
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    if (deletion->request != NULL && err != NULL) {
        request_fail(deletion->request, err);
    } else if (deletion->request != NULL) {
        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_member_string(&writer, "sessionId", deletion->session.text);
        json_write_object_end(&writer);
        request_reply(deletion->request, &body);
    }
    free(deletion);
}

void on_session_delete(struct request *request)
{
    struct session_delete_params params = { 0 };
    struct error err = ERROR_INIT;
    struct deletion *deletion;

    if (request_read(request, session_delete_fields, &params) < 0)
        return;
    deletion = NEW(struct deletion);
    deletion->request = request;
    if (session_id_parse(params.sessionId, &deletion->session, &err) < 0 ||
        session_delete(request->control->runs, &deletion->session, on_deleted, deletion, &err) <
            0) {
        free(deletion);
        request_fail(request, &err);
        return;
    }
    request->state = deletion;
    request->drop = on_drop;
}
