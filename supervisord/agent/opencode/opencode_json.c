#include "agent/opencode/opencode_json.h"

#include <string.h>

#define ESCAPE_LEN 6 /* \uXXXX */

/* The code unit of the \uXXXX at TEXT, or -1. */
static int code_unit(const char *text, size_t len)
{
    int value = 0;

    if (len < ESCAPE_LEN || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (size_t i = 2; i < ESCAPE_LEN; i++) {
        char lower = (char)(text[i] | 0x20);

        if (text[i] >= '0' && text[i] <= '9')
            value = value << 4 | (text[i] - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value << 4 | (lower - 'a' + 10);
        else
            return -1;
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

void opencode_json_mend(char *text, size_t len)
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

int opencode_json_parse(struct json_doc **out, char *text, size_t len, size_t max_bytes,
                        struct error *err)
{
    opencode_json_mend(text, len);
    return json_parse(out, text, len, max_bytes, err);
}
