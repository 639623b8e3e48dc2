#include "harness/test.h"

#include <string.h>
#include <sys/stat.h>

#include "harness/tmp.h"
#include "web/internal.h"
#include "fake/fake_run.c"

static const char run_a[] = "run_00000000000000000000000000";
static const char run_b[] = "run_00000000000000000000000001";

TEST(a_token_opens_one_run_under_one_key)
{
    unsigned char key[WEB_KEY_SIZE] = { 1 };
    unsigned char other[WEB_KEY_SIZE] = { 2 };
    char token[WEB_TOKEN_SIZE];
    char cut[WEB_TOKEN_SIZE];

    auth_token(key, run_a, token);
    CHECK_EQ(strlen(token), WEB_TOKEN_SIZE - 1);
    CHECK_EQ(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
             WEB_TOKEN_SIZE - 1);
    CHECK(auth_token_matches(key, run_a, token));
    CHECK(!auth_token_matches(key, run_b, token));
    CHECK(!auth_token_matches(other, run_a, token));
    CHECK(!auth_token_matches(key, run_a, ""));
    CHECK(!auth_token_matches(key, run_a, NULL));
    memcpy(cut, token, sizeof(cut));
    cut[20] = cut[20] == 'A' ? 'B' : 'A';
    CHECK(!auth_token_matches(key, run_a, cut));
    cut[WEB_TOKEN_SIZE - 2] = '\0';
    CHECK(!auth_token_matches(key, run_a, cut));
}

TEST(only_loopback_names_with_our_port_are_hosts)
{
    static const char *const good[] = { "127.0.0.1:8080", "localhost:8080", "LocalHost:8080",
                                        "[::1]:8080" };
    static const char *const bad[] = { "127.0.0.1",
                                       "127.0.0.1:80",
                                       "evil.example:8080",
                                       "localhost.evil:8080",
                                       "127.0.0.1:8080 ",
                                       "127.0.0.1:8080.evil",
                                       "",
                                       "::1:8080",
                                       "0.0.0.0:8080",
                                       "localhost:08080" };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK(auth_host_allowed(good[i], 8080));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!auth_host_allowed(bad[i], 8080));
    CHECK(!auth_host_allowed(NULL, 8080));
}

TEST(an_agents_name_is_of_one_session_under_one_key_and_port)
{
    unsigned char key[WEB_KEY_SIZE] = { 1 };
    unsigned char other[WEB_KEY_SIZE] = { 2 };
    struct id session = { "ses_01m8njg4a0nvnstayghm1zhjte" };
    struct id found = { "" };
    char name[WEB_AGENT_HOST_SIZE];
    char host[WEB_AGENT_HOST_SIZE + 8];

    auth_agent_host(key, &session, name);
    CHECK(strcspn(name, ".") < 64); /* a label of a host's name */
    snprintf(host, sizeof(host), "%s:8080", name);
    CHECK(auth_agent_host_parse(key, host, 8080, &found));
    CHECK_STR(found.text, session.text);
    CHECK(!auth_agent_host_parse(key, host, 8081, &found));
    CHECK(!auth_agent_host_parse(other, host, 8080, &found));
    CHECK(!auth_agent_host_parse(key, name, 8080, &found));
    host[0] = '1'; /* another session with this one's proof */
    CHECK(!auth_agent_host_parse(key, host, 8080, &found));
    CHECK(!auth_agent_host_parse(key, "", 8080, &found));
    CHECK(!auth_agent_host_parse(key, NULL, 8080, &found));
    CHECK(!auth_agent_host_parse(key, "127.0.0.1:8080", 8080, &found));
}

TEST(an_origin_is_one_of_them_over_http)
{
    CHECK(auth_origin_allowed("http://127.0.0.1:8080", 8080));
    CHECK(!auth_origin_allowed("https://127.0.0.1:8080", 8080));
    CHECK(!auth_origin_allowed("http://127.0.0.1:8080/", 8080));
    CHECK(!auth_origin_allowed("null", 8080));
    CHECK(!auth_origin_allowed(NULL, 8080));
}

TEST(a_query_value_is_plain_and_whole)
{
    char value[8] = "";

    CHECK(query_value("/a?token=abc", "token", value, sizeof(value)));
    CHECK_STR(value, "abc");
    CHECK(query_value("/a?after=1&token=x-_9", "token", value, sizeof(value)));
    CHECK_STR(value, "x-_9");
    CHECK(!query_value("/a", "token", value, sizeof(value)));
    CHECK(!query_value("/a?xtoken=abc", "token", value, sizeof(value)));
    CHECK(!query_value("/a?token=a%20", "token", value, sizeof(value)));
    CHECK(!query_value("/a?token=12345678", "token", value, sizeof(value)));
    CHECK(query_value("/a?token=", "token", value, sizeof(value)));
    CHECK_STR(value, "");
}

