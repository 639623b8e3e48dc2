#include "control/pending.h"

static void on_drop(struct request *request)
{
    struct pending *pending = request->state;

    pending->request = NULL;
}

void pending_init(struct pending *pending, struct request *request)
{
    pending->request = request;
    pending->control = request->control;
}

struct pending *pending_about(struct request *request, const char *session_text)
{
    struct error err = ERROR_INIT;
    struct pending *pending;
    struct id session;

    if (session_id_parse(session_text, &session, &err) < 0) {
        request_fail(request, &err);
        return NULL;
    }
    pending = NEW(struct pending);
    pending_init(pending, request);
    pending->session = session;
    return pending;
}

void pending_begun(struct pending *pending, int rc, const struct error *err)
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

void pending_reply(struct pending *pending, const struct error *err, const char *name,
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

void pending_over(void *data, const struct error *err)
{
    pending_reply(data, err, NULL, 0);
}
