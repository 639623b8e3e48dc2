/* on_diff.c: run.diff: of a run as it was taken at its end, of a session from its beginning to its
 * files as they are. */
#include "control/internal.h"
#include "proto/msg_run.h"
#include "run/take.h"
#include "view/view.h"

static void reply_run(struct request *request, const struct run_record *run,
                      const struct run_diff_params *params)
{
    AUTO_BUF struct buf diff = BUF_INIT(STORE_DIFF_MAX);
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct error err = ERROR_INIT;

    if (view_diff_load(request->control->store, run, &diff, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    view_diff(&body, run, &diff, params->path, params->maxBytes);
    request_reply(request, &body);
}

/* A session's
 * ----------------------------------------------------------------------------------------- */

struct session_diff {
    struct request *request;
    struct take *take;
    struct run_diff_params params; /* borrowed from the request */
    struct id session;
    struct buf text;
    char base[72];
    char head[72];
};

static void session_diff_free(struct session_diff *diff)
{
    buf_finish(&diff->text);
    free(diff);
}

static void on_drop(struct request *request)
{
    struct session_diff *diff = request->state;

    take_cancel(diff->take);
    session_diff_free(diff);
}

static void on_begin(void *data, const struct take_source *source)
{
    struct session_diff *diff = data;

    str_copy(diff->base, sizeof(diff->base), source->base);
    str_copy(diff->head, sizeof(diff->head), source->head);
}

static void on_bytes(void *data, const char *bytes, size_t len)
{
    struct session_diff *diff = data;

    buf_append(&diff->text, bytes, len);
}

static void on_end(void *data, bool truncated, const struct error *err)
{
    struct session_diff *diff = data;
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    const struct view_diff_source source = { .run = "",
                                             .session = diff->session.text,
                                             .base = diff->base,
                                             .head = diff->head,
                                             .was_cut = truncated };

    if (err != NULL) {
        request_fail(diff->request, err);
    } else {
        view_diff_of(&body, &source, &diff->text, diff->params.path, diff->params.maxBytes);
        request_reply(diff->request, &body);
    }
    session_diff_free(diff);
}

static void start_session(struct request *request, const struct id *session,
                          const struct run_diff_params *params)
{
    struct session_diff *diff = NEW(struct session_diff);
    const struct take_callbacks callbacks = {
        .on_begin = on_begin, .on_bytes = on_bytes, .on_end = on_end, .data = diff
    };
    const struct take_options options = { .what = TAKE_PATCH,
                                          .session = &diff->session,
                                          .path = "",
                                          .max_bytes = STORE_DIFF_MAX,
                                          .renames = true };
    struct error err = ERROR_INIT;

    diff->request = request;
    diff->params = *params;
    diff->session = *session;
    buf_init(&diff->text, STORE_DIFF_MAX);
    if (take_start(&diff->take, request->control->runs, &options, &callbacks, &err) < 0) {
        session_diff_free(diff);
        request_fail(request, &err);
        return;
    }
    request->state = diff;
    request->drop = on_drop;
}

void on_run_diff(struct request *request)
{
    struct run_diff_params params = { .maxBytes = 1u << 20 };
    struct error err = ERROR_INIT;
    struct run_record run;
    struct id session;

    if (request_read(request, run_diff_fields, &params) < 0)
        return;
    run_record_init(&run);
    if (session_by_text(request->control, params.runId, params.sessionId, &run, &session, &err) < 0)
        request_fail(request, &err);
    else if (run.id.text[0] != '\0')
        reply_run(request, &run, &params);
    else
        start_session(request, &session, &params);
    run_record_finish(&run);
}
