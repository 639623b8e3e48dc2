#include "proto/envelope.h"

#include <stdbool.h>

#include "common/str.h"
#include "proto/frame.h"

#define METHOD_NAME_MAX 64
#define ID_MAX (UINT64_C(1) << 53)

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

static int append(struct buf *out, struct buf *text, struct error *err)
{
    if (text->failed)
        return error_set(err, ERR_LIMIT, 0, "message is larger than %u bytes", FRAME_JSON_MAX);
    return frame_append(out, FRAME_KIND_JSON, text->data, text->len, err);
}

static int append_body(struct buf *out, uint64_t id, const char *method, const char *name,
                       const char *body, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(FRAME_JSON_MAX);

    buf_printf(&text, "{\"id\":%llu,", (unsigned long long)id);
    if (method) {
        struct json_writer writer;

        buf_append_str(&text, "\"method\":");
        json_write_init(&writer, &text);
        json_write_string(&writer, method);
        buf_append_char(&text, ',');
    }
    buf_printf(&text, "\"%s\":", name);
    buf_append_str(&text, body ? body : "{}");
    buf_append_char(&text, '}');
    return append(out, &text, err);
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
