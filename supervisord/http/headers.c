/* headers.c: a list of header lines, in order, repeated names kept apart. */
#include "http/http.h"

#include <strings.h>

#include "common/mem.h"

void http_headers_init(struct http_headers *headers)
{
    *headers = (struct http_headers){ 0 };
}

static void free_item(struct http_header *item)
{
    free(item->name);
    free(item->value);
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
    /* A line end in here would split the message: our own checks have failed then. */
    BUG_ON(!http_token_valid(name, strlen(name)) || !http_value_valid(value, strlen(value)));
    if (headers->count == headers->cap) {
        size_t cap = headers->cap == 0 ? 16 : headers->cap * 2;
        struct http_header *items = mem_new_zero(cap, sizeof(*items));

        if (headers->count > 0)
            memcpy(items, headers->items, headers->count * sizeof(*items));
        free(headers->items);
        headers->items = items;
        headers->cap = cap;
    }
    headers->items[headers->count++] = (struct http_header){ mem_strdup(name), mem_strdup(value) };
}

const char *http_headers_get(const struct http_headers *headers, const char *name)
{
    for (size_t i = 0; i < headers->count; i++)
        if (strcasecmp(headers->items[i].name, name) == 0)
            return headers->items[i].value;
    return NULL;
}

size_t http_headers_count_of(const struct http_headers *headers, const char *name)
{
    size_t count = 0;

    for (size_t i = 0; i < headers->count; i++)
        count += strcasecmp(headers->items[i].name, name) == 0 ? 1 : 0;
    return count;
}

void http_headers_remove(struct http_headers *headers, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < headers->count; i++) {
        if (strcasecmp(headers->items[i].name, name) == 0)
            free_item(&headers->items[i]);
        else
            headers->items[kept++] = headers->items[i];
    }
    headers->count = kept;
}

/* Takes the next token of a comma-separated list; NULL at its end. Freed by the caller. */
static char *next_listed(const char **list)
{
    const char *start = *list + strspn(*list, ", \t");
    size_t len = strcspn(start, ",");

    if (len == 0)
        return NULL;
    *list = start + len;
    while (len > 0 && (start[len - 1] == ' ' || start[len - 1] == '\t'))
        len--;
    return mem_strndup(start, len);
}

void http_headers_drop_hop_by_hop(struct http_headers *headers)
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
    const char *list;

    while ((list = http_headers_get(headers, "connection")) != NULL) {
        AUTO_FREE
        char *copy = mem_strdup(list);
        const char *rest = copy;
        char *name;

        /* The first Connection line goes before the lines it names, so that naming itself ends too.
         */
        for (size_t i = 0; i < headers->count; i++)
            if (strcasecmp(headers->items[i].name, "connection") == 0) {
                free_item(&headers->items[i]);
                memmove(&headers->items[i], &headers->items[i + 1],
                        (headers->count - i - 1) * sizeof(headers->items[0]));
                headers->count--;
                break;
            }
        while ((name = next_listed(&rest)) != NULL) {
            if (strcasecmp(name, "connection") != 0)
                http_headers_remove(headers, name);
            free(name);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(hop_by_hop); i++)
        http_headers_remove(headers, hop_by_hop[i]);
}

void http_request_finish(struct http_request *request)
{
    free(request->method);
    free(request->target);
    free(request->host);
    http_headers_finish(&request->headers);
    *request = (struct http_request){ 0 };
}
