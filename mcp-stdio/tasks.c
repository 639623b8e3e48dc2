#include "mcp-stdio/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "common/id.h"
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/call.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/elicit.h"
#include "mcp-stdio/subscriptions.h"
#include "mcp-stdio/task.h"
#include "mcp-stdio/tool_call.h"
#include "proto/msg_event.h"
#include "proto/msg_run.h"

#define WAIT_SECONDS 45
#define PAGE_RUNS 50
#define ANSWER_MAX 20000
#define MISSING_CAPABILITY (-32021)

/* Who may ask ---------------------------------------------------------------------------------- */

bool tasks_negotiated(const struct request *request)
{
    return request->target.era == &era_legacy &&
           strcmp(request->target.revision, "2025-11-25") >= 0;
}

int tasks_refuse_undeclared(struct server *server, const struct request *request)
{
    if (request->target.capabilities & CLIENT_TASKS)
        return 0;
    server_refuse(server, &request->target, MISSING_CAPABILITY,
                  "the request's client capabilities lack the tasks extension",
                  "{\"requiredCapabilities\":{\"extensions\":{\"" ERA_META "tasks\":{}}}}");
    return -1;
}

bool tasks_is_id(const char *text)
{
    return id_parse(ID_KIND_RUN, text, NULL);
}

/* The id that a tasks method names; NULL when the request was refused. */
static const char *task_id(struct server *server, const struct request *request)
{
    const char *id = json_string(request_param(request, "taskId"));

    if (request->target.era == &era_legacy && !tasks_negotiated(request))
        server_refuse(server, &request->target, JSONRPC_METHOD_NOT_FOUND,
                      "the negotiated revision has no tasks", NULL);
    else if (request->target.era == &era_modern && tasks_refuse_undeclared(server, request) < 0)
        return NULL;
    else if (!id)
        server_refuse_params(server, request, "params.taskId must be a string");
    else if (!tasks_is_id(id))
        server_refuse_params(server, request, "Task not found");
    else
        return id;
    return NULL;
}

static const char *text_of(const struct json_value *view, const char *name)
{
    const char *text = json_string(json_get(view, name));

    return text ? text : "";
}

/* Conversations about a task ------------------------------------------------------------------- */

struct task_call {
    const struct tool *tool; /* create */
    struct buf body;         /* create; update: the answer */
    char *run_id;
    char *request_id; /* update: what is answered; result: what the user was asked */
    bool cancelling;  /* cancel: the run was going on */
    bool answered;    /* result: the user did, and the agent was not told yet */
    bool answering;   /* result: the request in flight tells the agent what the user said */
    bool settling;    /* result: and the agent may not have heard it yet */
};

static struct task_call *state_of(const struct call *call)
{
    return call->state;
}

static void free_state(void *data)
{
    struct task_call *state = data;

    buf_finish(&state->body);
    free(state->run_id);
    free(state->request_id);
    free(state);
}

static struct task_call *state_new(const char *run_id)
{
    struct task_call *state = NEW(struct task_call);

    state->run_id = mem_strdup(run_id);
    buf_init(&state->body, ANSWER_MAX);
    return state;
}

static void fail(struct call *call, const struct error *err, enum call_fate fate)
{
    bool theirs = fate == CALL_REFUSED && (err->code == ERR_NOT_FOUND || err->code == ERR_INVALID);

    server_refuse(call_server(call), &call->target,
                  theirs ? JSONRPC_INVALID_PARAMS : JSONRPC_INTERNAL_ERROR,
                  theirs ? "Task not found" : err->text, NULL);
    call_end(call);
}

static void look(struct call *call)
{
    call_ask_run(call, METHOD_RUN_GET, state_of(call)->run_id);
}

/* What the user said goes to the agent. */
static void send_answer(struct call *call)
{
    const struct task_call *state = state_of(call);
    AUTO_BUF struct buf body = BUF_INIT(6 * ANSWER_MAX);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "runId", state->run_id);
    json_member_string(&writer, "requestId", state->request_id);
    json_member_string(&writer, "answer", buf_text(&state->body));
    json_write_object_end(&writer);
    call_ask(call, METHOD_RUN_ANSWER, buf_text(&body), 0);
}

