#include "common/json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define SAFE_INTEGER 9007199254740992.0 /* 2^53 */

void json_write_init(struct json_writer *writer, struct buf *buf)
{
    *writer = (struct json_writer){ .buf = buf };
}

/* Every value passes here: a comma if one is due, and the check that a value may stand here. */
static void begin_value(struct json_writer *writer)
{
    unsigned level = writer->depth;

    if (writer->object[level]) {
        BUG_ON(!writer->after_name);
        writer->after_name = false;
        return;
    }
    if (writer->comma[level]) {
        BUG_ON(level == 0); /* a second value outside */
        buf_append_char(writer->buf, ',');
    }
    writer->comma[level] = true;
}

static void open_level(struct json_writer *writer, char bracket)
{
    begin_value(writer);
    BUG_ON(writer->depth + 1 >= JSON_WRITE_DEPTH);
    writer->depth++;
    writer->comma[writer->depth] = false;
    writer->object[writer->depth] = bracket == '{';
    buf_append_char(writer->buf, bracket);
}

static void close_level(struct json_writer *writer, char bracket)
{
    BUG_ON(writer->depth == 0 || writer->after_name);
    BUG_ON(writer->object[writer->depth] != (bracket == '}'));
    writer->depth--;
    buf_append_char(writer->buf, bracket);
}

void json_write_object(struct json_writer *writer)
{
    open_level(writer, '{');
}

void json_write_object_end(struct json_writer *writer)
{
    close_level(writer, '}');
}

void json_write_array(struct json_writer *writer)
{
    open_level(writer, '[');
}

void json_write_array_end(struct json_writer *writer)
{
    close_level(writer, ']');
}

static void append_escape(struct buf *buf, uint32_t c)
{
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";

    for (const char *form = short_forms; *form; form += 2)
        if ((unsigned char)*form == c) {
            char text[2] = { '\\', form[1] };

            buf_append(buf, text, sizeof(text));
            return;
        }
    buf_printf(buf, "\\u%04x", c);
}

/* Beside what RFC 8259 section 7 asks for: DEL, C1 and the two separators that some readers take
 * for line ends. */
static bool needs_escape(uint32_t c)
{
    return c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && c <= 0x9f) || c == 0x2028 ||
           c == 0x2029;
}

static void append_quoted(struct buf *buf, const char *data, size_t len)
{
    size_t from = 0; /* start of what can be copied as it is */
    size_t at = 0;

    buf_append_char(buf, '"');
    while (at < len) {
        uint32_t c = (unsigned char)data[at];
        bool lost; /* our own reader refuses \u0000 */
        size_t step;

        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            at++;
            continue;
        }
        step = c < 0x80 ? 1 : str_utf8_step(data + at, len - at, &c);
        lost = step == 0 || c == 0;

        if (!lost && !needs_escape(c)) {
            at += step;
            continue;
        }
        buf_append(buf, data + from, at - from);
        if (lost)
            buf_append_str(buf, "\xef\xbf\xbd"); /* U+FFFD */
        else
            append_escape(buf, c);
        at += step ? step : 1;
        from = at;
    }
    if (from < len)
        buf_append(buf, data + from, len - from);
    buf_append_char(buf, '"');
}

void json_write_name(struct json_writer *writer, const char *name)
{
    BUG_ON(!writer->object[writer->depth] || writer->after_name);
    if (writer->comma[writer->depth])
        buf_append_char(writer->buf, ',');
    writer->comma[writer->depth] = true;
    append_quoted(writer->buf, name, strlen(name));
    buf_append_char(writer->buf, ':');
    writer->after_name = true;
}

void json_write_string(struct json_writer *writer, const char *text)
{
    json_write_bytes(writer, text, text ? strlen(text) : 0);
}

void json_write_bytes(struct json_writer *writer, const char *data, size_t len)
{
    begin_value(writer);
    append_quoted(writer->buf, data, len);
}

void json_write_u64(struct json_writer *writer, uint64_t value)
{
    char digits[24];
    size_t at = sizeof(digits);

    begin_value(writer);
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    buf_append(writer->buf, digits + at, sizeof(digits) - at);
}

void json_write_i64(struct json_writer *writer, int64_t value)
{
    begin_value(writer);
    buf_printf(writer->buf, "%lld", (long long)value);
}

/* The shortest of the usual forms that reads back as the same number. */
static void append_double(struct buf *buf, double value)
{
    char text[32];

    if (!isfinite(value))
        value = 0;
    if (fabs(value) <= SAFE_INTEGER && value == (double)(int64_t)value) {
        snprintf(text, sizeof(text), "%.0f", value);
    } else {
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof(text), "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                break;
        }
    }
    buf_append_str(buf, text);
}

