#include "mcp-stdio/resources.h"

#include <stdlib.h>
#include <string.h>

#include "common/id.h"
#include "common/mem.h"
#include "common/str.h"
#include "mcp-stdio/call.h"
#include "mcp-stdio/tools.h"
#include "mcp-stdio/view.h"

#define URI_MAX 2048
#define TEXT_MAX (4u << 20) /* bytes of a resource's text */
#define PAGE_RUNS 20
#define LOG_PAGE 1000

/* What there is. An address is the scheme, an id and the ending. */
static const struct resource_type {
    enum resource_kind kind;
    const char *scheme;
    const char *ending;
    const char *uri_template; /* NULL: no id, the scheme is the whole address */
    const char *variable;
    const char *name;
    const char *title;
    const char *description;
    const char *mime_type;
} types[] = {
    { RESOURCE_RESULT, "run://", "/result", "run://{runId}/result", "runId", "result",
      "Result of a run", "How a run stands, or its result: answer, evidence, usage.",
      "text/plain" },
    { RESOURCE_LOG, "run://", "/log", "run://{runId}/log", "runId", "log", "Log of a run",
      "Everything that happened in a run, in order.", "text/plain" },
    { RESOURCE_DIFF, "run://", "/diff", "run://{runId}/diff", "runId", "diff", "Changes of a run",
      "What a run changed, as a unified diff, once it has ended.", "text/x-diff" },
    { RESOURCE_SESSION, "session://", "", "session://{sessionId}", "sessionId", "session",
      "Session", "The runs of a session, newest first.", "text/plain" },
    { RESOURCE_VIEW, VIEW_URI, "", NULL, NULL, "view", "View of a run",
      "A page that shows a run as it goes on, for hosts of MCP Apps.", VIEW_MIME_TYPE },
};

static const struct resource_type *type_of(enum resource_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].kind == kind)
            return &types[i];
    return NULL;
}

static bool is_plain(const char *text, size_t len)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") >= len;
}

static bool matches(const struct resource_type *type, const char *uri, struct resource *out)
{
    const char *id = uri + strlen(type->scheme);
    size_t ending = strlen(type->ending);
    size_t len;

    if (!str_starts(uri, type->scheme))
        return false;
    len = strlen(id);
    if (!type->uri_template)
        return len == 0;
    if (len <= ending || strcmp(id + len - ending, type->ending) != 0)
        return false;
    len -= ending;
    if (len >= sizeof(out->id) || !is_plain(id, len))
        return false;
    memcpy(out->id, id, len);
    out->id[len] = '\0';
    return true;
}

bool resource_parse(const char *uri, struct resource *out)
{
    *out = (struct resource){ .id = "" };
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (matches(&types[i], uri, out)) {
            out->kind = types[i].kind;
            return true;
        }
    }
    return false;
}

const char *resource_variable(const char *uri_template)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].uri_template && strcmp(types[i].uri_template, uri_template) == 0)
            return types[i].variable;
    return NULL;
}

void resources_refuse(struct server *server, const struct server_target *target, const char *uri)
{
    AUTO_BUF struct buf data = BUF_INIT(8 * URI_MAX);
    struct json_writer writer;

    json_write_init(&writer, &data);
    json_write_object(&writer);
    json_write_name(&writer, "uri");
    json_write_bytes(&writer, uri, str_utf8_cut(uri, strnlen(uri, URI_MAX)));
    json_write_object_end(&writer);
    server_refuse(server, target, target->era->not_found, "Resource not found", buf_text(&data));
}

/* resources/templates/list --------------------------------------------------------------------- */

void resources_on_templates(struct server *server, const struct request *request)
{
    struct server_answer answer;

    if (server_refuse_cursor(server, request) < 0)
        return;
    server_answer_begin(&answer, server, &request->target);
    json_write_name(&answer.writer, "resourceTemplates");
    json_write_array(&answer.writer);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (!types[i].uri_template)
            continue;
        json_write_object(&answer.writer);
        json_member_string(&answer.writer, "uriTemplate", types[i].uri_template);
        json_member_string(&answer.writer, "name", types[i].name);
        json_member_string(&answer.writer, "title", types[i].title);
        json_member_string(&answer.writer, "description", types[i].description);
        json_member_string(&answer.writer, "mimeType", types[i].mime_type);
        json_write_object_end(&answer.writer);
    }
    json_write_array_end(&answer.writer);
    request->target.era->write_cache(&answer.writer, CACHE_EVERYONE);
    server_answer_end(&answer);
}

