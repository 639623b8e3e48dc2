/* headers.c: a list of header lines, in order, repeated names kept apart. */
#include "http/http.h"

#include <strings.h>

#include "common/mem.h"

void http_headers_init(struct http_headers *headers)
{
    *headers = (struct http_headers){ 0 };
}

/* Name and value lie in one piece of memory. */
static void free_item(struct http_header *item)
{
    free(item->name);
}

/* Most names differ in their first letter. */
static bool name_is(const char *a, const char *b)
{
    return ((a[0] ^ b[0]) & ~0x20) == 0 && strcasecmp(a, b) == 0;
}

void http_headers_finish(struct http_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        free_item(&headers->items[i]);
    free(headers->items);
    http_headers_init(headers);
}

void http_headers_add(struct http_headers *headers, const char *name, const char *value)
{
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);
    char *text = mem_new(name_len + value_len + 2);

    /* A line end in here would split the message: our own checks have failed then. */
    BUG_ON(!http_token_valid(name, name_len) || !http_value_valid(value, value_len));
    if (headers->count == headers->cap) {
        size_t cap = headers->cap == 0 ? 16 : headers->cap * 2;
        struct http_header *items = mem_new_zero(cap, sizeof(*items));

        if (headers->count > 0)
            memcpy(items, headers->items, headers->count * sizeof(*items));
        free(headers->items);
        headers->items = items;
        headers->cap = cap;
    }
    memcpy(text, name, name_len + 1);
    memcpy(text + name_len + 1, value, value_len + 1);
    headers->items[headers->count++] = (struct http_header){ text, text + name_len + 1 };
}

const char *http_headers_get(const struct http_headers *headers, const char *name)
{
    for (size_t i = 0; i < headers->count; i++)
        if (name_is(headers->items[i].name, name))
            return headers->items[i].value;
    return NULL;
}

size_t http_headers_count_of(const struct http_headers *headers, const char *name)
{
    size_t count = 0;

    for (size_t i = 0; i < headers->count; i++)
        count += name_is(headers->items[i].name, name) ? 1 : 0;
    return count;
}

void http_headers_remove(struct http_headers *headers, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < headers->count; i++) {
        if (name_is(headers->items[i].name, name))
            free_item(&headers->items[i]);
        else
            headers->items[kept++] = headers->items[i];
    }
    headers->count = kept;
}

/* A comma-separated list has NAME. */
static bool list_has(const char *list, const char *name)
{
    size_t name_len = strlen(name);

    for (;;) {
        const char *start = list + strspn(list, ", \t");
        size_t len = strcspn(start, ",");

        if (len == 0)
            return false;
        list = start + len;
        while (len > 0 && (start[len - 1] == ' ' || start[len - 1] == '\t'))
            len--;
        if (len == name_len && strncasecmp(start, name, len) == 0)
            return true;
    }
}

bool http_headers_hop_by_hop(const struct http_headers *headers, const char *name)
{
    static const char *const hop_by_hop[] = {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    };

    for (size_t i = 0; i < ARRAY_LEN(hop_by_hop); i++)
        if (name_is(hop_by_hop[i], name))
            return true;
    for (size_t i = 0; i < headers->count; i++)
        if (name_is(headers->items[i].name, "connection") &&
            list_has(headers->items[i].value, name))
            return true;
    return false;
}

void http_headers_drop_hop_by_hop(struct http_headers *headers)
{
    size_t i = 0;

    /* What the Connection lines name goes before them. */
    while (i < headers->count) {
        struct http_header *item = &headers->items[i];

        if (name_is(item->name, "connection") || !http_headers_hop_by_hop(headers, item->name)) {
            i++;
            continue;
        }
        free_item(item);
        headers->count--;
        memmove(item, item + 1, (headers->count - i) * sizeof(*item));
    }
    http_headers_remove(headers, "connection");
}

void http_request_finish(struct http_request *request)
{
    free(request->method);
    free(request->target);
    free(request->host);
    http_headers_finish(&request->headers);
    *request = (struct http_request){ 0 };
}
