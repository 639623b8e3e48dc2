/* on_pr.c: pr.create. */
#include "control/internal.h"
#include "proto/msg_out.h"
#include "run/pull_request.h"

_Static_assert((int)PULL_REQUEST_WORKING == (int)PULL_STATUS_WORKING &&
                   (int)PULL_REQUEST_PUSHED == (int)PULL_STATUS_PUSHED &&
                   (int)PULL_REQUEST_OPENED == (int)PULL_STATUS_OPENED &&
                   (int)PULL_REQUEST_UPDATED == (int)PULL_STATUS_UPDATED &&
                   (int)PULL_REQUEST_UNCHANGED == (int)PULL_STATUS_UNCHANGED,
               "one set of outcomes");

struct pulling {
    struct request *request;
    struct id session;
    struct pull_request_wait *wait;
};

static void on_drop(struct request *request)
{
    struct pulling *pulling = request->state;

    pull_request_forget(pulling->wait);
    free(pulling);
}

static void say_outcome(struct buf *out, const struct pull_request_report *report)
{
    switch (report->outcome) {
    case PULL_REQUEST_WORKING:
        buf_printf(out, "It is under way (%s). Make the same call again to wait for its end.",
                   report->phase);
        return;
    case PULL_REQUEST_PUSHED:
        buf_printf(out, "Branch %s is pushed", report->branch);
        if (report->problem_code[0] != '\0')
            buf_printf(out, ", but there is no pull request: %s. %s", report->problem_message,
                       report->problem_hint);
        break;
    case PULL_REQUEST_OPENED:
        buf_printf(out, "Opened %s", report->url);
        break;
    case PULL_REQUEST_UPDATED:
        buf_printf(out, "Brought %s up to date", report->url);
        break;
    case PULL_REQUEST_UNCHANGED:
        buf_printf(out, "%s is up to date already", report->url);
        break;
    case PULL_REQUEST_OUTCOME_COUNT:
        break;
    }
    buf_append_str(out, ".");
    if (report->note[0] != '\0')
        buf_printf(out, " Note: %s.", report->note);
    if (report->uncommitted > 0)
        buf_printf(out,
                   " Not part of it: %llu %s changed but not committed (commit true has "
                   "that done).",
                   (unsigned long long)report->uncommitted,
                   report->uncommitted == 1 ? "file is" : "files are");
}

static void write_report(struct buf *body, const struct id *session,
                         const struct pull_request_report *report)
{
    AUTO_BUF struct buf message = BUF_INIT(8192);
    struct json_writer writer;
    const struct pull_view view = {
        .sessionId = session->text,
        .status = (int)report->outcome,
        .phase = report->outcome == PULL_REQUEST_WORKING ? report->phase : NULL,
        .repository = report->repository,
        .forge = report->forge,
        .branch = report->branch,
        .base = report->base,
        .commit = report->commit,
        .commits = report->commits,
        .filesChanged = report->files,
        .insertions = report->insertions,
        .deletions = report->deletions,
        .number = report->number,
        .url = report->url,
        .title = report->title,
        .draft = report->draft,
        .uncommitted = report->uncommitted,
        .uncommittedFiles = report->uncommitted_names,
        .note = report->note,
        .problemCode = report->problem_code,
        .problemMessage = report->problem_message,
        .problemHint = report->problem_hint,
        .problemRetryable = report->problem_retryable,
    };
    struct pull_view told = view;

    say_outcome(&message, report);
    told.message = buf_text(&message);
    json_write_init(&writer, body);
    pull_view_write(&writer, &told);
}

static void on_done(void *data, const struct pull_request_report *report, const struct error *err)
{
    struct pulling *pulling = data;
    struct request *request = pulling->request;
    AUTO_BUF struct buf body = BUF_INIT(256u << 10);

    if (err != NULL) {
        request_fail(request, err);
    } else {
        write_report(&body, &pulling->session, report);
        request_reply(request, &body);
    }
    free(pulling);
}

/* The page's address without the token that opens it: others read it as well. */
static void append_page(struct control *control, const struct id *session, struct buf *out)
{
    struct session_record record;
    struct error err = ERROR_INIT;

    session_record_init(&record);
    if (store_session_load(control->store, session, &record, &err) == 0)
        control_web_url(control, record.last_run.text, out);
    session_record_finish(&record);
    if (out->len > 0) {
        out->len = strcspn(buf_text(out), "?#");
        out->data[out->len] = '\0';
    }
}

static const char *text_or_none(const char *text)
{
    return text != NULL ? text : "";
}

void on_pr_create(struct request *request)
{
    AUTO_BUF struct buf page = BUF_INIT(4096);
    struct pull_create_params params = { .draft = true };
    struct pull_request_options options;
    struct error err = ERROR_INIT;
    struct pulling *pulling;

    if (request_read(request, pull_create_fields, &params) < 0)
        return;
    pulling = NEW(struct pulling);
    pulling->request = request;
    if (session_id_parse(params.sessionId, &pulling->session, &err) < 0) {
        free(pulling);
        request_fail(request, &err);
        return;
    }
    append_page(request->control, &pulling->session, &page);
    options = (struct pull_request_options){ .session = &pulling->session,
                                             .title = text_or_none(params.title),
                                             .body = text_or_none(params.body),
                                             .base = text_or_none(params.base),
                                             .draft = params.draft,
                                             .commit = params.commit,
                                             .page = buf_text(&page) };
    if (pull_request_open(&pulling->wait, request->control->runs, &options, on_done, pulling,
                          &err) < 0) {
        free(pulling);
        request_fail(request, &err);
        return;
    }
    request->state = pulling;
    request->drop = on_drop;
}