static void answer_task(struct call *call, const struct json_value *view)
{
    struct server_answer answer;

    server_answer_begin(&answer, call_server(call), &call->target);
    if (call->target.era == &era_modern)
        task_write_detailed(&answer.writer, view);
    else
        task_write(&answer.writer, view, &era_legacy, task_status_of(view));
    server_answer_end(&answer);
    call_end(call);
}

static void start_call(struct server *server, const struct request *request,
                       const struct call_form *form, struct task_call *state)
{
    calls_start(server_calls(server), &request->target, form, state);
}

/* tools/call ----------------------------------------------------------------------------------- */

static void on_create_begin(struct call *call)
{
    call_ask(call, METHOD_RUN_CREATE, buf_text(&state_of(call)->body), 0);
}

static void answer_created(struct call *call, const struct json_value *view)
{
    bool modern = call->target.era == &era_modern;
    struct json_writer *writer;
    struct server_answer answer;

    server_answer_begin_as(&answer, call_server(call), &call->target, "task");
    writer = &answer.writer;
    if (modern) {
        task_write(writer, view, &era_modern, TASK_WORKING);
    } else {
        json_write_name(writer, "task");
        json_write_object(writer);
        task_write(writer, view, &era_legacy, TASK_WORKING);
        json_write_object_end(writer);
        json_write_name(writer, "_meta");
        json_write_object(writer);
        json_member_string(writer, ERA_META "model-immediate-response", text_of(view, "message"));
        json_write_object_end(writer);
    }
    server_answer_end(&answer);
    if (!modern)
        subscriptions_watch_task(call_server(call), state_of(call)->run_id);
    call_end(call);
}

/* First the new run, then how it stands. */
static void on_create_reply(struct call *call, const struct json_value *reply)
{
    struct task_call *state = state_of(call);

    if (state->run_id) {
        answer_created(call, reply);
        return;
    }
    state->run_id = mem_strdup(text_of(reply, "runId"));
    look(call);
}

static void on_create_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct server_answer answer;

    tool_call_explain(&text, state_of(call)->tool, err, fate);
    if (call->target.era == &era_legacy) {
        server_refuse(call_server(call), &call->target,
                      err->code == ERR_INVALID ? JSONRPC_INVALID_PARAMS : JSONRPC_INTERNAL_ERROR,
                      buf_text(&text), NULL);
    } else {
        server_answer_begin(&answer, call_server(call), &call->target);
        content_write_error(&answer.writer, buf_text(&text));
        server_answer_end(&answer);
    }
    call_end(call);
}

static const struct call_form create_form = {
    .begin = on_create_begin,
    .reply = on_create_reply,
    .fail = on_create_fail,
    .free_state = free_state,
    .starts_supervisor = true,
};

void tasks_start(struct server *server, const struct request *request, const struct tool *tool,
                 struct tool_request *tool_request)
{
    struct task_call *state = state_new(NULL);

    state->tool = tool;
    state->body = tool_request->body;
    *tool_request = (struct tool_request){ .text_max = 0 };
    start_call(server, request, &create_form, state);
}

/* tasks/get ------------------------------------------------------------------------------------ */

static const struct call_form get_form = {
    .begin = look,
    .reply = answer_task,
    .fail = fail,
    .free_state = free_state,
    .starts_supervisor = true,
};

void tasks_on_get(struct server *server, const struct request *request)
{
    const char *id = task_id(server, request);

    if (id)
        start_call(server, request, &get_form, state_new(id));
}

/* tasks/result --------------------------------------------------------------------------------- */

static void wait_for_end(struct call *call)
{
    AUTO_BUF struct buf body = BUF_INIT(256);

    buf_printf(&body, "{\"runId\":\"%s\",\"waitSeconds\":%d}", state_of(call)->run_id,
               WAIT_SECONDS);
    call_ask(call, METHOD_RUN_GET, buf_text(&body), WAIT_SECONDS * 1000);
}

static void write_related_task(struct json_writer *writer, const char *id)
{
    json_write_name(writer, "_meta");
    json_write_object(writer);
    json_write_name(writer, ERA_META "related-task");
    json_write_object(writer);
    json_member_string(writer, "taskId", id);
    json_write_object_end(writer);
    json_write_object_end(writer);
}

static void answer_payload(struct call *call, const struct json_value *view)
{
    struct server_answer answer;

    server_answer_begin(&answer, call_server(call), &call->target);
    task_write_result(&answer.writer, view);
    write_related_task(&answer.writer, state_of(call)->run_id);
    server_answer_end(&answer);
    call_end(call);
}

