#include "proto/msg_run.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define ID_TEXT_MAX 64
#define LIST_TASK_MAX 200 /* code points */
#define SAFE_INTEGER (UINT64_C(1) << 53)

const char *const run_status_names[] = {
    [RUN_STATUS_QUEUED] = "queued",
    [RUN_STATUS_STARTED] = "started",
    [RUN_STATUS_RUNNING] = "running",
    [RUN_STATUS_WAITING] = "waiting",
    [RUN_STATUS_COMPLETED] = "completed",
    [RUN_STATUS_FAILED] = "failed",
    [RUN_STATUS_CANCELLED] = "cancelled",
    [RUN_STATUS_INTERRUPTED] = "interrupted",
    [RUN_STATUS_COUNT] = NULL,
};

bool run_status_ended(enum run_status status)
{
    switch (status) {
    case RUN_STATUS_COMPLETED:
    case RUN_STATUS_FAILED:
    case RUN_STATUS_CANCELLED:
    case RUN_STATUS_INTERRUPTED:
        return true;
    case RUN_STATUS_QUEUED:
    case RUN_STATUS_STARTED:
    case RUN_STATUS_RUNNING:
    case RUN_STATUS_WAITING:
    case RUN_STATUS_COUNT:
        break;
    }
    return false;
}

/* Parameters ----------------------------------------------------------------------------------- */

/* The help texts are read by models: they become the descriptions in the tools' input schemas. */

#define RUN_ID_HELP "Id of the run, as returned by opencode_run_task or opencode_list_runs (run_…)."

const struct json_field run_create_fields[] = {
    JSON_STRING_FIELD(
        struct run_create_params, task, JSON_REQUIRED, 1, RUN_TASK_MAX,
        "What the coding agent is to do, in full: it sees this text and the repository, nothing of "
        "your conversation. Say how it can check its work, and whether it should commit."),
    JSON_STRING_FIELD(
        struct run_create_params, repository, JSON_OPTIONAL, 1, 2048,
        "Repository to clone: an https:// git URL, or the absolute path of a local repository that "
        "the user has allowed. Leave out to work in an empty folder or, with sessionId, in the "
        "repository where that session's last run worked; another one is cloned beside it."),
    JSON_STRING_FIELD(struct run_create_params, branch, JSON_OPTIONAL, 1, 255,
                      "Where to start from: a branch, a tag, a ref such as refs/pull/7/head, or a "
                      "commit's id; the repository's default branch if left out. The work is done "
                      "on a new branch."),
    JSON_STRING_FIELD(struct run_create_params, sessionId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "Continue in this session (ses_…): same workspace, same conversation with "
                      "the agent. Leave out to begin a new one."),
    JSON_STRING_FIELD(struct run_create_params, model, JSON_OPTIONAL, 1, 200,
                      "Model for the agent as provider/model, for example "
                      "anthropic/claude-sonnet-4-5; the configured default if left out."),
    JSON_STRING_FIELD(struct run_create_params, title, JSON_OPTIONAL, 1, 200,
                      "Short title for lists; made from the task if left out."),
    JSON_STRING_FIELD(
        struct run_create_params, agent, JSON_OPTIONAL, 1, 64,
        "Which coding agent to use; the configured default (opencode) if left out. There are "
        "opencode, claude-code, codex, gemini, opencode-acp and shell (runs the task "
        "as a command), and those that were configured beside them."),
    JSON_U32_FIELD(struct run_create_params, timeoutMinutes, JSON_OPTIONAL, 1, 10080,
                   "The run is stopped after so many minutes, with its work kept; the configured "
                   "default if left out."),
    JSON_STRING_FIELD(struct run_create_params, idempotencyKey, JSON_OPTIONAL, 1, 200,
                      "Any text that identifies this request: a second call with the same key "
                      "returns the same run instead of starting another."),
    JSON_FIELD_LAST,
};

