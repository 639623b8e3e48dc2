#include "agent/agent_json.h"

#include <stdio.h>
#include <string.h>

#include "common/str.h"

#define TODOS_MAX 100
#define ESCAPE_LEN 6 /* \uXXXX */

/* The code unit of the \uXXXX at TEXT, or -1. */
static int code_unit(const char *text, size_t len)
{
    int value = 0;

    if (len < ESCAPE_LEN || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (size_t i = 2; i < ESCAPE_LEN; i++) {
        int digit = str_hex_value(text[i]);

        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

void agent_json_mend(char *text, size_t len)
{
    char *at = text;
    char *end = text + len;

    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        size_t left = (size_t)(end - at);
        int unit = code_unit(at, left);

        if (unit < 0) {
            at += left < 2 ? left : 2;
            continue;
        }
        if (is_high(unit) && is_low(code_unit(at + ESCAPE_LEN, left - ESCAPE_LEN))) {
            at += 2 * ESCAPE_LEN;
            continue;
        }
        if (unit == 0 || is_high(unit) || is_low(unit))
            memcpy(at, "\\ufffd", ESCAPE_LEN);
        at += ESCAPE_LEN;
    }
}

int agent_json_parse(struct json_doc **out, char *text, size_t len, size_t max_bytes,
                     struct error *err)
{
    agent_json_mend(text, len);
    return json_parse(out, text, len, max_bytes, err);
}

const char *agent_json_text(const struct json_value *value)
{
    const char *text = json_string(value);

    return text != NULL ? text : "";
}

static size_t cut_len(const char *text, size_t max)
{
    size_t len = strlen(text);

    return len <= max ? len : str_utf8_cut(text, max);
}

void agent_append_cut(struct buf *to, const char *text, size_t max)
{
    buf_append(to, text, cut_len(text, max));
}

void agent_member_cut(struct json_writer *writer, const char *name, const char *text, size_t max)
{
    json_write_name(writer, name);
    json_write_bytes(writer, text, cut_len(text, max));
}

bool agent_todos_write(const struct json_value *todos,
                       void (*write)(struct json_writer *writer, const struct json_value *todo),
                       struct buf *data, char text[AGENT_TODOS_TEXT])
{
    struct json_writer writer;
    size_t count = 0;
    size_t done = 0;

    json_write_init(&writer, data);
    json_write_object(&writer);
    json_write_name(&writer, "todos");
    json_write_array(&writer);
    for (const struct json_value *todo = json_first(todos); todo != NULL && count < TODOS_MAX;
         todo = json_next(todo), count++) {
        done += str_equal(json_string(json_get(todo, "status")), "completed");
        write(&writer, todo);
    }
    json_write_array_end(&writer);
    json_write_object_end(&writer);
    (void)snprintf(text, AGENT_TODOS_TEXT, "%zu of %zu done", done, count);
    return !data->failed;
}
