/* on_run.c: run.create, run.list, run.answer, run.send. */
#include "control/internal.h"
#include "view/view.h"
#include "proto/msg_run.h"

void run_context(struct control *control, const struct run_record *run, struct buf *web,
                 struct view_context *context)
{
    control_web_url(control, run->id.text, web);
    view_context_fill(context, control->runs, run, clock_wall_ms(control->clock), buf_text(web));
}

int run_load_by_text(struct control *control, const char *text, struct run_record *run,
                     struct error *err)
{
    struct id id;

    if (!id_parse(ID_KIND_RUN, text, &id))
        return error_argument(err, "runId",
                              "not a run's id; it looks like run_ and 26 letters and digits");
    if (run_load(control->runs, &id, run, err) == 0)
        return 0;
    if (err->code == ERR_NOT_FOUND) {
        error_argument(err, "runId", "run %s is not known", id.text);
        err->code = ERR_NOT_FOUND;
    }
    return -1;
}

int session_by_text(struct control *control, const char *run_text, const char *session_text,
                    struct run_record *run, struct id *session, struct error *err)
{
    bool by_run = run_text != NULL && run_text[0] != '\0';
    bool by_session = session_text != NULL && session_text[0] != '\0';

    if (by_run == by_session)
        return error_argument(err, "runId", "give either runId or sessionId");
    if (by_session)
        return session_id_parse(session_text, session, err);
    if (run_load_by_text(control, run_text, run, err) < 0)
        return -1;
    *session = run->session;
    return 0;
}

int session_id_parse(const char *text, struct id *id, struct error *err)
{
    if (id_parse(ID_KIND_SESSION, text, id))
        return 0;
    return error_argument(err, "sessionId",
                          "not a session's id; it looks like ses_ and 26 letters and digits");
}