const struct json_field run_get_fields[] = {
    JSON_STRING_FIELD(struct run_get_params, runId, JSON_REQUIRED, 1, ID_TEXT_MAX, RUN_ID_HELP),
    JSON_U32_FIELD(struct run_get_params, waitSeconds, JSON_OPTIONAL, 0, 45,
                   "Wait up to so many seconds for the run to end or to ask something, then answer "
                   "with how it stands. 0 or left out: answer at once."),
    JSON_FIELD_LAST,
};

const struct json_field run_list_fields[] = {
    JSON_STRING_FIELD(struct run_list_params, sessionId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "Only runs of this session (ses_…)."),
    JSON_ENUM_FIELD(struct run_list_params, status, JSON_OPTIONAL, run_status_names,
                    "Only runs with this status."),
    JSON_U32_FIELD(struct run_list_params, limit, JSON_OPTIONAL, 1, 100,
                   "How many runs to return; 10 if left out."),
    JSON_STRING_FIELD(struct run_list_params, before, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "Only runs before this: the cursor of the last answer (run_…), or a time in "
                      "unix milliseconds."),
    JSON_FIELD_LAST,
};

const struct json_field run_id_fields[] = {
    JSON_STRING_FIELD(struct run_id_params, runId, JSON_REQUIRED, 1, ID_TEXT_MAX, RUN_ID_HELP),
    JSON_FIELD_LAST,
};

const struct json_field run_events_fields[] = {
    JSON_STRING_FIELD(struct run_events_params, runId, JSON_REQUIRED, 1, ID_TEXT_MAX, RUN_ID_HELP),
    JSON_U64_FIELD(struct run_events_params, after, JSON_OPTIONAL, 0, SAFE_INTEGER,
                   "Only events with a greater number: the cursor of an earlier answer. 0 or left "
                   "out: from the start."),
    JSON_U32_FIELD(struct run_events_params, limit, JSON_OPTIONAL, 1, 1000,
                   "How many events to return at most."),
    JSON_BOOL_FIELD(struct run_events_params, follow, JSON_OPTIONAL,
                    "Stay subscribed: new events are sent until the run has ended."),
    JSON_FIELD_LAST,
};

