#include "mcp-stdio/tool_call.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/elicit.h"
#include "mcp-stdio/memo.h"
#include "mcp-stdio/progress.h"
#include "proto/frame.h"
#include "proto/msg_event.h"
#include "proto/msg_run.h"

#define STRUCTURED_MAX (FRAME_JSON_MAX + 4096)
#define TEXT_ROOM (2u << 20) /* what a renderer may write before it is cut */
#define ANSWER_MAX 20000
#define QUESTION_MIN_MS 5000 /* a user gets at least so long, past the end of the wait */

enum step {
    STEP_ANSWERING, /* what the user said is passed on to the agent */
    STEP_SETTLING,  /* and whether the agent has taken it is looked at, */
    STEP_SETTLED,   /* then waited for; the run's view is kept */
    STEP_LOOKING,   /* how the run stands, before a wait with progress */
    STEP_SENT,      /* the request whose reply is the answer */
    STEP_ASKING,    /* the user is asked; the run's view is kept */
};

struct tool_call {
    const struct tool *tool;
    struct tool_request request;
    struct progress progress;
    enum step step;
    uint64_t wait_end_ms;
    uint64_t view_end_ms; /* ASKING, SETTLED: the view is answered then */
    struct json_doc *view;
    char *question_id; /* what the user was asked: not asked again */
    char *answer_id;   /* the agent's request, and the answer to it */
    struct buf answer;
};

static struct tool_call *state_of(const struct call *call)
{
    return call->state;
}

static void free_state(void *data)
{
    struct tool_call *state = data;

    tool_request_finish(&state->request);
    progress_finish(&state->progress);
    json_free(state->view);
    buf_finish(&state->answer);
    free(state->question_id);
    free(state->answer_id);
    free(state);
}

/* Answers -------------------------------------------------------------------------------------- */

static void write_fitting(struct json_writer *writer, const struct tool *tool,
                          const struct json_value *reply, struct jsonrpc_slice reply_text,
                          size_t text_max)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_ROOM);

    tool->render(reply, text_max, &text);
    content_cut(&text, text_max);
    content_write(writer, &text, reply_text.data, reply_text.len);
}

/* Text that reads well has lines, and each of their ends is two bytes of JSON. */
static size_t structured_max(size_t text_max)
{
    return text_max <= CONTENT_TEXT_MAX ? text_max : text_max + text_max / 2;
}

/* Both forms of the answer come from what fits, so that they say the same. */
static int write_beginning(struct json_writer *writer, const struct tool *tool,
                           const struct json_value *reply, size_t text_max)
{
    AUTO_BUF struct buf structured = BUF_INIT(STRUCTURED_MAX);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    tool->fit(reply, structured_max(text_max), &structured);
    if (json_parse(&doc, buf_text(&structured), structured.len, STRUCTURED_MAX, &err) < 0)
        return -1;
    write_fitting(writer, tool, json_root(doc),
                  (struct jsonrpc_slice){ structured.data, structured.len }, text_max);
    return 0;
}

void tool_call_write_result(struct json_writer *writer, const struct tool *tool,
                            const struct json_value *reply, struct jsonrpc_slice reply_text,
                            size_t text_max)
{
    AUTO_BUF struct buf structured = BUF_INIT(STRUCTURED_MAX);

    if (!reply_text.data) {
        json_append(&structured, reply);
        reply_text = (struct jsonrpc_slice){ structured.data, structured.len };
    }
    if (tool->fit && reply_text.len > structured_max(text_max) &&
        write_beginning(writer, tool, reply, text_max) == 0)
        return;
    if (structured.failed || reply_text.len == 0)
        content_write_error(writer, "The supervisor's answer is too large. Ask for less.");
    else
        write_fitting(writer, tool, reply, reply_text, text_max);
}

/* What comes out for a reply depends on nothing but its text, so the newest are kept. A run that
 * waits is not among them, since whether to ask the user depends on more. */
static bool can_be_kept(const struct json_value *reply)
{
    return !str_equal(json_string(json_get(reply, "status")), run_status_names[RUN_STATUS_WAITING]);
}

