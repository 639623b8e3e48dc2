/* entry.c: one reader a form; the checks that all forms share come first. */
#include "proxy/entry.h"

#include <string.h>
#include <strings.h>

#include "common/mem.h"

#define HTTP_PORT 80
#define HTTPS_PORT 443

static bool fail(struct entry_fault *fault, int status, const char *reason, const char *message)
{
    *fault = (struct entry_fault){ status, reason, message };
    return false;
}

static bool check_method(const struct http_request *request, struct entry_fault *fault)
{
    static const char *const methods[] = { "GET",   "HEAD",   "POST",   "PUT",
                                           "PATCH", "DELETE", "OPTIONS" };

    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(request->method, methods[i]) == 0)
            return true;
    return fail(fault, 405, "method_not_allowed", "this method is not allowed");
}

/* Splits TARGET, which begins with the path. */
static void split_target(const char *target, struct entry *out)
{
    out->path = target;
    out->path_len = strcspn(target, "?");
    out->query = target + out->path_len;
}

/* /proxy/NAME/PATH?QUERY */
static bool read_base_url(const struct http_request *request, struct entry *out,
                          struct entry_fault *fault)
{
    static const char prefix[] = "/proxy/";
    size_t prefix_len = sizeof(prefix) - 1;

    split_target(request->target, out);
    if (out->path_len < prefix_len || strncmp(request->target, prefix, prefix_len) != 0)
        return fail(fault, 404, "unknown_path", "only /proxy/SERVICE/… is served here");
    out->name = out->path + prefix_len;
    out->name_len = strcspn(out->name, "/?");
    out->path_len -= prefix_len + out->name_len;
    out->path = out->name + out->name_len;
    return true;
}

static bool read_host(const char *text, size_t len, uint16_t default_port, struct host *out,
                      struct entry_fault *fault)
{
    if (host_parse(text, len, default_port, out))
        return true;
    return fail(fault, 400, "bad_host", "the host can be read in more than one way");
}

/* http://HOST/PATH. The http layer has compared it with the Host header. */
static bool read_absolute(const struct http_request *request, struct entry *out,
                          struct entry_fault *fault)
{
    const char *authority = request->target + strlen("http://");
    size_t len = strcspn(authority, "/?");

    if (strncasecmp(request->target, "http://", 7) != 0)
        return fail(fault, 400, "bad_target", "only http:// is asked for in this form");
    split_target(authority + len, out);
    out->clear = true;
    if (out->path_len == 0)
        out->path = "/", out->path_len = 1;
    return read_host(authority, len, HTTP_PORT, &out->host, fault);
}

/* Some clients leave the port out of the Host header. */
static bool host_agrees(const char *header, const struct host *host)
{
    struct host claimed;

    return host_parse(header, strlen(header), host->port, &claimed) && host_equal(&claimed, host);
}

static bool read_connect(const struct http_request *request, struct entry *out,
                         struct entry_fault *fault)
{
    out->query = "";
    if (!read_host(request->target, strlen(request->target), 0, &out->host, fault))
        return false;
    if (request->body_kind != HTTP_BODY_NONE)
        return fail(fault, 400, "bad_target", "a tunnel is asked for without a body");
    if (!host_agrees(request->host, &out->host))
        return fail(fault, 400, "host_mismatch", "the tunnel's host differs from Host");
    return true;
}

static bool read_intercepted(const struct http_request *request, const struct entry_tunnel *inside,
                             struct entry *out, struct entry_fault *fault)
{
    struct host claimed;

    split_target(request->target, out);
    out->host = inside->host;
    out->clear = inside->clear;
    if (!host_parse(request->host, strlen(request->host), inside->clear ? HTTP_PORT : HTTPS_PORT,
                    &claimed) ||
        !host_equal(&claimed, &inside->host))
        return fail(fault, 421, "host_mismatch", "Host differs from the host of the connection");
    return true;
}

/* Base64 of 16 bytes (RFC 6455 4.1). */
static bool key_valid(const char *key)
{
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    return key != NULL && strlen(key) == 24 && strspn(key, base64) == 22 &&
           strcmp(key + 22, "==") == 0;
}

/* A comma-separated list has TOKEN. */
static bool lists(const char *list, const char *token)
{
    size_t len = strlen(token);

    while (list != NULL && *list != '\0') {
        list += strspn(list, ", \t");
        if (strncasecmp(list, token, len) == 0 && strchr(", \t", list[len]) != NULL)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

/* Other protocols may be ignored (RFC 9110 7.8); half a WebSocket may not. */
static bool read_upgrade(const struct http_request *request, struct entry *out,
                         struct entry_fault *fault)
{
    const struct http_headers *headers = &request->headers;
    const char *upgrade = http_headers_get(headers, "upgrade");
    const char *version = http_headers_get(headers, "sec-websocket-version");

    if (!lists(upgrade, "websocket"))
        return true;
    if (strcasecmp(upgrade, "websocket") != 0 || http_headers_count_of(headers, "upgrade") != 1 ||
        !lists(http_headers_get(headers, "connection"), "upgrade") ||
        strcmp(request->method, "GET") != 0 || request->minor != 1 ||
        request->body_kind != HTTP_BODY_NONE ||
        http_headers_count_of(headers, "sec-websocket-key") != 1 ||
        !key_valid(http_headers_get(headers, "sec-websocket-key")) || version == NULL ||
        strcmp(version, "13") != 0)
        return fail(fault, 400, "bad_upgrade", "this is no WebSocket handshake");
    out->websocket = true;
    return true;
}

bool entry_read(const struct http_request *request, const struct entry_tunnel *inside,
                struct entry *out, struct entry_fault *fault)
{
    *out = (struct entry){ .query = "" };
    switch (request->target_kind) {
    case HTTP_TARGET_AUTHORITY:
        out->kind = ENTRY_CONNECT;
        if (inside != NULL)
            return fail(fault, 403, "connect_not_allowed", "no tunnel inside of a tunnel");
        return read_connect(request, out, fault);
    case HTTP_TARGET_ASTERISK:
        return fail(fault, 400, "bad_target", "a target with a path is needed");
    case HTTP_TARGET_ABSOLUTE:
        out->kind = ENTRY_ABSOLUTE;
        if (inside != NULL)
            return fail(fault, 400, "bad_target", "no host in the target inside of a tunnel");
        return check_method(request, fault) && read_upgrade(request, out, fault) &&
               read_absolute(request, out, fault);
    case HTTP_TARGET_ORIGIN:
        break;
    }
    out->kind = inside != NULL ? ENTRY_INTERCEPTED : ENTRY_BASE_URL;
    if (!check_method(request, fault) || !read_upgrade(request, out, fault))
        return false;
    return inside != NULL ? read_intercepted(request, inside, out, fault)
                          : read_base_url(request, out, fault);
}
