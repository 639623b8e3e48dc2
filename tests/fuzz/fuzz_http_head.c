// links: supervisor_http
/* Two judges over the same bytes. A request passes only if both pass it, and then they must have
 * read the same; how the bytes are cut into pieces changes nothing; what passed, written out again,
 * passes again and means the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "http/http_internal.h"

#define BODY_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_body(void *data, const char *bytes, size_t len)
{
    buf_append(data, bytes, len);
}

/* The end of the head, found a byte at a time; -1 when it is refused, 0 when it never ends. */
static int scan_by_byte(const char *data, size_t size, size_t *head_len)
{
    struct http_scan scan = { 0 };
    struct error err = ERROR_INIT;

    for (size_t len = 1; len <= size; len++) {
        int found = http_scan(&scan, data, len, head_len, &err);

        if (found != 0)
            return found;
    }
    return 0;
}

/* Feeds the body in pieces of STEP. 1: whole, 0: more is needed, -1: refused. */
static int read_body(struct http_parser *parser, const char *data, size_t size, size_t step,
                     size_t *taken)
{
    struct error err = ERROR_INIT;
    size_t at = 0;

    while (at < size && !http_parser_done(parser)) {
        size_t used = 0;

        if (http_parser_body(parser, data + at, size - at < step ? size - at : step, &used, &err) <
            0) {
            BUG_ON(err.sys < 400 || err.argument[0] == '\0');
            BUG_ON(strstr(err.text, "differently") != NULL);
            return -1;
        }
        at += used;
    }
    *taken = at;
    return http_parser_done(parser) ? 1 : 0;
}

static void check_again(const struct http_request *request)
{
    AUTO_BUF struct buf text;
    struct http_head head;
    struct error err = ERROR_INIT;

    buf_init(&text, 4 * HTTP_HEAD_MAX);
    buf_printf(&text, "%s %s HTTP/1.%d\r\n", request->method, request->target, request->minor);
    for (size_t i = 0; i < request->headers.count; i++)
        buf_printf(&text, "%s:%s\r\n", request->headers.items[i].name,
                   request->headers.items[i].value);
    buf_append_str(&text, "\r\n");
    if (http_head_read(text.data, text.len, &head, &err) < 0)
        BUG(err.text);
    BUG_ON(head.body_kind != request->body_kind || head.content_length != request->content_length);
    BUG_ON(head.keep_alive != request->keep_alive || head.header_count != request->headers.count);
}

static void check_request(const struct http_request *request)
{
    bool needs_host = request->minor > 0 || strcmp(request->method, "CONNECT") != 0;
    size_t hosts = http_headers_count_of(&request->headers, "host");

    BUG_ON(hosts > 1 || (hosts == 0 && needs_host));
    BUG_ON(http_headers_count_of(&request->headers, "content-length") > 1);
    BUG_ON(http_headers_count_of(&request->headers, "transfer-encoding") > 1);
    BUG_ON(http_headers_get(&request->headers, "content-length") != NULL &&
           http_headers_get(&request->headers, "transfer-encoding") != NULL);
    BUG_ON(request->body_kind == HTTP_BODY_CHUNKED && request->minor == 0);
    for (const char *c = request->target; *c != '\0'; c++)
        BUG_ON((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f || *c == '#' || *c == '\\');
    check_again(request);
}

static void run(const char *data, size_t head_len, size_t size)
{
    static const size_t steps[] = { SIZE_MAX / 2, 1, 7 };
    struct buf bodies[3];
    int results[3];
    size_t taken[3] = { 0 };
    struct http_head head;
    struct error err = ERROR_INIT;

    if (http_head_read(data, head_len, &head, &err) < 0) {
        BUG_ON(err.sys < 400 || err.sys > 505 || err.argument[0] == '\0');
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        struct http_request request = { 0 };

        buf_init(&bodies[i], BODY_MAX);
        struct http_parser *parser = http_parser_new(on_body, &bodies[i]);
        if (http_parser_head(parser, data, head_len, &head, &request, &err) < 0) {
            BUG_ON(strstr(err.text, "differently") != NULL);
            results[i] = -2;
        } else {
            if (i == 0)
                check_request(&request);
            results[i] = read_body(parser, data + head_len, size - head_len, steps[i], &taken[i]);
        }
        http_request_finish(&request);
        http_parser_free(parser);
    }
    for (size_t i = 1; i < 3; i++) {
        BUG_ON(results[i] != results[0]);
        if (results[0] < 0)
            continue;
        BUG_ON(taken[i] != taken[0] || !str_equal(buf_text(&bodies[i]), buf_text(&bodies[0])) ||
               bodies[i].len != bodies[0].len);
    }
    for (size_t i = 0; i < 3; i++)
        buf_finish(&bodies[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct http_scan scan = { 0 };
    struct http_response_head response = { 0 };
    struct error err = ERROR_INIT;
    size_t at_once = 0;
    size_t by_byte = 0;
    int found;

    if (size == 0 || size > BODY_MAX)
        return 0;
    found = http_scan(&scan, text, size, &at_once, &err);
    BUG_ON(found != scan_by_byte(text, size, &by_byte) || at_once != by_byte);
    BUG_ON(found < 1 && http_head_check(text, size, &err) == 0);
    (void)http_response_check(text, size, &response, &err);
    http_response_head_finish(&response);
    if (found == 1)
        run(text, at_once, size);
    return 0;
}
