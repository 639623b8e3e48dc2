#include "common/str.h"
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define ELLIPSIS "\xe2\x80\xa6"    /* U+2026 */

bool str_copy(char *to, size_t to_size, const char *from)
{
    size_t len;
    bool fits;

    if (to_size == 0)
        return false;
    len = strnlen(from, to_size);
    fits = len < to_size;
    if (!fits)
        len = str_utf8_cut(from, to_size - 1);
    memcpy(to, from, len);
    to[len] = '\0';
    return fits;
}

bool str_equal(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    return strcmp(a, b) == 0;
}

bool str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix)
{
    size_t len = strlen(text);
    size_t suffix_len = strlen(suffix);

    return len >= suffix_len && memcmp(text + len - suffix_len, suffix, suffix_len) == 0;
}

bool str_blank(const char *text)
{
    return text[strspn(text, " \t\r\n\v\f")] == '\0';
}

/* Length that a sequence with this first byte has; 0 for a byte that begins none. */
static size_t sequence_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2) /* a continuation byte, or an overlong form */
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

size_t str_utf8_step(const char *data, size_t len, uint32_t *code_point)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    const unsigned char *bytes = (const unsigned char *)data;
    size_t length = len ? sequence_length(bytes[0]) : 0;
    uint32_t value;

    if (length == 0 || length > len)
        return 0;
    value = bytes[0] & first_bits[length];
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    if (code_point)
        *code_point = value;
    return length;
}

bool str_is_utf8(const char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t step = str_utf8_step(data + at, len - at, NULL);

        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

void str_append_utf8(struct buf *buf, const char *data, size_t len)
{
    size_t from = 0; /* start of what is valid and not yet appended */
    size_t at = 0;

    while (at < len) {
        size_t step = data[at] ? str_utf8_step(data + at, len - at, NULL) : 0;

        if (step) {
            at += step;
            continue;
        }
        buf_append(buf, data + from, at - from);
        buf_append_str(buf, REPLACEMENT);
        from = ++at;
    }
    if (from < len)
        buf_append(buf, data + from, len - from);
}

size_t str_utf8_length(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

size_t str_utf8_cut(const char *data, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)data;

    for (size_t back = 1; back <= 4 && back <= len; back++) {
        unsigned char byte = bytes[len - back];

        if ((byte & 0xc0) != 0x80)
            return sequence_length(byte) > back ? len - back : len;
    }
    return len;
}

/* Characters that move the cursor, reorder text or hide on a terminal. */
static bool is_unprintable(uint32_t c)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        { 0x00, 0x1f },       /* C0 */
        { 0x7f, 0x9f },       /* DEL, C1 */
        { 0xad, 0xad },       /* soft hyphen */
        { 0x61c, 0x61c },     /* Arabic letter mark */
        { 0x180e, 0x180e },   /* Mongolian vowel separator */
        { 0x200b, 0x200f },   /* zero width, left-to-right and right-to-left mark */
        { 0x2028, 0x202e },   /* separators, embeddings, overrides */
        { 0x2060, 0x206f },   /* invisible operators, isolates */
        { 0xfeff, 0xfeff },   /* byte order mark */
        { 0xfff9, 0xfffb },   /* interlinear annotation */
        { 0xe0000, 0xe0fff }, /* tags, variation selectors */
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

void str_append_escaped(struct buf *buf, const char *data, size_t len, size_t max_bytes)
{
    for (size_t at = 0; at < len;) {
        uint32_t c = 0;
        size_t step = str_utf8_step(data + at, len - at, &c);
        char escape[16];
        const char *piece = data + at;
        size_t piece_len = step;

        if (step == 0 || is_unprintable(c)) {
            int n = step < 2 ? snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)data[at])
                             : snprintf(escape, sizeof(escape), "\\u{%04x}", c);
            piece = escape;
            piece_len = (size_t)n;
        }
        if (piece_len > max_bytes) {
            buf_append_str(buf, ELLIPSIS);
            return;
        }
        buf_append(buf, piece, piece_len);
        max_bytes -= piece_len;
        at += step ? step : 1;
    }
}

char **str_list_copy(const char *const *list, size_t count)
{
    char **copy = mem_new_zero(count + 1, sizeof(*copy));

    for (size_t i = 0; i < count; i++)
        copy[i] = mem_strdup(list[i]);
    return copy;
}

void str_list_free(char **list, size_t count)
{
    for (size_t i = 0; list != NULL && i < count; i++)
        free(list[i]);
    free(list);
}

bool str_parse_u64(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    if (!text || !text[0] || (text[0] == '0' && text[1]))
        return false;
    for (; *text; text++) {
        uint64_t digit;

        if (*text < '0' || *text > '9')
            return false;
        digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (value > max)
        return false;
    *out = value;
    return true;
}

uint64_t str_hash(uint64_t hash, const char *text)
{
    while (*text != '\0')
        hash = (hash ^ (unsigned char)*text++) * STR_HASH_PRIME;
    return hash;
}

int str_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void str_hex(char *to, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = data;

    for (size_t i = 0; i < len; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
    to[2 * len] = '\0';
}

bool str_is_secret_name(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= 64 && text[0] >= 'A' && text[0] <= 'Z' &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len;
}