static struct memo_key memo_key(const struct call *call)
{
    const struct tool_call *state = state_of(call);

    return (struct memo_key){ state->tool, state->request.text_max, call->reply_text };
}

static bool on_reply_text(struct call *call)
{
    struct jsonrpc_slice members = { NULL, 0 };
    struct memo_key key = memo_key(call);
    struct server_answer answer;

    if (state_of(call)->step == STEP_SENT)
        members = memo_find(server_memo(call_server(call)), &key);
    if (!members.data)
        return false;
    server_answer_begin(&answer, call_server(call), &call->target);
    json_write_members(&answer.writer, members.data, members.len);
    server_answer_end(&answer);
    call_end(call);
    return true;
}

static void keep_members(const struct call *call, const struct buf *out, size_t from)
{
    struct memo_key key = memo_key(call);

    if (out->failed || out->len <= from)
        return;
    from += out->data[from] == ',';
    memo_keep(server_memo(call_server(call)), &key,
              (struct jsonrpc_slice){ out->data + from, out->len - from });
}

static void answer_view(struct call *call, const struct json_value *reply,
                        struct jsonrpc_slice reply_text)
{
    const struct tool_call *state = state_of(call);
    struct server_answer answer;
    size_t from;

    server_answer_begin(&answer, call_server(call), &call->target);
    from = answer.out->len;
    tool_call_write_result(&answer.writer, state->tool, reply, reply_text, state->request.text_max);
    if (reply_text.data && can_be_kept(reply))
        keep_members(call, answer.out, from);
    server_answer_end(&answer);
    call_end(call);
}

/* Only where REPLY is what has just come. */
static void answer_result(struct call *call, const struct json_value *reply)
{
    answer_view(call, reply, call->reply_text);
}

static void answer_kept_view(struct call *call)
{
    answer_view(call, json_root(state_of(call)->view), (struct jsonrpc_slice){ NULL, 0 });
}

static const char *advice_when_lost(const struct tool *tool, enum call_fate fate)
{
    switch (fate) {
    case CALL_IMPOSSIBLE:
    case CALL_NOT_SENT:
        return "Nothing was done. Runs that exist are kept. Call again in a few seconds; if that "
               "does not help, ask the user to run `sandboxctl doctor`.";
    case CALL_UNKNOWN:
        if (tool->method == METHOD_RUN_CREATE)
            return "It is not known whether the run was started: look with opencode_list_runs "
                   "before you try again, or try again with the same idempotencyKey. Runs that "
                   "exist are kept.";
        if (tool->method == METHOD_RUN_SEND)
            return "It is not known whether the message arrived: look with opencode_get_log before "
                   "you say it again, or call again with the same idempotencyKey. Runs are kept.";
        return "Runs are kept and go on. Call again.";
    case CALL_REFUSED:
        break;
    }
    return "";
}

static const char *advice(const struct tool *tool, enum error_code code, enum call_fate fate)
{
    switch (code) {
    case ERR_INVALID:
        return "Correct the argument and call again.";
    case ERR_NOT_FOUND:
        return "Call opencode_list_runs to find the runs and sessions that exist.";
    case ERR_LIMIT:
        return "Ask for less, or wait until a run has ended or cancel one, then call again.";
    case ERR_CONFLICT:
    case ERR_DENIED:
        return fate <= CALL_NOT_SENT ? "Nothing was done. Tell the user, who can put this right."
                                     : "";
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
    case ERR_SYSTEM:
    case ERR_BUG:
        return advice_when_lost(tool, fate);
    case ERR_CANCELLED:
    case ERR_NONE:
        break;
    }
    return "";
}

void tool_call_explain(struct buf *out, const struct tool *tool, const struct error *err,
                       enum call_fate fate)
{
    const char *what_to_do = advice(tool, err->code, fate);

    buf_append_str(out, err->text);
    if (out->len && out->data[0] >= 'a' && out->data[0] <= 'z' && !err->argument[0])
        out->data[0] = (char)(out->data[0] - 'a' + 'A');
    if (out->len && !strchr(".!?", out->data[out->len - 1]))
        buf_append_char(out, '.');
    if (what_to_do[0])
        buf_printf(out, " %s", what_to_do);
}