const struct json_field run_diff_fields[] = {
    JSON_STRING_FIELD(struct run_diff_params, runId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The run whose changes are wanted (run_…). Give this or sessionId."),
    JSON_STRING_FIELD(
        struct run_diff_params, sessionId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
        "The session (ses_…) whose changes since its beginning are wanted, of all its runs. "
        "Give this or runId."),
    JSON_STRING_FIELD(
        struct run_diff_params, path, JSON_OPTIONAL, 1, 4096,
        "Only this file, or the files below this folder, relative to the repository."),
    JSON_U32_FIELD(struct run_diff_params, maxBytes, JSON_OPTIONAL, 1, 1048576,
                   "Cut the diff behind so many bytes; the answer says when it was cut."),
    JSON_FIELD_LAST,
};

const struct json_field run_exec_fields[] = {
    JSON_STRING_FIELD(struct run_exec_params, runId, JSON_REQUIRED, 1, ID_TEXT_MAX, RUN_ID_HELP),
    JSON_VALUE_FIELD(struct run_exec_params, argv, JSON_REQUIRED,
                     "The command and its arguments: 1 to 256 strings."),
    JSON_FIELD_LAST,
};

const char *const run_message_mode_names[] = {
    [RUN_MESSAGE_AUTO] = "auto",
    [RUN_MESSAGE_STEER] = "steer",
    [RUN_MESSAGE_QUEUE] = "queue",
    [RUN_MESSAGE_MODE_COUNT] = NULL,
};

const char *const run_message_action_names[] = {
    [RUN_MESSAGE_STEERED] = "steered",
    [RUN_MESSAGE_QUEUED] = "queued",
    [RUN_MESSAGE_FOLLOW_UP] = "follow_up",
    [RUN_MESSAGE_ACTION_COUNT] = NULL,
};

const struct json_field run_send_fields[] = {
    JSON_STRING_FIELD(struct run_send_params, runId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "A run of the session to send the message to. Give this or sessionId."),
    JSON_STRING_FIELD(struct run_send_params, sessionId, JSON_OPTIONAL, 1, ID_TEXT_MAX,
                      "The session to send the message to. Give this or runId."),
    JSON_STRING_FIELD(struct run_send_params, message, JSON_REQUIRED, 1, RUN_TASK_MAX,
                      "What to tell the agent."),
    JSON_ENUM_FIELD(struct run_send_params, mode, JSON_OPTIONAL, run_message_mode_names,
                    "auto (or left out): an agent at work reads it at its next step; when none is "
                    "at work, or runs wait already, it becomes a run of its own. steer: only into "
                    "the run at work, else refused. queue: always a run of its own, behind those "
                    "that have not ended."),
    JSON_STRING_FIELD(struct run_send_params, idempotencyKey, JSON_OPTIONAL, 1, 200,
                      "Any text that identifies this message: a second call with the same key "
                      "says nothing again and returns what became of the first."),
    JSON_FIELD_LAST,
};

const struct json_field run_answer_fields[] = {
    JSON_STRING_FIELD(struct run_answer_params, runId, JSON_REQUIRED, 1, ID_TEXT_MAX, RUN_ID_HELP),
    JSON_STRING_FIELD(struct run_answer_params, requestId, JSON_REQUIRED, 1, ID_TEXT_MAX,
                      "Id of the open question or permission request, from opencode_get_result."),
    JSON_STRING_FIELD(struct run_answer_params, answer, JSON_REQUIRED, 1, RUN_TASK_MAX,
                      "The answer: one of the options offered, or free text."),
    JSON_FIELD_LAST,
};

/* Results -------------------------------------------------------------------------------------- */

static void write_status(struct json_writer *writer, int status)
{
    BUG_ON(status < 0 || status >= RUN_STATUS_COUNT);
    json_member_string(writer, "status", run_status_names[status]);
}

void run_create_result_write(struct json_writer *writer, const struct run_create_result *result)
{
    json_write_object(writer);
    json_member_string_opt(writer, "action", result->action);
    json_member_string(writer, "runId", result->runId);
    json_member_string(writer, "sessionId", result->sessionId);
    write_status(writer, result->status);
    json_member_string_opt(writer, "webUiUrl", result->webUiUrl);
    json_member_string_opt(writer, "message", result->message);
    json_write_object_end(writer);
}

const struct json_field run_create_result_fields[] = {
    JSON_STRING_FIELD(struct run_create_result, runId, JSON_REQUIRED, 1, ID_TEXT_MAX,
                      "Id of the run: keep it and pass it to opencode_get_result."),
    JSON_STRING_FIELD(
        struct run_create_result, sessionId, JSON_REQUIRED, 1, ID_TEXT_MAX,
        "Id of the session: pass it to opencode_run_task for a follow-up in the same workspace."),
    JSON_ENUM_FIELD(struct run_create_result, status, JSON_REQUIRED, run_status_names,
                    "Where the run stands."),
    JSON_STRING_FIELD(struct run_create_result, webUiUrl, JSON_OPTIONAL, 0, UINT64_MAX,
                      "Address at which a person can watch the run."),
    JSON_STRING_FIELD(struct run_create_result, message, JSON_OPTIONAL, 0, UINT64_MAX,
                      "What happens now and what to call next."),
    JSON_FIELD_LAST,
};

static bool ended(const struct run_view *view)
{
    return run_status_ended((enum run_status)view->status);
}

/* A run that ended by itself but with an empty or cut-off answer is no success. */
static bool succeeded(const struct run_view *view)
{
    return view->status == RUN_STATUS_COMPLETED && !view->error.code &&
           !str_equal(view->verdict, "incomplete") && !str_equal(view->verdict, "failed");
}

static void write_error(struct json_writer *writer, const struct run_error_view *error)
{
    json_write_name(writer, "error");
    json_write_object(writer);
    json_member_string(writer, "code", error->code);
    json_member_string_opt(writer, "phase", error->phase);
    json_member_string(writer, "message", error->message);
    json_member_string_opt(writer, "hint", error->hint);
    json_member_bool(writer, "retryable", error->retryable);
    json_member_u64_opt(writer, "retryAt", error->retryAt);
    json_write_object_end(writer);
}

static void write_result(struct json_writer *writer, const struct run_view *view)
{
    json_write_name(writer, "result");
    json_write_object(writer);
    json_member_bool(writer, "success", succeeded(view));
    json_member_string(writer, "output", view->output);
    if (view->error.code)
        write_error(writer, &view->error);
    json_write_object_end(writer);
}

/* An array of TEXT's lines; nothing when there are none. */
static void write_lines(struct json_writer *writer, const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    json_write_name(writer, name);
    json_write_array(writer);
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        if (len > 0)
            json_write_bytes(writer, text, len);
        text += len + (text[len] == '\n');
    }
    json_write_array_end(writer);
}

