#include "agent/opencode/opencode_part.h"

#include <string.h>

#include "agent/agent_json.h"
#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

#define OUTPUT_MAX 4096 /* bytes of a tool's output */
#define TITLE_MAX 300
#define OPTIONS_MAX 32

/* Tools --------------------------------------------------------------------------------------- */

/* What a tool's input is best known by, before it has a title. */
static const char *const telling_inputs[] = { "command", "filePath",    "pattern", "url",
                                              "query",   "description", "path",    "name" };

static const char *tool_title(const struct json_value *part)
{
    const struct json_value *state = json_get(part, "state");
    const char *title = agent_json_text(json_get(state, "title"));

    for (size_t i = 0; i < ARRAY_LEN(telling_inputs) && title[0] == '\0'; i++)
        title = agent_json_text(json_get(json_get(state, "input"), telling_inputs[i]));
    return title;
}

/* One line: what follows the first line of a command is seen in the data. */
static void write_tool_text(struct buf *text, const char *tool, const char *title)
{
    size_t line = strcspn(title, "\r\n");

    agent_append_cut(text, tool, 64);
    if (line == 0)
        return;
    buf_append(text, ": ", 2);
    buf_append(text, title, line <= TITLE_MAX ? line : str_utf8_cut(title, TITLE_MAX));
    if (line > TITLE_MAX || title[line] != '\0')
        buf_append_str(text, " …");
}

static void write_tool_data(struct json_writer *writer, const struct json_value *part,
                            const char *title)
{
    const struct json_value *state = json_get(part, "state");
    const struct json_value *exit_code = json_path(state, "metadata.exit");
    const char *output = agent_json_text(json_get(state, "output"));
    uint64_t begin = json_u64(json_path(state, "time.start"), 0);
    uint64_t end = json_u64(json_path(state, "time.end"), 0);

    agent_member_cut(writer, "tool", agent_json_text(json_get(part, "tool")), 64);
    agent_member_cut(writer, "title", title, 4 * TITLE_MAX);
    json_member_string(writer, "status", agent_json_text(json_get(state, "status")));
    if (json_kind(exit_code) == JSON_KIND_NUMBER)
        json_member_double(writer, "exit", json_number(exit_code, 0));
    agent_member_cut(writer, "output", output, OUTPUT_MAX);
    json_member_bool(writer, "truncated",
                     strlen(output) > OUTPUT_MAX ||
                         json_bool(json_path(state, "metadata.truncated"), false));
    if (json_kind(json_get(state, "error")) == JSON_KIND_STRING)
        agent_member_cut(writer, "error", agent_json_text(json_get(state, "error")), OUTPUT_MAX);
    if (begin > 0 && end >= begin)
        json_member_u64(writer, "durationMs", end - begin);
}

static enum agent_event_kind read_tool(const struct json_value *part, bool child, struct buf *text,
                                       struct buf *data)
{
    const char *status = agent_json_text(json_path(part, "state.status"));
    const char *title = tool_title(part);
    struct json_writer writer;
    bool ended = str_equal(status, "completed") || str_equal(status, "error");

    if (!ended && !str_equal(status, "running"))
        return AGENT_EVENT_ALIVE;
    write_tool_text(text, agent_json_text(json_get(part, "tool")), title);
    if (!ended)
        return AGENT_EVENT_TOOL_START;
    json_write_init(&writer, data);
    json_write_object(&writer);
    write_tool_data(&writer, part, title);
    if (child)
        json_member_bool(&writer, "subagent", true);
    json_write_object_end(&writer);
    return AGENT_EVENT_TOOL;
}

/* Text ---------------------------------------------------------------------------------------- */

