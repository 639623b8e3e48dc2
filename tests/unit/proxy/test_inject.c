#include "proxy/inject.h"

#include <sodium.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"

struct rig {
    struct vault *vault;
    struct inject_cache cache;
    struct inject_source source;
    struct services services;
    struct http_request request;
};

static void stop(void *data)
{
    struct rig *rig = data;

    inject_cache_finish(&rig->cache);
    vault_close(rig->vault);
    services_finish(&rig->services);
    http_request_finish(&rig->request);
    free(rig);
}

static struct rig *start(const char *header, const char *value)
{
    struct rig *rig = NEW(struct rig);
    struct vault_options options = { .state_dir = tmp_dir(), .clock = clock_system() };
    struct proxy_service service = {
        .name = "s", .target = "https://s.example", .inject_header = header, .inject_value = value
    };
    struct error err = ERROR_INIT;

    CHECK(sodium_init() >= 0);
    CHECK_EQ(vault_open(&rig->vault, &options, &err), 0);
    CHECK_EQ(services_init(&rig->services, &service, 1, &err), 0);
    rig->source = (struct inject_source){ rig->vault, &rig->cache };
    rig->request.method = mem_strdup("POST");
    test_defer(stop, rig);
    return rig;
}

static void put(struct rig *rig, const char *value)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(vault_put(rig->vault, "KEY", value, strlen(value), NULL, &err), 0);
}

/* All lines, each ended by a line feed; freed by the caller. */
static char *lines(struct rig *rig)
{
    struct buf list = { 0 };
    struct inject_veil *veil = NULL;
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf text;

    buf_init(&text, 1u << 16);
    CHECK_EQ(
        inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil, &err),
        0);
    for (size_t i = 0; i < list.len; i++)
        if (list.data[i] != '\r')
            buf_append_char(&text, list.data[i]);
        else
            CHECK_EQ(list.data[i + 1], '\n');
    inject_free(&list);
    inject_veil_free(veil);
    return buf_steal(&text);
}

TEST(templates_are_filled)
{
    struct rig *rig = start("x-api-key", "{KEY}");

    put(rig, "sk-1");
    AUTO_FREE
    char *plain = lines(rig);
    CHECK_HAS(plain, "\nx-api-key: sk-1\n");

    rig = start("Authorization", "Bearer {KEY}");
    AUTO_FREE
    char *bearer = lines(rig);
    CHECK_HAS(bearer, "\nauthorization: Bearer sk-1\n");

    rig = start("authorization", "Basic {KEY:basic:x-access-token}");
    AUTO_FREE
    char *basic = lines(rig);
    CHECK_HAS(basic, "\nauthorization: Basic eC1hY2Nlc3MtdG9rZW46c2stMQ==\n");

    rig = start("x-key", "<{KEY}>");
    AUTO_FREE
    char *around = lines(rig);
    CHECK_HAS(around, "\nx-key: <sk-1>\n");
}

TEST(what_a_client_must_not_say_is_dropped)
{
    static const char *const gone[] = {
        "Authorization",
        "X-Api-Key",
        "x-goog-api-key",
        "api-key",
        "Cookie",
        "Proxy-Authorization",
        "Host",
        "Content-Length",
        "Expect",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "Forwarded",
        "Via",
        "X-Real-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "X-HTTP-Method",
        "Max-Forwards",
        "Range",
        "If-Range",
        "TE",
        "Upgrade",
        "Keep-Alive",
        "X-Named",
        "Proxy-Connection",
        "x-service-key",
    };
    struct rig *rig = start("x-service-key", "{KEY}");

    put(rig, "sk-1");
    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        http_headers_add(&rig->request.headers, gone[i], "client-value");
    http_headers_add(&rig->request.headers, "Connection", "close, X-Named");
    http_headers_add(&rig->request.headers, "anthropic-version", "2023-06-01");
    http_headers_add(&rig->request.headers, "X-Empty", "");
    http_headers_add(&rig->request.headers, "X-Two", "1");
    http_headers_add(&rig->request.headers, "X-Two", "2");
    AUTO_FREE
    char *text = lines(rig);

    CHECK(strstr(text, "client-value") == NULL);
    CHECK(strstr(text, "Connection") == NULL);
    CHECK_HAS(text, "anthropic-version: 2023-06-01\n");
    CHECK_HAS(text, "X-Empty:\n");
    CHECK_HAS(text, "X-Two: 1\nX-Two: 2\n");
    CHECK_HAS(text, "x-service-key: sk-1\n");
    CHECK_HAS(text, "\nAccept-Encoding: identity\n");
}

TEST(what_a_client_says_itself_is_kept)
{
    struct rig *rig = start("x-api-key", "{KEY}");

    put(rig, "sk-1");
    http_headers_add(&rig->request.headers, "Accept", "*/*");
    http_headers_add(&rig->request.headers, "Content-Type", "application/json");
    http_headers_add(&rig->request.headers, "Accept-Encoding", "gzip");
    http_headers_add(&rig->request.headers, "Content-Encoding", "gzip");
    AUTO_FREE
    char *text = lines(rig);
    CHECK_HAS(text, "Accept: */*\n");
    CHECK_HAS(text, "Content-Type: application/json\n");
    CHECK_HAS(text, "Content-Encoding: gzip\n");
    CHECK(strcasestr(text, "Accept-Encoding: gzip") == NULL);
}

TEST(a_missing_or_unusable_secret_fails_closed)
{
    struct rig *rig = start("x-api-key", "{KEY}");
    struct buf list = { 0 };
    struct inject_veil *veil = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(
        inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil, &err),
        -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    put(rig, "caf\xc3\xa9");
    CHECK_EQ(
        inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil, &err),
        -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK(strstr(err.text, "caf") == NULL);
    put(rig, " blank");
    CHECK_EQ(
        inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil, &err),
        -1);
    CHECK(list.data == NULL);
}

