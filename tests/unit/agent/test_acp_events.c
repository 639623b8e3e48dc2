#include "agent/acp/acp_events.h"

#include <string.h>

#include "agent/acp/acp_rpc.h"
#include "agent/acp/acp_verdict.h"
#include "common/mem.h"
#include "harness/test.h"

/* Lines of agents, in the form that each of them uses, as events. */

struct reader {
    struct acp_events *events;
    struct buf log;
    bool worked;
    unsigned junk;
};

static void on_event(void *data, const struct agent_event *event)
{
    struct reader *reader = data;
    static const char *const names[] = {
        [AGENT_EVENT_TEXT] = "text", [AGENT_EVENT_REASONING] = "reasoning",
        [AGENT_EVENT_TOOL] = "tool", [AGENT_EVENT_TOOL_START] = "start",
        [AGENT_EVENT_TODO] = "todo", [AGENT_EVENT_TITLE] = "title",
        [AGENT_EVENT_LOG] = NULL
    };

    if (event->kind != AGENT_EVENT_ALIVE)
        buf_printf(&reader->log, "%s %s%s%s\n", names[event->kind], event->text,
                   event->data != NULL ? " " : "", event->data != NULL ? event->data : "");
}

static void on_message(void *data, const struct acp_message *message)
{
    struct reader *reader = data;

    reader->worked |= acp_events_update(reader->events, json_get(message->body, "update"));
}

static void on_junk(void *data, const char *line, size_t len)
{
    struct reader *reader = data;

    reader->junk++;
    buf_printf(&reader->log, "junk %.*s\n", (int)len, line);
}

static void reader_init(struct reader *reader)
{
    const struct acp_events_callbacks callbacks = { on_event, reader };

    *reader = (struct reader){ .events = acp_events_new(&callbacks) };
    buf_init(&reader->log, 1 << 20);
}

static void reader_finish(struct reader *reader)
{
    acp_events_free(reader->events);
    buf_finish(&reader->log);
}

/* Each of the COUNT updates as a line, all of them cut into pieces of PIECE bytes. */
static void feed(struct reader *reader, const char *const *updates, size_t count, size_t piece)
{
    const struct acp_rpc_callbacks callbacks = { on_message, on_junk, reader };
    AUTO_BUF struct buf lines = BUF_INIT(1 << 20);
    struct acp_rpc rpc;

    for (size_t i = 0; i < count; i++)
        buf_printf(&lines, "{\"method\":\"session/update\",\"params\":{\"update\":%s}}\n",
                   updates[i]);
    acp_rpc_init(&rpc, &callbacks);
    for (size_t at = 0; at < lines.len; at += piece)
        acp_rpc_feed(&rpc, lines.data + at, lines.len - at < piece ? lines.len - at : piece);
    acp_rpc_end(&rpc);
    acp_rpc_finish(&rpc);
}

TEST(a_turn_is_told_in_whole_pieces_however_it_is_cut)
{
    static const char *const updates[] = {
        ("{\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":\"text\",\"text\":"
         "\"Hm\"}"
         "}"),
        ("{\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":\"text\",\"text\":\"m."
         "\"}"
         "}"),
        "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"\"}}",
        ("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"I "
         "run "
         "\"}}"),
        ("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"it."
         "\"}}"),
        /* Claude's: the title comes second. */
        ("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c1\",\"title\":\"Terminal\",\"kind\":"
         "\"execute\",\"status\":\"pending\",\"rawInput\":{}}"),
        ("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c1\",\"title\":\"make "
         "check\",\"kind\":\"execute\",\"rawInput\":{\"command\":\"make check\"}}"),
        ("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c1\",\"status\":\"failed\","
         "\"rawOutput\":\"Exit code 1\"}"),
        /* Codex's: the output is an object. */
        ("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c2\",\"title\":\"ls\\nls b\",\"kind\":"
         "\"execute\",\"status\":\"in_progress\"}"),
        ("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c2\",\"status\":\"completed\","
         "\"rawOutput\":{\"exit_code\":0,\"formatted_output\":\"a b\"}}"),
        /* Gemini's: only an end. */
        ("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c3\",\"status\":\"completed\","
         "\"title\":\"a.c\",\"kind\":\"edit\",\"content\":[{\"type\":\"diff\",\"path\":\"a.c\","
         "\"oldText\":\"x\",\"newText\":\"y\"}]}"),
        ("{\"sessionUpdate\":\"plan\",\"entries\":[{\"content\":\"look\",\"status\":\"completed\","
         "\"priority\":\"high\"},{\"content\":\"mend\",\"status\":\"pending\"}]}"),
        "{\"sessionUpdate\":\"session_info_update\",\"title\":\"A title\"}",
        "{\"sessionUpdate\":\"available_commands_update\",\"availableCommands\":[]}",
        ("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":"
         "\"Done."
         "\"}}"),
    };
    static const char log[] =
        "reasoning Hmm.\n"
        "text I run it.\n"
        "start execute: Terminal\n"
        "start execute: make check\n"
        "tool execute: make check {\"tool\":\"execute\",\"title\":\"make check\",\"status\":"
        "\"error\",\"output\":\"Exit code 1\",\"truncated\":false}\n"
        "start execute: ls …\n"
        "tool execute: ls … {\"tool\":\"execute\",\"title\":\"ls\\nls b\",\"status\":\"completed\","
        "\"exit\":0,\"output\":\"a b\",\"truncated\":false}\n"
        "tool edit: a.c {\"tool\":\"edit\",\"title\":\"a.c\",\"status\":\"completed\",\"output\":"
        "\"a.c\",\"truncated\":false}\n"
        "todo 1 of 2 done {\"todos\":[{\"content\":\"look\",\"status\":\"completed\",\"priority\":"
        "\"high\"},{\"content\":\"mend\",\"status\":\"pending\",\"priority\":\"\"}]}\n"
        "title A title\n"
        "text Done.\n";
    static const size_t pieces[] = { 1, 7, 100000 };

    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct reader reader;

        reader_init(&reader);
        acp_events_begin(reader.events, "");
        feed(&reader, updates, ARRAY_LEN(updates), pieces[i]);
        acp_events_end(reader.events);
        CHECK_STR(buf_text(&reader.log), log);
        CHECK_STR(acp_events_output(reader.events), "Done.");
        CHECK(reader.worked);
        reader_finish(&reader);
    }
}

