#include "mcp-stdio/tools.h"

#include <string.h>

#include "common/mem.h"
#include "common/nearest.h"
#include "common/str.h"
#include "mcp-stdio/content.h"
#include "mcp-stdio/tasks.h"
#include "mcp-stdio/tool_call.h"
#include "mcp-stdio/view.h"
#include "proto/msg_out.h"
#include "proto/msg_run.h"

#define ARGUMENTS_TEXT_MAX JSONRPC_LINE_MAX

/* Output schemas ------------------------------------------------------------------------------- */

#define STATUS_HELP                                                                                \
    "queued, started (sandbox, clone and agent are prepared), running, waiting (it asks "          \
    "something), completed, failed, "                                                              \
    "cancelled or interrupted. The last four are final."

static const struct tool_output task_output[] = {
    { "runId", "string", JSON_REQUIRED,
      "Id of the run: keep it, and pass it to opencode_get_result." },
    { "sessionId", "string", JSON_REQUIRED,
      "Id of the session: pass it to opencode_run_task to go on in the same workspace." },
    { "status", "string", JSON_REQUIRED, STATUS_HELP },
    { "webUiUrl", "string", JSON_OPTIONAL, "Where a person can watch the run." },
    { "message", "string", JSON_OPTIONAL, "What happens now and what to call next." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output send_output[] = {
    { "action", "string", JSON_REQUIRED,
      "What was done: steered (the agent at work reads it at its next step), follow_up (its run "
      "starts now) or queued (its run starts when the session's other runs have ended)." },
    { "runId", "string", JSON_REQUIRED,
      "Id of the run that deals with it: pass it to opencode_get_result." },
    { "sessionId", "string", JSON_REQUIRED, "Id of the session." },
    { "status", "string", JSON_REQUIRED, STATUS_HELP },
    { "webUiUrl", "string", JSON_OPTIONAL, "Where a person can watch the run." },
    { "message", "string", JSON_OPTIONAL, "What happens now and what to call next." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output answer_output[] = {
    { "runId", "string", JSON_REQUIRED, "Id of the run, which goes on now." },
    { "requestId", "string", JSON_REQUIRED, "Id of the request that was answered." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output run_output[] = {
    { "runId", "string", JSON_REQUIRED, "Id of the run." },
    { "sessionId", "string", JSON_OPTIONAL, "Id of its session." },
    { "status", "string", JSON_REQUIRED, STATUS_HELP },
    { "phase", "string", JSON_OPTIONAL,
      "What it is doing: queue, sandbox, clone, setup, agent, prompt, work, collect, stop." },
    { "message", "string", JSON_OPTIONAL, "Where it stands and what to do next, in one sentence." },
    { "request", "object", JSON_OPTIONAL,
      "While waiting: the open question or permission request." },
    { "retrying", "object", JSON_OPTIONAL,
      "While a model that failed is tried again: failures (in a row), status, message, nextAt." },
    { "verdict", "string", JSON_OPTIONAL,
      "Ended: what was established about its work: changed, no_change, incomplete, unknown." },
    { "result", "object", JSON_OPTIONAL,
      "Ended: success, output (the agent's last answer; the middle of a long one is left out, with "
      "a mark that says how to get it) and error {code, phase, message, hint, "
      "retryable, retryAt (unix milliseconds, when the model's provider named a time)}." },
    { "evidence", "object", JSON_OPTIONAL,
      "Ended: branch, commits, files and lines changed, as the supervisor counted them." },
    { "usage", "object", JSON_OPTIONAL, "Model requests, tokens and cost so far." },
    { "steps", "array", JSON_OPTIONAL,
      "The latest steps, newest first: {number, time, kind, text}." },
    { "cursor", "integer", JSON_OPTIONAL,
      "Number of the newest event; opencode_get_log takes it as `after`." },
    { "title", "string", JSON_OPTIONAL, "Its title." },
    { "task", "string", JSON_OPTIONAL, "The task as given." },
    { "agent", "string", JSON_OPTIONAL, "The coding agent." },
    { "model", "string", JSON_OPTIONAL, "The model." },
    { "repository", "string", JSON_OPTIONAL, "The repository." },
    { "branch", "string", JSON_OPTIONAL, "The branch it started from." },
    { "isolation", "string", JSON_OPTIONAL, "The layers that hold its sandbox." },
    { "createdAt", "integer", JSON_OPTIONAL, "Unix milliseconds." },
    { "startedAt", "integer", JSON_OPTIONAL, "Unix milliseconds." },
    { "completedAt", "integer", JSON_OPTIONAL, "Unix milliseconds." },
    { "deadlineAt", "integer", JSON_OPTIONAL, "Unix milliseconds: it is stopped then." },
    { "webUiUrl", "string", JSON_OPTIONAL, "Where a person can watch the run." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output list_output[] = {
    { "runs", "array", JSON_REQUIRED,
      "Runs, newest first: runId, sessionId, status, title, task, createdAt, success, verdict …" },
    { "hasMore", "boolean", JSON_REQUIRED, "There are older runs." },
    { "cursor", "string", JSON_OPTIONAL, "Pass it as `before` for the runs that follow." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output diff_output[] = {
    { "runId", "string", JSON_OPTIONAL, "Id of the run." },
    { "sessionId", "string", JSON_OPTIONAL, "Id of its session." },
    { "baseCommit", "string", JSON_OPTIONAL, "The commit it started from." },
    { "headCommit", "string", JSON_OPTIONAL, "The commit it ended with." },
    { "files", "array", JSON_REQUIRED, "Files changed: {path, insertions, deletions, status}." },
    { "filesLeftOut", "integer", JSON_OPTIONAL, "So many files more, when the list was cut." },
    { "diff", "string", JSON_REQUIRED, "Unified diff." },
    { "truncated", "boolean", JSON_REQUIRED,
      "The diff was cut: narrow it with path, raise maxBytes, or read run://RUNID/diff." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output pr_output[] = {
    { "sessionId", "string", JSON_REQUIRED, "Id of the session." },
    { "status", "string", JSON_REQUIRED,
      "opened, updated, unchanged (it was up to date), pushed (the branch only; see problem or "
      "note) or working (make the same call again)." },
    { "message", "string", JSON_OPTIONAL, "Where it stands and what to do next." },
    { "phase", "string", JSON_OPTIONAL, "While working: the step it is at." },
    { "url", "string", JSON_OPTIONAL, "Address of the pull or merge request." },
    { "number", "integer", JSON_OPTIONAL, "Its number." },
    { "title", "string", JSON_OPTIONAL, "Its title." },
    { "draft", "boolean", JSON_OPTIONAL, "It is a draft." },
    { "repository", "string", JSON_OPTIONAL, "The repository." },
    { "forge", "string", JSON_OPTIONAL, "GitHub, GitLab or Gitea; left out for plain git." },
    { "branch", "string", JSON_OPTIONAL, "The branch that was pushed." },
    { "base", "string", JSON_OPTIONAL, "The branch it is to be merged into." },
    { "commit", "string", JSON_OPTIONAL, "The commit that the remote's branch was seen to have." },
    { "commits", "integer", JSON_OPTIONAL, "Commits that the base has not." },
    { "filesChanged", "integer", JSON_OPTIONAL, "Files changed by them." },
    { "insertions", "integer", JSON_OPTIONAL, "Lines added." },
    { "deletions", "integer", JSON_OPTIONAL, "Lines taken away." },
    { "uncommitted", "integer", JSON_OPTIONAL,
      "Files that are changed but not committed, and not part of it." },
    { "uncommittedFiles", "array", JSON_OPTIONAL, "The first of them: {path}." },
    { "note", "string", JSON_OPTIONAL, "What else a person should know." },
    { "problem", "object", JSON_OPTIONAL,
      "What went wrong after the push: code, message, hint, retryable." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

static const struct tool_output log_output[] = {
    { "events", "array", JSON_REQUIRED,
      "Events in order: {number, time, kind, text, data}; `cut` in one says how to get it whole." },
    { "cursor", "integer", JSON_REQUIRED,
      "Number of the last event here: pass it as `after` for the next ones." },
    { "hasMore", "boolean", JSON_REQUIRED, "There are more events already." },
    { NULL, NULL, JSON_OPTIONAL, NULL },
};

/* The tools ------------------------------------------------------------------------------------ */

static const struct tool tools[] = {
    {
        .name = "opencode_run_task",
        .title = "Start a coding task",
        .description =
            "Hands a coding task to an OpenCode agent that works on its own in a sandbox with its "
            "own copy of the repository. Returns at once with a runId; the run goes on even when "
            "this conversation ends. Then call opencode_get_result with waitSeconds 45 until it "
            "has ended. Runs take minutes to hours. To continue earlier work, give its sessionId. "
            "Run ids stay valid; opencode_list_runs finds them again.",
        .hints = 0,
        .features = TOOL_BECOMES_TASK | TOOL_HAS_VIEW,
        .params = run_create_fields,
        .output = task_output,
        .method = METHOD_RUN_CREATE,
        .read = tool_run_task_read,
        .render = tool_run_task_render,
    },
    {
        .name = "opencode_get_result",
        .title = "Result of a coding task",
        .description =
            "How a run stands: while it goes on, its phase and newest steps; when it has ended, "
            "the agent's answer, success or the reason of the failure, and what really changed "
            "(commits, files, lines). Waits up to waitSeconds for the end or for a question. If it "
            "has not ended, call again with waitSeconds 45 rather than often.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .features = TOOL_HAS_VIEW,
        .params = run_get_fields,
        .output = run_output,
        .method = METHOD_RUN_GET,
        .read = tool_run_result_read,
        .render = tool_run_result_render,
        .fit = tool_run_result_fit,
    },
    {
        .name = "opencode_list_runs",
        .title = "List coding tasks",
        .description = "Runs, newest first, with their ids, status and task: for finding a run "
                       "again, also one that was started in another conversation. Older ones with "
                       "the cursor of the answer as `before`.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .params = run_list_fields,
        .output = list_output,
        .method = METHOD_RUN_LIST,
        .read = tool_run_list_read,
        .render = tool_run_list_render,
        .fit = tool_run_list_fit,
    },
    {
        .name = "opencode_cancel_run",
        .title = "Cancel a coding task",
        .description = "Stops a run for good. Nothing of it is left running; what it did until "
                       "then is kept in its session and shown by opencode_get_diff. Cancelling a "
                       "run that has ended changes nothing.",
        .hints = TOOL_IDEMPOTENT,
        .params = run_id_fields,
        .output = run_output,
        .method = METHOD_RUN_CANCEL,
        .read = tool_run_cancel_read,
        .render = tool_run_result_render,
        .fit = tool_run_result_fit,
    },
    {
        .name = "opencode_send_message",
        .title = "Message to a coding session",
        .description =
            "Says something to the agent of a session, which knows all from before: by runId of "
            "any of the session's runs, or by sessionId. An agent at work reads it at its next "
            "step, without being interrupted (steered): a correction, an addition. When none is at "
            "work it becomes a run of its own, at once (follow_up) or behind those that wait "
            "(queued), in order. The answer says which. mode steer or queue insists on one.",
        .hints = 0,
        .params = run_send_fields,
        .output = send_output,
        .method = METHOD_RUN_SEND,
        .read = tool_run_send_read,
        .render = tool_run_send_render,
    },
    {
        .name = "opencode_answer",
        .title = "Answer to a coding agent",
        .description =
            "Answers the question or permission request of a run whose status is waiting; "
            "opencode_get_result shows it as `request`, with its requestId and options. A question "
            "takes one of the options or free text, a permission request once, always or reject. "
            "Ask the user when it isn't yours to decide.",
        .hints = 0,
        .params = run_answer_fields,
        .output = answer_output,
        .method = METHOD_RUN_ANSWER,
        .read = tool_run_answer_read,
        .render = tool_run_answer_render,
    },
    {
        .name = "opencode_get_diff",
        .title = "Changes of a coding task",
        .description = "What a run changed, from its start to its end, as a list of files and a "
                       "unified diff; or with sessionId what all runs of a session changed, up "
                       "to now. Long diffs are cut: narrow them with path, or raise maxBytes.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .params = run_diff_fields,
        .output = diff_output,
        .method = METHOD_RUN_DIFF,
        .read = tool_run_diff_read,
        .render = tool_run_diff_render,
        .fit = tool_run_diff_fit,
    },
    {
        .name = "opencode_get_log",
        .title = "Log of a coding task",
        .description = "Events of a run in order: changes of state, output of clone and setup, "
                       "what the agent said and which tools it used, refused requests, errors. "
                       "Pages with `after`, the cursor of the last answer.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .params = tool_run_log_fields,
        .output = log_output,
        .method = METHOD_RUN_EVENTS,
        .read = tool_run_log_read,
        .render = tool_run_log_render,
        .fit = tool_run_log_fit,
    },
    {
        .name = "opencode_create_pr",
        .title = "Pull request of a coding session",
        .description =
            "Publishes the work of a session: pushes its branch to the repository that it was "
            "cloned from, checks that it is there, and opens a pull request (GitLab: merge "
            "request), as a draft unless draft is false. Called again, also after further runs, it "
            "brings the same one up to date; it never opens a second one for a branch. Changes "
            "that are not committed are named and left out unless commit is true. When status is "
            "working, make the same call again. Needs a token stored on the user's machine.",
        .hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
        .params = pull_create_fields,
        .output = pr_output,
        .method = METHOD_PR_CREATE,
        .read = tool_pr_read,
        .render = tool_pr_render,
    },
};

const struct tool *tools_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        if (strcmp(tools[i].name, name) == 0)
            return &tools[i];
    return NULL;
}

void tool_request_finish(struct tool_request *request)
{
    buf_finish(&request->body);
}

/* tools/list ----------------------------------------------------------------------------------- */

static void write_output_property(struct json_writer *writer, const struct tool_output *output)
{
    json_write_name(writer, output->name);
    json_write_object(writer);
    json_member_string(writer, "type", output->type);
    if (strcmp(output->type, "array") == 0) {
        json_write_name(writer, "items");
        json_write_object(writer);
        json_member_string(writer, "type", "object");
        json_write_object_end(writer);
    }
    json_member_string(writer, "description", output->help);
    json_write_object_end(writer);
}

static void write_output_schema(struct json_writer *writer, const struct tool_output *outputs)
{
    json_write_object(writer);
    json_member_string(writer, "type", "object");
    json_write_name(writer, "properties");
    json_write_object(writer);
    for (const struct tool_output *output = outputs; output->name; output++)
        write_output_property(writer, output);
    json_write_object_end(writer);
    json_write_name(writer, "required");
    json_write_array(writer);
    for (const struct tool_output *output = outputs; output->name; output++)
        if (output->need == JSON_REQUIRED)
            json_write_string(writer, output->name);
    json_write_array_end(writer);
    json_write_object_end(writer);
}

static void write_annotations(struct json_writer *writer, const struct tool *tool)
{
    json_write_object(writer);
    json_member_string(writer, "title", tool->title);
    json_member_bool(writer, "readOnlyHint", tool->hints & TOOL_READ_ONLY);
    json_member_bool(writer, "destructiveHint", tool->hints & TOOL_DESTRUCTIVE);
    json_member_bool(writer, "idempotentHint", tool->hints & TOOL_IDEMPOTENT);
    json_member_bool(writer, "openWorldHint", tool->hints & TOOL_OPEN_WORLD);
    json_write_object_end(writer);
}

/* Hosts that render views show it in place of the result; the others don't know the member. */
static void write_view(struct json_writer *writer)
{
    json_write_name(writer, "_meta");
    json_write_object(writer);
    json_write_name(writer, "ui");
    json_write_object(writer);
    json_member_string(writer, "resourceUri", VIEW_URI);
    json_write_object_end(writer);
    json_write_object_end(writer);
}

static void write_task_support(struct json_writer *writer)
{
    json_write_name(writer, "execution");
    json_write_object(writer);
    json_member_string(writer, "taskSupport", "optional");
    json_write_object_end(writer);
}

static void write_tool(struct json_writer *writer, const struct tool *tool, bool with_tasks)
{
    json_write_object(writer);
    json_member_string(writer, "name", tool->name);
    json_member_string(writer, "title", tool->title);
    json_member_string(writer, "description", tool->description);
    json_write_name(writer, "inputSchema");
    json_write_schema(writer, tool->params);
    json_write_name(writer, "outputSchema");
    write_output_schema(writer, tool->output);
    json_write_name(writer, "annotations");
    write_annotations(writer, tool);
    if (with_tasks && (tool->features & TOOL_BECOMES_TASK))
        write_task_support(writer);
    if (tool->features & TOOL_HAS_VIEW)
        write_view(writer);
    json_write_object_end(writer);
}

void tools_on_list(struct server *server, const struct request *request)
{
    struct server_answer answer;

    if (server_refuse_cursor(server, request) < 0)
        return;
    server_answer_begin(&answer, server, &request->target);
    json_write_name(&answer.writer, "tools");
    json_write_array(&answer.writer);
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        write_tool(&answer.writer, &tools[i], tasks_negotiated(request));
    json_write_array_end(&answer.writer);
    request->target.era->write_cache(&answer.writer, CACHE_EVERYONE);
    server_answer_end(&answer);
}

#define NAMES_MAX 64 /* more arguments than anybody spells by hand */
#define NAME_MAX 60

/* tools/call ----------------------------------------------------------------------------------- */

static void refuse_arguments(struct server *server, const struct request *request,
                             const struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(1024);
    struct server_answer answer;

    buf_printf(&text, "%s. Correct the argument and call again.", err->text);
    server_answer_begin(&answer, server, &request->target);
    content_write_error(&answer.writer, buf_text(&text));
    server_answer_end(&answer);
}

/* Whether the client asked for a task: by a parameter of the legacy era, or by an argument in the
 * modern one, whose hosts would else wait for the end of a run that they were to start. */
static bool wants_task(const struct request *request, const struct tool *tool,
                       const struct json_value *arguments)
{
    if (request->target.era == &era_legacy)
        return tasks_negotiated(request) &&
               json_kind(request_param(request, "task")) == JSON_KIND_OBJECT;
    return (tool->features & TOOL_BECOMES_TASK) && (request->target.capabilities & CLIENT_TASKS) &&
           json_bool(json_get(arguments, "wait"), false);
}

static bool knows(const struct json_field *params, const char *name)
{
    for (; params->kind != JSON_FIELD_END; params++)
        if (strcmp(params->name, name) == 0)
            return true;
    return false;
}

/* Clients add arguments of their own, which are ignored; but a name that is nearly right, and of
 * which nothing else was given, would be ignored at somebody's cost. */
static int check_names(const struct tool *tool, const struct json_value *arguments,
                       struct error *err)
{
    if (json_count(arguments) > NAMES_MAX)
        return 0;
    for (const struct json_value *one = json_first(arguments); one; one = json_next(one)) {
        if (strlen(json_name(one)) > NAME_MAX || knows(tool->params, json_name(one)))
            continue;
        for (const struct json_field *param = tool->params; param->kind != JSON_FIELD_END; param++)
            if (!json_get(arguments, param->name) && nearest_meant(json_name(one), param->name))
                return error_argument(err, param->name, "is how the argument is called, not `%s`",
                                      json_name(one));
    }
    return 0;
}

static void start(struct server *server, const struct request *request, const struct tool *tool,
                  const struct json_value *arguments)
{
    struct tool_request tool_request = { .body = BUF_INIT(JSONRPC_LINE_MAX),
                                         .text_max = CONTENT_TEXT_MAX };
    bool task = wants_task(request, tool, arguments);
    struct error err = ERROR_INIT;

    if (task && !(tool->features & TOOL_BECOMES_TASK))
        server_refuse(server, &request->target, JSONRPC_METHOD_NOT_FOUND,
                      "this tool can't be called as a task", NULL);
    else if (check_names(tool, arguments, &err) < 0 ||
             tool->read(arguments, &tool_request, &err) < 0)
        refuse_arguments(server, request, &err);
    else if (task)
        tasks_start(server, request, tool, &tool_request);
    else
        tool_call_start(server, request, tool, &tool_request);
    tool_request_finish(&tool_request);
}

static void refuse_name(struct server *server, const struct request *request, const char *name)
{
    AUTO_BUF struct buf text = BUF_INIT(256);

    buf_append_str(&text, "Unknown tool: ");
    str_append_escaped(&text, name, strlen(name), 100);
    server_refuse(server, &request->target, JSONRPC_INVALID_PARAMS, buf_text(&text), NULL);
}

void tools_on_call(struct server *server, const struct request *request)
{
    const char *name = json_string(request_param(request, "name"));
    const struct json_value *arguments = request_param(request, "arguments");
    const char *as_text = json_string(arguments);
    const struct tool *tool = name ? tools_find(name) : NULL;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored;

    /* Some clients send an object as its text. */
    if (as_text && str_blank(as_text))
        arguments = NULL;
    else if (as_text &&
             json_parse(&doc, as_text, strlen(as_text), ARGUMENTS_TEXT_MAX, &ignored) == 0)
        arguments = json_root(doc);
    if (!name)
        server_refuse(server, &request->target, JSONRPC_INVALID_PARAMS,
                      "params.name must be a string", NULL);
    else if (!tool)
        refuse_name(server, request, name);
    else if (json_kind(arguments) != JSON_KIND_OBJECT && json_kind(arguments) != JSON_KIND_NULL)
        server_refuse(server, &request->target, JSONRPC_INVALID_PARAMS,
                      "params.arguments must be an object", NULL);
    else
        start(server, request, tool, arguments);
}
