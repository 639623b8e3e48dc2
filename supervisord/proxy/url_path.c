/* url_path.c: RFC 3986 section 3.3, and no more than one way to read it. */
#include "proxy/url_path.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

static bool is_unreserved(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

/* pchar of RFC 3986 and the slash. */
static bool is_path_char(unsigned char c)
{
    return is_unreserved(c) || (c != '\0' && strchr("!$&'()*+,;=:@/", c) != NULL);
}

/* What to make of a slash that is escaped. */
enum escaped_slash { SLASH_REFUSED, SLASH_KEPT };

/* Why an escaped byte must not be in a path, or NULL. */
static const char *escaped_reason(unsigned char c, const char *behind, size_t left,
                                  enum escaped_slash slash)
{
    if (c == '/' && slash == SLASH_KEPT)
        return NULL;
    if (c == '/' || c == '\\')
        return "encoded_slash";
    if (c == '.')
        return "encoded_dot";
    if (c < 0x20 || c == 0x7f)
        return "encoded_control";
    if (c == '%' && left >= 2 && str_hex_value(behind[0]) >= 0 && str_hex_value(behind[1]) >= 0)
        return "double_encoding";
    return NULL;
}

/* One segment without its slashes. */
static const char *segment_reason(const char *segment, size_t len)
{
    size_t name = 0;

    while (name < len && segment[name] != ';')
        name++;
    if ((name == 1 && segment[0] == '.') || (name == 2 && segment[0] == '.' && segment[1] == '.'))
        return "dot_segment";
    return NULL;
}

static const char *segments_reason(const char *path, size_t len)
{
    size_t at = 1;

    while (at <= len) {
        const char *slash = at < len ? memchr(path + at, '/', len - at) : NULL;
        size_t end = slash != NULL ? (size_t)(slash - path) : len;
        const char *reason = segment_reason(path + at, end - at);

        if (reason != NULL)
            return reason;
        if (end == at && slash != NULL)
            return "empty_segment";
        at = end + 1;
    }
    return NULL;
}

/* Writes the canonical form to OUT and the decoded bytes to DECODED, both with room for LEN + 1. */
static const char *canonicalise(const char *path, size_t len, enum escaped_slash slash, char *out,
                                char *decoded)
{
    size_t to = 0;
    size_t plain = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];
        const char *reason;

        if (c != '%') {
            if (!is_path_char(c))
                return "bad_path";
            out[to++] = decoded[plain++] = (char)c;
            continue;
        }
        if (len - i < 3 || str_hex_value(path[i + 1]) < 0 || str_hex_value(path[i + 2]) < 0)
            return "bad_path";
        c = (unsigned char)(str_hex_value(path[i + 1]) << 4 | str_hex_value(path[i + 2]));
        reason = escaped_reason(c, path + i + 3, len - i - 3, slash);
        if (reason != NULL)
            return reason;
        decoded[plain++] = (char)c;
        if (is_unreserved(c)) {
            out[to++] = (char)c;
        } else {
            static const char digits[] = "0123456789ABCDEF";

            out[to++] = '%';
            out[to++] = digits[c >> 4];
            out[to++] = digits[c & 15];
        }
        i += 2;
    }
    out[to] = '\0';
    if (!str_is_utf8(decoded, plain))
        return "bad_utf8";
    /* With a slash kept escaped, the other reading must be harmless as well. */
    if (slash == SLASH_KEPT && segments_reason(decoded, plain) != NULL)
        return segments_reason(decoded, plain);
    return segments_reason(out, to);
}

static char *canonical(const char *path, size_t len, enum escaped_slash slash, const char **reason)
{
    AUTO_FREE
    char *out = mem_new_zero(1, len + 1);
    AUTO_FREE
    char *decoded = mem_new_zero(1, len + 1);

    *reason =
        len == 0 || path[0] != '/' ? "bad_path" : canonicalise(path, len, slash, out, decoded);
    return *reason == NULL ? STEAL(out) : NULL;
}

char *url_path_canonical(const char *path, size_t len, const char **reason)
{
    return canonical(path, len, SLASH_REFUSED, reason);
}

char *url_path_slashes(const char *path, size_t len, const char **reason)
{
    return canonical(path, len, SLASH_KEPT, reason);
}

bool url_path_plain(const char *path, size_t len)
{
    const char *reason;
    AUTO_FREE
    char *canonical = url_path_canonical(path, len, &reason);

    return canonical != NULL && strlen(canonical) == len && memcmp(canonical, path, len) == 0;
}