TEST(a_new_message_id_ends_the_message_before)
{
    static const char *const updates[] = {
        ("{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"m1\",\"content\":{\"text\":"
         "\"One"
         "\"}}"),
        ("{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"m1\",\"content\":{\"text\":\"."
         "\"}"
         "}"),
        ("{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"m2\",\"content\":{\"text\":"
         "\"Two.\"}}"),
    };
    struct reader reader;

    reader_init(&reader);
    acp_events_begin(reader.events, "");
    feed(&reader, updates, ARRAY_LEN(updates), 50);
    acp_events_end(reader.events);
    CHECK_STR(buf_text(&reader.log), "text One.\ntext Two.\n");
    reader_finish(&reader);
}

TEST(what_is_told_outside_a_prompt_is_history)
{
    static const char *const updates[] = {
        "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"text\":\"Old.\"}}",
        ("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c1\",\"title\":\"old\",\"status\":"
         "\"completed\"}"),
    };
    struct reader reader;

    reader_init(&reader);
    feed(&reader, updates, ARRAY_LEN(updates), 50);
    CHECK(!reader.worked);
    acp_events_begin(reader.events, "");
    acp_events_end(reader.events);
    feed(&reader, updates, ARRAY_LEN(updates), 50);
    CHECK_STR(buf_text(&reader.log), "");
    reader_finish(&reader);
}

TEST(a_flood_of_text_is_cut)
{
    struct reader reader;
    AUTO_BUF struct buf update = BUF_INIT(1 << 20);
    const char *updates[8];

    buf_append_str(&update, "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"text\":\"");
    for (size_t i = 0; i < 20000; i++)
        buf_append_str(&update, "\xc3\xa4\xc3\xb6 ");
    buf_append_str(&update, "\"}}");
    for (size_t i = 0; i < ARRAY_LEN(updates); i++)
        updates[i] = buf_text(&update);
    reader_init(&reader);
    acp_events_begin(reader.events, "");
    feed(&reader, updates, ARRAY_LEN(updates), 4096);
    acp_events_end(reader.events);
    CHECK(strlen(acp_events_output(reader.events)) <= 256u << 10);
    CHECK(strlen(acp_events_output(reader.events)) > 250u << 10);
    reader_finish(&reader);
}