int session_known(struct control *control, const char *text, struct id *session, struct error *err)
{
    struct session_record record;
    int rc;

    if (session_id_parse(text, session, err) < 0)
        return -1;
    session_record_init(&record);
    rc = store_session_load(control->store, session, &record, err);
    session_record_finish(&record);
    return rc;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* ACTION: what run.send made of a message; RUN_MESSAGE_ACTION_COUNT: it is a new run's reply. */
static void reply_created(struct request *request, const struct run_record *run,
                          enum run_message_action action)
{
    AUTO_BUF struct buf body = BUF_INIT(64u << 10);
    AUTO_BUF struct buf web = BUF_INIT(4096);
    AUTO_BUF struct buf message = BUF_INIT(16u << 10);
    struct view_context context;
    struct run_create_result result;
    struct json_writer writer;

    run_context(request->control, run, &web, &context);
    /* One that an idempotency key brought back may be long over. */
    if (action == RUN_MESSAGE_STEERED && !run_ended(run))
        view_steered_message(&message, run);
    else
        view_created_message(&message, run, &context);
    result = (struct run_create_result){ .action = run_message_action_names[action],
                                         .runId = run->id.text,
                                         .sessionId = run->session.text,
                                         .status = run_status_of(run),
                                         .webUiUrl = context.web_url,
                                         .message = buf_text(&message) };
    json_write_init(&writer, &body);
    run_create_result_write(&writer, &result);
    request_reply(request, &body);
}

void on_run_create(struct request *request)
{
    struct run_create_params params = { 0 };
    struct error err = ERROR_INIT;
    struct run_record run;
    struct run_request wanted;

    if (request_read(request, run_create_fields, &params) < 0)
        return;
    wanted = (struct run_request){
        .task = params.task,
        .repository = or_empty(params.repository),
        .branch = or_empty(params.branch),
        .session_id = or_empty(params.sessionId),
        .model = or_empty(params.model),
        .title = or_empty(params.title),
        .agent = or_empty(params.agent),
        .timeout_minutes = params.timeoutMinutes,
        .idempotency_key = or_empty(params.idempotencyKey),
        .local_caller = request->is_local_person,
    };
    run_record_init(&run);
    if (run_create(request->control->runs, &wanted, &run, &err) < 0)
        request_fail(request, &err);
    else
        reply_created(request, &run, RUN_MESSAGE_ACTION_COUNT);
    run_record_finish(&run);
}

/* run.list
 * ---------------------------------------------------------------------------------------------------------
 */

struct run_page {
    struct control *control;
    struct json_writer writer;
    uint32_t left;
    struct id cursor;
    bool more;
};

static bool write_item(void *data, const struct run_record *run)
{
    struct run_page *page = data;
    AUTO_BUF struct buf web = BUF_INIT(4096);
    struct view_context context;

    if (page->left == 0) {
        page->more = true;
        return false;
    }
    page->left--;
    page->cursor = run->id;
    run_context(page->control, run, &web, &context);
    view_run_item(&page->writer, run, &context);
    return true;
}

static int parse_before(const char *before, struct id *cursor, struct store_run_filter *filter,
                        struct error *err)
{
    if (before == NULL || before[0] == '\0')
        return 0;
    if (id_parse(ID_KIND_RUN, before, cursor)) {
        filter->before = cursor;
        return 0;
    }
    if (str_parse_u64(before, UINT64_C(1) << 53, &filter->before_ms) && filter->before_ms != 0)
        return 0;
    return error_argument(err, "before", "unix milliseconds, or the cursor of an earlier answer");
}

static int write_runs(struct request *request, const struct run_list_params *params,
                      struct run_page *page, struct error *err)
{
    struct store_run_filter filter = { .limit = (size_t)params->limit + 1 };
    struct id session;
    struct id before;

    if (params->sessionId != NULL) {
        if (session_id_parse(params->sessionId, &session, err) < 0)
            return -1;
        filter.session = &session;
    }
    if (parse_before(params->before, &before, &filter, err) < 0)
        return -1;
    if (params->status != RUN_STATUS_COUNT)
        filter.states = view_states_of_status(params->status);
    return store_run_each(request->control->store, &filter, write_item, page, err);
}

void on_run_list(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(CONTROL_BODY_MAX);
    struct run_list_params params = { .status = RUN_STATUS_COUNT, .limit = 10 };
    struct run_page page = { .control = request->control };
    struct error err = ERROR_INIT;

    if (request_read(request, run_list_fields, &params) < 0)
        return;
    page.left = params.limit;
    json_write_init(&page.writer, &body);
    json_write_object(&page.writer);
    json_write_name(&page.writer, "runs");
    json_write_array(&page.writer);
    if (write_runs(request, &params, &page, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    json_write_array_end(&page.writer);
    json_member_bool(&page.writer, "hasMore", page.more);
    json_member_string(&page.writer, "cursor", page.cursor.text);
    json_write_object_end(&page.writer);
    request_reply(request, &body);
}

/* run.answer, run.send
 * --------------------------------------------------------------------------------------------- */

void on_run_answer(struct request *request)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct run_answer_params params = { 0 };
    struct error err = ERROR_INIT;
    struct run_record run;
    struct json_writer writer;
    struct id id;
    int rc;

    if (request_read(request, run_answer_fields, &params) < 0)
        return;
    run_record_init(&run);
    rc = run_load_by_text(request->control, params.runId, &run, &err);
    id = run.id;
    run_record_finish(&run);
    if (rc < 0 ||
        run_answer(request->control->runs, &id, params.requestId, params.answer, &err) < 0) {
        request_fail(request, &err);
        return;
    }
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", id.text);
    json_member_string(&writer, "requestId", params.requestId);
    json_write_object_end(&writer);
    request_reply(request, &body);
}

/* The session that is meant. */
static int find_session(struct control *control, const struct run_send_params *params,
                        struct id *session, struct error *err)
{
    struct run_record run;
    int rc;

    if (params->sessionId == NULL && params->runId == NULL)
        return error_argument(err, "runId", "or sessionId is required");
    if (params->sessionId == NULL) {
        run_record_init(&run);
        rc = run_load_by_text(control, params->runId, &run, err);
        *session = run.session;
        run_record_finish(&run);
        return rc;
    }
    return session_known(control, params->sessionId, session, err);
}

/* By value those of run.h. */
_Static_assert((int)RUN_MESSAGE_AUTO == (int)RUN_SEND_AUTO &&
                   (int)RUN_MESSAGE_STEER == (int)RUN_SEND_STEER &&
                   (int)RUN_MESSAGE_QUEUE == (int)RUN_SEND_QUEUE,
               "modes");
_Static_assert((int)RUN_MESSAGE_STEERED == (int)RUN_SENT_STEERED &&
                   (int)RUN_MESSAGE_QUEUED == (int)RUN_SENT_QUEUED &&
                   (int)RUN_MESSAGE_FOLLOW_UP == (int)RUN_SENT_FOLLOW_UP,
               "actions");

void on_run_send(struct request *request)
{
    struct run_send_params params = { .mode = RUN_MESSAGE_AUTO };
    struct error err = ERROR_INIT;
    enum run_send_action action;
    struct run_record run;
    struct id session;
    struct run_message message;

    if (request_read(request, run_send_fields, &params) < 0)
        return;
    run_record_init(&run);
    message = (struct run_message){ .text = params.message,
                                    .session = &session,
                                    .mode = (enum run_send_mode)params.mode,
                                    .idempotency_key = or_empty(params.idempotencyKey),
                                    .local_caller = request->is_local_person };
    if (find_session(request->control, &params, &session, &err) < 0 ||
        run_send(request->control->runs, &message, &action, &run, &err) < 0)
        request_fail(request, &err);
    else
        reply_created(request, &run, (enum run_message_action)action);
    run_record_finish(&run);
}
