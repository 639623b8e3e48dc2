/* upgrade.c: RFC 6455, section 4. */
#include "proxy/upgrade.h"

#include <openssl/sha.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"

#define ACCEPT_SIZE 32 /* base64 of a SHA-1, with NUL */

static void append_lines(struct buf *out, const struct buf *lines)
{
    static const char extensions[] = "sec-websocket-extensions:";
    const char *end = lines->data + lines->len;
    const char *next;

    for (const char *line = lines->data; line < end; line = next) {
        next = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        if (strncasecmp(line, extensions, strlen(extensions)) != 0)
            buf_append(out, line, (size_t)(next - line));
    }
}

void upgrade_write(struct buf *out, const struct service *service, const char *path,
                   const struct http_request *request, const struct buf *lines)
{
    buf_append_str(out, request->method);
    buf_append_char(out, ' ');
    buf_append_str(out, path);
    buf_append_str(out, " HTTP/1.1\r\nHost: ");
    buf_append_str(out, service->host);
    buf_append_str(out, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
    append_lines(out, lines);
    buf_append_str(out, "\r\n");
}

static void expected_accept(const char *key, char out[ACCEPT_SIZE])
{
    unsigned char hash[SHA_DIGEST_LENGTH];
    AUTO_FREE
    char *text = mem_printf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);

    SHA1((const unsigned char *)text, strlen(text), hash);
    sodium_bin2base64(out, ACCEPT_SIZE, hash, sizeof(hash), sodium_base64_VARIANT_ORIGINAL);
}

/* A sub-protocol is one that was offered, or none. */
static bool protocol_offered(const struct http_request *request, const char *protocol)
{
    const char *list = http_headers_get(&request->headers, "sec-websocket-protocol");
    size_t len = protocol != NULL ? strlen(protocol) : 0;

    if (protocol == NULL)
        return true;
    while (list != NULL && *list != '\0') {
        size_t item;

        list += strspn(list, ", \t");
        item = strcspn(list, ", \t");
        if (item == len && len > 0 && memcmp(list, protocol, len) == 0)
            return true;
        list += item;
    }
    return false;
}

bool upgrade_accepted(const struct http_request *request, const struct http_response_head *head)
{
    const struct http_headers *headers = &head->headers;
    const char *upgrade = http_headers_get(headers, "upgrade");
    const char *connection = http_headers_get(headers, "connection");
    const char *accept = http_headers_get(headers, "sec-websocket-accept");
    char expected[ACCEPT_SIZE];

    expected_accept(http_headers_get(&request->headers, "sec-websocket-key"), expected);
    return head->status == 101 && upgrade != NULL && strcasecmp(upgrade, "websocket") == 0 &&
           connection != NULL && strcasestr(connection, "upgrade") != NULL && accept != NULL &&
           http_headers_count_of(headers, "sec-websocket-accept") == 1 &&
           strcmp(accept, expected) == 0 &&
           http_headers_get(headers, "sec-websocket-extensions") == NULL &&
           http_headers_count_of(headers, "sec-websocket-protocol") <= 1 &&
           protocol_offered(request, http_headers_get(headers, "sec-websocket-protocol"));
}

void upgrade_answer(const struct http_response_head *head, struct http_headers *out)
{
    static const char *const names[] = { "sec-websocket-accept", "sec-websocket-protocol" };

    http_headers_add(out, "Connection", "Upgrade");
    http_headers_add(out, "Upgrade", "websocket");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = http_headers_get(&head->headers, names[i]);

        if (value != NULL)
            http_headers_add(out, names[i], value);
    }
}