TEST(git_without_a_stored_credential_goes_as_anyone)
{
    struct rig *rig = start("authorization", "Basic {KEY:basic:x-access-token}");

    rig->services.items[0].git = true;
    http_headers_add(&rig->request.headers, "Authorization", "Basic dG9rZW4=");
    AUTO_FREE char *sent = lines(rig);
    CHECK(strcasestr(sent, "authorization: Basic") == NULL);
}

TEST(a_service_without_a_credential_gets_none)
{
    struct rig *rig = start("", "");

    http_headers_add(&rig->request.headers, "Authorization", "Bearer x");
    AUTO_FREE
    char *text = lines(rig);
    CHECK(strcasestr(text, "authorization") == NULL);
}

/* BODY through the veil in pieces of STEP; freed by the caller. */
static char *veiled(struct inject_veil *veil, const char *body, size_t step)
{
    struct buf out;
    size_t len = strlen(body);

    buf_init(&out, 1u << 20);
    for (size_t at = 0; at < len; at += step)
        inject_veil_feed(veil, body + at, len - at < step ? len - at : step, &out);
    inject_veil_end(veil, &out);
    return buf_steal(&out);
}

TEST(a_credential_that_comes_back_is_hidden_however_it_is_cut)
{
    struct rig *rig = start("authorization", "Basic {KEY:basic:u}");
    struct buf list = { 0 };
    struct inject_veil *veil = NULL;
    struct error err = ERROR_INIT;
    static const char body[] =
        "{\"auth\":\"Basic dTphYWFhYWFhYi1zZWNyZXQ=\",\"raw\":\"aaaaaaaab-secret "
        "aaaaaaab-secret\"} aaaaaaab-secre";
    static const char want[] =
        "{\"auth\":\"Basic ************************\",\"raw\":\"a*************** "
        "***************\"} aaaaaaab-secre";

    put(rig, "aaaaaaab-secret");
    CHECK_EQ(
        inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil, &err),
        0);
    for (size_t step = 1; step < sizeof(body); step++) {
        AUTO_FREE
        char *shown = veiled(veil, body, step);

        CHECK_STR(shown, want);
    }
    char header[] = "https://h/?k=aaaaaaab-secret";
    inject_veil_text(veil, header);
    CHECK_STR(header, "https://h/?k=***************");
    inject_veil_text(NULL, header);
    AUTO_FREE
    char *plain = veiled(NULL, "as it is", 3);
    CHECK_STR(plain, "as it is");
    inject_free(&list);
    inject_veil_free(veil);
}

TEST(an_event_is_not_held_back)
{
    struct rig *rig = start("x-api-key", "{KEY}");
    struct buf list = { 0 };
    struct inject_veil *veil = NULL;
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out;

    put(rig, "sk-ant-0123456789");
    buf_init(&out, 1u << 16);
    CHECK_EQ(
        inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil, &err),
        0);
    inject_veil_feed(veil, "data: 1\n\n", 9, &out);
    CHECK_STR(buf_text(&out), "data: 1\n\n");
    inject_free(&list);
    inject_veil_free(veil);
}

TEST(a_new_secret_is_hidden_as_soon_as_it_is_stored)
{
    struct rig *rig = start("x-api-key", "{KEY}");
    static const char *const keys[] = { "sk-ant-0123456789", "sk-ant-9876543210" };

    for (size_t i = 0; i < 2; i++) {
        struct buf list = { 0 };
        struct inject_veil *veil = NULL;
        struct error err = ERROR_INIT;
        AUTO_FREE
        char *text = mem_strdup(keys[i]);

        put(rig, keys[i]);
        CHECK_EQ(inject_headers(&rig->services.items[0], &rig->request, &rig->source, &list, &veil,
                                &err),
                 0);
        inject_veil_text(veil, text);
        CHECK_STR(text, "*****************");
        CHECK_EQ(inject_veil_found(veil), 1);
        inject_free(&list);
        inject_veil_free(veil);
    }
}

TEST(a_secret_is_shut_before_the_loop_sleeps)
{
    struct rig *rig = start("x-api-key", "{KEY}");

    put(rig, "sk-ant-0123456789");
    for (int i = 0; i < 3; i++) {
        AUTO_FREE
        char *text = lines(rig);
        CHECK(text != NULL && rig->cache.open);
    }
    inject_cache_rest(&rig->cache);
    CHECK(!rig->cache.open);
    inject_cache_rest(&rig->cache);
    put(rig, "sk-ant-9876543210"); /* another secret meanwhile */
    AUTO_FREE
    char *before = lines(rig);
    CHECK_HAS(before, "x-api-key: sk-ant-9876543210\n");
    put(rig, "sk-ant-1111111111");
    AUTO_FREE
    char *after = lines(rig);
    CHECK_HAS(after, "x-api-key: sk-ant-1111111111\n");
    CHECK(rig->cache.open);
}

TEST(a_request_without_credential_gets_none)
{
    struct rig *rig = start("x-api-key", "{KEY}");
    struct inject_source anyone = { NULL, &rig->cache };
    struct buf list = { 0 };
    struct inject_veil *veil = NULL;
    struct error err = ERROR_INIT;

    put(rig, "sk-ant-0123456789");
    CHECK_EQ(inject_headers(&rig->services.items[0], &rig->request, &anyone, &list, &veil, &err),
             0);
    CHECK(strcasestr(buf_text(&list), "x-api-key") == NULL);
    CHECK(veil == NULL);
    inject_free(&list);
}