static void write_evidence(struct json_writer *writer, const struct run_evidence_view *evidence)
{
    json_write_name(writer, "evidence");
    json_write_object(writer);
    json_member_bool(writer, "known", evidence->known);
    if (evidence->known) {
        json_member_string_opt(writer, "branch", evidence->branch);
        json_member_string_opt(writer, "baseCommit", evidence->baseCommit);
        json_member_string_opt(writer, "headCommit", evidence->headCommit);
        json_member_u64(writer, "commits", evidence->commits);
        json_member_u64(writer, "filesChanged", evidence->filesChanged);
        json_member_u64(writer, "insertions", evidence->insertions);
        json_member_u64(writer, "deletions", evidence->deletions);
        json_member_u64(writer, "untracked", evidence->untracked);
        json_member_u64_opt(writer, "binaryFiles", evidence->binaryFiles);
        json_member_u64_opt(writer, "renames", evidence->renames);
        json_member_u64_opt(writer, "submodules", evidence->submodules);
        json_member_string_opt(writer, "remoteState", evidence->remoteState);
        json_member_string_opt(writer, "remoteCommit", evidence->remoteCommit);
        json_member_bool(writer, "diffTruncated", evidence->diffTruncated);
    }
    json_member_u64(writer, "refusedRequests", evidence->refusedRequests);
    json_member_string_opt(writer, "finishReason", evidence->finishReason);
    write_lines(writer, "warnings", evidence->warnings);
    write_lines(writer, "leftRunning", evidence->leftRunning);
    json_write_object_end(writer);
}

/* What the limits of the configuration leave of the run. */
static void write_budget(struct json_writer *writer, const struct run_usage_view *usage)
{
    if (usage->tokenLimit == 0 && usage->limitUsd <= 0)
        return;
    json_write_name(writer, "budget");
    json_write_object(writer);
    json_member_u64(writer, "tokens", usage->countedTokens);
    json_member_u64_opt(writer, "tokenLimit", usage->tokenLimit);
    if (usage->limitUsd > 0) {
        json_member_double(writer, "costUsd", usage->countedUsd);
        json_member_double(writer, "limitUsd", usage->limitUsd);
    }
    json_write_object_end(writer);
}

static void write_usage(struct json_writer *writer, const struct run_usage_view *usage)
{
    json_write_name(writer, "usage");
    json_write_object(writer);
    json_member_u64(writer, "requests", usage->requests);
    json_member_u64_opt(writer, "failedRequests", usage->failedRequests);
    json_member_u64(writer, "inputTokens", usage->inputTokens);
    json_member_u64(writer, "outputTokens", usage->outputTokens);
    json_member_u64(writer, "cacheReadTokens", usage->cacheReadTokens);
    json_member_u64(writer, "cacheWriteTokens", usage->cacheWriteTokens);
    json_member_double(writer, "costUsd", usage->costUsd);
    write_budget(writer, usage);
    json_write_object_end(writer);
}