static void answer_failure(struct call *call, const struct error *err, enum call_fate fate)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct server_answer answer;

    tool_call_explain(&text, state_of(call)->tool, err, fate);
    server_answer_begin(&answer, call_server(call), &call->target);
    content_write_error(&answer.writer, buf_text(&text));
    server_answer_end(&answer);
    call_end(call);
}

/* The request ---------------------------------------------------------------------------------- */

static uint64_t wait_left_ms(const struct call *call)
{
    uint64_t now = call_now_ms(call);
    uint64_t end = state_of(call)->wait_end_ms;

    return end > now ? end - now : 0;
}

/* After a question the rest of the wait is less than what the client asked for. */
static void send_wait(struct call *call)
{
    struct tool_call *state = state_of(call);
    uint64_t left_ms = wait_left_ms(call);
    uint64_t seconds = (left_ms + 999) / 1000;
    AUTO_BUF struct buf body = BUF_INIT(1024);
    struct json_writer writer;

    state->step = STEP_SENT;
    if (seconds == state->request.wait_seconds || !state->request.run_id[0]) {
        call_ask(call, state->tool->method, buf_text(&state->request.body), left_ms);
        return;
    }
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", state->request.run_id);
    json_member_u64(&writer, "waitSeconds", seconds);
    json_write_object_end(&writer);
    call_ask(call, state->tool->method, buf_text(&body), left_ms);
}

/* A wait with progress looks first: a run that has ended needs no wait, and else its cursor tells
 * from where to follow. */
static void send_first(struct call *call)
{
    struct tool_call *state = state_of(call);

    if (progress_wanted(&state->progress) && state->request.wait_seconds &&
        state->request.run_id[0] && !call->events_id) {
        state->step = STEP_LOOKING;
        call_ask_run(call, METHOD_RUN_GET, state->request.run_id);
    } else {
        send_wait(call);
    }
}

static void send_answer(struct call *call)
{
    struct tool_call *state = state_of(call);
    AUTO_BUF struct buf body = BUF_INIT(6 * ANSWER_MAX);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", state->request.run_id);
    json_member_string(&writer, "requestId", state->answer_id);
    json_member_string(&writer, "answer", buf_text(&state->answer));
    json_write_object_end(&writer);
    state->step = STEP_ANSWERING;
    call_ask(call, METHOD_RUN_ANSWER, buf_text(&body), 0);
}

static void on_begin(struct call *call)
{
    struct tool_call *state = state_of(call);

    state->wait_end_ms = call_now_ms(call) + (uint64_t)state->request.wait_seconds * 1000;
    if (state->answer_id)
        send_answer(call);
    else
        send_first(call);
}

/* Asking the user ------------------------------------------------------------------------------ */

static const char *open_request(const struct json_value *view)
{
    return json_string(json_path(view, "request.requestId"));
}

/* Only a call that was to wait asks: who looks at a run wants to know, not to be held. */
static bool may_ask(const struct call *call, const struct json_value *view)
{
    const struct tool_call *state = state_of(call);

    return state->tool->method == METHOD_RUN_GET && state->request.wait_seconds &&
           (call->target.capabilities & CLIENT_ELICITS) && elicit_wanted(view) &&
           !str_equal(state->question_id, open_request(view));
}

static bool holds_view(const struct tool_call *state)
{
    return state->step == STEP_ASKING || state->step == STEP_SETTLED;
}

static void set_due(struct call *call)
{
    const struct tool_call *state = state_of(call);

    call->due_ms = state->progress.due_ms;
    if (holds_view(state) && state->view_end_ms < call->due_ms)
        call->due_ms = state->view_end_ms;
}

static int keep_view(struct tool_call *state, const struct json_value *view)
{
    AUTO_BUF struct buf text = BUF_INIT(STRUCTURED_MAX);
    struct error err = ERROR_INIT;

    json_append(&text, view);
    json_free(STEAL(state->view));
    return json_parse(&state->view, buf_text(&text), text.len, STRUCTURED_MAX, &err);
}

