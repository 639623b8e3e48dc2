#include "agent/opencode/opencode_events.h"

#include <dirent.h>
#include <string.h>

#include "agent/agent_json.h"
#include "agent/opencode/opencode_verdict.h"
#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"

/* Recorded streams (data/NAME.sse), the message list behind them (data/NAME.json) and what they
 * come to (data/NAME.txt). The recordings are cut: ids are short, what nobody reads is left out.
 * SANDBOX_WRITE_GOLDEN=1 writes the expectations anew. */

static const char *const event_names[] = {
    "alive",    "text",     "reasoning", "tool",    "tool start", "todo",  "permission",
    "question", "answered", "retry",     "running", "title",      "usage", "log",
};
static const char *const note_names[] = {
    "connected",  "taken", "busy",      "retry",  "idle",
    "child idle", "error", "answering", "finish", "lost",
};

static void write_event(void *data, const struct agent_event *event)
{
    struct buf *out = data;

    if (event->kind == AGENT_EVENT_ALIVE)
        return;
    buf_printf(out, "%s", event_names[event->kind]);
    if (event->request_id != NULL)
        buf_printf(out, " %s", event->request_id);
    if (event->text != NULL && event->text[0] != '\0')
        buf_printf(out, ": %.200s", event->text);
    if (event->data != NULL)
        buf_printf(out, " %.300s", event->data);
    if (event->kind == AGENT_EVENT_USAGE)
        buf_printf(out, " %llu in, %llu out, %llu read, %llu written, %llu microdollars",
                   (unsigned long long)event->usage.input_tokens,
                   (unsigned long long)event->usage.output_tokens,
                   (unsigned long long)event->usage.cache_read_tokens,
                   (unsigned long long)event->usage.cache_write_tokens,
                   (unsigned long long)event->usage.cost_microdollars);
    buf_append_char(out, '\n');
}

static void write_note(void *data, const struct opencode_note *note)
{
    struct buf *out = data;
    struct opencode_failure failure;

    buf_printf(out, "- %s", note_names[note->kind]);
    if (note->kind == OPENCODE_NOTE_FINISH)
        buf_printf(out, " %s", note->text);
    if (note->kind == OPENCODE_NOTE_ERROR) {
        opencode_failure_read(&failure, note->error);
        buf_printf(out, " %s%s: %s", failure.code, failure.aborted ? "aborted" : "",
                   failure.message);
    }
    buf_append_char(out, '\n');
}

static char *data_path(const char *name, const char *end)
{
    return mem_printf("%s/tests/unit/agent/data/%s%s", PROJECT_SOURCE_DIR, name, end);
}

static bool load(const char *name, const char *end, char **text, size_t *len)
{
    AUTO_FREE
    char *path = data_path(name, end);
    struct error err = ERROR_INIT;

    return fd_read_file(path, 4 << 20, text, len, &err) == 0;
}

