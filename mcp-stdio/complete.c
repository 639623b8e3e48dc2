#include "mcp-stdio/complete.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/call.h"
#include "mcp-stdio/prompts.h"
#include "mcp-stdio/resources.h"

#define VALUES_MAX 100 /* as the protocol has it */
#define START_MAX 1000

/* Arguments that can be completed: where their values are. The arguments themselves are named like
 * the members. */
static const struct source {
    const char *argument;
    enum method method;
    const char *list;
} sources[] = {
    { "runId", METHOD_RUN_LIST, "runs" },
    { "sessionId", METHOD_SESSION_LIST, "sessions" },
    { "repository", METHOD_RUN_LIST, "runs" },
};

struct completion {
    const struct source *source;
    char *start; /* what was typed so far */
};

static void free_completion(void *data)
{
    struct completion *completion = data;

    free(completion->start);
    free(completion);
}

static bool has(const char *const *values, size_t count, const char *value)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(values[i], value) == 0)
            return true;
    return false;
}

static size_t gather(const struct completion *completion, const struct json_value *reply,
                     const char *values[VALUES_MAX])
{
    size_t count = 0;

    for (const struct json_value *one = json_first(json_get(reply, completion->source->list));
         one && count < VALUES_MAX; one = json_next(one)) {
        const char *value = json_string(json_get(one, completion->source->argument));

        if (value && value[0] && str_starts(value, completion->start) && !has(values, count, value))
            values[count++] = value;
    }
    return count;
}

static void answer_values(struct server *server, const struct server_target *target,
                          const char *const *values, size_t count, bool more)
{
    struct server_answer answer;

    server_answer_begin(&answer, server, target);
    json_write_name(&answer.writer, "completion");
    json_write_object(&answer.writer);
    json_write_name(&answer.writer, "values");
    json_write_array(&answer.writer);
    for (size_t i = 0; i < count; i++)
        json_write_string(&answer.writer, values[i]);
    json_write_array_end(&answer.writer);
    if (!more)
        json_member_u64(&answer.writer, "total", count);
    json_member_bool(&answer.writer, "hasMore", more);
    json_write_object_end(&answer.writer);
    server_answer_end(&answer);
}

static void on_begin(struct call *call)
{
    const struct completion *completion = call->state;
    AUTO_BUF struct buf body = BUF_INIT(64);

    buf_printf(&body, "{\"limit\":%d}", VALUES_MAX);
    call_ask(call, completion->source->method, buf_text(&body), 0);
}

static void on_reply(struct call *call, const struct json_value *reply)
{
    const char *values[VALUES_MAX];
    size_t count = gather(call->state, reply, values);

    answer_values(call_server(call), &call->target, values, count,
                  json_bool(json_get(reply, "hasMore"), false));
    call_end(call);
}

/* Without a supervisor there is nothing to offer. */
static void on_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    (void)err;
    (void)fate;
    answer_values(call_server(call), &call->target, NULL, 0, false);
    call_end(call);
}

static const struct call_form form = {
    .begin = on_begin,
    .reply = on_reply,
    .fail = on_fail,
    .free_state = free_completion,
};

/* What REF refers to exists; *TAKES tells whether it has ARGUMENT. */
static bool find_reference(const struct json_value *ref, const char *argument, bool *takes)
{
    const char *type = json_string(json_get(ref, "type"));
    const char *name = json_string(json_get(ref, "name"));
    const char *uri = json_string(json_get(ref, "uri"));
    const char *variable;

    if (str_equal(type, "ref/prompt") && name && prompts_exist(name)) {
        *takes = prompts_take(name, argument);
        return true;
    }
    variable = str_equal(type, "ref/resource") && uri ? resource_variable(uri) : NULL;
    *takes = variable && strcmp(variable, argument) == 0;
    return variable != NULL;
}

static const struct source *find_source(const char *argument)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        if (strcmp(sources[i].argument, argument) == 0)
            return &sources[i];
    return NULL;
}

void complete_on_request(struct server *server, const struct request *request)
{
    const struct json_value *argument = request_param(request, "argument");
    const char *name = json_string(json_get(argument, "name"));
    const char *value = json_string(json_get(argument, "value"));
    const struct source *source = name ? find_source(name) : NULL;
    struct completion *completion;
    bool takes = false;

    if (!name || !value) {
        server_refuse_params(server, request,
                             "params.argument must have the strings name and value");
    } else if (!find_reference(request_param(request, "ref"), name, &takes)) {
        server_refuse_params(server, request, "params.ref names no prompt or template");
    } else if (!takes || !source || strlen(value) > START_MAX) {
        answer_values(server, &request->target, NULL, 0, false);
    } else {
        completion = NEW(struct completion);
        completion->source = source;
        completion->start = mem_strdup(value);
        calls_start(server_calls(server), &request->target, &form, completion);
    }
}
