#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/acp/acp_internal.h"
#include "common/mem.h"
#include "common/str.h"

#define PROMPT_MAX (2u << 20) /* a task's text, escaped */
#define LINE_MAX_BYTES 8192
#define METHOD_NOT_FOUND (-32601)

/* End ------------------------------------------------------------------------------------------ */

void acp_prompt_forget(struct acp *acp)
{
    for (size_t i = 0; i < acp->permission_count; i++)
        acp_permission_free(acp->permissions[i]);
    acp->permission_count = 0;
    uv_timer_stop(&acp->answer_timer);
}

/* acp->end has been filled, and all that belongs to the prompt has been told. It is told at once:
 * what is read and not on disk dies with the supervisor. END's strings may point into the driver:
 * nothing of it is touched after the callback. */
static void end_prompt(struct acp *acp)
{
    uint64_t cost;

    acp->prompt.active = false;
    uv_timer_stop(&acp->stop_timer);
    acp_prompt_forget(acp);
    /* Agents write their conversation down after they have answered. */
    if (acp->phase != ACP_DEAD)
        acp->settled_ms = uv_now(acp->loop) + acp->timing.settle_ms;
    acp->end.output = acp_events_output(acp->events);
    if (acp_events_cost(acp->events, &cost)) {
        acp->end.usage.cost_microdollars = cost;
        acp->end.usage_known = true;
    }
    if (acp->prompt.stop_asked)
        acp->end.kind = AGENT_END_ABORTED;
    if (acp->end.kind != AGENT_END_FAILED)
        acp->end.error_code = acp->end.message = acp->end.hint = "";
    acp->callbacks.on_end(acp->callbacks.data, &acp->end);
}

static void take(struct acp *acp)
{
    if (acp->prompt.taken)
        return;
    acp->prompt.taken = true;
    acp->callbacks.on_prompt_taken(acp->callbacks.data);
}

static void on_answer(struct acp *acp, const struct acp_message *message)
{
    if (!acp->prompt.active || message->number != acp->prompt.number)
        return;
    take(acp);
    if (!acp->closing)
        acp_events_end(acp->events);
    if (acp->closing || !acp->prompt.active)
        return;
    acp->end = (struct agent_end){ 0 };
    if (message->kind == ACP_RESULT)
        acp_result_read(&acp->end, &acp->failure, message->body, acp_events_output(acp->events));
    else
        acp_error_read(&acp->end, &acp->failure, message->body);
    end_prompt(acp);
}

void acp_prompt_crashed(struct acp *acp)
{
    AUTO_BUF struct buf message = BUF_INIT(ACP_LAST_LINES * (ACP_LINE_SHOWN + 16) + 512);

    acp->phase = ACP_DEAD;
    if (acp->closing || !acp->prompt.active)
        return;
    acp_events_end(acp->events);
    if (acp->closing)
        return;
    buf_printf(&message, "%s %s: ", acp->profile->name, acp->exit_text);
    acp_last_lines(acp, &message);
    opencode_failure_set(&acp->failure, "agent_crashed", buf_text(&message));
    acp->end = (struct agent_end){ .kind = AGENT_END_FAILED,
                                   .finish_reason = "",
                                   .error_code = acp->failure.code,
                                   .message = acp->failure.message,
                                   .hint = acp->failure.hint,
                                   .retryable = acp->failure.retryable };
    end_prompt(acp);
}

/* Permissions ---------------------------------------------------------------------------------- */

static void reply(struct acp *acp, const struct acp_permission *permission, const char *option)
{
    AUTO_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);

    acp_permission_reply(&line, permission, option);
    acp_send(acp, &line);
}

static void tell_first(struct acp *acp)
{
    const struct acp_permission *first = acp->permissions[0];
    const struct agent_event event = { .kind = AGENT_EVENT_PERMISSION,
                                       .text = first->text,
                                       .data = first->data,
                                       .request_id = first->request_id };

    acp->callbacks.on_event(acp->callbacks.data, &event);
}

static void on_permission(struct acp *acp, const struct acp_message *message)
{
    static const char *const policy_answers[] = {
        [AGENT_PERMISSIONS_ALLOW] = "once", [AGENT_PERMISSIONS_REJECT] = "reject"
    };
    struct acp_permission *permission = acp_permission_new(message, ++acp->permission_number);
    enum agent_permissions policy = acp->profile->permissions;
    const char *option = NULL;

    if (permission == NULL)
        return;
    /* Its first sign of life may be that it asks. */
    if (acp->prompt.active)
        take(acp);
    if (policy == AGENT_PERMISSIONS_ASK && !acp->closing && acp->prompt.active &&
        !acp->prompt.stop_asked && acp->permission_count < ACP_PERMISSIONS_MAX) {
        acp->permissions[acp->permission_count++] = permission;
        if (acp->permission_count == 1)
            tell_first(acp);
        return;
    }
    if (policy != AGENT_PERMISSIONS_ASK && !acp->prompt.stop_asked &&
        !acp_permission_choose(permission, policy_answers[policy], &option))
        acp_log(acp, "the agent offers no way to allow this: %.200s", permission->text);
    if (!acp->closing)
        reply(acp, permission, option);
    acp_permission_free(permission);
}

