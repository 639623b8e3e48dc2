/* response.c: response heads. */
#include "http/http_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "common/mem.h"

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 426, "Upgrade Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
};

const char *http_status_reason(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Status";
}

bool http_status_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

#define DATE_SIZE 48

/* By hand: strftime would follow a locale. */
static void write_date(char out[DATE_SIZE], int64_t unix_seconds)
{
    static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    time_t seconds = unix_seconds;
    struct tm tm;

    out[0] = '\0';
    if (gmtime_r(&seconds, &tm) == NULL)
        return;
    (void)snprintf(out, DATE_SIZE, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[tm.tm_wday],
                   tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                   tm.tm_sec);
}

/* Written once a second: the C library asks the file system about time zones each time. */
static void append_date(struct buf *out, int64_t unix_seconds)
{
    static _Thread_local int64_t written = -1;
    static _Thread_local char date[DATE_SIZE];

    if (written != unix_seconds)
        write_date(date, unix_seconds);
    written = unix_seconds;
    buf_append_str(out, date);
}

/* Framing and the connection are this module's business. */
static bool is_ours(const char *name)
{
    static const char *const names[] = { "connection",      "content-length", "transfer-encoding",
                                         "keep-alive",      "trailer",        "upgrade",
                                         "proxy-connection" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (((name[0] ^ names[i][0]) & ~0x20) == 0 && strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static void append_header(struct buf *out, const struct http_header *header)
{
    size_t name_len = strlen(header->name);
    size_t value_len = strlen(header->value);
    char *to = buf_reserve(out, name_len + value_len + 4);

    if (to == NULL)
        return; /* the buffer says so */
    memcpy(to, header->name, name_len);
    memcpy(to + name_len, ": ", 2);
    memcpy(to + name_len + 2, header->value, value_len);
    memcpy(to + name_len + 2 + value_len, "\r\n", 2);
    buf_commit(out, name_len + value_len + 4);
}

void http_response_switch(struct buf *out, int status, const struct http_headers *headers)
{
    buf_printf(out, "HTTP/1.1 %d %s\r\n", status,
               status == 101 ? "Switching Protocols" : "Connection established");
    for (size_t i = 0; headers != NULL && i < headers->count; i++)
        append_header(out, &headers->items[i]);
    buf_append_str(out, "\r\n");
}

void http_response_head(struct buf *out, const struct http_response *response, int64_t unix_seconds)
{
    const char *reason = response->reason;
    const struct http_headers *headers = response->headers;

    if (reason == NULL || !http_value_valid(reason, strlen(reason)))
        reason = http_status_reason(response->status);
    buf_printf(out, "HTTP/1.1 %d %s\r\n", response->status, reason);
    for (size_t i = 0; headers != NULL && i < headers->count; i++) {
        if (is_ours(headers->items[i].name))
            continue;
        append_header(out, &headers->items[i]);
    }
    if (headers == NULL || http_headers_get(headers, "date") == NULL)
        append_date(out, unix_seconds);
    if (response->chunked)
        buf_append_str(out, "Transfer-Encoding: chunked\r\n");
    else if (response->length >= 0)
        buf_printf(out, "Content-Length: %" PRId64 "\r\n", response->length);
    if (response->close)
        buf_append_str(out, "Connection: close\r\n");
    buf_append_str(out, "\r\n");
}
