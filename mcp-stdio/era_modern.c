#include "mcp-stdio/era.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/complete.h"
#include "mcp-stdio/prompts.h"
#include "mcp-stdio/resources.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/subscriptions.h"
#include "mcp-stdio/tasks.h"
#include "mcp-stdio/tools.h"

#define UNSUPPORTED_PROTOCOL_VERSION (-32022)
#define TTL_MS 300000 /* how long clients may keep what is the same for everyone */

const char era_instructions[] =
    "These tools hand long coding tasks to an OpenCode agent that works in a sandbox. "
    "The agent sees the task and the repository, nothing of this conversation: say all that it "
    "needs. opencode_run_task starts a run and returns at once: keep its runId. Then call "
    "opencode_get_result with that runId and waitSeconds 45, again and again until the status is "
    "completed, failed, cancelled or interrupted; don't poll without waitSeconds. When the status "
    "is waiting the agent asks something: answer with opencode_answer, and ask the user when it is "
    "not yours to decide. Runs take "
    "minutes to hours and go on when this conversation ends: opencode_list_runs finds them again. "
    "Look at what was really done with opencode_get_diff, and at how with opencode_get_log. For a "
    "follow-up in the same workspace call opencode_run_task with the sessionId; "
    "opencode_send_message corrects an agent at work. Long answers are cut, with a mark that says "
    "how to get the rest.";

void era_write_empty(struct json_writer *writer, const char *name)
{
    json_write_name(writer, name);
    json_write_object(writer);
    json_write_object_end(writer);
}

void era_write_families(struct json_writer *writer)
{
    era_write_empty(writer, "tools");
    json_write_name(writer, "resources");
    json_write_object(writer);
    json_member_bool(writer, "subscribe", true);
    json_write_object_end(writer);
    era_write_empty(writer, "prompts");
}

void era_write_server_info(struct json_writer *writer, const char *name)
{
    json_write_name(writer, name);
    json_write_object(writer);
    json_member_string(writer, "name", "sandbox-mcp");
    json_member_string(writer, "title", "Sandboxed coding agent");
    json_member_string(writer, "version", SANDBOX_VERSION);
    json_write_object_end(writer);
}

static bool has_form(const struct json_value *elicitation)
{
    return json_kind(elicitation) == JSON_KIND_OBJECT &&
           (json_count(elicitation) == 0 || json_get(elicitation, "form"));
}

unsigned era_capabilities(const struct json_value *capabilities)
{
    const struct json_value *extensions = json_get(capabilities, "extensions");
    unsigned found = 0;

    if (has_form(json_get(capabilities, "elicitation")))
        found |= CLIENT_ELICITS;
    if (json_kind(json_get(extensions, ERA_META "tasks")) == JSON_KIND_OBJECT)
        found |= CLIENT_TASKS;
    return found;
}

/* What a request says about itself ------------------------------------------------------------- */

static const struct json_value *meta_of(const struct jsonrpc_message *message)
{
    return json_get(message->params, "_meta");
}

bool era_modern_claims(const struct jsonrpc_message *message)
{
    return json_get(meta_of(message), ERA_META "protocolVersion") != NULL;
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

    if (strcmp(version, ERA_MODERN_REVISION) == 0)
        return 0;
    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_write_name(&writer, "supported");
    json_write_array(&writer);
    json_write_string(&writer, ERA_MODERN_REVISION);
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

int era_modern_check(struct server *server, struct request *request)
{
    const struct json_value *meta = meta_of(request->message);
    const char *version = json_string(json_get(meta, ERA_META "protocolVersion"));

    if (!version)
        return refuse(server, request, "_meta[\"" ERA_META "protocolVersion\"] must be a string");
    if (check_version(server, request, version) < 0)
        return -1;
    if (json_kind(json_get(meta, ERA_META "clientCapabilities")) != JSON_KIND_OBJECT)
        return refuse(server, request,
                      "_meta[\"" ERA_META "clientCapabilities\"] must be an object");
    if (!is_client_info(json_get(meta, ERA_META "clientInfo")))
        return refuse(server, request,
                      "_meta[\"" ERA_META "clientInfo\"] must have the strings name and version");
    if (!is_log_level(json_get(meta, ERA_META "logLevel")))
        return refuse(server, request, "_meta[\"" ERA_META "logLevel\"] is not a level");
    request->target.capabilities = era_capabilities(json_get(meta, ERA_META "clientCapabilities"));
    return 0;
}

/* Methods -------------------------------------------------------------------------------------- */

static void write_cache(struct json_writer *writer, enum cache_scope scope)
{
    json_member_u64(writer, "ttlMs", scope == CACHE_EVERYONE ? TTL_MS : 0);
    json_member_string(writer, "cacheScope", scope == CACHE_EVERYONE ? "public" : "private");
}

static void write_capabilities(struct json_writer *writer)
{
    json_write_name(writer, "capabilities");
    json_write_object(writer);
    era_write_families(writer);
    era_write_empty(writer, "completions");
    json_write_name(writer, "extensions");
    json_write_object(writer);
    era_write_empty(writer, ERA_META "tasks");
    json_write_object_end(writer);
    json_write_object_end(writer);
}

static void on_discover(struct server *server, const struct request *request)
{
    struct server_answer answer;

    server_answer_begin(&answer, server, &request->target);
    json_write_name(&answer.writer, "supportedVersions");
    json_write_array(&answer.writer);
    json_write_string(&answer.writer, ERA_MODERN_REVISION);
    json_write_array_end(&answer.writer);
    write_capabilities(&answer.writer);
    json_member_string(&answer.writer, "instructions", era_instructions);
    write_cache(&answer.writer, CACHE_EVERYONE);
    server_answer_end(&answer);
}

static const struct era_method methods[] = {
    { "server/discover", on_discover },
    { "tools/list", tools_on_list },
    { "tools/call", tools_on_call },
    { "resources/list", resources_on_list },
    { "resources/templates/list", resources_on_templates },
    { "resources/read", resources_on_read },
    { "prompts/list", prompts_on_list },
    { "prompts/get", prompts_on_get },
    { "completion/complete", complete_on_request },
    { "subscriptions/listen", subscriptions_on_listen },
    { "tasks/get", tasks_on_get },
    { "tasks/update", tasks_on_update },
    { "tasks/cancel", tasks_on_cancel },
    { NULL, NULL },
};

static void write_first(struct json_writer *writer, const char *type)
{
    json_member_string(writer, "resultType", type);
}

static void write_last(struct json_writer *writer)
{
    json_write_name(writer, "_meta");
    json_write_object(writer);
    era_write_server_info(writer, ERA_META "serverInfo");
    json_write_object_end(writer);
}

const struct era era_modern = {
    "modern", methods, JSONRPC_INVALID_PARAMS, write_first, write_last, write_cache,
};
