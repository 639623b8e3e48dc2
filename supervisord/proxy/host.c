/* host.c: letters, digits, dashes and underscores in labels; a last label without a letter makes
 * an address, and that must be written in the usual way. */
#include "proxy/host.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX_LEN 63u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool parse_port(const char *text, size_t len, uint16_t *out)
{
    uint32_t port = 0;

    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i]))
            return false;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    *out = (uint16_t)port;
    return port > 0 && port <= 65535 && text[0] != '0';
}

/* Copies in lower case; false for other bytes and for empty or long labels. */
static bool copy_name(const char *text, size_t len, char *out)
{
    size_t label = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '.') {
            if (label == 0 || out[i - 1] == '-')
                return false;
            label = 0;
        } else if (is_digit(c) || (c >= 'a' && c <= 'z') || c == '_' || (c == '-' && label > 0)) {
            if (++label > LABEL_MAX_LEN)
                return false;
        } else {
            return false;
        }
        out[i] = c;
    }
    out[len] = '\0';
    return label > 0 && out[len - 1] != '-';
}

/* Resolvers take a name whose last label is a number, also in hexadecimal, for an IPv4 address. */
static bool looks_like_address(const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot != NULL ? dot + 1 : name;

    if (last[0] == '0' && last[1] == 'x')
        return last[2 + strspn(last + 2, "0123456789abcdef")] == '\0';
    return last[strspn(last, "0123456789")] == '\0';
}

static bool parse_name(const char *text, size_t len, struct host *out)
{
    struct in_addr v4;
    char plain[INET_ADDRSTRLEN];

    if (len == 0 || len > HOST_NAME_MAX_LEN || !copy_name(text, len, out->name))
        return false;
    if (!looks_like_address(out->name))
        return true;
    out->literal = true;
    return inet_pton(AF_INET, out->name, &v4) == 1 &&
           inet_ntop(AF_INET, &v4, plain, sizeof(plain)) != NULL && strcmp(plain, out->name) == 0;
}

static bool parse_v6(const char *text, size_t len, struct host *out)
{
    char inside[INET6_ADDRSTRLEN];
    struct in6_addr v6;

    if (len == 0 || len >= sizeof(inside))
        return false;
    memcpy(inside, text, len);
    inside[len] = '\0';
    out->literal = true;
    return strlen(inside) == len && inet_pton(AF_INET6, inside, &v6) == 1 &&
           inet_ntop(AF_INET6, &v6, out->name, sizeof(out->name)) != NULL;
}

bool host_parse(const char *text, size_t len, uint16_t default_port, struct host *out)
{
    const char *end;
    size_t host_len;

    memset(out, 0, sizeof(*out));
    out->port = default_port;
    if (len > 0 && text[0] == '[') {
        end = memchr(text, ']', len);
        if (end == NULL || !parse_v6(text + 1, (size_t)(end - text) - 1, out))
            return false;
        host_len = (size_t)(end - text) + 1;
    } else {
        end = memchr(text, ':', len);
        host_len = end != NULL ? (size_t)(end - text) : len;
        if (!parse_name(text, host_len, out))
            return false;
    }
    if (host_len == len)
        return default_port != 0;
    return text[host_len] == ':' && parse_port(text + host_len + 1, len - host_len - 1, &out->port);
}

bool host_equal(const struct host *a, const struct host *b)
{
    return a->port == b->port && strcmp(a->name, b->name) == 0;
}

bool host_below(const struct host *host, const struct host *parent)
{
    size_t len = strlen(host->name);
    size_t suffix_len = strlen(parent->name);

    return !host->literal && len > suffix_len + 1 && host->name[len - suffix_len - 1] == '.' &&
           strcmp(host->name + len - suffix_len, parent->name) == 0;
}

void host_format(const struct host *host, char out[HOST_TEXT_SIZE])
{
    bool v6 = strchr(host->name, ':') != NULL;

    snprintf(out, HOST_TEXT_SIZE, v6 ? "[%s]:%u" : "%s:%u", host->name, host->port);
}
