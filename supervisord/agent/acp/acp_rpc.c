#include "agent/acp/acp_rpc.h"

#include <string.h>

#include "agent/agent_json.h"
#include "common/mem.h"
#include "common/str.h"

#define JUNK_MAX 4096

void acp_rpc_init(struct acp_rpc *rpc, const struct acp_rpc_callbacks *callbacks)
{
    *rpc = (struct acp_rpc){ .callbacks = *callbacks };
    buf_init(&rpc->line, ACP_LINE_MAX);
}

void acp_rpc_finish(struct acp_rpc *rpc)
{
    buf_finish(&rpc->line);
}

void acp_rpc_stop(struct acp_rpc *rpc)
{
    rpc->stopped = true;
}

/* Reading ------------------------------------------------------------------------------------- */

/* Our ids are numbers; there are agents that give them back as texts. */
static uint64_t own_number(const struct json_value *id)
{
    const char *text = json_string(id);
    uint64_t number = 0;

    if (text == NULL)
        return json_u64(id, 0);
    return str_parse_u64(text, UINT64_C(1) << 53, &number) ? number : 0;
}

/* False: an object, but no message. */
static bool read_message(const struct json_value *root, struct acp_message *message)
{
    const struct json_value *id = json_get(root, "id");
    const struct json_value *error = json_get(root, "error");
    const struct json_value *result = json_get(root, "result");

    *message = (struct acp_message){ .method = json_string(json_get(root, "method")), .id = id };
    if (message->method != NULL) {
        message->kind = id != NULL ? ACP_REQUEST : ACP_NOTIFICATION;
        message->body = json_get(root, "params");
        return json_kind(id) != JSON_KIND_OBJECT && json_kind(id) != JSON_KIND_ARRAY;
    }
    if (id == NULL || (error == NULL && result == NULL))
        return false;
    message->number = own_number(id);
    message->kind = json_kind(error) == JSON_KIND_OBJECT ? ACP_ERROR : ACP_RESULT;
    message->body = message->kind == ACP_ERROR ? error : result;
    return true;
}

static void read_line(struct acp_rpc *rpc)
{
    AUTO_JSON struct json_doc *doc = NULL;
    AUTO_BUF struct buf line = rpc->line; /* a callback may feed again, or finish us */
    struct error ignored = ERROR_INIT;
    struct acp_message message;
    bool torn = rpc->torn;

    buf_init(&rpc->line, ACP_LINE_MAX);
    rpc->torn = false;
    while (line.len > 0 && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == ' '))
        line.len--;
    if (line.len == 0)
        return;
    if (line.data[0] == '{' &&
        agent_json_parse(&doc, line.data, line.len, ACP_LINE_MAX, &ignored) == 0 &&
        read_message(json_root(doc), &message))
        rpc->callbacks.on_message(rpc->callbacks.data, &message);
    else if (!torn)
        rpc->callbacks.on_junk(rpc->callbacks.data, line.data,
                               line.len < JUNK_MAX ? line.len : JUNK_MAX);
}

static void end_line(struct acp_rpc *rpc)
{
    static const char left_out[] = "(a line of more than 4 MiB is left out)";

    if (!rpc->skipping) {
        read_line(rpc);
        return;
    }
    rpc->skipping = false;
    rpc->torn = false;
    rpc->callbacks.on_junk(rpc->callbacks.data, left_out, sizeof(left_out) - 1);
}

void acp_rpc_feed(struct acp_rpc *rpc, const char *bytes, size_t len)
{
    while (len > 0 && !rpc->stopped) {
        const char *newline = memchr(bytes, '\n', len);
        size_t part = newline != NULL ? (size_t)(newline - bytes) : len;

        if (!rpc->skipping)
            buf_append(&rpc->line, bytes, part);
        if (rpc->line.failed) {
            buf_finish(&rpc->line);
            buf_init(&rpc->line, ACP_LINE_MAX);
            rpc->skipping = true;
        }
        if (newline == NULL)
            return;
        end_line(rpc);
        bytes += part + 1;
        len -= part + 1;
    }
}

void acp_rpc_end(struct acp_rpc *rpc)
{
    if (!rpc->stopped && (rpc->skipping || rpc->line.len > 0))
        end_line(rpc);
}

/* Writing ------------------------------------------------------------------------------------- */

static void begin(struct json_writer *writer, struct buf *out)
{
    json_write_init(writer, out);
    json_write_object(writer);
    json_member_string(writer, "jsonrpc", "2.0");
}

void acp_request_begin(struct json_writer *writer, struct buf *out, uint64_t number,
                       const char *method)
{
    begin(writer, out);
    json_member_u64(writer, "id", number);
    json_member_string(writer, "method", method);
    json_write_name(writer, "params");
}

void acp_notification_begin(struct json_writer *writer, struct buf *out, const char *method)
{
    begin(writer, out);
    json_member_string(writer, "method", method);
    json_write_name(writer, "params");
}

void acp_result_begin(struct json_writer *writer, struct buf *out, const char *id_json)
{
    begin(writer, out);
    json_write_name(writer, "id");
    json_write_raw(writer, id_json, strlen(id_json));
    json_write_name(writer, "result");
}

void acp_line_end(struct json_writer *writer, struct buf *out)
{
    json_write_object_end(writer);
    buf_append_char(out, '\n');
}

void acp_error_line(struct buf *out, const char *id_json, int code, const char *message)
{
    struct json_writer writer;

    begin(&writer, out);
    json_write_name(&writer, "id");
    json_write_raw(&writer, id_json, strlen(id_json));
    json_write_name(&writer, "error");
    json_write_object(&writer);
    json_write_name(&writer, "code");
    json_write_i64(&writer, code);
    json_member_string(&writer, "message", message);
    json_write_object_end(&writer);
    acp_line_end(&writer, out);
}
