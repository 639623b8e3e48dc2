#include "proto/msg_session.h"

#define ID_TEXT_MAX 64

const struct json_field session_list_fields[] = {
    JSON_U32_FIELD(struct session_list_params, limit, JSON_OPTIONAL, 1, 100,
                   "How many sessions to return; 10 if left out."),
    JSON_STRING_FIELD(struct session_list_params, before, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The cursor of the last answer, for the sessions before those."),
    JSON_FIELD_LAST,
};

#define SESSION_FIELD(type)                                                                        \
    JSON_STRING_FIELD(type, sessionId, JSON_REQUIRED, 1, ID_TEXT_MAX, "The session.")
#define CHECKPOINT_MAX 1000000000

const struct json_field session_fields[] = {
    SESSION_FIELD(struct session_params),
    JSON_FIELD_LAST,
};

const struct json_field session_rename_fields[] = {
    SESSION_FIELD(struct session_rename_params),
    JSON_STRING_FIELD(struct session_rename_params, title, JSON_REQUIRED, 1, 200, "Its new title."),
    JSON_FIELD_LAST,
};

const struct json_field session_hold_fields[] = {
    SESSION_FIELD(struct session_hold_params),
    JSON_BOOL_FIELD(struct session_hold_params, hold, JSON_OPTIONAL,
                    "false releases it; true if left out."),
    JSON_FIELD_LAST,
};

const struct json_field session_restore_fields[] = {
    SESSION_FIELD(struct session_restore_params),
    JSON_U32_FIELD(struct session_restore_params, checkpoint, JSON_REQUIRED, 1, CHECKPOINT_MAX,
                   "The checkpoint's number."),
    JSON_FIELD_LAST,
};

const struct json_field session_fork_fields[] = {
    SESSION_FIELD(struct session_fork_params),
    JSON_U32_FIELD(struct session_fork_params, checkpoint, JSON_OPTIONAL, 1, CHECKPOINT_MAX,
                   "The checkpoint's number; as the session is now if left out."),
    JSON_STRING_FIELD(struct session_fork_params, title, JSON_OPTIONAL, 1, 200,
                      "Title of the new session; the other's if left out."),
    JSON_FIELD_LAST,
};

const char *const checkpoint_reason_names[] = { "start",         "turn",  "interval",
                                                "beforeRestore", "asked", NULL };

void checkpoint_view_write(struct json_writer *writer, const struct checkpoint_view *view)
{
    json_write_object(writer);
    json_member_u64(writer, "checkpoint", view->checkpoint);
    json_member_string(writer, "reason", view->reason);
    json_member_u64(writer, "time", view->time);
    json_member_string_opt(writer, "runId", view->runId);
    json_member_u64(writer, "bytes", view->bytes);
    json_member_u64(writer, "files", view->files);
    json_member_u64_opt(writer, "leftOut", view->leftOut);
    json_write_object_end(writer);
}

static void write_places(struct json_writer *writer, const struct session_view *view)
{
    json_write_name(writer, "repositories");
    json_write_array(writer);
    for (size_t i = 0; i < view->place_count; i++) {
        const struct session_place_view *place = &view->places[i];

        if (place->repository[0] == '\0')
            continue;
        json_write_object(writer);
        json_member_string(writer, "repository", place->repository);
        json_member_string_opt(writer, "branch", place->branch);
        json_member_string(writer, "directory", place->directory);
        json_write_object_end(writer);
    }
    json_write_array_end(writer);
}

static void write_pull(struct json_writer *writer, const struct session_view *view)
{
    if (view->pullUrl == NULL || view->pullUrl[0] == '\0')
        return;
    json_write_name(writer, "pullRequest");
    json_write_object(writer);
    json_member_u64(writer, "number", view->pullNumber);
    json_member_string(writer, "url", view->pullUrl);
    json_member_string(writer, "branch", view->pullBranch);
    json_member_string(writer, "base", view->pullBase);
    json_write_object_end(writer);
}

void session_view_write(struct json_writer *writer, const struct session_view *view)
{
    json_write_object(writer);
    session_view_members(writer, view);
    json_write_object_end(writer);
}

void session_view_members(struct json_writer *writer, const struct session_view *view)
{
    json_member_string(writer, "sessionId", view->sessionId);
    json_member_string_opt(writer, "title", view->title);
    json_member_string_opt(writer, "repository", view->repository);
    json_member_string_opt(writer, "branch", view->branch);
    json_member_u64(writer, "createdAt", view->createdAt);
    json_member_u64(writer, "updatedAt", view->updatedAt);
    json_member_u64(writer, "runs", view->runs);
    json_member_string_opt(writer, "lastRunId", view->lastRunId);
    json_member_string_opt(writer, "state", view->state);
    json_member_bool(writer, "held", view->held);
    json_member_string_opt(writer, "forkedFrom", view->forkedFrom);
    json_member_u64_opt(writer, "forkedCheckpoint", view->forkedCheckpoint);
    json_member_u64_opt(writer, "fileBytes", view->fileBytes);
    json_member_u64_opt(writer, "checkpointBytes", view->checkpointBytes);
    write_places(writer, view);
    write_pull(writer, view);
}

#define BACKUP_FIELDS                                                                              \
    JSON_STRING_FIELD(struct backup_params, file, JSON_OPTIONAL, 1, 4096,                          \
                      "Absolute path of the file."),                                               \
        JSON_STRING_FIELD(struct backup_params, key, JSON_OPTIONAL, 1, 200,                        \
                          "Name of the object in the configured storage."),                        \
        JSON_STRING_FIELD(struct backup_params, passphrase, JSON_OPTIONAL, 1, 64,                  \
                          "Name of the stored secret that seals the backup.")

const struct json_field backup_create_fields[] = {
    SESSION_FIELD(struct backup_params),
    BACKUP_FIELDS,
    JSON_FIELD_LAST,
};

const struct json_field backup_restore_fields[] = {
    BACKUP_FIELDS,
    JSON_FIELD_LAST,
};

const struct json_field retention_fields[] = {
    JSON_BOOL_FIELD(struct retention_params, dryRun, JSON_OPTIONAL,
                    "true only says which sessions would go; false if left out."),
    JSON_FIELD_LAST,
};

void retained_view_write(struct json_writer *writer, const struct retained_view *view)
{
    json_write_object(writer);
    json_member_string_opt(writer, "sessionId", view->sessionId);
    json_member_string_opt(writer, "repository", view->repository);
    json_member_string_opt(writer, "title", view->title);
    json_member_u64(writer, "updatedAt", view->updatedAt);
    json_member_u64(writer, "bytes", view->bytes);
    json_member_string(writer, "reason", view->reason);
    json_member_bool(writer, "removed", view->removed);
    json_write_object_end(writer);
}