static void tell_agent(struct call *call)
{
    state_of(call)->answered = false;
    state_of(call)->answering = true;
    send_answer(call);
}

/* The client came for what the task needs: its user is asked, once for each request. */
static void ask_user(struct call *call, const struct json_value *view)
{
    const char *request_id = json_string(json_path(view, "request.requestId"));
    struct task_call *state = state_of(call);
    struct json_writer writer;

    if (str_equal(state->request_id, request_id)) {
        if (state->answered)
            tell_agent(call);
        return;
    }
    if (!(call->target.capabilities & CLIENT_ELICITS) || !elicit_wanted(view))
        return;
    call_question_drop(call, "the agent asks something else");
    free(state->request_id);
    state->request_id = mem_strdup(request_id);
    state->settling = state->answered = false;
    call_question_begin(call, &writer, "elicitation/create");
    elicit_write(&writer, view, call->target.revision);
    write_related_task(&writer, state->run_id);
    call_question_end(call, &writer);
}

/* A run that asks something answers a wait at once, so its events are waited for instead. */
static void on_result_view(struct call *call, const struct json_value *view)
{
    enum task_status status = task_status_of(view);

    if (task_is_final(status)) {
        answer_payload(call, view);
        return;
    }
    if (status != TASK_INPUT_REQUIRED) {
        call_question_drop(call, "somebody else has answered");
        wait_for_end(call);
        return;
    }
    if (!call->events_id)
        call_follow(call, state_of(call)->run_id, json_u64(json_get(view, "cursor"), 0));
    ask_user(call, view);
}

static void on_result_reply(struct call *call, const struct json_value *reply)
{
    struct task_call *state = state_of(call);

    if (!state->answering) {
        on_result_view(call, reply);
        return;
    }
    state->answering = false;
    state->settling = true;
    wait_for_end(call);
}

/* The run does not wait any more, or for something else. */
static bool ends_waiting(const struct task_call *state, const struct json_value *event)
{
    const char *kind = json_string(json_get(event, "kind"));

    return !event || state->settling || str_equal(kind, event_kind_names[EVENT_KIND_STATE]) ||
           str_equal(kind, event_kind_names[EVENT_KIND_QUESTION]) ||
           str_equal(kind, event_kind_names[EVENT_KIND_PERMISSION]);
}

static void on_result_event(struct call *call, const struct json_value *event)
{
    if (ends_waiting(state_of(call), event) && !call->request_id)
        wait_for_end(call);
}

/* A user who declines leaves the question to others. */
static void on_result_answer(struct call *call, const struct json_value *result)
{
    struct task_call *state = state_of(call);

    buf_clear(&state->body);
    state->answered = elicit_read(result, &state->body);
    if (state->answered && !call->request_id)
        tell_agent(call);
}

static void on_result_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    struct task_call *state = state_of(call);

    /* Somebody else was quicker. */
    if (state->answering && fate == CALL_REFUSED) {
        state->answering = false;
        wait_for_end(call);
        return;
    }
    fail(call, err, fate);
}

static const struct call_form result_form = {
    .begin = wait_for_end,
    .reply = on_result_reply,
    .event = on_result_event,
    .client_answer = on_result_answer,
    .fail = on_result_fail,
    .free_state = free_state,
    .starts_supervisor = true,
};

void tasks_on_result(struct server *server, const struct request *request)
{
    const char *id = task_id(server, request);

    if (id)
        start_call(server, request, &result_form, state_new(id));
}

/* tasks/list ----------------------------------------------------------------------------------- */

static void on_list_begin(struct call *call)
{
    call_ask(call, METHOD_RUN_LIST, buf_text(&state_of(call)->body), 0);
}

static void on_list_reply(struct call *call, const struct json_value *reply)
{
    struct server_answer answer;

    server_answer_begin(&answer, call_server(call), &call->target);
    json_write_name(&answer.writer, "tasks");
    json_write_array(&answer.writer);
    for (const struct json_value *run = json_first(json_get(reply, "runs")); run;
         run = json_next(run)) {
        json_write_object(&answer.writer);
        task_write(&answer.writer, run, &era_legacy, task_status_of(run));
        json_write_object_end(&answer.writer);
    }
    json_write_array_end(&answer.writer);
    if (json_bool(json_get(reply, "hasMore"), false))
        json_member_string_opt(&answer.writer, "nextCursor", text_of(reply, "cursor"));
    server_answer_end(&answer);
    call_end(call);
}