/* A piece is whole when it has an end; the model's pieces do, a user's have no time at all. */
static enum agent_event_kind read_text(const struct json_value *part, enum agent_event_kind kind,
                                       bool child, struct buf *text, struct buf *data)
{
    const char *words = agent_json_text(json_get(part, "text"));

    if (json_u64(json_path(part, "time.end"), 0) == 0 || str_blank(words) ||
        json_bool(json_get(part, "synthetic"), false))
        return AGENT_EVENT_ALIVE;
    agent_append_cut(text, words, OPENCODE_PART_TEXT_MAX);
    if (child)
        buf_append_str(data, "{\"subagent\":true}");
    return kind;
}

enum agent_event_kind opencode_part_read(const struct json_value *part, bool child,
                                         struct buf *text, struct buf *data)
{
    const char *type = agent_json_text(json_get(part, "type"));

    if (str_equal(type, "text"))
        return read_text(part, AGENT_EVENT_TEXT, child, text, data);
    if (str_equal(type, "reasoning"))
        return read_text(part, AGENT_EVENT_REASONING, child, text, data);
    if (str_equal(type, "tool"))
        return read_tool(part, child, text, data);
    return AGENT_EVENT_ALIVE;
}

/* Requests ------------------------------------------------------------------------------------ */

void opencode_permission_read(const struct json_value *request, struct buf *text, struct buf *data)
{
    static const char *const answers[] = { "once", "always", "reject" };
    const char *permission = agent_json_text(json_get(request, "permission"));
    const char *command = agent_json_text(json_path(request, "metadata.command"));
    const struct json_value *patterns = json_get(request, "patterns");
    struct json_writer writer;
    size_t count = 0;

    agent_append_cut(text, permission, 64);
    buf_append(text, ": ", 2);
    agent_append_cut(text, command[0] != '\0' ? command : agent_json_text(json_first(patterns)),
                     4 * TITLE_MAX);
    json_write_init(&writer, data);
    json_write_object(&writer);
    json_write_name(&writer, "options");
    json_write_array(&writer);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        json_write_string(&writer, answers[i]);
    json_write_array_end(&writer);
    agent_member_cut(&writer, "permission", permission, 64);
    json_write_name(&writer, "patterns");
    json_write_array(&writer);
    for (const struct json_value *pattern = json_first(patterns);
         pattern != NULL && count < OPTIONS_MAX; pattern = json_next(pattern), count++)
        json_write_bytes(&writer, agent_json_text(pattern),
                         strnlen(agent_json_text(pattern), TITLE_MAX));
    json_write_array_end(&writer);
    json_write_object_end(&writer);
}

static void write_options(struct json_writer *writer, const struct json_value *question)
{
    size_t count = 0;

    json_write_name(writer, "options");
    json_write_array(writer);
    for (const struct json_value *option = json_first(json_get(question, "options"));
         option != NULL && count < OPTIONS_MAX; option = json_next(option), count++)
        json_write_bytes(writer, agent_json_text(json_get(option, "label")),
                         strnlen(agent_json_text(json_get(option, "label")), TITLE_MAX));
    json_write_array_end(writer);
}

void opencode_question_read(const struct json_value *request, struct buf *text, struct buf *data)
{
    const struct json_value *questions = json_get(request, "questions");
    struct json_writer writer;
    size_t count = 0;

    json_write_init(&writer, data);
    json_write_object(&writer);
    write_options(&writer, json_first(questions));
    json_write_name(&writer, "questions");
    json_write_array(&writer);
    for (const struct json_value *question = json_first(questions); question != NULL && count < 16;
         question = json_next(question), count++) {
        const char *words = agent_json_text(json_get(question, "question"));

        if (count > 0)
            buf_append(text, "\n", 1);
        agent_append_cut(text, words, 2000);
        json_write_object(&writer);
        agent_member_cut(&writer, "question", words, 2000);
        json_member_bool(&writer, "multiple", json_bool(json_get(question, "multiple"), false));
        write_options(&writer, question);
        json_write_object_end(&writer);
    }
    json_write_array_end(&writer);
    json_write_object_end(&writer);
}