static bool host_is_ours(const char *host)
{
    static const char *const names[] = { "box.lan", "box" };

    return auth_remote_host_allowed(host, names, ARRAY_LEN(names));
}

TEST(a_remote_page_answers_to_addresses_and_its_names)
{
    static const char *const good[] = { "box.lan",      "BOX:8080",  "box.lan:1",
                                        "192.0.2.1:80", "192.0.2.1", "[2001:db8::1]:80" };
    static const char *const bad[] = {
        "evil.example:80", "box.lan.evil", "192.0.2.1.evil:80", "box:",       "box:x", "", "[::1",
        "[]:80",           "2001:db8::1",  "[box]:80",          "box.lan:1:2"
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK(host_is_ours(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!host_is_ours(bad[i]));
    CHECK(!host_is_ours(NULL));
}

static bool find_cookie(const char *first, const char *second, char *value, size_t size)
{
    struct http_headers headers;
    bool found;

    http_headers_init(&headers);
    http_headers_add(&headers, "Cookie", first);
    if (second != NULL)
        http_headers_add(&headers, "cookie", second);
    found = cookie_value(&headers, "c-1", value, size);
    http_headers_finish(&headers);
    return found;
}

TEST(a_cookie_is_found_once_and_whole)
{
    char value[8];

    CHECK(find_cookie("c-1=abc", NULL, value, sizeof(value)));
    CHECK_STR(value, "abc");
    CHECK(find_cookie("a=b; c-1=abc; d=e", "x=y", value, sizeof(value)));
    CHECK_STR(value, "abc");
    CHECK(find_cookie("a=b", "c-1=z", value, sizeof(value)));
    CHECK(!find_cookie("c-1=abc; c-1=abd", NULL, value, sizeof(value)));
    CHECK(!find_cookie("c-1=abc", "c-1=abc", value, sizeof(value)));
    CHECK(!find_cookie("xc-1=abc", NULL, value, sizeof(value)));
    CHECK(!find_cookie("c-1=\"abc\"", NULL, value, sizeof(value)));
    CHECK(!find_cookie("c-1=12345678", NULL, value, sizeof(value)));
    CHECK(!find_cookie("c-1=", NULL, value, sizeof(value)));
    CHECK(!find_cookie("", ";;= ;", value, sizeof(value)));
}

TEST(pages_of_browsers_lie_where_only_this_installation_knows)
{
    unsigned char key[WEB_KEY_SIZE] = { 1 };
    unsigned char other[WEB_KEY_SIZE] = { 2 };
    char prefix[WEB_PREFIX_SIZE];
    char again[WEB_PREFIX_SIZE];

    auth_prefix(key, prefix);
    CHECK_EQ(strlen(prefix), 19u);
    CHECK(str_starts(prefix, "/w/"));
    auth_prefix(key, again);
    CHECK_STR(again, prefix);
    auth_prefix(other, again);
    CHECK(!str_equal(again, prefix));
}

TEST(a_stream_starts_behind_what_the_browser_saw)
{
    CHECK_EQ(stream_after("7", "/x?after=3"), 7u);
    CHECK_EQ(stream_after(NULL, "/x?after=3&token=t"), 3u);
    CHECK_EQ(stream_after("x", "/x"), 0u);
    CHECK_EQ(stream_after("-1", "/x?after=99999999999999999999"), 0u);
}

TEST(the_key_is_made_once_and_kept_private)
{
    unsigned char first[WEB_KEY_SIZE];
    unsigned char again[WEB_KEY_SIZE];
    struct error err = ERROR_INIT;
    struct stat info;

    CHECK_EQ(auth_load_key(tmp_dir(), first, &err), 0);
    CHECK_EQ(auth_load_key(tmp_dir(), again, &err), 0);
    CHECK_EQ(memcmp(first, again, WEB_KEY_SIZE), 0);
    CHECK_EQ(stat(tmp_path("web.key"), &info), 0);
    CHECK_EQ(info.st_mode & 0777, 0600u);
}

TEST(a_damaged_key_is_an_error)
{
    unsigned char key[WEB_KEY_SIZE];
    struct error err = ERROR_INIT;

    tmp_file("web.key", "short", 5, 0600);
    CHECK_EQ(auth_load_key(tmp_dir(), key, &err), -1);
    CHECK_HAS(err.text, "web.key");
}
