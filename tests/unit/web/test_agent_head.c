/* What of a head passes between a browser and an agent's own pages. */
#include "harness/test.h"

#include <string.h>

#include "fake/fake_run.c"
#include "web/internal.h"

static char *written(struct http_request *request)
{
    AUTO_BUF struct buf out = BUF_INIT(10000);

    agent_head_write(request, "Basic c2VjcmV0", &out);
    return buf_steal(&out);
}

TEST(a_browsers_own_affairs_stay_with_it)
{
    static const char *const kept_back[] = {
        "Cookie",     "Authorization",  "Origin",          "Referer",        "User-Agent",
        "Connection", "Upgrade",        "X-Forwarded-For", "Forward",        "TE",
        "Expect",     "Sec-Fetch-Site", "Authorization",   "Content-Length",
    };
    char method[] = "GET";
    char target[] = "/session?x=1";
    struct http_request request = { .method = method, .target = target };
    AUTO_FREE
    char *head = NULL;

    http_headers_init(&request.headers);
    for (size_t i = 0; i < ARRAY_LEN(kept_back); i++)
        http_headers_add(&request.headers, kept_back[i], "browser");
    http_headers_add(&request.headers, "ACCEPT", "text/html");
    http_headers_add(&request.headers, "x-opencode-directory", "/workspace");
    head = written(&request);
    CHECK_STR(head, "GET /session?x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                    "ACCEPT: text/html\r\nx-opencode-directory: /workspace\r\n"
                    "Authorization: Basic c2VjcmV0\r\n\r\n");
    http_headers_finish(&request.headers);
}

TEST(a_body_is_framed_once)
{
    char method[] = "POST";
    char target[] = "/";
    struct http_request request = { .method = method, .target = target };
    AUTO_FREE
    char *none = written(&request);
    AUTO_FREE
    char *some = NULL;
    AUTO_FREE
    char *chunked = NULL;

    CHECK(strstr(none, "\r\nContent-Length: 0\r\n") != NULL);
    request.body_kind = HTTP_BODY_LENGTH;
    request.content_length = 7;
    some = written(&request);
    CHECK(strstr(some, "\r\nContent-Length: 7\r\n") != NULL);
    request.body_kind = HTTP_BODY_CHUNKED;
    chunked = written(&request);
    CHECK(strstr(chunked, "\r\nTransfer-Encoding: chunked\r\n") != NULL);
    CHECK(strstr(chunked, "Content-Length") == NULL);
}

static int answer(int status, const char *name, const char *value, struct http_headers *out)
{
    struct http_response_head head = { .status = status };
    struct error err = ERROR_INIT;
    int rc;

    http_headers_init(&head.headers);
    http_headers_init(out);
    http_headers_add(&head.headers, name, value);
    rc = agent_head_answer(&head, "x.localhost:1", out, &err);
    http_headers_finish(&head.headers);
    return rc;
}

TEST(an_agent_says_nothing_to_a_browser_but_what_its_pages_are)
{
    static const char *const kept_back[] = {
        "Set-Cookie",    "Access-Control-Allow-Origin", "Refresh", "Link",
        "Location",      "Service-Worker-Allowed",      "Alt-Svc", "Clear-Site-Data",
        "Server-Timing", "Strict-Transport-Security",   "NEL",     "WWW-Authenticate",
    };
    struct http_headers out;

    for (size_t i = 0; i < ARRAY_LEN(kept_back); i++) {
        CHECK_EQ(answer(200, kept_back[i], "x", &out), 0);
        CHECK(http_headers_get(&out, kept_back[i]) == NULL);
        http_headers_finish(&out);
    }
    CHECK_EQ(answer(200, "Content-Security-Policy", "connect-src *", &out), 0);
    CHECK_EQ(http_headers_count_of(&out, "content-security-policy"), 1u);
    CHECK(strchr(http_headers_get(&out, "content-security-policy"), '*') == NULL);
    http_headers_finish(&out);
    CHECK_EQ(answer(200, "Content-Type", "text/css", &out), 0);
    CHECK_STR(http_headers_get(&out, "content-type"), "text/css");
    http_headers_finish(&out);
    CHECK_EQ(answer(200, "Cache-Control", "max-age=31536000", &out), 0);
    CHECK_STR(http_headers_get(&out, "cache-control"), "no-cache");
    http_headers_finish(&out);
}

TEST(an_agent_leads_nowhere_else)
{
    static const char *const away[] = { "http://x.localhost:1/", "//x",         "/\\x",  "x",   "",
                                        "javascript:1",          "/a\\..\\\\x", "/\t/x", "/ /x" };
    struct http_headers out;

    for (size_t i = 0; i < ARRAY_LEN(away); i++) {
        CHECK_EQ(answer(302, "Location", away[i], &out), -1);
        http_headers_finish(&out);
    }
    CHECK_EQ(answer(302, "X", "no location", &out), -1);
    http_headers_finish(&out);
    CHECK_EQ(answer(401, "X", "y", &out), -1);
    http_headers_finish(&out);
    CHECK_EQ(answer(307, "Location", "/a?b=//c", &out), 0);
    CHECK_STR(http_headers_get(&out, "location"), "/a?b=//c");
    http_headers_finish(&out);
}
