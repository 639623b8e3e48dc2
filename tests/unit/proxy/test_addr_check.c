#include "proxy/addr_check.h"

#include "common/mem.h"
#include "harness/test.h"

TEST(each_address_has_its_class)
{
    static const struct {
        const char *text;
        const char *class; /* NULL: public */
    } cases[] = {
        { "8.8.8.8", NULL },
        { "1.1.1.1", NULL },
        { "172.15.255.255", NULL },
        { "172.32.0.0", NULL },
        { "100.63.255.255", NULL },
        { "100.128.0.0", NULL },
        { "198.17.255.255", NULL },
        { "198.20.0.0", NULL },
        { "223.255.255.255", NULL },
        { "126.255.255.255", NULL },
        { "11.0.0.0", NULL },
        { "0.0.0.0", "unspecified" },
        { "0.1.2.3", "unspecified" },
        { "10.0.0.1", "private" },
        { "10.255.255.255", "private" },
        { "100.64.0.0", "shared" },
        { "100.127.255.255", "shared" },
        { "100.100.100.200", "metadata" },
        { "127.0.0.1", "loopback" },
        { "127.255.255.255", "loopback" },
        { "169.254.169.254", "metadata" },
        { "169.254.170.2", "metadata" },
        { "168.63.129.16", "metadata" },
        { "169.254.0.1", "link_local" },
        { "172.16.0.0", "private" },
        { "172.31.255.255", "private" },
        { "192.0.0.8", "reserved" },
        { "192.0.2.1", "documentation" },
        { "192.88.99.1", "reserved" },
        { "192.168.1.1", "private" },
        { "198.18.0.0", "benchmark" },
        { "198.19.255.255", "benchmark" },
        { "198.51.100.7", "documentation" },
        { "203.0.113.7", "documentation" },
        { "224.0.0.1", "multicast" },
        { "239.255.255.255", "multicast" },
        { "240.0.0.1", "reserved" },
        { "255.255.255.255", "reserved" },
        { "2606:4700:4700::1111", NULL },
        { "2a00:1450:4001:80b::200e", NULL },
        { "::", "unspecified" },
        { "::1", "loopback" },
        { "::2", "reserved" },
        { "::127.0.0.1", "reserved" },
        { "::8.8.8.8", "reserved" },
        { "::ffff:8.8.8.8", NULL },
        { "::ffff:127.0.0.1", "loopback" },
        { "::ffff:7f00:1", "loopback" },
        { "::ffff:169.254.169.254", "metadata" },
        { "::ffff:10.1.2.3", "private" },
        { "64:ff9b::8.8.8.8", NULL },
        { "64:ff9b::a9fe:a9fe", "metadata" },
        { "64:ff9b:1::1", "private" },
        { "2002:7f00:1::", "loopback" },
        { "2002:a00:1::", "private" },
        { "2002:808:808::", NULL },
        { "2001:0:4136:e378:8000:63bf:3fff:fdd2", "documentation" }, /* Teredo for 192.0.2.45 */
        { "2001:0:4136:e378:8000:63bf:f5ff:fffe", "private" },       /* Teredo for 10.0.0.1 */
        { "2001:db8::1", "documentation" },
        { "fd00:ec2::254", "metadata" },
        { "fd12:3456::1", "private" },
        { "fc00::1", "private" },
        { "fe80::1", "link_local" },
        { "febf::1", "link_local" },
        { "fec0::1", "private" },
        { "ff02::1", "multicast" },
        { "100::1", "reserved" },
        { "4000::1", "reserved" },
        /* Nothing goes through inet_aton. */
        { "127.1", "malformed" },
        { "2130706433", "malformed" },
        { "0x7f.1", "malformed" },
        { "0177.0.0.1", "malformed" },
        { "127.0.0.1.", "malformed" },
        { "fe80::1%25eth0", "malformed" },
        { "fe80::1%lo", "malformed" },
        { "", "malformed" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *class = addr_class_text(cases[i].text);

        if ((class == NULL) != (cases[i].class == NULL))
            CHECK_STR(cases[i].text, class);
        CHECK_STR(class, cases[i].class);
    }
}

TEST(a_target_that_is_an_address_allows_itself_only)
{
    struct addr_exception exception;

    addr_exception_parse("10.0.0.5", &exception);
    CHECK(addr_allowed_text("10.0.0.5", &exception));
    CHECK(addr_allowed_text("8.8.8.8", &exception));
    CHECK(!addr_allowed_text("10.0.0.6", &exception));
    CHECK(!addr_allowed_text("127.0.0.1", &exception));
    CHECK(!addr_allowed_text("::ffff:10.0.0.5", &exception));
    addr_exception_parse("::1", &exception);
    CHECK(addr_allowed_text("::1", &exception));
    CHECK(!addr_allowed_text("127.0.0.1", &exception));
    CHECK(!addr_allowed_text("fd00:ec2::254", &exception));
}

TEST(localhost_allows_loopback_and_a_name_nothing)
{
    struct addr_exception exception;

    addr_exception_parse("LocalHost", &exception);
    CHECK(addr_allowed_text("127.0.0.1", &exception));
    CHECK(addr_allowed_text("::1", &exception));
    CHECK(!addr_allowed_text("10.0.0.1", &exception));
    CHECK(!addr_allowed_text("169.254.169.254", &exception));
    addr_exception_parse("llm.example", &exception);
    CHECK(addr_allowed_text("8.8.8.8", &exception));
    CHECK(!addr_allowed_text("127.0.0.1", &exception));
    addr_exception_parse("0.0.0.0", &exception);
    CHECK(!addr_allowed_text("127.0.0.1", &exception));
    addr_exception_parse("0", &exception);
    CHECK(!addr_allowed_text("0.0.0.0", &exception));
}