static void ask_legacy(struct call *call, const struct json_value *view)
{
    struct tool_call *state = state_of(call);
    uint64_t left_ms = wait_left_ms(call);
    struct json_writer writer;

    if (keep_view(state, view) < 0) {
        answer_result(call, view);
        return;
    }
    state->step = STEP_ASKING;
    state->view_end_ms =
        call_now_ms(call) + (left_ms > QUESTION_MIN_MS ? left_ms : QUESTION_MIN_MS);
    free(state->question_id);
    state->question_id = mem_strdup(open_request(view));
    call_question_begin(call, &writer, "elicitation/create");
    elicit_write(&writer, view, call->target.revision);
    call_question_end(call, &writer);
    set_due(call);
}

/* The client asks its user and calls again. Nothing needs to be remembered for that: the arguments
 * name the run, the answer the agent's request, and the supervisor knows whether that is open. */
static void ask_modern(struct call *call, const struct json_value *view)
{
    struct server_answer answer;

    server_answer_begin_as(&answer, call_server(call), &call->target, "input_required");
    json_write_name(&answer.writer, "inputRequests");
    json_write_object(&answer.writer);
    elicit_write_input(&answer.writer, view, call->target.revision);
    json_write_object_end(&answer.writer);
    server_answer_end(&answer);
    call_end(call);
}

static void finish(struct call *call, const struct json_value *view)
{
    if (!may_ask(call, view))
        answer_result(call, view);
    else if (call->target.era == &era_modern)
        ask_modern(call, view);
    else
        ask_legacy(call, view);
}

static void on_client_answer(struct call *call, const struct json_value *result)
{
    struct tool_call *state = state_of(call);

    buf_clear(&state->answer);
    if (!elicit_read(result, &state->answer)) {
        answer_kept_view(call);
        return;
    }
    free(state->answer_id);
    state->answer_id = mem_strdup(open_request(json_root(state->view)));
    send_answer(call);
    set_due(call);
}

/* Answers that came with the request: {"que_1":{"action":"accept","content":{…}}}. */
static void read_inputs(struct tool_call *state, const struct json_value *inputs)
{
    for (const struct json_value *input = json_first(inputs); input; input = json_next(input)) {
        if (json_kind(inputs) != JSON_KIND_OBJECT || strlen(json_name(input)) > 100)
            continue;
        if (elicit_read(input, &state->answer)) {
            free(state->answer_id);
            state->answer_id = mem_strdup(json_name(input));
            return;
        }
        free(state->question_id);
        state->question_id = mem_strdup(json_name(input));
    }
}

/* From the supervisor -------------------------------------------------------------------------- */

/* The run goes on without asking anything: its events are followed while its end is waited for. */
static bool wants_wait(const struct json_value *view)
{
    const char *status = json_string(json_get(view, "status"));

    return str_equal(status, run_status_names[RUN_STATUS_QUEUED]) ||
           str_equal(status, run_status_names[RUN_STATUS_STARTED]) ||
           str_equal(status, run_status_names[RUN_STATUS_RUNNING]);
}

static void begin_follow(struct call *call, const struct json_value *view)
{
    struct tool_call *state = state_of(call);

    if (call->events_id)
        return;
    progress_begin(&state->progress, view, call_now_ms(call));
    call_follow(call, state->request.run_id, json_u64(json_get(view, "cursor"), 0));
}

/* The agent hears an answer a little after the supervisor, and until then the run still waits. */
static void settle(struct call *call, const struct json_value *view)
{
    struct tool_call *state = state_of(call);

    free(state->question_id);
    state->question_id = mem_strdup(state->answer_id);
    if (!str_equal(open_request(view), state->answer_id) || keep_view(state, view) < 0) {
        send_first(call);
        return;
    }
    state->step = STEP_SETTLED;
    state->view_end_ms = call_now_ms(call) + wait_left_ms(call);
    begin_follow(call, view);
    set_due(call);
}

