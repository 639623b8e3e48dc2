/* agent_head.c: what of a head passes between a browser and an agent's own pages. Both ways by
 * name: a browser's cookies are nothing to an agent, and what an agent says must not reach beyond
 * its own pages. */
#include <strings.h>

#include "web/internal.h"

static bool is_listed(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(names[i], name) == 0)
            return true;
    }
    return false;
}

/* To the agent
 * ---------------------------------------------------------------------------------------------------------
 */

bool agent_head_is_socket(const struct http_request *request)
{
    const char *upgrade = http_headers_get(&request->headers, "upgrade");

    return upgrade != NULL && strcasecmp(upgrade, "websocket") == 0 &&
           str_equal(request->method, "GET") && request->body_kind == HTTP_BODY_NONE;
}

static bool goes_in(const char *name, bool socket)
{
    static const char *const names[] = {
        "accept",        "accept-encoding", "content-type", "if-modified-since",
        "if-none-match", "if-range",        "range",        "last-event-id",
    };
    /* Without extensions: frames stay as small as they are sent. */
    static const char *const socket_names[] = { "sec-websocket-key", "sec-websocket-version",
                                                "sec-websocket-protocol" };

    return is_listed(names, ARRAY_LEN(names), name) || strncasecmp(name, "x-opencode-", 11) == 0 ||
           (socket && is_listed(socket_names, ARRAY_LEN(socket_names), name));
}

void agent_head_write(const struct http_request *request, const char *authorization,
                      struct buf *out)
{
    const struct http_headers *headers = &request->headers;
    bool socket = agent_head_is_socket(request);

    buf_printf(out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: %s\r\n", request->method,
               request->target, socket ? "Upgrade\r\nUpgrade: websocket" : "close");
    for (size_t i = 0; i < headers->count; i++) {
        if (goes_in(headers->items[i].name, socket))
            buf_printf(out, "%s: %s\r\n", headers->items[i].name, headers->items[i].value);
    }
    if (request->body_kind == HTTP_BODY_CHUNKED)
        buf_append_str(out, "Transfer-Encoding: chunked\r\n");
    else if (request->body_kind == HTTP_BODY_LENGTH || !str_equal(request->method, "GET"))
        buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)request->content_length);
    buf_printf(out, "Authorization: %s\r\n\r\n", authorization);
}

/* From the agent
 * -------------------------------------------------------------------------------------------------------
 */

static bool goes_out(const char *name)
{
    static const char *const names[] = {
        "accept-ranges", "content-disposition", "content-encoding",
        "content-range", "content-language",    "content-type",
        "etag",          "last-modified",       "vary",
        "x-next-cursor",
    };

    return is_listed(names, ARRAY_LEN(names), name);
}

/* An address on the same pages: browsers take \ for /, drop tabs, and // begins another host. */
static bool stays_here(const char *location)
{
    if (location == NULL || location[0] != '/' || location[1] == '/')
        return false;
    for (; *location != '\0'; location++)
        if (*location == '\\' || (unsigned char)*location <= ' ' || *location == 0x7f)
            return false;
    return true;
}

/* The pages are whatever the sandbox says. They may load from and talk to their own host only, be
 * in no frame, and open no window. */
static void add_rules(struct http_headers *out, const char *host)
{
    char *policy = mem_printf(
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; style-src "
        "'self' "
        "'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' "
        "data: "
        "blob:; connect-src 'self' ws://%s; worker-src 'self' blob:; frame-src 'none'; object-src "
        "'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; sandbox "
        "allow-scripts allow-same-origin allow-forms allow-modals allow-downloads",
        host);

    http_headers_add(out, "Content-Security-Policy", policy);
    http_headers_add(out, "Permissions-Policy",
                     "camera=(), display-capture=(), geolocation=(), hid=(), microphone=(), "
                     "midi=(), payment=(), serial=(), usb=()");
    /* What was kept could come back as a worker's program, without a request that is judged. */
    http_headers_add(out, "Cache-Control", "no-cache");
    http_headers_add(out, "Vary", "Service-Worker");
    http_headers_add(out, "Referrer-Policy", "no-referrer");
    http_headers_add(out, "X-Content-Type-Options", "nosniff");
    http_headers_add(out, "X-DNS-Prefetch-Control", "off");
    http_headers_add(out, "X-Frame-Options", "DENY");
    http_headers_add(out, "Cross-Origin-Resource-Policy", "same-origin");
    http_headers_add(out, "Cross-Origin-Opener-Policy", "same-origin");
    free(policy);
}

/* The browser finds out whether it is the answer to its key. */
static void add_socket(const struct http_response_head *head, struct http_headers *out)
{
    static const char *const names[] = { "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol" };

    http_headers_add(out, "Connection", "Upgrade");
    http_headers_add(out, "Upgrade", "websocket");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = http_headers_get(&head->headers, names[i]);

        if (value != NULL)
            http_headers_add(out, names[i], value);
    }
}

int agent_head_answer(const struct http_response_head *head, const char *host,
                      struct http_headers *out, struct error *err)
{
    const char *location = http_headers_get(&head->headers, "location");
    bool redirects = head->status >= 300 && head->status < 400 && head->status != 304;

    if (head->status == 401 || head->status == 407)
        return error_set(err, ERR_UNAVAILABLE, 0, "the agent's server doesn't know us");
    if (redirects &&
        (!stays_here(location) || http_headers_count_of(&head->headers, "location") > 1))
        return error_set(err, ERR_UNAVAILABLE, 0, "the agent's page leads away from itself");
    if (head->status == 101) {
        add_socket(head, out);
        return 0;
    }
    for (size_t i = 0; i < head->headers.count; i++) {
        const struct http_header *item = &head->headers.items[i];

        if (goes_out(item->name))
            http_headers_add(out, item->name, item->value);
    }
    if (redirects)
        http_headers_add(out, "Location", location);
    add_rules(out, host);
    return 0;
}