static void on_answered(uv_timer_t *timer)
{
    struct acp *acp = timer->data;
    struct acp_permission *first = acp->permissions[0];
    const struct agent_event event = { .kind = AGENT_EVENT_ANSWERED,
                                       .request_id = first->request_id };

    acp->permission_count--;
    memmove(acp->permissions, acp->permissions + 1,
            acp->permission_count * sizeof(acp->permissions[0]));
    acp->callbacks.on_event(acp->callbacks.data, &event);
    acp_permission_free(first);
    if (!acp->closing && acp->permission_count > 0)
        tell_first(acp);
}

int acp_prompt_answer(struct acp *acp, const char *request_id, const char *answer,
                      struct error *err)
{
    struct acp_permission *first = acp->permission_count > 0 ? acp->permissions[0] : NULL;
    const char *option = NULL;

    if (first == NULL || first->answered || !str_equal(first->request_id, request_id))
        return error_set(err, ERR_NOT_FOUND, 0, "no open request %.40s", request_id);
    if (!acp_permission_choose(first, answer, &option))
        return error_argument(err, "answer", "must be one of those that the request offers: %s",
                              first->data);
    reply(acp, first, option);
    first->answered = true;
    uv_timer_start(&acp->answer_timer, on_answered, 0, 0);
    return 0;
}

/* Messages ------------------------------------------------------------------------------------- */

/* Files and terminals of the client's: we said that we have none. */
static void refuse_request(struct acp *acp, const struct acp_message *message)
{
    AUTO_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    AUTO_BUF struct buf id = BUF_INIT(256);

    json_append(&id, message->id);
    if (id.failed)
        return;
    acp_error_line(&line, buf_text(&id), METHOD_NOT_FOUND, "not supported");
    acp_send(acp, &line);
}

static void on_update(struct acp *acp, const struct json_value *params)
{
    const char *session = json_string(json_get(params, "sessionId"));

    acp_open_history(acp);
    if (acp->phase == ACP_READY && !str_equal(session, acp->conversation))
        return;
    if (acp_events_update(acp->events, json_get(params, "update")) && !acp->closing)
        take(acp);
}

void acp_prompt_message(struct acp *acp, const struct acp_message *message)
{
    switch (message->kind) {
    case ACP_RESULT:
    case ACP_ERROR:
        on_answer(acp, message);
        break;
    case ACP_REQUEST:
        if (str_equal(message->method, "session/request_permission"))
            on_permission(acp, message);
        else
            refuse_request(acp, message);
        break;
    case ACP_NOTIFICATION:
        if (str_equal(message->method, "session/update"))
            on_update(acp, message->body);
        break;
    }
}

/* Calls ---------------------------------------------------------------------------------------- */

static void write_prompt(struct buf *line, const struct acp *acp, const char *text)
{
    struct json_writer writer;

    acp_request_begin(&writer, line, acp->prompt.number, "session/prompt");
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", acp->conversation);
    json_write_name(&writer, "prompt");
    json_write_array(&writer);
    json_write_object(&writer);
    json_member_string(&writer, "type", "text");
    json_member_string(&writer, "text", text);
    json_write_object_end(&writer);
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    acp_line_end(&writer, line);
}

int acp_prompt_send(struct acp *acp, const char *text, struct error *err)
{
    AUTO_BUF struct buf line = BUF_INIT(PROMPT_MAX);
    char id[32];

    if (acp->phase == ACP_DEAD)
        return error_set(err, ERR_UNAVAILABLE, 0, "%s %s", acp->profile->name,
                         acp->exit_text[0] != '\0' ? acp->exit_text : "did not stop when asked");
    if (acp->phase != ACP_READY || acp->prompt.active)
        return error_set(err, ERR_CONFLICT, 0, "the agent is at work");
    acp->prompt = (struct acp_prompt){ .number = acp->next_number++ };
    write_prompt(&line, acp, text);
    if (line.failed)
        return error_set(err, ERR_LIMIT, 0, "the task is too long");
    (void)snprintf(id, sizeof(id), "%" PRIu64, acp->prompt.number);
    if (!acp->callbacks.on_sending(acp->callbacks.data, acp->conversation, id))
        return error_set(err, ERR_UNAVAILABLE, 0, "the prompt could not be recorded");
    acp->prompt.active = true;
    acp_events_begin(acp->events, "");
    acp_send(acp, &line);
    return 0;
}

static void on_stop_timeout(uv_timer_t *timer)
{
    struct acp *acp = timer->data;

    acp->phase = ACP_DEAD;
    acp_events_end(acp->events);
    acp->end = (struct agent_end){ .kind = AGENT_END_ABORTED, .finish_reason = "" };
    if (!acp->closing)
        end_prompt(acp);
}

void acp_prompt_abort(struct acp *acp)
{
    AUTO_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    struct json_writer writer;

    if (!acp->prompt.active || acp->prompt.stop_asked)
        return;
    acp->prompt.stop_asked = true;
    acp_notification_begin(&writer, &line, "session/cancel");
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", acp->conversation);
    json_write_object_end(&writer);
    acp_line_end(&writer, &line);
    acp_send(acp, &line);
    /* The protocol wants them answered all the same. */
    for (size_t i = 0; i < acp->permission_count; i++) {
        if (!acp->permissions[i]->answered)
            reply(acp, acp->permissions[i], NULL);
    }
    acp_prompt_forget(acp);
    uv_timer_start(&acp->stop_timer, on_stop_timeout, acp->timing.stop_ms, 0);
}
