/* on_web.c: web.link. */
#include "control/internal.h"
#include "proto/msg_web.h"

/* What is to be opened; both ids are empty for the board. */
struct page {
    struct id id;
    struct id session;
};

static int find_run(struct control *control, const char *run_id, struct page *page,
                    struct error *err)
{
    struct run_record run;
    int rc;

    run_record_init(&run);
    rc = run_load_by_text(control, run_id, &run, err);
    page->id = run.id;
    page->session = run.session;
    run_record_finish(&run);
    return rc;
}

static int find_session(struct control *control, const char *session_id, struct page *page,
                        struct error *err)
{
    struct session_record session;
    int rc;

    if (session_id_parse(session_id, &page->id, err) < 0)
        return -1;
    page->session = page->id;
    session_record_init(&session);
    rc = store_session_load(control->store, &page->id, &session, err);
    session_record_finish(&session);
    return rc;
}

static int find_page(struct control *control, const struct web_link_params *params,
                     struct page *page, struct error *err)
{
    if (params->runId != NULL && params->sessionId != NULL)
        return error_argument(err, "runId", "give runId or sessionId or neither");
    if (params->runId != NULL)
        return find_run(control, params->runId, page, err);
    if (params->sessionId != NULL)
        return find_session(control, params->sessionId, page, err);
    if (params->live)
        return error_argument(err, "live", "wants a runId or a sessionId");
    return 0;
}

static int make_link(struct request *request, const struct page *page, bool live, struct buf *url,
                     uint64_t *expires_ms, struct error *err)
{
    struct control *control = request->control;

    /* An assistant has the tools; the pages, where a click grants what it asks for, are a person's.
     */
    if (!request->is_local_person)
        return error_set(err, ERR_DENIED, 0, "only sandboxctl may ask for this");
    if (control->web_login == NULL)
        return error_set(err, ERR_UNAVAILABLE, 0, "there are no web pages (web.enabled)");
    if (live)
        return control->web_agent(control->data, &page->session, url, expires_ms, err);
    return control->web_login(control->data, page->id.text, url, expires_ms, err);
}

void on_web_link(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(8192);
    AUTO_BUF struct buf url = BUF_INIT(4096);
    struct web_link_params params = { .runId = NULL };
    struct page page = { { "" }, { "" } };
    struct error err = ERROR_INIT;
    struct json_writer writer;
    uint64_t expires_ms = 0;

    if (request_read(request, web_link_fields, &params) < 0)
        return;
    if (find_page(request->control, &params, &page, &err) < 0 ||
        make_link(request, &page, params.live, &url, &expires_ms, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "url", buf_text(&url));
    json_member_u64(&writer, "expiresAt", expires_ms);
    json_write_object_end(&writer);
    request_reply(request, &body);
}
