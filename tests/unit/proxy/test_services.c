#include "proxy/services.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

static int init(struct services *services, const struct proxy_service *one, struct error *err)
{
    return services_init(services, one, 1, err);
}

TEST(a_service_is_parsed_into_its_parts)
{
    static const char *const allow[] = { "POST /chat/completions", "GET /models/...",
                                         "GET /exact/\xe2\x80\xa6" };
    const struct proxy_service list[] = {
        { .name = "corp",
          .target = "https://llm.corp.example:443/v1/",
          .inject_header = "Authorization",
          .inject_value = "Bearer {CORP_KEY}",
          .secret = "CORP_KEY",
          .allow = allow,
          .allow_count = 3 },
        { .name = "github",
          .target = "HTTPS://github.com",
          .inject_header = "authorization",
          .inject_value = "Basic {GITHUB_TOKEN:basic:x-access-token}" },
        { .name = "local", .target = "http://127.0.0.1:8080/a", .inject_header = "" },
        { .name = "six", .target = "http://[::1]:8080", .inject_header = "" },
    };
    struct services services;
    struct error err = ERROR_INIT;

    CHECK_EQ(services_init(&services, list, ARRAY_LEN(list), &err), 0);
    CHECK_STR(services.items[0].origin, "https://llm.corp.example:443");
    CHECK_STR(services.items[0].host, "llm.corp.example");
    CHECK_STR(services.items[0].prefix, "/v1");
    CHECK_STR(services.items[0].inject_header, "authorization");
    CHECK_STR(services.items[0].inject_before, "Bearer ");
    CHECK_STR(services.items[0].secret, "CORP_KEY");
    CHECK_EQ(services.items[0].inject, INJECT_VALUE);
    CHECK_EQ(services.items[0].rule_count, 3);
    CHECK_STR(services.items[0].rules[0].path, "/chat/completions");
    CHECK(!services.items[0].rules[0].below);
    CHECK_STR(services.items[0].rules[1].path, "/models/");
    CHECK(services.items[0].rules[1].below);
    CHECK_STR(services.items[0].rules[2].path, "/exact/");
    CHECK(!services.items[0].git);
    CHECK_EQ(services.items[1].inject, INJECT_BASIC);
    CHECK_STR(services.items[1].basic_user, "x-access-token");
    CHECK(services.items[1].git);
    CHECK_EQ(services.items[2].inject, INJECT_NONE);
    CHECK_STR(services.items[2].host, "127.0.0.1:8080");
    CHECK(addr_allowed_text("127.0.0.1", &services.items[2].exception));
    CHECK(addr_allowed_text("::1", &services.items[3].exception));
    CHECK(services_find(&services, "github", 6) == &services.items[1]);
    CHECK(services_find(&services, "GITHUB", 6) == NULL);
    CHECK(services_find(&services, "git", 3) == NULL);
    services_finish(&services);
}

TEST(a_wrong_service_is_refused_at_start)
{
    static const char *const no_slash[] = { "GET models" };
    static const char *const dots[] = { "GET /a/../b" };
    static const struct proxy_service wrong[] = {
        { .name = "", .target = "https://a", .inject_header = "" },
        { .name = "A", .target = "https://a", .inject_header = "" },
        { .name = "a/b", .target = "https://a", .inject_header = "" },
        { .name = "..", .target = "https://a", .inject_header = "" },
        { .name = "a", .target = "ftp://a", .inject_header = "" },
        { .name = "a", .target = "https://", .inject_header = "" },
        { .name = "a", .target = "https://u:p@a", .inject_header = "" },
        { .name = "a", .target = "https://a:0", .inject_header = "" },
        { .name = "a", .target = "https://a:99999", .inject_header = "" },
        { .name = "a", .target = "https://a:", .inject_header = "" },
        { .name = "a", .target = "https://a/x?y", .inject_header = "" },
        { .name = "a", .target = "https://a/../x", .inject_header = "" },
        { .name = "a", .target = "https://a//x", .inject_header = "" },
        { .name = "a", .target = "https://a b/", .inject_header = "" },
        { .name = "a", .target = "https://[::1", .inject_header = "" },
        { .name = "a", .target = "https://a", .inject_header = "x y", .inject_value = "{K}" },
        { .name = "a", .target = "https://a", .inject_header = "x" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "none" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "{lower}" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "{K}{L}" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "{K" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "{K}\r\ny: z" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "{K:hex:u}" },
        { .name = "a", .target = "https://a", .inject_header = "x", .inject_value = "{K:basic:}" },
        { .name = "a",
          .target = "https://a",
          .inject_header = "x",
          .inject_value = "{K:basic:a:b}" },
        { .name = "a",
          .target = "https://a",
          .inject_header = "x",
          .inject_value = "{K}",
          .secret = "L" },
        { .name = "a",
          .target = "https://a",
          .inject_header = "",
          .allow = no_slash,
          .allow_count = 1 },
        { .name = "a",
          .target = "https://a",
          .inject_header = "",
          .allow = dots,
          .allow_count = 1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct services services;
        struct error err = ERROR_INIT;

        if (init(&services, &wrong[i], &err) == 0)
            CHECK_STR(wrong[i].target, wrong[i].inject_value);
        CHECK_EQ(err.code, ERR_INVALID);
    }
}
