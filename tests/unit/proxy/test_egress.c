#include <string.h>

#include "common/mem.h"
#include "harness/test.h"
#include "proxy/egress.h"

static const char *const rules[] = {
    "open.example:443",
    "*.wide.example:443",
    "GET,HEAD read.example:443",
    "POST read.example:443/upload",
    "read.example:443/pub/...",
    "GET both.example:443",
    "both.example:443",
    "[2001:db8::1]:80",
    "10.0.0.1:22",
    "intern.example:443 private",
    "GET intern.example:80/x private",
};

TEST(rules_open_just_what_they_say)
{
    static const struct {
        const char *host;
        enum egress_reach reach;
        const char *method;
        const char *path;
        bool allowed;
    } cases[] = {
        { "open.example:443", EGRESS_OPAQUE, "PUT", "/x", true },
        { "open.example:80", EGRESS_CLOSED, "GET", "/x", false },
        { "a.open.example:443", EGRESS_CLOSED, "GET", "/x", false },
        { "a.wide.example:443", EGRESS_OPAQUE, "GET", "/x", true },
        { "a.b.wide.example:443", EGRESS_OPAQUE, "GET", "/x", true },
        { "wide.example:443", EGRESS_CLOSED, "GET", "/x", false },
        { "nowide.example:443", EGRESS_CLOSED, "GET", "/x", false },
        { "a.wide.example.com:443", EGRESS_CLOSED, "GET", "/x", false },
        { "read.example:443", EGRESS_JUDGED, "GET", "/any", true },
        { "read.example:443", EGRESS_JUDGED, "HEAD", "/any", true },
        { "read.example:443", EGRESS_JUDGED, "HEA", "/any", false },
        { "read.example:443", EGRESS_JUDGED, "GET,HEAD", "/any", false },
        { "read.example:443", EGRESS_JUDGED, "POST", "/any", false },
        { "read.example:443", EGRESS_JUDGED, "POST", "/upload", true },
        { "read.example:443", EGRESS_JUDGED, "POST", "/upload/x", false },
        { "read.example:443", EGRESS_JUDGED, "DELETE", "/pub/x", true },
        { "read.example:443", EGRESS_JUDGED, "DELETE", "/pub", false },
        { "read.example:443", EGRESS_JUDGED, "DELETE", "/public", false },
        { "read.example:443", EGRESS_JUDGED, "GET", NULL, true },
        { "read.example:443", EGRESS_JUDGED, "DELETE", NULL, false },
        { "both.example:443", EGRESS_OPAQUE, "PUT", "/x", true },
        { "[2001:db8::1]:80", EGRESS_OPAQUE, "GET", "/x", true },
        { "[2001:db8::2]:80", EGRESS_CLOSED, "GET", "/x", false },
        { "10.0.0.1:22", EGRESS_OPAQUE, "GET", "/x", true },
    };
    struct egress egress;
    struct error err = ERROR_INIT;

    CHECK_EQ(egress_init(&egress, rules, ARRAY_LEN(rules), &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct host host;

        CHECK(host_parse(cases[i].host, strlen(cases[i].host), 0, &host));
        CHECK_EQ(egress_reach(&egress, &host), cases[i].reach);
        CHECK_EQ(egress_find(&egress, &host, cases[i].method, cases[i].path) != NULL,
                 cases[i].allowed);
    }
    egress_finish(&egress);
}

TEST(private_addresses_are_for_those_who_say_so)
{
    struct egress egress;
    struct host host;
    struct error err = ERROR_INIT;

    CHECK_EQ(egress_init(&egress, rules, ARRAY_LEN(rules), &err), 0);
    CHECK(host_parse("intern.example:443", 18, 0, &host));
    const struct egress_rule *rule = egress_find(&egress, &host, "GET", "/x");
    CHECK(addr_allowed_text("10.1.2.3", &rule->exception));
    CHECK(!addr_allowed_text("169.254.169.254", &rule->exception));
    CHECK(!addr_allowed_text("127.0.0.1", &rule->exception));
    CHECK(!addr_allowed_text("100.100.100.200", &rule->exception));
    CHECK(host_parse("open.example:443", 16, 0, &host));
    rule = egress_find(&egress, &host, "GET", "/x");
    CHECK(!addr_allowed_text("10.1.2.3", &rule->exception));
    CHECK(addr_allowed_text("93.184.216.34", &rule->exception));
    egress_finish(&egress);
}

TEST(bad_rules_are_named)
{
    static const char *const bad[] = {
        "",
        "a.example",
        "a.example:0",
        "*.com:443",
        "*:443",
        "*.*.a.example:1",
        "a*.example:1",
        "get a.example:1",
        "GET,a:1",
        ",GET a.example:1",
        "GET, a.example:1",
        "a.example:1/a/../b",
        "a.example:1/a%2fb",
        "a.example:1 ",
        "a.example:1 public",
        "*.10.0.0.1:80",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct egress egress;
        struct error err = ERROR_INIT;

        CHECK_EQ(egress_init(&egress, &bad[i], 1, &err), -1);
        CHECK_HAS(err.text, "is no rule");
    }
}
