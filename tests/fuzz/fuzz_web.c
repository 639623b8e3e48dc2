// links: supervisor_web
/* What a browser, or whoever says to be one, shows: hosts, origins, cookies, queries and cursors
 * are read within their bounds, and what is taken out of them is plain. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "web/internal.h"

static void check_plain(const char *value, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    if (strlen(value) >= size || value[strspn(value, plain)] != '\0')
        abort();
}

static void read_cookies(const char *text)
{
    struct http_headers headers;
    char value[WEB_TOKEN_SIZE];

    if (!http_value_valid(text, strlen(text)))
        return; /* the parser of heads refuses it */
    http_headers_init(&headers);
    http_headers_add(&headers, "Cookie", text);
    if (cookie_value(&headers, "c", value, sizeof(value)))
        check_plain(value, sizeof(value));
    else if (value[0] != '\0')
        abort();
    http_headers_finish(&headers);
}

static void read_query(const char *text)
{
    char value[8];
    AUTO_FREE
    char *target = mem_printf("/api?%s", text);

    if (query_value(target, "before", value, sizeof(value)))
        check_plain(value, sizeof(value));
    if (stream_after(text, target) > UINT64_C(1) << 53)
        abort();
}

static void read_hosts(const char *text)
{
    static const char *const names[] = { "box.lan" };

    if (auth_host_allowed(text, 80) && strchr(text, ':') == NULL)
        abort();
    if (auth_remote_host_allowed(text, names, ARRAY_LEN(names)) && text[0] == '\0')
        abort();
    if (auth_origin_allowed(text, 80) && !str_starts(text, "http://"))
        abort();
}

static void read_cursor(const char *text)
{
    struct feed feed;
    AUTO_FREE
    char *cursor = NULL;
    uint64_t number = 0;

    feed_init(&feed);
    cursor = mem_printf("%s-%s", feed.epoch, text);
    if (feed_parse(&feed, cursor, &number) && number != 0)
        abort(); /* nothing has changed yet */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE
    char *text = mem_strndup((const char *)data, size);

    read_cookies(text);
    read_query(text);
    read_hosts(text);
    read_cursor(text);
    return 0;
}
