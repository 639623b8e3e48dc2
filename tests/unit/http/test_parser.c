/* The second judge: what it refuses although the first one passes it, and that the build has its
 * strict form. */
#include "unit/http/cases.h"

#include "common/mem.h"
#include "harness/test.h"
#include "http/http_internal.h"

static void drop(void *data, const char *bytes, size_t len)
{
    (void)data;
    (void)bytes;
    (void)len;
}

static int both(const char *text, struct http_request *request, struct error *err)
{
    struct http_parser *parser = http_parser_new(drop, NULL);
    struct http_head head;
    int status = http_head_read(text, strlen(text), &head, err);

    if (status == 0)
        status = http_parser_head(parser, text, strlen(text), &head, request, err);
    http_parser_free(parser);
    return status;
}

TEST(both_judges_pass_every_good_head)
{
    for (size_t i = 0; i < ARRAY_LEN(head_cases); i++) {
        struct http_request request = { 0 };
        struct error err = ERROR_INIT;

        if (head_cases[i].status != 0)
            continue;
        if (both(head_cases[i].data, &request, &err) < 0)
            CHECK_STR(head_cases[i].name, err.text);
        http_request_finish(&request);
    }
}

TEST(a_method_that_only_one_judge_knows_is_refused)
{
    struct http_request request = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(both("FROBNICATE / HTTP/1.1\r\nHost: a\r\n\r\n", &request, &err), -1);
    CHECK_EQ(err.sys, 400);
    http_request_finish(&request);
    CHECK_EQ(both("DESCRIBE / HTTP/1.1\r\nHost: a\r\n\r\n", &request, &err), -1);
    http_request_finish(&request);
}

TEST(the_request_is_what_was_sent)
{
    struct http_request request = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(both("POST /a?b=c HTTP/1.1\r\nhOsT: h:1\r\nX-Two:  a b \t\r\nx-two: "
                  "c\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n",
                  &request, &err),
             0);
    CHECK_STR(request.method, "POST");
    CHECK_STR(request.target, "/a?b=c");
    CHECK_STR(request.host, "h:1");
    CHECK_EQ(request.headers.count, 5);
    CHECK_STR(request.headers.items[1].name, "X-Two");
    CHECK_STR(request.headers.items[1].value, "a b");
    CHECK_STR(request.headers.items[2].value, "c");
    CHECK_EQ(request.content_length, 7);
    CHECK(request.keep_alive && request.expect_continue);
    http_request_finish(&request);
}

TEST(an_upgrade_stays_a_plain_request)
{
    struct http_request request = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(both("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
                  &request, &err),
             0);
    CHECK_STR(http_headers_get(&request.headers, "upgrade"), "websocket");
    http_request_finish(&request);
}