/* Copies what stands behind MARK up to the next quote. */
static void copy_behind(const char *text, const char *mark, char to[OPENCODE_ID_SIZE])
{
    const char *at = text != NULL ? strstr(text, mark) : NULL;
    size_t len;

    to[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(mark);
    len = strcspn(at, "\"");
    if (len < OPENCODE_ID_SIZE) {
        memcpy(to, at, len);
        to[len] = '\0';
    }
}

static void write_verdict(const char *name, const char *prompt, struct buf *out)
{
    static const char *const kinds[] = { "missing", "silent", "open", "ended" };
    static const char *const ends[] = { "done", "incomplete", "failed", "aborted" };
    AUTO_FREE
    char *text = NULL;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    struct opencode_verdict verdict;
    size_t len;

    if (!load(name, ".json", &text, &len))
        return;
    CHECK_EQ(agent_json_parse(&doc, text, len, len, &err), 0);
    opencode_verdict_init(&verdict);
    opencode_verdict_read(&verdict, json_root(doc), prompt);
    buf_printf(out, "= %s", kinds[verdict.kind]);
    if (verdict.kind == OPENCODE_VERDICT_ENDED) {
        buf_printf(out, " %s [%s]", ends[verdict.end], verdict.finish);
        if (verdict.end == AGENT_END_FAILED)
            buf_printf(out, " %s%s: %s", verdict.failure.code,
                       verdict.failure.retryable ? " (retryable)" : "", verdict.failure.message);
    }
    if (verdict.tool_running)
        buf_append_str(out, " tool running");
    buf_printf(out, " %s\n", buf_text(&verdict.output));
    opencode_verdict_finish(&verdict);
}

static void replay(const char *name, size_t piece, struct buf *out)
{
    struct opencode_events_callbacks callbacks = { write_event, write_note, out };
    struct opencode_events *events = opencode_events_new(&callbacks);
    AUTO_FREE
    char *text = NULL;
    char session[OPENCODE_ID_SIZE];
    char prompt[OPENCODE_ID_SIZE];
    size_t len = 0;

    CHECK(load(name, ".sse", &text, &len));
    copy_behind(text, "\"sessionID\":\"", session);
    copy_behind(strstr(text, "\"message.updated\""), "\"info\":{\"id\":\"", prompt);
    opencode_events_follow(events, session);
    opencode_events_begin(events, prompt, 1);
    for (size_t at = 0; at < len; at += piece)
        opencode_events_feed(events, text + at, len - at < piece ? len - at : piece);
    opencode_events_free(events);
    write_verdict(name, prompt, out);
}

static void check_recording(const char *name)
{
    static const size_t pieces[] = { 1, 7, 1 << 20 };
    AUTO_FREE
    char *wanted = NULL;
    AUTO_FREE
    char *path = data_path(name, ".txt");
    struct error err = ERROR_INIT;
    size_t len = 0;

    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        AUTO_BUF struct buf out = { 0 };

        buf_init(&out, 1 << 20);
        replay(name, pieces[i], &out);
        if (getenv("SANDBOX_WRITE_GOLDEN") != NULL)
            CHECK_EQ(fd_replace_file(path, out.data, out.len, 0644, &err), 0);
        if (wanted == NULL)
            CHECK(load(name, ".txt", &wanted, &len));
        if (!str_equal(buf_text(&out), wanted))
            (void)fprintf(stderr, "%s:\n%s", name, buf_text(&out));
        CHECK(str_equal(buf_text(&out), wanted));
    }
}

TEST(every_recorded_stream_comes_to_the_same_events_however_it_is_split)
{
    AUTO_FREE
    char *folder = data_path("", "");
    DIR *dir = opendir(folder);
    struct dirent *entry;
    size_t count = 0;

    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        if (!str_ends(entry->d_name, ".sse"))
            continue;
        entry->d_name[strlen(entry->d_name) - 4] = '\0';
        check_recording(entry->d_name);
        count++;
    }
    closedir(dir);
    CHECK(count > 30);
}

static void feed_all(struct opencode_events *events, const char *text)
{
    opencode_events_feed(events, text, strlen(text));
}

TEST(frames_may_have_several_data_lines_comments_and_any_line_end)
{
    AUTO_BUF struct buf out = { 0 };
    struct opencode_events_callbacks callbacks = { write_event, write_note, &out };
    struct opencode_events *events = opencode_events_new(&callbacks);

    buf_init(&out, 4096);
    opencode_events_follow(events, "ses_1");
    feed_all(
        events,
        ": hello\r\nid: 7\r\nevent: x\r\ndata: {\"type\":\r\ndata:\"server.connected\"}\r\n\r\n");
    feed_all(events, "data:{\"type\":\"session.status\",\"properties\":{\"sessionID\":\"ses_1\","
                     "\"status\":{\"type\":\"busy\"}}}\r\r");
    feed_all(events, "data: "
                     "{\"type\":\"session.status\",\"properties\":{\"sessionID\":\"ses_2\","
                     "\"status\":{\"type\":\"busy\"}}}\n\n");
    feed_all(events, "data: no json\n\n\n\n");
    CHECK_STR(buf_text(&out), "- connected\n- busy\n- lost\n");
    opencode_events_free(events);
}

TEST(a_frame_that_is_too_long_is_skipped_and_told)
{
    AUTO_BUF struct buf out = { 0 };
    struct opencode_events_callbacks callbacks = { write_event, write_note, &out };
    struct opencode_events *events = opencode_events_new(&callbacks);
    AUTO_FREE
    char *block = mem_new_zero(1, 1 << 20);

    buf_init(&out, 4096);
    memset(block, 'x', 1 << 20);
    feed_all(events, "data: ");
    for (int i = 0; i < 20; i++)
        opencode_events_feed(events, block, 1 << 20);
    feed_all(events, "\n\ndata: {\"type\":\"server.connected\"}\n\n");
    CHECK_STR(buf_text(&out), "- lost\n- connected\n");
    opencode_events_free(events);
}

