/* on_diff.c: run.diff. */
#include "control/diff.h"
#include "control/internal.h"
#include "proto/msg_run.h"

static bool take_first(void *data, const struct run_record *run)
{
    struct run_record *first = data;

    run_record_finish(first);
    run_record_copy(first, run);
    return false;
}

/* The newest run of a session that has ended. */
static int load_newest(struct control *control, const char *session_text, struct run_record *run,
                       struct error *err)
{
    struct id session;
    struct store_run_filter filter = { .session = &session, .states = states_ended(), .limit = 1 };

    if (session_id_parse(session_text, &session, err) < 0 ||
        store_run_each(control->store, &filter, take_first, run, err) < 0)
        return -1;
    if (run->id.text[0] == '\0')
        return error_set(err, ERR_NOT_FOUND, 0, "session %s has no run that has ended",
                         session.text);
    return 0;
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

static int load_diff(struct control *control, const struct run_record *run, struct buf *diff,
                     struct error *err)
{
    if (store_diff_load(control->store, &run->id, diff, err) == 0)
        return 0;
    if (err->code != ERR_NOT_FOUND)
        return -1;
    if (!run_ended(run))
        return error_set(err, ERR_CONFLICT, 0, "run %s has not ended; its diff is taken at its end",
                         run->id.text);
    return 0; /* it ended without changes, or before there was anything to compare */
}

static void write_diff(struct buf *body, const struct run_record *run, const struct buf *diff,
                       const char *path, size_t max)
{
    AUTO_BUF struct buf text = BUF_INIT(STORE_DIFF_MAX + 4096);
    struct diff_options options = { .path = path,
                                    .max_bytes = max,
                                    .was_cut = run->evidence.diff_truncated };
    struct json_writer writer;
    bool truncated;

    json_write_init(&writer, body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", run->id.text);
    json_member_string(&writer, "sessionId", run->session.text);
    json_member_string(&writer, "baseCommit", run->evidence.base_commit);
    json_member_string(&writer, "headCommit", run->evidence.head_commit);
    json_write_name(&writer, "files");
    truncated = diff_write(buf_text(diff), diff->len, &options, &text, &writer);
    json_write_name(&writer, "diff");
    json_write_bytes(&writer, buf_text(&text), text.len);
    json_member_bool(&writer, "truncated", truncated);
    json_write_object_end(&writer);
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
        load_diff(request->control, &run, &diff, &err) < 0) {
        request_fail(request, &err);
    } else {
        write_diff(&body, &run, &diff, params.path, params.maxBytes);
        /* Text that is mostly control characters grows when it is escaped: rather less of it than
         * none. */
        for (size_t max = params.maxBytes; body.failed && max > 4096;) {
            max /= 4;
            buf_clear(&body);
            write_diff(&body, &run, &diff, params.path, max);
        }
        request_reply(request, &body);
    }
    run_record_finish(&run);
}
