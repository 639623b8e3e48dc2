/* on_diff.c: run.diff. */
#include "control/internal.h"
#include "proto/msg_run.h"
#include "view/view.h"

static int load_newest(struct control *control, const char *session_text, struct run_record *run,
                       struct error *err)
{
    struct id session;

    if (session_id_parse(session_text, &session, err) < 0)
        return -1;
    return view_newest_ended(control->store, &session, run, err);
}

static int load_run(struct control *control, const struct run_diff_params *params,
                    struct run_record *run, struct error *err)
{
    bool by_run = params->runId != NULL && params->runId[0] != '\0';
    bool by_session = params->sessionId != NULL && params->sessionId[0] != '\0';

    if (by_run == by_session)
        return error_argument(err, "runId", "give either runId or sessionId");
    return by_run ? run_load_by_text(control, params->runId, run, err)
                  : load_newest(control, params->sessionId, run, err);
}

void on_run_diff(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    AUTO_BUF struct buf diff = BUF_INIT(STORE_DIFF_MAX);
    struct run_diff_params params = { .maxBytes = 1u << 20 };
    struct error err = ERROR_INIT;
    struct run_record run;

    if (request_read(request, run_diff_fields, &params) < 0)
        return;
    run_record_init(&run);
    if (load_run(request->control, &params, &run, &err) < 0 ||
        view_diff_load(request->control->store, &run, &diff, &err) < 0) {
        request_fail(request, &err);
    } else {
        view_diff(&body, &run, &diff, params.path, params.maxBytes);
        request_reply(request, &body);
    }
    run_record_finish(&run);
}
