#include "agent/acp/acp_events.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent_json.h"
#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

#define TEXT_MAX (256u << 10)
#define OUTPUT_MAX 4096 /* bytes of a tool's output */
#define TITLE_MAX 300
#define DATA_MAX (64u << 10)
#define ID_SIZE 160
#define COST_MAX 1e6 /* dollars: what is above is no price */

/* A tool call that has begun: its end names only its id. */
struct tool {
    char id[ID_SIZE]; /* "" free */
    char kind[64];
    char title[4 * TITLE_MAX];
    bool told; /* as the current step, under this title */
};

struct acp_events {
    struct acp_events_callbacks callbacks;
    bool active;
    bool stopped;
    struct buf text; /* the message that is being said */
    struct buf thought;
    char message_id[ID_SIZE];
    char *output;
    struct tool tools[ACP_TOOLS_MAX];
    size_t next_tool; /* the oldest: is given up for a new one */
    bool cost_known;
    bool base_known; /* what had been spent before the prompt */
    double cost;
    double base;
};

struct acp_events *acp_events_new(const struct acp_events_callbacks *callbacks)
{
    struct acp_events *events = NEW(struct acp_events);

    events->callbacks = *callbacks;
    events->output = mem_strdup("");
    events->base_known = true;
    buf_init(&events->text, TEXT_MAX);
    buf_init(&events->thought, TEXT_MAX);
    return events;
}

void acp_events_free(struct acp_events *events)
{
    buf_finish(&events->text);
    buf_finish(&events->thought);
    free(events->output);
    free(events);
}

void acp_events_stop(struct acp_events *events)
{
    events->stopped = true;
}

void acp_events_continued(struct acp_events *events)
{
    events->base_known = false;
}

static void tell(struct acp_events *events, const struct agent_event *event)
{
    if (!events->stopped)
        events->callbacks.on_event(events->callbacks.data, event);
}

static void tell_alive(struct acp_events *events)
{
    tell(events, &(struct agent_event){ .kind = AGENT_EVENT_ALIVE });
}

/* Text ---------------------------------------------------------------------------------------- */

/* Adds as much as there is room for, without splitting a character. */
static void add_piece(struct buf *to, const char *piece)
{
    size_t room = to->max - to->len;

    agent_append_cut(to, piece, room);
}

static void flush_thought(struct acp_events *events)
{
    const struct agent_event event = { .kind = AGENT_EVENT_REASONING,
                                       .text = buf_text(&events->thought) };

    if (!str_blank(event.text))
        tell(events, &event);
    buf_clear(&events->thought);
}

static void flush_text(struct acp_events *events)
{
    const struct agent_event event = { .kind = AGENT_EVENT_TEXT, .text = buf_text(&events->text) };

    if (!str_blank(event.text)) {
        free(events->output);
        events->output = mem_strdup(event.text);
        tell(events, &event);
    }
    buf_clear(&events->text);
    events->message_id[0] = '\0';
}

static void flush(struct acp_events *events)
{
    flush_thought(events);
    flush_text(events);
}

/* A text, or a resource that holds one. */
static const char *content_text(const struct json_value *content)
{
    const char *text = json_string(json_get(content, "text"));

    return text != NULL ? text : agent_json_text(json_path(content, "resource.text"));
}

static void on_message(struct acp_events *events, const struct json_value *update)
{
    const char *id = agent_json_text(json_get(update, "messageId"));

    flush_thought(events);
    if (events->text.len > 0 && id[0] != '\0' && strncmp(id, events->message_id, ID_SIZE - 1) != 0)
        flush_text(events);
    str_copy(events->message_id, sizeof(events->message_id), id);
    add_piece(&events->text, content_text(json_get(update, "content")));
    tell_alive(events);
}

static void on_thought(struct acp_events *events, const struct json_value *update)
{
    flush_text(events);
    add_piece(&events->thought, content_text(json_get(update, "content")));
    tell_alive(events);
}

/* Plan ---------------------------------------------------------------------------------------- */

static void write_todo(struct json_writer *writer, const struct json_value *todo)
{
    json_write_object(writer);
    agent_member_cut(writer, "content", agent_json_text(json_get(todo, "content")), 1000);
    agent_member_cut(writer, "status", agent_json_text(json_get(todo, "status")), 32);
    agent_member_cut(writer, "priority", agent_json_text(json_get(todo, "priority")), 32);
    json_write_object_end(writer);
}

static void tell_todos(struct acp_events *events, const struct json_value *todos)
{
    AUTO_BUF struct buf data = BUF_INIT(2 * DATA_MAX);
    char text[AGENT_TODOS_TEXT];

    if (agent_todos_write(todos, write_todo, &data, text))
        tell(events, &(struct agent_event){
                         .kind = AGENT_EVENT_TODO, .text = text, .data = buf_text(&data) });
}