void json_write_double(struct json_writer *writer, double value)
{
    begin_value(writer);
    append_double(writer->buf, value);
}

void json_write_bool(struct json_writer *writer, bool value)
{
    begin_value(writer);
    buf_append_str(writer->buf, value ? "true" : "false");
}

void json_write_null(struct json_writer *writer)
{
    begin_value(writer);
    buf_append_str(writer->buf, "null");
}

void json_write_raw(struct json_writer *writer, const char *text, size_t len)
{
    BUG_ON(len == 0);
    begin_value(writer);
    buf_append(writer->buf, text, len);
}

void json_write_members(struct json_writer *writer, const char *text, size_t len)
{
    BUG_ON(len == 0 || !writer->object[writer->depth] || writer->after_name);
    if (writer->comma[writer->depth])
        buf_append_char(writer->buf, ',');
    writer->comma[writer->depth] = true;
    buf_append(writer->buf, text, len);
}

void json_write_value(struct json_writer *writer, const struct json_value *value)
{
    begin_value(writer);
    json_append(writer->buf, value);
}

void json_member_string(struct json_writer *writer, const char *name, const char *text)
{
    json_write_name(writer, name);
    json_write_string(writer, text);
}

void json_member_string_opt(struct json_writer *writer, const char *name, const char *text)
{
    if (text && text[0])
        json_member_string(writer, name, text);
}

void json_member_u64(struct json_writer *writer, const char *name, uint64_t value)
{
    json_write_name(writer, name);
    json_write_u64(writer, value);
}

void json_member_u64_opt(struct json_writer *writer, const char *name, uint64_t value)
{
    if (value)
        json_member_u64(writer, name, value);
}

void json_member_double(struct json_writer *writer, const char *name, double value)
{
    json_write_name(writer, name);
    json_write_double(writer, value);
}

void json_member_bool(struct json_writer *writer, const char *name, bool value)
{
    json_write_name(writer, name);
    json_write_bool(writer, value);
}

/* Schemas -------------------------------------------------------------------------------------- */

static const char *schema_type(const struct json_field *field)
{
    switch (field->kind) {
    case JSON_FIELD_STRING:
    case JSON_FIELD_ENUM:
        return "string";
    case JSON_FIELD_BOOL:
        return "boolean";
    case JSON_FIELD_U32:
    case JSON_FIELD_U64:
        return "integer";
    case JSON_FIELD_VALUE:
        return "object";
    case JSON_FIELD_END:
        break;
    }
    BUG("unknown kind of field");
}

static void write_names(struct json_writer *writer, const char *const *names)
{
    json_write_name(writer, "enum");
    json_write_array(writer);
    for (; *names; names++)
        json_write_string(writer, *names);
    json_write_array_end(writer);
}

static void write_property(struct json_writer *writer, const struct json_field *field)
{
    json_write_name(writer, field->name);
    json_write_object(writer);
    json_member_string(writer, "type", schema_type(field));
    json_member_string_opt(writer, "description", field->help);
    if (field->kind == JSON_FIELD_STRING) {
        json_member_u64_opt(writer, "minLength", field->min);
        if (field->max <= UINT32_MAX) /* more means "no limit" */
            json_member_u64(writer, "maxLength", field->max);
    } else if (field->kind == JSON_FIELD_U32 || field->kind == JSON_FIELD_U64) {
        json_member_u64(writer, "minimum", field->min);
        json_member_u64(writer, "maximum", field->max);
    } else if (field->kind == JSON_FIELD_ENUM) {
        write_names(writer, field->names);
    }
    json_write_object_end(writer);
}

static void write_required(struct json_writer *writer, const struct json_field *fields)
{
    bool any = false;

    for (const struct json_field *field = fields; field->kind != JSON_FIELD_END; field++) {
        if (field->need != JSON_REQUIRED)
            continue;
        if (!any) {
            json_write_name(writer, "required");
            json_write_array(writer);
            any = true;
        }
        json_write_string(writer, field->name);
    }
    if (any)
        json_write_array_end(writer);
}

void json_write_schema(struct json_writer *writer, const struct json_field *fields)
{
    json_write_object(writer);
    json_member_string(writer, "type", "object");
    json_write_name(writer, "properties");
    json_write_object(writer);
    for (const struct json_field *field = fields; field->kind != JSON_FIELD_END; field++)
        write_property(writer, field);
    json_write_object_end(writer);
    write_required(writer, fields);
    json_write_object_end(writer);
}