/* resources/list ------------------------------------------------------------------------------- */

static void write_resource(struct json_writer *writer, enum resource_kind kind,
                           const struct json_value *run)
{
    const struct resource_type *type = type_of(kind);
    const char *id = json_string(json_get(run, "runId"));
    const char *title = json_string(json_get(run, "title"));
    AUTO_BUF struct buf uri = BUF_INIT(URI_MAX);
    AUTO_BUF struct buf text = BUF_INIT(URI_MAX);

    buf_printf(&uri, "%s%s%s", type->scheme, id ? id : "", type->ending);
    json_write_object(writer);
    json_member_string(writer, "uri", buf_text(&uri));
    buf_printf(&text, "%s %s", type->name, id ? id : "");
    json_member_string(writer, "name", buf_text(&text));
    buf_clear(&text);
    buf_printf(&text, "%s: %.200s", type->title, title ? title : id ? id : "");
    json_member_string(writer, "title", buf_text(&text));
    json_member_string(writer, "mimeType", type->mime_type);
    json_write_object_end(writer);
}

static void answer_list(struct call *call, const struct json_value *reply)
{
    const char *cursor = json_string(json_get(reply, "cursor"));
    struct server_answer answer;

    server_answer_begin(&answer, call_server(call), &call->target);
    json_write_name(&answer.writer, "resources");
    json_write_array(&answer.writer);
    for (const struct json_value *run = json_first(json_get(reply, "runs")); run;
         run = json_next(run)) {
        write_resource(&answer.writer, RESOURCE_RESULT, run);
        write_resource(&answer.writer, RESOURCE_LOG, run);
        if (json_get(run, "completedAt"))
            write_resource(&answer.writer, RESOURCE_DIFF, run);
    }
    json_write_array_end(&answer.writer);
    if (json_bool(json_get(reply, "hasMore"), false))
        json_member_string_opt(&answer.writer, "nextCursor", cursor);
    call->target.era->write_cache(&answer.writer, CACHE_NOBODY);
    server_answer_end(&answer);
    call_end(call);
}

static void on_list_begin(struct call *call)
{
    call_ask(call, METHOD_RUN_LIST, call->state, 0);
}

/* Clients list resources when they start, and nothing is started for that: without a supervisor
 * there are no runs that it could show. */
static void on_list_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    (void)err;
    (void)fate;
    answer_list(call, NULL);
}

static const struct call_form list_form = {
    .begin = on_list_begin,
    .reply = answer_list,
    .fail = on_list_fail,
    .free_state = free,
};

void resources_on_list(struct server *server, const struct request *request)
{
    const struct json_value *cursor = request_param(request, "cursor");
    const char *before = json_string(cursor);

    if (json_kind(cursor) != JSON_KIND_NULL && (!before || !id_parse(ID_KIND_RUN, before, NULL))) {
        server_refuse_params(server, request, "unknown cursor");
        return;
    }
    calls_start(server_calls(server), &request->target, &list_form,
                before ? mem_printf("{\"limit\":%d,\"before\":\"%s\"}", PAGE_RUNS, before)
                       : mem_printf("{\"limit\":%d}", PAGE_RUNS));
}

/* resources/read ------------------------------------------------------------------------------- */

struct reading {
    struct resource resource;
    char *uri;
    struct buf text;
};

static void free_reading(void *data)
{
    struct reading *reading = data;

    buf_finish(&reading->text);
    free(reading->uri);
    free(reading);
}

static void write_contents(struct json_writer *writer, const char *uri,
                           const struct resource_type *type, const char *text, size_t len)
{
    json_write_name(writer, "contents");
    json_write_array(writer);
    json_write_object(writer);
    json_member_string(writer, "uri", uri);
    json_member_string(writer, "mimeType", type->mime_type);
    json_write_name(writer, "text");
    json_write_bytes(writer, text, len);
    json_write_object_end(writer);
    json_write_array_end(writer);
}

static void answer_text(struct call *call)
{
    struct reading *reading = call->state;
    struct server_answer answer;

    server_answer_begin(&answer, call_server(call), &call->target);
    write_contents(&answer.writer, reading->uri, type_of(reading->resource.kind),
                   buf_text(&reading->text), reading->text.len);
    call->target.era->write_cache(&answer.writer, CACHE_NOBODY);
    server_answer_end(&answer);
    call_end(call);
}

