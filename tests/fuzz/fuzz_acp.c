// links: supervisor_agent
#include <stdint.h>
#include <string.h>

#include "agent/acp/acp_events.h"
#include "agent/acp/acp_permission.h"
#include "agent/acp/acp_rpc.h"
#include "agent/acp/acp_verdict.h"
#include "common/mem.h"
#include "common/str.h"

/* What an agent in the sandbox writes to its output. The first byte chooses the size of the pieces
 * and whether the beginning may be torn. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
    struct acp_events *events;
    unsigned permissions;
};

static void check_json(const char *text)
{
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    if (json_parse(&doc, text, strlen(text), 1 << 20, &err) < 0)
        BUG("data is no JSON");
    json_free(doc);
}

static void check_event(void *data, const struct agent_event *event)
{
    (void)data;
    if (event->text != NULL && !str_is_utf8(event->text, strlen(event->text)))
        BUG("text is no UTF-8");
    if (event->data != NULL)
        check_json(event->data);
}

static void check_line(const struct buf *line)
{
    if (line->failed)
        return;
    if (line->len == 0 || line->data[line->len - 1] != '\n' ||
        memchr(line->data, '\n', line->len - 1) != NULL)
        BUG("a reply is not one line");
    check_json(buf_text(line));
}

static void ask(struct reader *reader, const struct acp_message *message)
{
    static const char *const answers[] = { "once", "always", "reject", "reject: no", "other" };
    struct acp_permission *permission = acp_permission_new(message, ++reader->permissions);

    if (permission == NULL)
        return;
    check_json(permission->data);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        AUTO_BUF struct buf line = BUF_INIT(8192);
        const char *option = NULL;

        if (!acp_permission_choose(permission, answers[i], &option) && i > 1 && i < 4)
            BUG("a refusal is always possible");
        acp_permission_reply(&line, permission, option);
        check_line(&line);
    }
    acp_permission_free(permission);
}

static void on_message(void *data, const struct acp_message *message)
{
    struct reader *reader = data;
    struct opencode_failure failure;
    struct agent_end end = { 0 };

    switch (message->kind) {
    case ACP_REQUEST:
        ask(reader, message);
        break;
    case ACP_NOTIFICATION:
        acp_events_update(reader->events, json_get(message->body, "update"));
        break;
    case ACP_RESULT:
        acp_result_read(&end, &failure, message->body, acp_events_output(reader->events));
        break;
    case ACP_ERROR:
        acp_error_read(&end, &failure, message->body);
        if (end.error_code[0] == '\0')
            BUG("a failure without a code");
        break;
    }
}

static void on_junk(void *data, const char *line, size_t len)
{
    (void)data;
    (void)line;
    if (len == 0)
        BUG("junk of no length");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct acp_events_callbacks events = { check_event, NULL };
    struct reader reader = { acp_events_new(&events), 0 };
    const struct acp_rpc_callbacks callbacks = { on_message, on_junk, &reader };
    size_t piece = size > 0 ? (size_t)(data[0] >> 1) + 1 : 1;
    struct acp_rpc rpc;
    uint64_t cost;

    acp_rpc_init(&rpc, &callbacks);
    rpc.torn = size > 0 && data[0] % 2 == 1;
    acp_events_begin(reader.events, "");
    for (size_t at = 1; at < size; at += piece)
        acp_rpc_feed(&rpc, (const char *)data + at, size - at < piece ? size - at : piece);
    acp_rpc_end(&rpc);
    acp_events_end(reader.events);
    (void)acp_events_cost(reader.events, &cost);
    acp_events_free(reader.events);
    acp_rpc_finish(&rpc);
    return 0;
}