static void on_reply(struct call *call, const struct json_value *reply)
{
    struct tool_call *state = state_of(call);

    switch (state->step) {
    case STEP_ANSWERING:
        state->step = STEP_SETTLING;
        call_ask_run(call, METHOD_RUN_GET, state->request.run_id);
        break;
    case STEP_SETTLING:
        settle(call, reply);
        break;
    case STEP_LOOKING:
        if (!wants_wait(reply)) {
            finish(call, reply);
            break;
        }
        begin_follow(call, reply);
        send_wait(call);
        set_due(call);
        break;
    case STEP_SENT:
        finish(call, reply);
        break;
    case STEP_ASKING:
    case STEP_SETTLED:
        break;
    }
}

static void on_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    struct tool_call *state = state_of(call);

    /* Somebody else was quicker, or the client sent more than was asked for. */
    if (state->step == STEP_ANSWERING && fate == CALL_REFUSED) {
        free(state->question_id);
        state->question_id = STEAL(state->answer_id);
        send_first(call);
        return;
    }
    answer_failure(call, err, fate);
}

/* The run does not wait any more, or for something else. */
static bool ends_wait(const struct json_value *event)
{
    const char *kind = json_string(json_get(event, "kind"));
    const char *status = json_string(json_path(event, "data.status"));

    if (!event || str_equal(kind, event_kind_names[EVENT_KIND_QUESTION]) ||
        str_equal(kind, event_kind_names[EVENT_KIND_PERMISSION]))
        return true;
    return str_equal(kind, event_kind_names[EVENT_KIND_STATE]) &&
           !str_equal(status, run_status_names[RUN_STATUS_WAITING]);
}

static void on_event(struct call *call, const struct json_value *event)
{
    struct tool_call *state = state_of(call);

    if (event)
        progress_event(&state->progress, event, call_now_ms(call));
    if (state->step == STEP_SETTLED && ends_wait(event))
        send_wait(call);
    set_due(call);
}

static void send_progress(struct call *call)
{
    struct json_writer writer;

    server_notify_begin(call_server(call), &writer, "notifications/progress");
    progress_write(&state_of(call)->progress, &writer, call_now_ms(call));
    server_notify_end(call_server(call), &writer);
}

static void on_due(struct call *call)
{
    struct tool_call *state = state_of(call);
    uint64_t now = call_now_ms(call);

    if (holds_view(state) && state->view_end_ms <= now) {
        call_question_drop(call, "the wait is over; the question stays open");
        answer_kept_view(call);
        return;
    }
    if (state->progress.due_ms <= now)
        send_progress(call);
    set_due(call);
}

static const struct call_form form = {
    .begin = on_begin,
    .reply = on_reply,
    .reply_text = on_reply_text,
    .fail = on_fail,
    .event = on_event,
    .due = on_due,
    .client_answer = on_client_answer,
    .free_state = free_state,
    .starts_supervisor = true,
};

static struct jsonrpc_slice progress_token(const struct jsonrpc_message *message)
{
    const struct json_value *meta = json_get(message->params, "_meta");
    struct jsonrpc_slice params =
        jsonrpc_member_text(message->text, json_root(message->doc), "params");
    struct jsonrpc_slice meta_text = jsonrpc_member_text(params, message->params, "_meta");

    if (!jsonrpc_is_id(json_get(meta, "progressToken")))
        return (struct jsonrpc_slice){ NULL, 0 };
    return jsonrpc_member_text(meta_text, meta, "progressToken");
}

void tool_call_start(struct server *server, const struct request *request, const struct tool *tool,
                     struct tool_request *tool_request)
{
    struct tool_call *state = NEW(struct tool_call);

    state->tool = tool;
    state->request = *tool_request;
    *tool_request = (struct tool_request){ .text_max = 0 };
    buf_init(&state->answer, ANSWER_MAX);
    progress_init(&state->progress, progress_token(request->message));
    if (request->target.era == &era_modern && tool->method == METHOD_RUN_GET)
        read_inputs(state, request_param(request, "inputResponses"));
    calls_start(server_calls(server), &request->target, &form, state);
}
