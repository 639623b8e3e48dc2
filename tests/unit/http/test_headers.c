#include "common/mem.h"
#include "harness/test.h"
#include "http/http.h"

TEST(names_ignore_case_and_order_is_kept)
{
    struct http_headers headers;

    http_headers_init(&headers);
    http_headers_add(&headers, "Accept", "a");
    http_headers_add(&headers, "X-A", "1");
    http_headers_add(&headers, "x-a", "2");
    CHECK_STR(http_headers_get(&headers, "X-a"), "1");
    CHECK_EQ(http_headers_count_of(&headers, "x-A"), 2);
    http_headers_remove(&headers, "X-A");
    CHECK_EQ(headers.count, 1);
    CHECK_STR(headers.items[0].name, "Accept");
    CHECK(http_headers_get(&headers, "x-a") == NULL);
    http_headers_finish(&headers);
}

TEST(hop_by_hop_headers_and_nominated_ones_go)
{
    static const char *const gone[] = { "connection", "keep-alive", "proxy-connection",   "te",
                                        "trailer",    "upgrade",    "transfer-encoding",  "x-first",
                                        "x-second",   "x-third",    "proxy-authorization" };
    struct http_headers headers;

    http_headers_init(&headers);
    for (size_t i = 1; i < ARRAY_LEN(gone); i++)
        http_headers_add(&headers, gone[i], "v");
    http_headers_add(&headers, "Connection", " close, X-First ,,\tX-Second");
    http_headers_add(&headers, "X-Stay", "v");
    http_headers_add(&headers, "connection", "x-third, connection");
    http_headers_drop_hop_by_hop(&headers);
    CHECK_EQ(headers.count, 1);
    CHECK_STR(headers.items[0].name, "X-Stay");
    http_headers_finish(&headers);
}

static void add_line_end(void *data)
{
    http_headers_add(data, "x", "a\r\nb: c");
}

TEST(a_line_end_in_a_value_is_our_own_fault)
{
    struct http_headers headers;

    http_headers_init(&headers);
    CHECK_ABORTS(add_line_end, &headers);
    http_headers_finish(&headers);
}
