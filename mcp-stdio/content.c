#include "mcp-stdio/content.h"

#include <string.h>

#include "common/str.h"

static void write_text(struct json_writer *writer, const char *text, size_t len)
{
    json_write_name(writer, "content");
    json_write_array(writer);
    json_write_object(writer);
    json_member_string(writer, "type", "text");
    json_write_name(writer, "text");
    json_write_bytes(writer, text, len);
    json_write_object_end(writer);
    json_write_array_end(writer);
}

void content_write(struct json_writer *writer, const struct buf *text, const char *structured,
                   size_t len)
{
    write_text(writer, buf_text(text), text->len);
    json_write_name(writer, "structuredContent");
    json_write_raw(writer, structured, len);
    json_member_bool(writer, "isError", false);
}

void content_write_error(struct json_writer *writer, const char *text)
{
    write_text(writer, text, strlen(text));
    json_member_bool(writer, "isError", true);
}

static void mark(struct buf *text, size_t shown, size_t whole)
{
    buf_printf(text, "\n[cut: %zu of %zu bytes shown]", shown, whole);
}

void content_cut(struct buf *text, size_t max)
{
    size_t whole = text->len;

    if (whole <= max)
        return;
    text->len = str_utf8_cut(text->data, max);
    text->data[text->len] = '\0';
    mark(text, text->len, whole);
}

void content_append_cut(struct buf *text, const char *data, size_t max)
{
    size_t whole = strlen(data);
    size_t shown = whole <= max ? whole : str_utf8_cut(data, max);

    buf_append(text, data, shown);
    if (shown < whole)
        mark(text, shown, whole);
}
