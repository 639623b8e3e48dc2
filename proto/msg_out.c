#include "proto/msg_out.h"

#include "common/mem.h"

#define ID_TEXT_MAX 64

const struct json_field pull_create_fields[] = {
    JSON_STRING_FIELD(struct pull_create_params, sessionId, JSON_REQUIRED, 1, ID_TEXT_MAX,
                      "The session whose branch is to be published."),
    JSON_STRING_FIELD(struct pull_create_params, title, JSON_OPTIONAL, 1, 200,
                      "Its title; made from the branch if left out."),
    JSON_STRING_FIELD(struct pull_create_params, body, JSON_OPTIONAL, 1, 20000,
                      "What it says, in Markdown, above the list of commits and runs that is added "
                      "in any case."),
    JSON_BOOL_FIELD(struct pull_create_params, draft, JSON_OPTIONAL,
                    "Open it as a draft: true if left out."),
    JSON_STRING_FIELD(struct pull_create_params, base, JSON_OPTIONAL, 1, 200,
                      "The branch it is to be merged into; the repository's default branch if left "
                      "out."),
    JSON_BOOL_FIELD(struct pull_create_params, commit, JSON_OPTIONAL,
                    "Commit first what the agent has changed but not committed; false if left "
                    "out: such files are then named, and not part of it."),
    JSON_FIELD_LAST,
};

const char *const pull_status_names[] = { "working", "pushed",    "opened",
                                          "updated", "unchanged", NULL };
_Static_assert(ARRAY_LEN(pull_status_names) == PULL_STATUS_COUNT + 1, "each has its name");

static void write_lines(struct json_writer *writer, const char *name, const char *lines)
{
    if (lines == NULL || lines[0] == '\0')
        return;
    json_write_name(writer, name);
    json_write_array(writer);
    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n");

        json_write_object(writer);
        json_write_name(writer, "path");
        json_write_bytes(writer, lines, len);
        json_write_object_end(writer);
        lines += len + (lines[len] == '\n');
    }
    json_write_array_end(writer);
}

static void write_problem(struct json_writer *writer, const struct pull_view *view)
{
    if (view->problemCode == NULL || view->problemCode[0] == '\0')
        return;
    json_write_name(writer, "problem");
    json_write_object(writer);
    json_member_string(writer, "code", view->problemCode);
    json_member_string(writer, "message", view->problemMessage);
    json_member_string_opt(writer, "hint", view->problemHint);
    json_member_bool(writer, "retryable", view->problemRetryable);
    json_write_object_end(writer);
}

void pull_view_write(struct json_writer *writer, const struct pull_view *view)
{
    json_write_object(writer);
    json_member_string(writer, "sessionId", view->sessionId);
    json_member_string(writer, "status", pull_status_names[view->status]);
    json_member_string_opt(writer, "message", view->message);
    json_member_string_opt(writer, "phase", view->phase);
    json_member_string_opt(writer, "repository", view->repository);
    json_member_string_opt(writer, "forge", view->forge);
    json_member_string_opt(writer, "branch", view->branch);
    json_member_string_opt(writer, "base", view->base);
    json_member_string_opt(writer, "commit", view->commit);
    json_member_u64_opt(writer, "commits", view->commits);
    json_member_u64_opt(writer, "filesChanged", view->filesChanged);
    json_member_u64_opt(writer, "insertions", view->insertions);
    json_member_u64_opt(writer, "deletions", view->deletions);
    if (view->number != 0) {
        json_member_u64(writer, "number", view->number);
        json_member_string_opt(writer, "url", view->url);
        json_member_string_opt(writer, "title", view->title);
        json_member_bool(writer, "draft", view->draft);
    }
    json_member_u64(writer, "uncommitted", view->uncommitted);
    write_lines(writer, "uncommittedFiles", view->uncommittedFiles);
    json_member_string_opt(writer, "note", view->note);
    write_problem(writer, view);
    json_write_object_end(writer);
}

const char *const files_what_names[] = { "list", "read", "archive", "bundle", "patch", NULL };
_Static_assert(ARRAY_LEN(files_what_names) == FILES_WHAT_COUNT + 1, "each has its name");

const struct json_field files_take_fields[] = {
    JSON_ENUM_FIELD(struct files_take_params, what, JSON_REQUIRED, files_what_names,
                    "What is taken: a list of files, one file, an archive of them, HEAD's commits "
                    "as a git bundle, or all changes as a patch."),
    JSON_STRING_FIELD(struct files_take_params, runId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "A run of the session."),
    JSON_STRING_FIELD(struct files_take_params, sessionId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The session."),
    JSON_STRING_FIELD(struct files_take_params, path, JSON_OPTIONAL, 1, 4096,
                      "Only what is at or below it, relative to the repository's folder."),
    JSON_VALUE_FIELD(struct files_take_params, have, JSON_OPTIONAL,
                     "Names of commits that the taker has already."),
    JSON_U64_FIELD(struct files_take_params, maxBytes, JSON_OPTIONAL, 1, UINT64_C(1) << 43,
                   "Where it is cut."),
    JSON_FIELD_LAST,
};
