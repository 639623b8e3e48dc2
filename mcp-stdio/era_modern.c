#include "mcp-stdio/era.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/call.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/tools.h"

#define REVISION "2026-07-28"
#define META "io.modelcontextprotocol/"
#define UNSUPPORTED_PROTOCOL_VERSION (-32022)
#define TTL_MS 300000 /* how long clients may keep what is the same for everyone */

const char era_instructions[] =
    "These tools hand long coding tasks to an OpenCode agent that works in a sandbox. "
    "opencode_run_task starts a run and returns at once: keep its runId. Then call "
    "opencode_get_result with that runId and waitSeconds 45, again and again until the status is "
    "completed, failed, cancelled or interrupted; don't poll without waitSeconds. Runs take "
    "minutes to hours and go on when this conversation ends: opencode_list_runs finds them again. "
    "Look at what was really done with opencode_get_diff, and at how with opencode_get_log. For a "
    "follow-up in the same workspace call opencode_run_task with the sessionId.";

void era_write_server_info(struct json_writer *writer, const char *name)
{
    json_write_name(writer, name);
    json_write_object(writer);
    json_member_string(writer, "name", "sandbox-mcp");
    json_member_string(writer, "title", "Sandboxed coding agent");
    json_member_string(writer, "version", SANDBOX_VERSION);
    json_write_object_end(writer);
}

/* What a request says about itself ------------------------------------------------------------- */

static const struct json_value *meta_of(const struct jsonrpc_message *message)
{
    return json_get(message->params, "_meta");
}

bool era_modern_claims(const struct jsonrpc_message *message)
{
    return json_get(meta_of(message), META "protocolVersion") != NULL;
}

static int refuse(struct server *server, const struct request *request, const char *message)
{
    server_refuse(server, &request->target, JSONRPC_INVALID_PARAMS, message, NULL);
    return -1;
}

static int check_version(struct server *server, const struct request *request, const char *version)
{
    AUTO_BUF struct buf data = BUF_INIT(JSONRPC_LINE_MAX);
    struct json_writer writer;

    if (strcmp(version, REVISION) == 0)
        return 0;
    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_write_name(&writer, "supported");
    json_write_array(&writer);
    json_write_string(&writer, REVISION);
    json_write_array_end(&writer);
    json_member_string(&writer, "requested", version);
    json_write_object_end(&writer);
    server_refuse(server, &request->target, UNSUPPORTED_PROTOCOL_VERSION,
                  "Unsupported protocol version", data.failed ? NULL : buf_text(&data));
    return -1;
}

/* Optional, but what is there must be right. */
static bool is_client_info(const struct json_value *info)
{
    return !info || (json_string(json_get(info, "name")) && json_string(json_get(info, "version")));
}

static bool is_log_level(const struct json_value *level)
{
    static const char *const levels[] = { "debug", "info",     "notice", "warning",
                                          "error", "critical", "alert",  "emergency" };

    if (!level)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (str_equal(json_string(level), levels[i]))
            return true;
    return false;
}

int era_modern_check(struct server *server, const struct request *request)
{
    const struct json_value *meta = meta_of(request->message);
    const char *version = json_string(json_get(meta, META "protocolVersion"));

    if (!version)
        return refuse(server, request, "_meta[\"" META "protocolVersion\"] must be a string");
    if (check_version(server, request, version) < 0)
        return -1;
    if (json_kind(json_get(meta, META "clientCapabilities")) != JSON_KIND_OBJECT)
        return refuse(server, request, "_meta[\"" META "clientCapabilities\"] must be an object");
    if (!is_client_info(json_get(meta, META "clientInfo")))
        return refuse(server, request,
                      "_meta[\"" META "clientInfo\"] must have the strings name and version");
    if (!is_log_level(json_get(meta, META "logLevel")))
        return refuse(server, request, "_meta[\"" META "logLevel\"] is not a level");
    return 0;
}

/* Methods -------------------------------------------------------------------------------------- */

static void write_cacheable(struct json_writer *writer)
{
    json_member_u64(writer, "ttlMs", TTL_MS);
    json_member_string(writer, "cacheScope", "public");
}

static void on_discover(struct server *server, const struct request *request)
{
    struct server_answer answer;

    server_answer_begin(&answer, server, &request->target);
    json_write_name(&answer.writer, "supportedVersions");
    json_write_array(&answer.writer);
    json_write_string(&answer.writer, REVISION);
    json_write_array_end(&answer.writer);
    json_write_name(&answer.writer, "capabilities");
    json_write_object(&answer.writer);
    json_write_name(&answer.writer, "tools");
    json_write_object(&answer.writer);
    json_write_object_end(&answer.writer);
    json_write_object_end(&answer.writer);
    json_member_string(&answer.writer, "instructions", era_instructions);
    write_cacheable(&answer.writer);
    server_answer_end(&answer);
}

/* Nothing that could be subscribed to exists yet, so the set that is honoured is empty; but it is
 * acknowledged, since clients open a subscription right after discovery and wait for that. */
static void on_listen(struct server *server, const struct request *request)
{
    struct json_writer writer;

    if (json_kind(json_get(request->message->params, "notifications")) != JSON_KIND_OBJECT) {
        refuse(server, request, "params.notifications must be an object");
        return;
    }
    if (calls_keep_open(server_calls(server), &request->target) < 0) {
        server_refuse(server, &request->target, JSONRPC_INTERNAL_ERROR,
                      "too many subscriptions are open", NULL);
        return;
    }
    server_notify_begin(server, &writer, "notifications/subscriptions/acknowledged");
    json_write_name(&writer, "_meta");
    json_write_object(&writer);
    json_write_name(&writer, META "subscriptionId");
    json_write_raw(&writer, request->target.id.data, request->target.id.len);
    json_write_object_end(&writer);
    json_write_name(&writer, "notifications");
    json_write_object(&writer);
    json_write_object_end(&writer);
    server_notify_end(server, &writer);
}

static const struct era_method methods[] = {
    { "server/discover", on_discover },
    { "tools/list", tools_on_list },
    { "tools/call", tools_on_call },
    { "subscriptions/listen", on_listen },
    { NULL, NULL },
};

static void write_first(struct json_writer *writer)
{
    json_member_string(writer, "resultType", "complete");
}

static void write_last(struct json_writer *writer)
{
    json_write_name(writer, "_meta");
    json_write_object(writer);
    era_write_server_info(writer, META "serverInfo");
    json_write_object_end(writer);
}

const struct era era_modern = { "modern", methods, write_first, write_last, write_cacheable };
