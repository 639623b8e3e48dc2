#include "unit/http/cases.h"

#include "common/mem.h"
#include "harness/test.h"
#include "http/http_internal.h"

static void expect(const struct http_case *c)
{
    struct error err = ERROR_INIT;
    int status = http_head_check(c->data, c->len, &err);

    if ((c->status == 0) != (status == 0) || (c->status != 0 && err.sys != c->status))
        CHECK_STR(c->name, err.argument);
    if (c->code != NULL)
        CHECK_STR(err.argument, c->code);
}

TEST(every_case_gets_its_verdict)
{
    for (size_t i = 0; i < ARRAY_LEN(head_cases); i++)
        expect(&head_cases[i]);
}

TEST(no_prefix_of_a_good_head_passes)
{
    static const char head[] =
        "POST /a?b=c HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    struct error err = ERROR_INIT;

    for (size_t len = 0; len < sizeof(head) - 1; len++)
        CHECK_EQ(http_head_check(head, len, &err), -1);
    CHECK_EQ(http_head_check(head, sizeof(head) - 1, &err), 0);
}

TEST(bytes_behind_the_head_are_refused)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(http_head_check("GET / HTTP/1.1\r\nHost: a\r\n\r\nX", 28, &err), -1);
}

TEST(sizes_are_limited)
{
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf head;

    buf_init(&head, 1u << 20);
    buf_append_str(&head, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 127; i++)
        buf_append_str(&head, "X: a\r\n");
    AUTO_FREE
    char *fits = mem_printf("%s\r\n", buf_text(&head));
    CHECK_EQ(http_head_check(fits, strlen(fits), &err), 0);
    buf_append_str(&head, "X: a\r\n\r\n");
    CHECK_EQ(http_head_check(head.data, head.len, &err), -1);
    CHECK_EQ(err.sys, 431);

    buf_clear(&head);
    buf_append_str(&head, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    for (unsigned i = 0; i < HTTP_HEAD_MAX; i++)
        buf_append_char(&head, 'x');
    buf_append_str(&head, "\r\n\r\n");
    CHECK_EQ(http_head_check(head.data, head.len, &err), -1);
    CHECK_EQ(err.sys, 431);

    buf_clear(&head);
    buf_append_str(&head, "GET /");
    for (unsigned i = 0; i < HTTP_TARGET_MAX; i++)
        buf_append_char(&head, 'x');
    buf_append_str(&head, " HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_EQ(http_head_check(head.data, head.len, &err), -1);
    CHECK_EQ(err.sys, 414);
}

TEST(the_head_is_read_right)
{
    static const char text[] = "POST /a?b HTTP/1.1\r\nHost: x:8\r\nContent-Length: 0012\r\nExpect: "
                               "100-Continue\r\nConnection: Close\r\n\r\n";
    struct http_head head;
    struct error err = ERROR_INIT;

    CHECK_EQ(http_head_read(text, sizeof(text) - 1, &head, &err), 0);
    CHECK_EQ(head.method.len, 4);
    CHECK_EQ(head.target.len, 4);
    CHECK_EQ(head.host.len, 3);
    CHECK_EQ(head.header_count, 4);
    CHECK_EQ(head.body_kind, HTTP_BODY_LENGTH);
    CHECK_EQ(head.content_length, 12);
    CHECK(head.expect_continue);
    CHECK(!head.keep_alive);
}

/* Responses
 * ---------------------------------------------------------------------------------------------------------
 */

#define OK_LINE "HTTP/1.1 200 OK\r\n"

static const struct http_case response_cases[] = {
    CASE("plain", OK_LINE "Content-Length: 2\r\n\r\n", 0, NULL),
    CASE("no reason", "HTTP/1.1 200 \r\n\r\n", 0, NULL),
    CASE("no space before no reason", "HTTP/1.1 200\r\n\r\n", 0, NULL),
    CASE("http 1.0", "HTTP/1.0 200 OK\r\n\r\n", 0, NULL),
    CASE("chunked", OK_LINE "Transfer-Encoding: Chunked\r\n\r\n", 0, NULL),
    CASE("several cookies", OK_LINE "Set-Cookie: a\r\nSet-Cookie: b\r\n\r\n", 0, NULL),
    CASE("length and chunked", OK_LINE "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
         502, "length_and_encoding"),
    CASE("two lengths", OK_LINE "Content-Length: 4\r\nContent-Length: 4\r\n\r\n", 400,
         "duplicate_content_length"),
    CASE("plus", OK_LINE "Content-Length: +4\r\n\r\n", 400, "bad_content_length"),
    CASE("two encodings",
         OK_LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, NULL),
    CASE("other encoding", OK_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, NULL),
    CASE("bare LF", "HTTP/1.1 200 OK\nX: a\r\n\r\n", 400, "bare_lf"),
    CASE("bare CR", OK_LINE "X: a\rb\r\n\r\n", 400, "bare_cr"),
    CASE("fold", OK_LINE "X: a\r\n b\r\n\r\n", 400, "folded_header"),
    CASE("no colon", OK_LINE "X\r\n\r\n", 400, "header_without_colon"),
    CASE("space in a name", OK_LINE "X Y: a\r\n\r\n", 400, "bad_header_name"),
    CASE("NUL", OK_LINE "X: \0\r\n\r\n", 400, "control_character"),
    CASE("http 2", "HTTP/2 200\r\n\r\n", 502, "bad_status_line"),
    CASE("other protocol", "ICY 200 OK\r\n\r\n", 502, "bad_status_line"),
    CASE("two digits", "HTTP/1.1 20 OK\r\n\r\n", 502, "bad_status_line"),
    CASE("four digits", "HTTP/1.1 2000 OK\r\n\r\n", 502, "bad_status_line"),
    CASE("status 099", "HTTP/1.1 099 OK\r\n\r\n", 502, "bad_status_line"),
    CASE("leading empty line", "\r\n" OK_LINE "\r\n", 502, "bad_status_line"),
};

TEST(responses_are_judged_as_strictly)
{
    for (size_t i = 0; i < ARRAY_LEN(response_cases); i++) {
        const struct http_case *c = &response_cases[i];
        struct http_response_head head = { 0 };
        struct error err = ERROR_INIT;
        int status = http_response_check(c->data, c->len, &head, &err);

        http_response_head_finish(&head);
        if ((c->status == 0) != (status == 0) || (c->status != 0 && err.sys != c->status))
            CHECK_STR(c->name, err.argument);
        if (c->code != NULL)
            CHECK_STR(err.argument, c->code);
    }
}

TEST(a_response_head_is_read_right)
{
    static const char text[] = "HTTP/1.1 429 Slow\r\nContent-Length: 7\r\nRetry-After: 5\r\n\r\n";
    struct http_response_head head = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(http_response_check(text, sizeof(text) - 1, &head, &err), 0);
    CHECK_EQ(head.status, 429);
    CHECK_EQ(head.content_length, 7);
    CHECK(!head.chunked);
    CHECK_STR(http_headers_get(&head.headers, "retry-after"), "5");
    http_response_head_finish(&head);
}
