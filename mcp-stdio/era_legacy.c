#include "mcp-stdio/era.h"

#include <string.h>

#include "common/mem.h"
#include "mcp-stdio/complete.h"
#include "mcp-stdio/prompts.h"
#include "mcp-stdio/resources.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/subscriptions.h"
#include "mcp-stdio/tasks.h"
#include "mcp-stdio/tools.h"

#define RESOURCE_NOT_FOUND (-32002)

/* Newest first; they sort as text. */
static const char *const revisions[] = { ERA_NEWEST_LEGACY, "2025-06-18", "2025-03-26",
                                         "2024-11-05" };

/* Whoever asks for something else, also for a modern revision, gets the newest legacy one. */
static const char *negotiate(const char *wanted)
{
    for (size_t i = 0; i < ARRAY_LEN(revisions); i++)
        if (strcmp(wanted, revisions[i]) == 0)
            return revisions[i];
    return revisions[0];
}

static void write_task_capability(struct json_writer *writer)
{
    json_write_name(writer, "tasks");
    json_write_object(writer);
    era_write_empty(writer, "list");
    era_write_empty(writer, "cancel");
    json_write_name(writer, "requests");
    json_write_object(writer);
    json_write_name(writer, "tools");
    json_write_object(writer);
    era_write_empty(writer, "call");
    json_write_object_end(writer);
    json_write_object_end(writer);
    json_write_object_end(writer);
}

static void write_capabilities(struct json_writer *writer, const char *revision)
{
    json_write_name(writer, "capabilities");
    json_write_object(writer);
    era_write_families(writer);
    if (strcmp(revision, "2025-03-26") >= 0)
        era_write_empty(writer, "completions");
    if (strcmp(revision, "2025-11-25") >= 0)
        write_task_capability(writer);
    json_write_object_end(writer);
}

static void on_initialize(struct server *server, const struct request *request)
{
    const char *wanted = json_string(request_param(request, "protocolVersion"));
    struct server_answer answer;
    const char *revision;

    if (!wanted) {
        server_refuse_params(server, request, "params.protocolVersion must be a string");
        return;
    }
    revision = negotiate(wanted);
    server_set_client(server, revision, era_capabilities(request_param(request, "capabilities")));
    server_answer_begin(&answer, server, &request->target);
    json_member_string(&answer.writer, "protocolVersion", revision);
    write_capabilities(&answer.writer, revision);
    era_write_server_info(&answer.writer, "serverInfo");
    json_member_string(&answer.writer, "instructions", era_instructions);
    server_answer_end(&answer);
}

static void on_ping(struct server *server, const struct request *request)
{
    server_acknowledge(server, &request->target);
}

static const struct era_method methods[] = {
    { "initialize", on_initialize },
    { "ping", on_ping },
    { "tools/list", tools_on_list },
    { "tools/call", tools_on_call },
    { "resources/list", resources_on_list },
    { "resources/templates/list", resources_on_templates },
    { "resources/read", resources_on_read },
    { "resources/subscribe", subscriptions_on_subscribe },
    { "resources/unsubscribe", subscriptions_on_unsubscribe },
    { "prompts/list", prompts_on_list },
    { "prompts/get", prompts_on_get },
    { "completion/complete", complete_on_request },
    { "tasks/get", tasks_on_get },
    { "tasks/result", tasks_on_result },
    { "tasks/list", tasks_on_list },
    { "tasks/cancel", tasks_on_cancel },
    { NULL, NULL },
};

static void write_first(struct json_writer *writer, const char *type)
{
    (void)writer;
    (void)type;
}

static void write_last(struct json_writer *writer)
{
    (void)writer;
}

static void write_cache(struct json_writer *writer, enum cache_scope scope)
{
    (void)writer;
    (void)scope;
}

const struct era era_legacy = {
    "legacy", methods, RESOURCE_NOT_FOUND, write_first, write_last, write_cache,
};
