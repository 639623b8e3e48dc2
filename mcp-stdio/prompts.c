#include "mcp-stdio/prompts.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define ARGUMENTS_MAX 3
#define VALUE_MAX 60000
#define TEXT_MAX (4u * VALUE_MAX)

struct prompt_argument {
    const char *name; /* NULL: none */
    const char *title;
    const char *description;
    enum json_need need;
};

struct prompt {
    const char *name;
    const char *title;
    const char *description;
    struct prompt_argument arguments[ARGUMENTS_MAX];
    /* VALUES as in arguments; NULL where left out. */
    void (*say)(struct buf *out, const char *const *values);
};

static void say_delegate(struct buf *out, const char *const *values)
{
    buf_append_str(out,
                   "Delegate this task to the coding agent in the sandbox with "
                   "opencode_run_task. The agent sees nothing of our conversation, so write into "
                   "the task all that it needs: goal, constraints, how to check the result.");
    if (values[1])
        buf_printf(out, " Repository: %s", values[1]);
    buf_append_str(out, "\nThen call opencode_get_result with waitSeconds 45 until the run has "
                        "ended, look at what it changed with opencode_get_diff, and tell me the "
                        "outcome and what you think of it.\n\nThe task:\n");
    buf_append_str(out, values[0]);
}

static void say_check(struct buf *out, const char *const *values)
{
    (void)values;
    buf_append_str(out,
                   "Look at my runs with opencode_list_runs. For those that go on, say how far "
                   "they are (opencode_get_result without waiting). For one that waits, show me "
                   "its question. For those that ended since we last spoke, say in one sentence "
                   "each what came of it, and whether the evidence supports what the agent says.");
}

static void say_review(struct buf *out, const char *const *values)
{
    buf_printf(out,
               "Review what run %s changed. Read its task and result with opencode_get_result and "
               "its changes with opencode_get_diff; narrow the diff by path where it is cut. Judge "
               "whether the changes do what the task asked for, look for mistakes, missing tests "
               "and things that were not asked for, and end with a list of what should be done "
               "before merging.",
               values[0]);
    if (values[1])
        buf_printf(out, " Look especially at: %s", values[1]);
}

static const struct prompt prompts[] = {
    { "delegate",
      "Delegate a task",
      "Hands a coding task to an agent in the sandbox and follows it to the end.",
      { { "task", "Task", "What is to be done.", JSON_REQUIRED },
        { "repository", "Repository", "https address or local folder.", JSON_OPTIONAL } },
      say_delegate },
    { "check_runs",
      "Check on my runs",
      "What goes on, what waits for an answer, and what came of those that ended.",
      { { NULL, NULL, NULL, JSON_OPTIONAL } },
      say_check },
    { "review_diff",
      "Review a run's changes",
      "Judges what a run changed against what it was asked to do.",
      { { "runId", "Run", "Id of the run (run_…).", JSON_REQUIRED },
        { "focus", "Focus", "What to look at especially.", JSON_OPTIONAL } },
      say_review },
};

static const struct prompt *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        if (strcmp(prompts[i].name, name) == 0)
            return &prompts[i];
    return NULL;
}

bool prompts_exist(const char *name)
{
    return find(name) != NULL;
}

bool prompts_take(const char *name, const char *argument)
{
    const struct prompt *prompt = find(name);

    for (size_t i = 0; prompt && i < ARGUMENTS_MAX && prompt->arguments[i].name; i++)
        if (strcmp(prompt->arguments[i].name, argument) == 0)
            return true;
    return false;
}

/* prompts/list --------------------------------------------------------------------------------- */

static void write_prompt(struct json_writer *writer, const struct prompt *prompt)
{
    json_write_object(writer);
    json_member_string(writer, "name", prompt->name);
    json_member_string(writer, "title", prompt->title);
    json_member_string(writer, "description", prompt->description);
    json_write_name(writer, "arguments");
    json_write_array(writer);
    for (size_t i = 0; i < ARGUMENTS_MAX && prompt->arguments[i].name; i++) {
        json_write_object(writer);
        json_member_string(writer, "name", prompt->arguments[i].name);
        json_member_string(writer, "title", prompt->arguments[i].title);
        json_member_string(writer, "description", prompt->arguments[i].description);
        json_member_bool(writer, "required", prompt->arguments[i].need == JSON_REQUIRED);
        json_write_object_end(writer);
    }
    json_write_array_end(writer);
    json_write_object_end(writer);
}

void prompts_on_list(struct server *server, const struct request *request)
{
    struct server_answer answer;

    if (server_refuse_cursor(server, request) < 0)
        return;
    server_answer_begin(&answer, server, &request->target);
    json_write_name(&answer.writer, "prompts");
    json_write_array(&answer.writer);
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        write_prompt(&answer.writer, &prompts[i]);
    json_write_array_end(&answer.writer);
    request->target.era->write_cache(&answer.writer, CACHE_EVERYONE);
    server_answer_end(&answer);
}

/* prompts/get ---------------------------------------------------------------------------------- */

/* Absent ones stay NULL. */
static int read_arguments(const struct prompt *prompt, const struct json_value *given,
                          const char *values[ARGUMENTS_MAX], struct error *err)
{
    for (size_t i = 0; i < ARGUMENTS_MAX && prompt->arguments[i].name; i++) {
        const struct prompt_argument *argument = &prompt->arguments[i];
        const struct json_value *value = json_get(given, argument->name);
        const char *text = json_string(value);

        if (json_kind(value) != JSON_KIND_NULL && !text)
            return error_argument(err, argument->name, "must be a string");
        if (text && strlen(text) > VALUE_MAX)
            return error_argument(err, argument->name, "is too long");
        values[i] = text && !str_blank(text) ? text : NULL;
        if (!values[i] && argument->need == JSON_REQUIRED)
            return error_argument(err, argument->name, "is required");
    }
    return 0;
}

static void answer(struct server *server, const struct request *request,
                   const struct prompt *prompt, const char *const *values)
{
    AUTO_BUF struct buf text = BUF_INIT(TEXT_MAX);
    struct server_answer result;

    prompt->say(&text, values);
    server_answer_begin(&result, server, &request->target);
    json_member_string(&result.writer, "description", prompt->description);
    json_write_name(&result.writer, "messages");
    json_write_array(&result.writer);
    json_write_object(&result.writer);
    json_member_string(&result.writer, "role", "user");
    json_write_name(&result.writer, "content");
    json_write_object(&result.writer);
    json_member_string(&result.writer, "type", "text");
    json_member_string(&result.writer, "text", buf_text(&text));
    json_write_object_end(&result.writer);
    json_write_object_end(&result.writer);
    json_write_array_end(&result.writer);
    server_answer_end(&result);
}

void prompts_on_get(struct server *server, const struct request *request)
{
    const char *name = json_string(request_param(request, "name"));
    const struct prompt *prompt = name ? find(name) : NULL;
    const char *values[ARGUMENTS_MAX] = { NULL };
    struct error err = ERROR_INIT;

    if (!name)
        server_refuse_params(server, request, "params.name must be a string");
    else if (!prompt)
        server_refuse_params(server, request, "unknown prompt");
    else if (read_arguments(prompt, request_param(request, "arguments"), values, &err) < 0)
        server_refuse_params(server, request, err.text);
    else
        answer(server, request, prompt, values);
}
