#include "proto/envelope.h"

#include <stdbool.h>
#include <string.h>

#include "common/str.h"
#include "proto/frame.h"

#define METHOD_NAME_MAX 64
#define ID_MAX (UINT64_C(1) << 53)
#define HEAD_MAX 1024 /* bytes in front of a body */

/* Everything that a frame may hold; which of it came decides the kind. */
struct members {
    uint64_t id;
    uint64_t cancel;
    const char *method;
    const struct json_value *params;
    const struct json_value *result;
    const struct json_value *error;
    const struct json_value *event;
    const struct json_value *end;
};

static const struct json_field member_fields[] = {
    JSON_U64_FIELD(struct members, id, JSON_OPTIONAL, 1, ID_MAX, NULL),
    JSON_U64_FIELD(struct members, cancel, JSON_OPTIONAL, 1, ID_MAX, NULL),
    JSON_STRING_FIELD(struct members, method, JSON_OPTIONAL, 1, METHOD_NAME_MAX, NULL),
    JSON_VALUE_FIELD(struct members, params, JSON_OPTIONAL, NULL),
    JSON_VALUE_FIELD(struct members, result, JSON_OPTIONAL, NULL),
    JSON_VALUE_FIELD(struct members, error, JSON_OPTIONAL, NULL),
    JSON_VALUE_FIELD(struct members, event, JSON_OPTIONAL, NULL),
    JSON_VALUE_FIELD(struct members, end, JSON_OPTIONAL, NULL),
    JSON_FIELD_LAST,
};

static int read_body(struct envelope *out, enum envelope_kind kind, const char *name,
                     const struct json_value *body, struct error *err)
{
    if (body && json_kind(body) != JSON_KIND_OBJECT)
        return error_argument(err, name, "must be an object");
    out->kind = kind;
    out->body = body;
    return 0;
}

/* A newer daemon may say more about an error; what we don't know is ignored. */
static int read_error(struct envelope *out, const struct json_value *value, struct error *err)
{
    const char *code = json_string(json_get(value, "code"));
    const char *message = json_string(json_get(value, "message"));
    const char *argument = json_string(json_get(value, "argument"));

    if (!code || !message)
        return error_argument(err, "error", "must have the strings code and message");
    out->kind = ENVELOPE_ERROR;
    error_set(&out->error, error_code_parse(code), 0, "%s", message);
    if (argument)
        str_copy(out->error.argument, sizeof(out->error.argument), argument);
    return 0;
}

static int read_by_kind(const struct members *members, struct envelope *out, struct error *err)
{
    out->id = members->id;
    if (members->cancel) {
        out->id = members->cancel;
        return read_body(out, ENVELOPE_CANCEL, "cancel", NULL, err);
    }
    if (members->method) {
        out->method = members->method;
        return read_body(out, ENVELOPE_REQUEST, "params", members->params, err);
    }
    if (members->result)
        return read_body(out, ENVELOPE_REPLY, "result", members->result, err);
    if (members->error)
        return read_error(out, members->error, err);
    if (members->event)
        return read_body(out, ENVELOPE_EVENT, "event", members->event, err);
    return read_body(out, ENVELOPE_END, "end", members->end, err);
}

int envelope_read(const struct json_doc *doc, struct envelope *out, struct error *err)
{
    struct members members = { .id = 0 };
    int kinds;

    *out = (struct envelope){ .kind = ENVELOPE_REQUEST };
    if (json_read(json_root(doc), member_fields, JSON_STRICT, &members, err) < 0)
        return error_wrap(err, "envelope");
    kinds = (members.method != NULL) + (members.result != NULL) + (members.error != NULL) +
            (members.event != NULL) + (members.end != NULL) + (members.cancel != 0);
    if (kinds != 1)
        return error_set(
            err, ERR_INVALID, 0,
            "envelope: exactly one of method, result, error, event, end, cancel is needed");
    if ((members.id == 0) != (members.cancel != 0))
        return error_argument(err, "id", "%s",
                              members.cancel ? "does not go with cancel" : "is required");
    if (members.params && !members.method)
        return error_argument(err, "params", "goes with method only");
    return read_by_kind(&members, out, err);
}