/* Tools --------------------------------------------------------------------------------------- */

/* What a call is best known by when it has no title of its own. */
static const char *const telling_inputs[] = { "command", "cmd",   "file_path",   "filePath",
                                              "path",    "query", "pattern",     "url",
                                              "prompt",  "name",  "description", "task" };

static struct tool *tool_find(struct acp_events *events, const char *id)
{
    for (size_t i = 0; i < ACP_TOOLS_MAX; i++) {
        if (id[0] != '\0' && strncmp(events->tools[i].id, id, ID_SIZE - 1) == 0)
            return &events->tools[i];
    }
    return NULL;
}

static struct tool *tool_add(struct acp_events *events, const char *id)
{
    struct tool *tool = NULL;

    for (size_t i = 0; i < ACP_TOOLS_MAX && tool == NULL; i++) {
        if (events->tools[i].id[0] == '\0')
            tool = &events->tools[i];
    }
    if (tool == NULL)
        tool = &events->tools[events->next_tool++ % ACP_TOOLS_MAX];
    *tool = (struct tool){ .kind = "tool" };
    str_copy(tool->id, sizeof(tool->id), id);
    return tool;
}

static void tool_name(struct tool *tool, const char *title)
{
    if (title[0] == '\0' || strncmp(title, tool->title, sizeof(tool->title) - 1) == 0)
        return;
    str_copy(tool->title, sizeof(tool->title), title);
    tool->told = false;
}

static void tool_read(struct tool *tool, const struct json_value *update)
{
    const char *kind = agent_json_text(json_get(update, "kind"));
    const char *title = agent_json_text(json_get(update, "title"));
    const struct json_value *input = json_get(update, "rawInput");

    if (kind[0] != '\0')
        str_copy(tool->kind, sizeof(tool->kind), kind);
    for (size_t i = 0; i < ARRAY_LEN(telling_inputs) && title[0] == '\0' && tool->title[0] == '\0';
         i++)
        title = agent_json_text(json_get(input, telling_inputs[i]));
    tool_name(tool, title);
}

/* One line: what follows the first line of a command is seen in the data. */
static void write_tool_text(struct buf *text, const struct tool *tool)
{
    size_t line = strcspn(tool->title, "\r\n");

    agent_append_cut(text, tool->kind, sizeof(tool->kind));
    if (line == 0)
        return;
    buf_append_str(text, ": ");
    buf_append(text, tool->title, line <= TITLE_MAX ? line : str_utf8_cut(tool->title, TITLE_MAX));
    if (line > TITLE_MAX || tool->title[line] != '\0')
        buf_append_str(text, " …");
}

/* The texts and the changed files in a call's content, each on its own lines. */
static void append_content(struct buf *output, const struct json_value *content)
{
    for (const struct json_value *item = json_first(content);
         item != NULL && output->len <= OUTPUT_MAX; item = json_next(item)) {
        const char *text = content_text(json_get(item, "content"));

        if (str_equal(json_string(json_get(item, "type")), "diff"))
            text = agent_json_text(json_get(item, "path"));
        if (text[0] == '\0')
            continue;
        if (output->len > 0)
            buf_append_char(output, '\n');
        agent_append_cut(output, text, OUTPUT_MAX + 1);
    }
}

/* Agents tell a tool's output in many forms. */
static void append_output(struct buf *output, const struct json_value *update)
{
    static const char *const members[] = { "formatted_output", "aggregated_output", "output",
                                           "stdout" };
    const struct json_value *raw = json_get(update, "rawOutput");

    agent_append_cut(output, agent_json_text(raw), OUTPUT_MAX + 1);
    for (size_t i = 0; i < ARRAY_LEN(members) && output->len == 0; i++)
        agent_append_cut(output, agent_json_text(json_get(raw, members[i])), OUTPUT_MAX + 1);
    if (output->len == 0)
        append_content(output, json_get(update, "content"));
}

static const struct json_value *exit_code_of(const struct json_value *update)
{
    const struct json_value *code = json_path(update, "rawOutput.exit_code");

    return code != NULL ? code : json_path(update, "rawOutput.metadata.exit");
}