TEST(costs_count_from_the_prompt_on)
{
    static const char *const before[] = {
        "{\"sessionUpdate\":\"usage_update\",\"cost\":{\"amount\":0.5,\"currency\":\"USD\"}}"
    };
    static const char *const after[] = {
        "{\"sessionUpdate\":\"usage_update\",\"cost\":{\"amount\":0.75,\"currency\":\"USD\"}}",
        "{\"sessionUpdate\":\"usage_update\",\"cost\":{\"amount\":9,\"currency\":\"EUR\"}}",
        "{\"sessionUpdate\":\"usage_update\",\"cost\":{\"amount\":-1,\"currency\":\"USD\"}}",
        "{\"sessionUpdate\":\"usage_update\",\"used\":12}"
    };
    struct reader reader;
    uint64_t cost = 0;

    reader_init(&reader);
    acp_events_continued(reader.events);
    feed(&reader, before, 1, 100);
    acp_events_begin(reader.events, "");
    feed(&reader, after, ARRAY_LEN(after), 100);
    CHECK(acp_events_cost(reader.events, &cost));
    CHECK_EQ(cost, 250000);
    reader_finish(&reader);

    /* What an earlier process has spent is not known. */
    reader_init(&reader);
    acp_events_continued(reader.events);
    acp_events_begin(reader.events, "");
    feed(&reader, after, ARRAY_LEN(after), 100);
    CHECK(!acp_events_cost(reader.events, &cost));
    reader_finish(&reader);
}

/* Lines ---------------------------------------------------------------------------------------- */

static void feed_text(struct reader *reader, const char *text, bool torn)
{
    const struct acp_rpc_callbacks callbacks = { on_message, on_junk, reader };
    struct acp_rpc rpc;

    acp_rpc_init(&rpc, &callbacks);
    rpc.torn = torn;
    acp_rpc_feed(&rpc, text, strlen(text));
    acp_rpc_end(&rpc);
    acp_rpc_finish(&rpc);
}

TEST(what_is_no_message_is_shown_as_it_is)
{
    static const char *const rows[] = {
        "warning: old node", "[1]", "{\"jsonrpc\":\"2.0\"}", "{\"id\":{},\"method\":\"x\"}",
        "{\"id\":1}",        "{"
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE
        char *log = mem_printf("junk %s\n", rows[i]);
        AUTO_FREE
        char *line = mem_printf("%s\r\n\r\n", rows[i]);
        struct reader reader;

        reader_init(&reader);
        feed_text(&reader, line, false);
        CHECK_STR(buf_text(&reader.log), log);
        reader_finish(&reader);
        reader_init(&reader);
        feed_text(&reader, line, true);
        CHECK_STR(buf_text(&reader.log), "");
        reader_finish(&reader);
    }
}

TEST(a_line_without_end_costs_no_more_than_its_limit)
{
    const struct acp_rpc_callbacks callbacks = { on_message, on_junk, NULL };
    struct reader reader;
    struct acp_rpc rpc;
    AUTO_FREE
    char *piece = mem_new_zero(1, 1 << 20);

    memset(piece, 'x', 1 << 20);
    reader_init(&reader);
    struct acp_rpc_callbacks own = callbacks;
    own.data = &reader;
    acp_rpc_init(&rpc, &own);
    for (size_t i = 0; i < 6; i++)
        acp_rpc_feed(&rpc, piece, 1 << 20);
    CHECK(rpc.line.cap <= 2 * ACP_LINE_MAX);
    acp_rpc_feed(&rpc, "\nafter\n", 7);
    acp_rpc_finish(&rpc);
    CHECK_STR(buf_text(&reader.log), "junk (a line of more than 4 MiB is left out)\njunk after\n");
    reader_finish(&reader);
}

/* Errors --------------------------------------------------------------------------------------- */

TEST(errors_have_our_codes)
{
    static const struct {
        const char *error;
        const char *code;
    } rows[] = {
        { "{\"code\":-32603,\"message\":\"Internal error: invalid x-api-key\",\"data\":{"
          "\"errorName\":\"APIError\"}}",
          "model_auth" },
        { "{\"code\":-32603,\"message\":\"Session too large\",\"data\":{\"errorName\":"
          "\"ContextOverflowError\"}}",
          "context_overflow" },
        { "{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"details\":\"API Error: 529 "
          "overloaded_error\"}}",
          "model_overloaded" },
        { "{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"message\":\"unexpected "
          "status 401 Unauthorized\"}}",
          "model_auth" },
        { "{\"code\":-32603,\"message\":\"Internal error\",\"data\":\"credit balance is too low\"}",
          "model_billing" },
        { "{\"code\":500,\"message\":\"fetch failed\"}", "model_unreachable" },
        { "{\"code\":-32603,\"message\":\"Internal error: Internal server error\"}",
          "model_error" },
        { "{}", "model_error" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_JSON struct json_doc *doc = NULL;
        struct opencode_failure failure;
        struct error err = ERROR_INIT;

        CHECK_EQ(json_parse(&doc, rows[i].error, strlen(rows[i].error), 4096, &err), 0);
        acp_failure_read(&failure, json_root(doc));
        CHECK_STR(failure.code, rows[i].code);
        CHECK(failure.message[0] != '\0');
    }
}
