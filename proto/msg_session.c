#include "proto/msg_session.h"

#define ID_TEXT_MAX 64

const struct json_field session_list_fields[] = {
    JSON_U32_FIELD(struct session_list_params, limit, JSON_OPTIONAL, 1, 100,
                   "How many sessions to return; 10 if left out."),
    JSON_STRING_FIELD(struct session_list_params, before, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The cursor of the last answer, for the sessions before those."),
    JSON_FIELD_LAST,
};

const struct json_field session_delete_fields[] = {
    JSON_STRING_FIELD(struct session_delete_params, sessionId, JSON_REQUIRED, 1, ID_TEXT_MAX,
                      "The session to delete with its workspace."),
    JSON_FIELD_LAST,
};

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

void session_view_write(struct json_writer *writer, const struct session_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "sessionId", view->sessionId);
    json_member_string_opt(writer, "title", view->title);
    json_member_string_opt(writer, "repository", view->repository);
    json_member_string_opt(writer, "branch", view->branch);
    json_member_u64(writer, "createdAt", view->createdAt);
    json_member_u64(writer, "updatedAt", view->updatedAt);
    json_member_u64(writer, "runs", view->runs);
    json_member_string_opt(writer, "lastRunId", view->lastRunId);
    write_places(writer, view);
    json_write_object_end(writer);
}