static void tell_tool_end(struct acp_events *events, const struct tool *tool,
                          const struct json_value *update, const char *status)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    AUTO_BUF struct buf data = BUF_INIT(DATA_MAX);
    AUTO_BUF struct buf output = BUF_INIT(4 * OUTPUT_MAX);
    const struct json_value *code = exit_code_of(update);
    struct json_writer writer;
    struct agent_event event = { .kind = AGENT_EVENT_TOOL, .key = tool->id };

    write_tool_text(&text, tool);
    append_output(&output, update);
    json_write_init(&writer, &data);
    json_write_object(&writer);
    agent_member_cut(&writer, "tool", tool->kind, sizeof(tool->kind));
    agent_member_cut(&writer, "title", tool->title, sizeof(tool->title));
    json_member_string(&writer, "status", str_equal(status, "failed") ? "error" : status);
    if (json_kind(code) == JSON_KIND_NUMBER)
        json_member_double(&writer, "exit", json_number(code, 0));
    agent_member_cut(&writer, "output", buf_text(&output), OUTPUT_MAX);
    json_member_bool(&writer, "truncated", output.len > OUTPUT_MAX);
    json_write_object_end(&writer);
    event.text = buf_text(&text);
    event.data = data.failed ? NULL : buf_text(&data);
    tell(events, &event);
}

static void tell_tool_start(struct acp_events *events, struct tool *tool)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct agent_event event = { .kind = AGENT_EVENT_TOOL_START };

    if (tool->told || tool->title[0] == '\0') {
        tell_alive(events);
        return;
    }
    tool->told = true;
    write_tool_text(&text, tool);
    event.text = buf_text(&text);
    tell(events, &event);
}

static void on_tool(struct acp_events *events, const struct json_value *update)
{
    const char *id = agent_json_text(json_get(update, "toolCallId"));
    const char *status = agent_json_text(json_get(update, "status"));
    const struct json_value *todos = json_path(update, "rawInput.todos");
    struct tool *tool = tool_find(events, id);

    flush(events);
    if (tool == NULL)
        tool = tool_add(events, id);
    tool_read(tool, update);
    /* Where the protocol's plan is not used, the list is in the call that writes it. */
    if (json_kind(todos) == JSON_KIND_ARRAY && str_equal(status, "completed"))
        tell_todos(events, todos);
    if (str_equal(status, "completed") || str_equal(status, "failed")) {
        tell_tool_end(events, tool, update, status);
        tool->id[0] = '\0';
    } else {
        tell_tool_start(events, tool);
    }
}

/* Cost ---------------------------------------------------------------------------------------- */

static void on_usage(struct acp_events *events, const struct json_value *update)
{
    const struct json_value *cost = json_get(update, "cost");
    double amount = json_number(json_get(cost, "amount"), -1);

    if (!str_equal(json_string(json_get(cost, "currency")), "USD") || amount < 0 ||
        amount > COST_MAX)
        return;
    events->cost = amount;
    events->cost_known = true;
}

bool acp_events_cost(const struct acp_events *events, uint64_t *microdollars)
{
    double spent = events->cost - events->base;

    if (!events->cost_known || !events->base_known)
        return false;
    *microdollars = spent > 0 ? (uint64_t)(spent * 1e6 + 0.5) : 0;
    return true;
}

/* Updates ------------------------------------------------------------------------------------- */

static void on_plan(struct acp_events *events, const struct json_value *update)
{
    tell_todos(events, json_get(update, "entries"));
}

static void on_info(struct acp_events *events, const struct json_value *update)
{
    const struct agent_event event = { .kind = AGENT_EVENT_TITLE,
                                       .text = agent_json_text(json_get(update, "title")) };

    if (event.text[0] != '\0')
        tell(events, &event);
}

static const struct update_kind {
    const char *name;
    void (*take)(struct acp_events *events, const struct json_value *update);
    bool work; /* comes only from the work on a prompt */
} kinds[] = {
    { "agent_message_chunk", on_message, true },
    { "agent_thought_chunk", on_thought, true },
    { "tool_call", on_tool, true },
    { "tool_call_update", on_tool, true },
    { "plan", on_plan, true },
    { "usage_update", on_usage, false },
    { "session_info_update", on_info, false },
};

bool acp_events_update(struct acp_events *events, const struct json_value *update)
{
    const char *name = agent_json_text(json_get(update, "sessionUpdate"));

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!str_equal(kinds[i].name, name))
            continue;
        /* Costs count at any time: those from before the prompt are its base. */
        if (events->active || kinds[i].take == on_usage)
            kinds[i].take(events, update);
        return events->active && kinds[i].work;
    }
    return false;
}

void acp_events_begin(struct acp_events *events, const char *output)
{
    size_t len = strlen(output);

    events->active = true;
    events->base_known = events->base_known || events->cost_known;
    events->base = events->cost_known ? events->cost : 0;
    free(events->output);
    events->output = mem_strndup(output, len < TEXT_MAX ? len : str_utf8_cut(output, TEXT_MAX));
    for (size_t i = 0; i < ACP_TOOLS_MAX; i++)
        events->tools[i].id[0] = '\0';
    buf_clear(&events->text);
    buf_clear(&events->thought);
}

void acp_events_end(struct acp_events *events)
{
    flush(events);
    events->active = false;
}

const char *acp_events_output(const struct acp_events *events)
{
    return events->output;
}