static void ask_log(struct call *call, uint64_t after)
{
    struct reading *reading = call->state;
    AUTO_BUF struct buf body = BUF_INIT(256);

    buf_printf(&body, "{\"runId\":\"%s\",\"after\":%llu,\"limit\":%d}", reading->resource.id,
               (unsigned long long)after, LOG_PAGE);
    call_ask(call, METHOD_RUN_EVENTS, buf_text(&body), 0);
}

static void on_read_begin(struct call *call)
{
    struct reading *reading = call->state;
    AUTO_BUF struct buf body = BUF_INIT(256);

    switch (reading->resource.kind) {
    case RESOURCE_RESULT:
        call_ask_run(call, METHOD_RUN_GET, reading->resource.id);
        break;
    case RESOURCE_LOG:
        ask_log(call, 0);
        break;
    case RESOURCE_DIFF:
        call_ask_run(call, METHOD_RUN_DIFF, reading->resource.id);
        break;
    case RESOURCE_SESSION:
        buf_printf(&body, "{\"sessionId\":\"%s\",\"limit\":100}", reading->resource.id);
        call_ask(call, METHOD_RUN_LIST, buf_text(&body), 0);
        break;
    case RESOURCE_VIEW:
        break;
    }
}

/* One page; false when another one is on its way. */
static bool append_log(struct call *call, const struct json_value *reply)
{
    struct reading *reading = call->state;
    const struct json_value *events = json_get(reply, "events");

    for (const struct json_value *event = json_first(events); event; event = json_next(event))
        tool_run_say_event(&reading->text, event);
    if (reading->text.failed) {
        reading->text.failed = false;
        buf_append_str(&reading->text, "…\n");
        return true;
    }
    if (!json_bool(json_get(reply, "hasMore"), false) || json_count(events) == 0)
        return true;
    ask_log(call, json_u64(json_get(reply, "cursor"), 0));
    return false;
}

static void on_read_reply(struct call *call, const struct json_value *reply)
{
    struct reading *reading = call->state;
    const char *diff = json_string(json_get(reply, "diff"));

    switch (reading->resource.kind) {
    case RESOURCE_RESULT:
        tool_run_result_render(reply, TEXT_MAX, &reading->text);
        break;
    case RESOURCE_LOG:
        if (!append_log(call, reply))
            return;
        break;
    case RESOURCE_DIFF:
        buf_append_str(&reading->text, diff ? diff : "");
        break;
    case RESOURCE_SESSION:
        if (json_count(json_get(reply, "runs")) == 0) {
            resources_refuse(call_server(call), &call->target, reading->uri);
            call_end(call);
            return;
        }
        tool_run_list_render(reply, TEXT_MAX, &reading->text);
        break;
    case RESOURCE_VIEW:
        break;
    }
    answer_text(call);
}

static void on_read_fail(struct call *call, const struct error *err, enum call_fate fate)
{
    struct reading *reading = call->state;

    if (fate == CALL_REFUSED && err->code == ERR_CONFLICT) { /* there is no diff yet */
        buf_printf(&reading->text, "%s\n", err->text);
        answer_text(call);
        return;
    }
    if (fate == CALL_REFUSED && (err->code == ERR_NOT_FOUND || err->code == ERR_INVALID))
        resources_refuse(call_server(call), &call->target, reading->uri);
    else
        server_refuse(call_server(call), &call->target, JSONRPC_INTERNAL_ERROR, err->text, NULL);
    call_end(call);
}

static const struct call_form read_form = {
    .begin = on_read_begin,
    .reply = on_read_reply,
    .fail = on_read_fail,
    .free_state = free_reading,
    .starts_supervisor = true,
};

static void answer_view(struct server *server, const struct request *request)
{
    struct server_answer answer;

    server_answer_begin(&answer, server, &request->target);
    write_contents(&answer.writer, VIEW_URI, type_of(RESOURCE_VIEW), view_html, strlen(view_html));
    request->target.era->write_cache(&answer.writer, CACHE_EVERYONE);
    server_answer_end(&answer);
}

void resources_on_read(struct server *server, const struct request *request)
{
    const char *uri = json_string(request_param(request, "uri"));
    struct reading *reading;
    struct resource resource;

    if (!uri) {
        server_refuse_params(server, request, "params.uri must be a string");
    } else if (!resource_parse(uri, &resource)) {
        resources_refuse(server, &request->target, uri);
    } else if (resource.kind == RESOURCE_VIEW) {
        answer_view(server, request);
    } else {
        reading = NEW(struct reading);
        reading->resource = resource;
        reading->uri = mem_strdup(uri);
        buf_init(&reading->text, TEXT_MAX);
        calls_start(server_calls(server), &request->target, &read_form, reading);
    }
}
