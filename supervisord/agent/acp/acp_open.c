#include <string.h>

#include "agent/acp/acp_internal.h"
#include "common/mem.h"
#include "common/str.h"

#define PROTOCOL_VERSION 1
#define LINE_MAX_BYTES 8192

/* Requests ------------------------------------------------------------------------------------- */

static void send_initialize(struct acp *acp)
{
    AUTO_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    struct json_writer writer;

    acp_request_begin(&writer, &line, ACP_CALL_INITIALIZE, "initialize");
    json_write_object(&writer);
    json_member_u64(&writer, "protocolVersion", PROTOCOL_VERSION);
    json_write_name(&writer, "clientCapabilities");
    json_write_object(&writer);
    /* It reads and writes files and runs programs by itself: it is in the sandbox, we are not. */
    json_write_name(&writer, "fs");
    json_write_object(&writer);
    json_member_bool(&writer, "readTextFile", false);
    json_member_bool(&writer, "writeTextFile", false);
    json_write_object_end(&writer);
    json_member_bool(&writer, "terminal", false);
    json_write_object_end(&writer);
    json_write_name(&writer, "clientInfo");
    json_write_object(&writer);
    json_member_string(&writer, "name", "sandbox-mcp");
    json_member_string(&writer, "version", "1");
    json_write_object_end(&writer);
    json_write_object_end(&writer);
    acp_line_end(&writer, &line);
    acp->phase = ACP_INITIALIZING;
    acp_send(acp, &line);
}

static void send_open(struct acp *acp)
{
    AUTO_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    struct json_writer writer;
    const char *method = "session/new";

    if (acp->continuing)
        method = acp->can_resume ? "session/resume" : "session/load";
    acp->replays = acp->continuing && !acp->can_resume;
    acp_request_begin(&writer, &line, ACP_CALL_OPEN, method);
    json_write_object(&writer);
    if (acp->continuing)
        json_member_string(&writer, "sessionId", acp->conversation);
    json_member_string(&writer, "cwd", acp->directory);
    json_write_name(&writer, "mcpServers");
    json_write_array(&writer);
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    acp_line_end(&writer, &line);
    acp->phase = ACP_OPENING;
    acp_send(acp, &line);
}

static void send_setting(struct acp *acp, uint64_t number, const char *method, const char *name,
                         const char *value)
{
    AUTO_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    struct json_writer writer;

    acp_request_begin(&writer, &line, number, method);
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", acp->conversation);
    json_member_string(&writer, name, value);
    json_write_object_end(&writer);
    acp_line_end(&writer, &line);
    acp->phase = ACP_TUNING;
    acp_send(acp, &line);
}

/* Steps ---------------------------------------------------------------------------------------- */

static void on_quiet(uv_timer_t *timer)
{
    acp_ready(timer->data);
}

/* There are agents that go on telling the history after they have said that the conversation is
 * open; what they tell must not be taken for an answer to the prompt. */
static void finish(struct acp *acp)
{
    if (!acp->replays) {
        acp_ready(acp);
        return;
    }
    acp->phase = ACP_QUIET;
    uv_timer_start(&acp->timer, on_quiet, acp->timing.quiet_ms, 0);
}

void acp_open_history(struct acp *acp)
{
    if (acp->phase == ACP_QUIET)
        uv_timer_start(&acp->timer, on_quiet, acp->timing.quiet_ms, 0);
}

static void set_model(struct acp *acp)
{
    if (acp->set_model[0] != '\0')
        send_setting(acp, ACP_CALL_MODEL, "session/set_model", "modelId", acp->set_model);
    else
        finish(acp);
}

static void set_mode(struct acp *acp)
{
    if (acp->profile->set_mode[0] != '\0')
        send_setting(acp, ACP_CALL_MODE, "session/set_mode", "modeId", acp->profile->set_mode);
    else
        set_model(acp);
}

static void refuse(struct acp *acp, const char *what, const struct json_value *error)
{
    struct opencode_failure failure;
    struct error err = ERROR_INIT;
    bool auth;

    acp_failure_read(&failure, error);
    auth = str_equal(failure.code, "model_auth");
    error_set(&err, ERR_UNAVAILABLE, 0, "%s %s: %s", acp->profile->name, what, failure.message);
    acp_start_failed(acp, auth ? "model_auth" : "agent_not_ready", &err);
}

