#include "proto/msg_service.h"

#define SAFE_INTEGER (UINT64_C(1) << 53)

const struct json_field secret_name_fields[] = {
    JSON_STRING_FIELD(
        struct secret_name_params, name, JSON_REQUIRED, 1, 64,
        "Name of the secret, spelled like an environment variable: ANTHROPIC_API_KEY."),
    JSON_FIELD_LAST,
};

const struct json_field service_check_fields[] = {
    JSON_STRING_FIELD(struct service_check_params, name, JSON_REQUIRED, 1, 64,
                      "Name of the service, as service.list gives it."),
    JSON_FIELD_LAST,
};

const struct json_field audit_list_fields[] = {
    JSON_STRING_FIELD(struct audit_list_params, runId, JSON_OPTIONAL, 1, 64,
                      "Only decisions about this run."),
    JSON_U32_FIELD(struct audit_list_params, limit, JSON_OPTIONAL, 1, 1000,
                   "How many records to return; 100 if left out."),
    JSON_U64_FIELD(struct audit_list_params, before, JSON_OPTIONAL, 0, SAFE_INTEGER,
                   "Only records with a smaller number: the cursor of the last answer."),
    JSON_BOOL_FIELD(struct audit_list_params, follow, JSON_OPTIONAL,
                    "Send the records behind after, oldest first, and go on with what comes."),
    JSON_U64_FIELD(struct audit_list_params, after, JSON_OPTIONAL, 0, SAFE_INTEGER,
                   "Only records with a greater number, for follow."),
    JSON_FIELD_LAST,
};

void secret_view_write(struct json_writer *writer, const struct secret_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "name", view->name);
    json_member_string(writer, "source", view->source);
    json_member_u64_opt(writer, "updatedAt", view->updatedAt);
    json_write_object_end(writer);
}

void service_view_write(struct json_writer *writer, const struct service_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "name", view->name);
    json_member_string(writer, "target", view->target);
    json_member_string(writer, "secret", view->secret);
    json_member_bool(writer, "secretPresent", view->secretPresent);
    json_write_object_end(writer);
}

void notice_trial_view_write(struct json_writer *writer, const struct notice_trial_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "way", view->way);
    json_member_string(writer, "outcome", view->outcome);
    json_member_string_opt(writer, "why", view->why);
    json_member_string_opt(writer, "next", view->next);
    json_write_object_end(writer);
}

void audit_view_write(struct json_writer *writer, const struct audit_view *view)
{
    json_write_object(writer);
    json_member_u64(writer, "number", view->number);
    json_member_u64(writer, "time", view->time);
    json_member_string_opt(writer, "runId", view->runId);
    json_member_string_opt(writer, "service", view->service);
    json_member_string_opt(writer, "method", view->method);
    json_member_string_opt(writer, "host", view->host);
    json_member_string_opt(writer, "path", view->path);
    json_member_string_opt(writer, "detail", view->detail);
    json_member_string(writer, "verdict", view->verdict);
    json_member_string_opt(writer, "reason", view->reason);
    json_member_u64_opt(writer, "status", view->status);
    json_member_u64(writer, "requestBytes", view->requestBytes);
    json_member_u64(writer, "responseBytes", view->responseBytes);
    json_member_u64(writer, "milliseconds", view->milliseconds);
    json_member_u64_opt(writer, "inputTokens", view->inputTokens);
    json_member_u64_opt(writer, "outputTokens", view->outputTokens);
    if (view->costUsd > 0)
        json_member_double(writer, "costUsd", view->costUsd);
    json_write_object_end(writer);
}

void service_check_view_write(struct json_writer *writer, const struct service_check_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "name", view->name);
    json_member_string(writer, "target", view->target);
    json_member_string(writer, "secret", view->secret);
    json_member_string(writer, "outcome", view->outcome);
    json_member_u64(writer, "status", view->status);
    json_member_string(writer, "reason", view->reason);
    json_write_object_end(writer);
}
