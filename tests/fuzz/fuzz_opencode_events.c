// links: supervisor_agent
#include <stdint.h>
#include <string.h>

#include "agent/opencode/opencode_events.h"
#include "agent/agent_json.h"
#include "agent/opencode/opencode_reply.h"
#include "agent/opencode/opencode_verdict.h"
#include "common/mem.h"
#include "common/str.h"

/* What the server in the sandbox sends. The first byte chooses the reader and the size of the
 * pieces. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_event(void *data, const struct agent_event *event)
{
    (void)data;
    if (event->text != NULL && !str_is_utf8(event->text, strlen(event->text)))
        BUG("text is no UTF-8");
    if (event->data != NULL) {
        struct json_doc *doc = NULL;
        struct error err = ERROR_INIT;

        if (json_parse(&doc, event->data, strlen(event->data), 1 << 20, &err) < 0)
            BUG("data is no JSON");
        json_free(doc);
    }
}

static void check_note(void *data, const struct opencode_note *note)
{
    struct opencode_failure failure;

    (void)data;
    if (note->kind == OPENCODE_NOTE_ERROR)
        opencode_failure_read(&failure, note->error);
}

static void read_events(const char *bytes, size_t len, size_t piece)
{
    struct opencode_events_callbacks callbacks = { check_event, check_note, NULL };
    struct opencode_events *events = opencode_events_new(&callbacks);

    opencode_events_follow(events, "ses_1");
    opencode_events_begin(events, "msg_1", 1);
    for (size_t at = 0; at < len; at += piece)
        opencode_events_feed(events, bytes + at, len - at < piece ? len - at : piece);
    opencode_events_free(events);
}

static void read_lists(const struct json_value *root)
{
    struct opencode_events_callbacks callbacks = { check_event, check_note, NULL };
    struct opencode_events *events = opencode_events_new(&callbacks);
    struct opencode_verdict verdict;

    opencode_events_follow(events, "ses_1");
    opencode_events_begin(events, "msg_1", 1);
    opencode_events_read_children(events, root);
    opencode_events_read_messages(events, root);
    opencode_events_read_permissions(events, root);
    opencode_events_read_questions(events, root);
    (void)opencode_events_child_busy(events, root);
    opencode_events_free(events);
    opencode_verdict_init(&verdict);
    opencode_verdict_read(&verdict, root, "msg_1");
    opencode_verdict_finish(&verdict);
}

static void read_json(const char *bytes, size_t len)
{
    AUTO_FREE
    char *text = mem_strndup(bytes, len);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    if (agent_json_parse(&doc, text, strlen(text), 1 << 20, &err) == 0)
        read_lists(json_root(doc));
}

static void read_reply(const char *bytes, size_t len, size_t piece)
{
    struct opencode_reply reply;
    AUTO_BUF struct buf body = { 0 };
    struct error err = ERROR_INIT;

    opencode_reply_init(&reply);
    buf_init(&body, 4096);
    for (size_t at = 0; at < len; at += piece) {
        if (opencode_reply_feed(&reply, bytes + at, len - at < piece ? len - at : piece, &body,
                                &err) < 0)
            break;
    }
    (void)opencode_reply_end(&reply, &err);
    opencode_reply_finish(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data + 1;
    size_t piece = size > 0 ? (size_t)(data[0] >> 2) + 1 : 1;

    if (size == 0)
        return 0;
    if (data[0] % 4 < 2)
        read_events(bytes, size - 1, piece);
    else if (data[0] % 4 == 2)
        read_json(bytes, size - 1);
    else
        read_reply(bytes, size - 1, piece);
    return 0;
}