static void write_steps(struct json_writer *writer, const char *const *steps, size_t count)
{
    json_write_name(writer, "steps");
    json_write_array(writer);
    for (size_t i = 0; i < count; i++)
        json_write_raw(writer, steps[i], strlen(steps[i]));
    json_write_array_end(writer);
}

static void write_times(struct json_writer *writer, const struct run_view *view)
{
    json_member_u64(writer, "createdAt", view->createdAt);
    json_member_u64_opt(writer, "startedAt", view->startedAt);
    if (ended(view))
        json_member_u64_opt(writer, "completedAt", view->completedAt);
    else
        json_member_u64_opt(writer, "deadlineAt", view->deadlineAt);
}

/* What is wanted most comes first: some clients cut what they show. */
void run_view_write(struct json_writer *writer, const struct run_view *view,
                    const char *const *steps, size_t step_count)
{
    json_write_object(writer);
    json_member_string(writer, "runId", view->runId);
    json_member_string_opt(writer, "sessionId", view->sessionId);
    write_status(writer, view->status);
    if (!ended(view))
        json_member_string_opt(writer, "phase", view->phase);
    json_member_string_opt(writer, "message", view->message);
    if (view->status == RUN_STATUS_WAITING && view->request) {
        json_write_name(writer, "request");
        json_write_raw(writer, view->request, strlen(view->request));
    }
    if (!ended(view) && view->retrying) {
        json_write_name(writer, "retrying");
        json_write_raw(writer, view->retrying, strlen(view->retrying));
    }
    if (ended(view)) {
        json_member_string_opt(writer, "verdict", view->verdict);
        write_result(writer, view);
        write_evidence(writer, &view->evidence);
    }
    if (ended(view) || view->usage.requests)
        write_usage(writer, &view->usage);
    if (step_count)
        write_steps(writer, steps, step_count);
    json_member_u64(writer, "cursor", view->cursor);
    json_member_string_opt(writer, "title", view->title);
    json_member_string(writer, "task", view->task);
    json_member_string_opt(writer, "agent", view->agent);
    json_member_string_opt(writer, "model", view->model);
    json_member_string_opt(writer, "repository", view->repository);
    json_member_string_opt(writer, "branch", view->branch);
    json_member_string_opt(writer, "isolation", view->isolation);
    write_times(writer, view);
    json_member_string_opt(writer, "webUiUrl", view->webUiUrl);
    json_write_object_end(writer);
}

/* Bytes of TEXT's first COUNT code points. */
static size_t code_points(const char *text, size_t count)
{
    const char *at = text;

    for (; *at; at++)
        if ((*at & 0xc0) != 0x80 && count-- == 0)
            break;
    return (size_t)(at - text);
}

void run_list_item_write(struct json_writer *writer, const struct run_view *view)
{
    const char *task = view->task ? view->task : "";

    json_write_object(writer);
    json_member_string(writer, "runId", view->runId);
    json_member_string_opt(writer, "sessionId", view->sessionId);
    write_status(writer, view->status);
    if (!ended(view))
        json_member_string_opt(writer, "phase", view->phase);
    json_member_string_opt(writer, "title", view->title);
    json_write_name(writer, "task");
    json_write_bytes(writer, task, code_points(task, LIST_TASK_MAX));
    json_member_string_opt(writer, "repository", view->repository);
    json_member_u64(writer, "createdAt", view->createdAt);
    json_member_u64_opt(writer, "startedAt", view->startedAt);
    if (view->status == RUN_STATUS_WAITING)
        json_member_u64_opt(writer, "waitingSince", view->waitingSince);
    if (ended(view)) {
        json_member_u64_opt(writer, "completedAt", view->completedAt);
        json_member_bool(writer, "success", succeeded(view));
        json_member_string_opt(writer, "verdict", view->verdict);
    }
    json_member_string_opt(writer, "webUiUrl", view->webUiUrl);
    json_write_object_end(writer);
}