TEST(text_with_nul_and_half_surrogates_is_mended)
{
    char text[] = "{\"a\":\"\\u0000\\ud83d\\\\u0000\\ud83d\\ude00\\udc00\"}";
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(agent_json_parse(&doc, text, strlen(text), 1000, &err), 0);
    CHECK_STR(json_string(json_get(json_root(doc), "a")),
              "\xef\xbf\xbd\xef\xbf\xbd\\u0000\xf0\x9f\x98\x80\xef\xbf\xbd");
}

#define MESSAGES                                                                                   \
    "[{\"info\":{\"id\":\"msg_0\",\"sessionID\":\"ses_1\",\"role\":\"user\"},\"parts\":[]},"       \
    "{\"info\":{\"id\":\"msg_1\",\"sessionID\":\"ses_1\",\"role\":\"user\"},\"parts\":[{\"id\":"   \
    "\"p1\",\"type\":\"text\",\"text\":\"do it\"}]},"                                              \
    "{\"info\":{\"id\":\"msg_2\",\"parentID\":\"msg_1\",\"sessionID\":\"ses_1\",\"role\":"         \
    "\"assistant\",\"finish\":\"stop\","                                                           \
    "\"tokens\":{\"input\":5,\"output\":2},\"time\":{\"created\":1,\"completed\":2}},"             \
    "\"parts\":[{\"id\":\"p2\",\"sessionID\":\"ses_1\",\"messageID\":\"msg_2\",\"type\":\"text\"," \
    "\"text\":\"done\",\"time\":{\"start\":1,\"end\":2}}]}]"

TEST(what_was_missed_is_told_once_by_the_message_list)
{
    AUTO_BUF struct buf out = { 0 };
    struct opencode_events_callbacks callbacks = { write_event, write_note, &out };
    struct opencode_events *events = opencode_events_new(&callbacks);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    buf_init(&out, 4096);
    CHECK_EQ(json_parse(&doc, MESSAGES, strlen(MESSAGES), 10000, &err), 0);
    opencode_events_follow(events, "ses_1");
    opencode_events_begin(events, "msg_1", 1);
    opencode_events_read_messages(events, json_root(doc));
    opencode_events_read_messages(events, json_root(doc));
    CHECK_STR(buf_text(&out), "- taken\nusage 5 in, 2 out, 0 read, 0 written, 0 microdollars\n- "
                              "answering\n- finish stop\ntext: done\n- taken\n");
    opencode_events_free(events);
}

#define REQUESTS                                                                                   \
    "[{\"id\":\"per_1\",\"sessionID\":\"ses_1\",\"permission\":\"bash\",\"patterns\":[\"ls\"]},{"  \
    "\"id\":\"per_2\",\"sessionID\":\"ses_9\"}]"

TEST(open_requests_are_learnt_and_forgotten_by_the_list_and_never_told_twice)
{
    AUTO_BUF struct buf out = { 0 };
    struct opencode_events_callbacks callbacks = { write_event, write_note, &out };
    struct opencode_events *events = opencode_events_new(&callbacks);
    AUTO_JSON struct json_doc *doc = NULL;
    AUTO_JSON struct json_doc *none = NULL;
    struct error err = ERROR_INIT;

    buf_init(&out, 4096);
    CHECK_EQ(json_parse(&doc, REQUESTS, strlen(REQUESTS), 10000, &err), 0);
    CHECK_EQ(json_parse(&none, "[]", 2, 10, &err), 0);
    opencode_events_follow(events, "ses_1");
    opencode_events_begin(events, "msg_1", 1);
    opencode_events_read_permissions(events, json_root(doc));
    CHECK_EQ(opencode_events_open_request(events, "per_1"), 1);
    CHECK_EQ(opencode_events_open_request(events, "per_2"), 0);
    opencode_events_read_permissions(events, json_root(none));
    CHECK_EQ(opencode_events_open_request(events, "per_1"), 0);
    opencode_events_begin(events, "msg_3", 1);
    opencode_events_read_permissions(events, json_root(doc));
    CHECK_STR(buf_text(&out), "permission per_1: bash: ls "
                              "{\"options\":[\"once\",\"always\",\"reject\"],\"permission\":"
                              "\"bash\",\"patterns\":[\"ls\"]}\n"
                              "answered per_1\n");
    opencode_events_free(events);
}