bool envelope_peek_reply(const char *text, size_t len, uint64_t *id, const char **body,
                         size_t *body_len)
{
    static const char begin[] = "{\"id\":";
    static const char name[] = ",\"result\":{";
    size_t at = sizeof(begin) - 1;
    uint64_t number = 0;

    if (len <= at || memcmp(text, begin, at) != 0 || text[at] == '0')
        return false;
    for (; at < len && text[at] >= '0' && text[at] <= '9' && number < ID_MAX; at++)
        number = number * 10 + (uint64_t)(text[at] - '0');
    if (number == 0 || number > ID_MAX || len - at < sizeof(name) + 1 ||
        memcmp(text + at, name, sizeof(name) - 1) != 0 || text[len - 1] != '}')
        return false;
    at += sizeof(name) - 2; /* the brace belongs to the body */
    *id = number;
    *body = text + at;
    *body_len = len - 1 - at;
    return true;
}

static int append(struct buf *out, struct buf *text, struct error *err)
{
    if (text->failed)
        return error_set(err, ERR_LIMIT, 0, "message is larger than %u bytes", FRAME_JSON_MAX);
    return frame_append(out, FRAME_KIND_JSON, text->data, text->len, err);
}

/* The frame is written where it goes out from, in one piece. */
static int append_body(struct buf *out, uint64_t id, const char *method, const char *name,
                       const char *body, struct error *err)
{
    AUTO_BUF struct buf head = BUF_INIT(HEAD_MAX);
    const char *members = body ? body : "{}";
    size_t len = strlen(members);

    buf_printf(&head, "{\"id\":%llu,", (unsigned long long)id);
    if (method) {
        struct json_writer writer;

        buf_append_str(&head, "\"method\":");
        json_write_init(&writer, &head);
        json_write_string(&writer, method);
        buf_append_char(&head, ',');
    }
    buf_printf(&head, "\"%s\":", name);
    if (head.failed || len > FRAME_JSON_MAX - head.len - 1)
        return error_set(err, ERR_LIMIT, 0, "message is larger than %u bytes", FRAME_JSON_MAX);
    if (frame_append_head(out, FRAME_KIND_JSON, head.len + len + 1, err) < 0)
        return -1;
    buf_append(out, head.data, head.len);
    buf_append(out, members, len);
    buf_append_char(out, '}');
    return 0;
}

int envelope_append_request(struct buf *out, uint64_t id, const char *method, const char *body,
                            struct error *err)
{
    return append_body(out, id, method, "params", body, err);
}

int envelope_append_reply(struct buf *out, uint64_t id, const char *body, struct error *err)
{
    return append_body(out, id, NULL, "result", body, err);
}

int envelope_append_event(struct buf *out, uint64_t id, const char *body, struct error *err)
{
    return append_body(out, id, NULL, "event", body, err);
}

int envelope_append_end(struct buf *out, uint64_t id, const char *body, struct error *err)
{
    return append_body(out, id, NULL, "end", body, err);
}

int envelope_append_error(struct buf *out, uint64_t id, const struct error *error,
                          struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(FRAME_JSON_MAX);
    struct json_writer writer;

    json_write_init(&writer, &text);
    json_write_object(&writer);
    json_member_u64(&writer, "id", id);
    json_write_name(&writer, "error");
    json_write_object(&writer);
    json_member_string(&writer, "code", error_code_name(error->code));
    json_member_string(&writer, "message", error->text);
    json_member_string_opt(&writer, "argument", error->argument);
    json_write_object_end(&writer);
    json_write_object_end(&writer);
    return append(out, &text, err);
}

int envelope_append_cancel(struct buf *out, uint64_t id, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(64);

    buf_printf(&text, "{\"cancel\":%llu}", (unsigned long long)id);
    return append(out, &text, err);
}
