#include "proto/msg_system.h"

#include "common/json_write.h"
#include "proto/msg_run.h"

#define TEXT_MAX 200

const char *const hello_roles[] = { "mcp", "ctl", "test", NULL };

const struct json_field hello_params_fields[] = {
    JSON_U32_FIELD(struct hello_params, protocol, JSON_REQUIRED, 1, UINT32_MAX,
                   "Version of the socket protocol that the client speaks."),
    JSON_ENUM_FIELD(struct hello_params, role, JSON_REQUIRED, hello_roles, "What the client is."),
    JSON_STRING_FIELD(struct hello_params, version, JSON_OPTIONAL, 1, TEXT_MAX,
                      "Version of the client's program."),
    JSON_FIELD_LAST,
};

const struct json_field hello_result_fields[] = {
    JSON_U32_FIELD(struct hello_result, protocol, JSON_REQUIRED, 1, UINT32_MAX,
                   "Version of the socket protocol that the daemon speaks."),
    JSON_U64_FIELD(struct hello_result, pid, JSON_REQUIRED, 1, UINT64_C(1) << 53,
                   "Process id of the daemon."),
    JSON_STRING_FIELD(struct hello_result, version, JSON_REQUIRED, 1, TEXT_MAX,
                      "Version of the daemon's program."),
    JSON_FIELD_LAST,
};

void hello_result_write(struct json_writer *writer, const struct hello_result *result)
{
    json_write_object(writer);
    json_member_u64(writer, "protocol", result->protocol);
    json_member_u64(writer, "pid", result->pid);
    json_member_string(writer, "version", result->version);
    json_write_object_end(writer);
}

void system_status_write(struct json_writer *writer, const struct system_status *status)
{
    json_write_object(writer);
    json_member_string(writer, "version", status->version);
    json_member_u64(writer, "pid", status->pid);
    json_member_u64(writer, "startedAt", status->startedAt);
    json_member_u64(writer, "uptimeSeconds", status->uptimeSeconds);
    json_member_string(writer, "socket", status->socket);
    json_member_string(writer, "state", status->state);
    json_member_string_opt(writer, "sandboxTool", status->sandboxTool);
    json_member_string(writer, "webUrl", status->webUrl);
    json_write_name(writer, "runs");
    json_write_object(writer);
    for (int i = 0; i < RUN_STATUS_COUNT; i++)
        json_member_u64(writer, run_status_names[i],
                        status->runs_by_status ? status->runs_by_status[i] : 0);
    json_write_object_end(writer);
    json_member_u64(writer, "sessions", status->sessions);
    json_member_u64(writer, "connections", status->connections);
    json_write_object_end(writer);
}

void system_agent_view_write(struct json_writer *writer, const struct system_agent_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "name", view->name);
    json_member_bool(writer, "default", view->isDefault);
    json_member_bool(writer, "found", view->problem == NULL);
    json_member_string_opt(writer, "program", view->program);
    json_member_string_opt(writer, "problem", view->problem);
    json_member_string_opt(writer, "install", view->install);
    json_write_object_end(writer);
}