static const struct call_form list_form = {
    .begin = on_list_begin,
    .reply = on_list_reply,
    .fail = fail,
    .free_state = free_state,
    .starts_supervisor = true,
};

void tasks_on_list(struct server *server, const struct request *request)
{
    const struct json_value *cursor = request_param(request, "cursor");
    const char *before = json_string(cursor);
    struct task_call *state;

    if (!tasks_negotiated(request)) {
        server_refuse(server, &request->target, JSONRPC_METHOD_NOT_FOUND,
                      "the negotiated revision has no tasks", NULL);
    } else if (json_kind(cursor) != JSON_KIND_NULL && (!before || !tasks_is_id(before))) {
        server_refuse_params(server, request, "unknown cursor");
    } else {
        state = state_new(NULL);
        buf_printf(&state->body, "{\"limit\":%d", PAGE_RUNS);
        if (before)
            buf_printf(&state->body, ",\"before\":\"%s\"", before);
        buf_append_char(&state->body, '}');
        start_call(server, request, &list_form, state);
    }
}

/* tasks/cancel --------------------------------------------------------------------------------- */

static void answer_cancelled(struct call *call, const struct json_value *view)
{
    if (call->target.era == &era_legacy) {
        answer_task(call, view);
        return;
    }
    server_acknowledge(call_server(call), &call->target);
    call_end(call);
}

/* How the run stands comes first: one that has ended can't be cancelled, says the legacy era; the
 * modern one takes the wish. */
static void on_cancel_reply(struct call *call, const struct json_value *view)
{
    struct task_call *state = state_of(call);

    if (state->cancelling) {
        answer_cancelled(call, view);
    } else if (!task_is_final(task_status_of(view))) {
        state->cancelling = true;
        call_ask_run(call, METHOD_RUN_CANCEL, state->run_id);
    } else if (call->target.era == &era_modern) {
        answer_cancelled(call, view);
    } else {
        server_refuse(call_server(call), &call->target, JSONRPC_INVALID_PARAMS,
                      "the task has ended already", NULL);
        call_end(call);
    }
}

static const struct call_form cancel_form = {
    .begin = look,
    .reply = on_cancel_reply,
    .fail = fail,
    .free_state = free_state,
    .starts_supervisor = true,
};

void tasks_on_cancel(struct server *server, const struct request *request)
{
    const char *id = task_id(server, request);

    if (id)
        start_call(server, request, &cancel_form, state_new(id));
}

/* tasks/update --------------------------------------------------------------------------------- */

static void on_update_begin(struct call *call)
{
    if (state_of(call)->request_id)
        send_answer(call);
    else
        look(call);
}

static void on_update_reply(struct call *call, const struct json_value *reply)
{
    (void)reply;
    server_acknowledge(call_server(call), &call->target);
    call_end(call);
}

/* An answer to what is not asked, or not any more, is passed over, and then only the task itself
 * can be missing. */
static void on_update_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    struct task_call *state = state_of(call);

    if (fate == CALL_REFUSED && state->request_id) {
        free(STEAL(state->request_id));
        look(call);
        return;
    }
    fail(call, err, fate);
}

static const struct call_form update_form = {
    .begin = on_update_begin,
    .reply = on_update_reply,
    .fail = on_update_fail,
    .free_state = free_state,
    .starts_supervisor = true,
};

void tasks_on_update(struct server *server, const struct request *request)
{
    const struct json_value *inputs = request_param(request, "inputResponses");
    const char *id = task_id(server, request);
    struct task_call *state;

    if (!id)
        return;
    if (json_kind(inputs) != JSON_KIND_OBJECT) {
        server_refuse_params(server, request, "params.inputResponses must be an object");
        return;
    }
    state = state_new(id);
    for (const struct json_value *input = json_first(inputs); input && !state->request_id;
         input = json_next(input))
        if (strlen(json_name(input)) <= 100 && elicit_read(input, &state->body))
            state->request_id = mem_strdup(json_name(input));
    start_call(server, request, &update_form, state);
}