static void on_initialized(struct acp *acp, const struct acp_message *message)
{
    uint64_t version = json_u64(json_get(message->body, "protocolVersion"), 0);
    const struct json_value *can = json_get(message->body, "agentCapabilities");
    struct error err = ERROR_INIT;

    if (message->kind == ACP_ERROR) {
        refuse(acp, "could not be greeted", message->body);
        return;
    }
    if (version != PROTOCOL_VERSION) {
        error_set(&err, ERR_UNAVAILABLE, 0,
                  "%s speaks version %llu of the Agent Client Protocol, and we speak %d",
                  acp->profile->name, (unsigned long long)version, PROTOCOL_VERSION);
        acp_start_failed(acp, "agent_unsupported", &err);
        return;
    }
    acp->can_load = json_bool(json_get(can, "loadSession"), false);
    acp->can_resume = json_kind(json_path(can, "sessionCapabilities.resume")) == JSON_KIND_OBJECT;
    acp->continuing = acp->conversation[0] != '\0';
    if (acp->continuing && !acp->can_load && !acp->can_resume) {
        acp_log(acp,
                "the agent can't take up the conversation of an earlier run: a new one begins");
        acp->continuing = false;
    }
    if (!acp->closing)
        send_open(acp);
}

static void on_opened(struct acp *acp, const struct acp_message *message)
{
    const char *id = json_string(json_get(message->body, "sessionId"));
    struct opencode_failure failure;

    if (message->kind == ACP_ERROR && acp->continuing) {
        acp_failure_read(&failure, message->body);
        acp_log(acp, "the earlier conversation can't be taken up, a new one begins: %s",
                failure.message);
        acp->continuing = false;
        if (!acp->closing)
            send_open(acp);
        return;
    }
    if (message->kind == ACP_ERROR) {
        refuse(acp, "could not open a conversation", message->body);
        return;
    }
    if (!acp->continuing && (id == NULL || id[0] == '\0' || strlen(id) >= ACP_CONVERSATION_SIZE)) {
        refuse(acp, "gave its conversation no usable id", NULL);
        return;
    }
    if (!acp->continuing)
        str_copy(acp->conversation, sizeof(acp->conversation), id);
    else
        acp_events_continued(acp->events);
    set_mode(acp);
}

/* Not all agents have it, and the run is no worse off with what they have. */
static void on_set(struct acp *acp, const struct acp_message *message, const char *what)
{
    struct opencode_failure failure;

    if (message->kind != ACP_ERROR)
        return;
    acp_failure_read(&failure, message->body);
    acp_log(acp, "the agent keeps its own %s: %s", what, failure.message);
}

void acp_open_answer(struct acp *acp, const struct acp_message *message)
{
    if (acp->phase == ACP_INITIALIZING && message->number == ACP_CALL_INITIALIZE) {
        on_initialized(acp, message);
    } else if (acp->phase == ACP_OPENING && message->number == ACP_CALL_OPEN) {
        on_opened(acp, message);
    } else if (acp->phase == ACP_TUNING && message->number == ACP_CALL_MODE) {
        on_set(acp, message, "mode");
        if (!acp->closing)
            set_model(acp);
    } else if (acp->phase == ACP_TUNING && message->number == ACP_CALL_MODEL) {
        on_set(acp, message, "model");
        if (!acp->closing)
            finish(acp);
    }
}

static void on_start_timeout(uv_timer_t *timer)
{
    struct acp *acp = timer->data;
    AUTO_BUF struct buf lines = BUF_INIT(ACP_LAST_LINES * (ACP_LINE_SHOWN + 16));
    struct error err = ERROR_INIT;

    acp_last_lines(acp, &lines);
    error_set(&err, ERR_TIMEOUT, 0, "%s did not get ready within %llu seconds: %s",
              acp->profile->name, (unsigned long long)(acp->timing.start_ms / 1000),
              buf_text(&lines));
    acp_start_failed(acp, "agent_not_ready", &err);
}

void acp_open_begin(struct acp *acp)
{
    uv_timer_start(&acp->timer, on_start_timeout, acp->timing.start_ms, 0);
    send_initialize(acp);
}
