#include "mcp-stdio/era.h"

#include <string.h>

#include "common/mem.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/tools.h"

static const char *const revisions[] = { "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05" };

/* Whoever asks for something else, also for a modern revision, gets the newest legacy one. */
static const char *negotiate(const char *wanted)
{
    for (size_t i = 0; i < ARRAY_LEN(revisions); i++)
        if (strcmp(wanted, revisions[i]) == 0)
            return revisions[i];
    return revisions[0];
}

static void on_initialize(struct server *server, const struct request *request)
{
    const char *wanted = json_string(json_get(request->message->params, "protocolVersion"));
    struct server_answer answer;
    const char *revision;

    if (!wanted) {
        server_refuse(server, &request->target, JSONRPC_INVALID_PARAMS,
                      "params.protocolVersion must be a string", NULL);
        return;
    }
    revision = negotiate(wanted);
    server_set_revision(server, revision);
    server_answer_begin(&answer, server, &request->target);
    json_member_string(&answer.writer, "protocolVersion", revision);
    json_write_name(&answer.writer, "capabilities");
    json_write_object(&answer.writer);
    json_write_name(&answer.writer, "tools");
    json_write_object(&answer.writer);
    json_write_object_end(&answer.writer);
    json_write_object_end(&answer.writer);
    era_write_server_info(&answer.writer, "serverInfo");
    json_member_string(&answer.writer, "instructions", era_instructions);
    server_answer_end(&answer);
}

static void on_ping(struct server *server, const struct request *request)
{
    struct server_answer answer;

    server_answer_begin(&answer, server, &request->target);
    server_answer_end(&answer);
}

static const struct era_method methods[] = {
    { "initialize", on_initialize }, { "ping", on_ping }, { "tools/list", tools_on_list },
    { "tools/call", tools_on_call }, { NULL, NULL },
};

static void write_nothing(struct json_writer *writer)
{
    (void)writer;
}

const struct era era_legacy = { "legacy", methods, write_nothing, write_nothing, write_nothing };
