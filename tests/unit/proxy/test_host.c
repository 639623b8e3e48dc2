#include <string.h>

#include "common/mem.h"
#include "harness/test.h"
#include "proxy/host.h"

TEST(hosts_have_one_form)
{
    static const struct {
        const char *text;
        const char *form; /* NULL: refused */
    } cases[] = {
        { "example.com:443", "example.com:443" },
        { "EXAMPLE.Com:8443", "example.com:8443" },
        { "example.com", "example.com:80" },
        { "a_b.example:1", "a_b.example:1" },
        { "xn--bcher-kva.example:1", "xn--bcher-kva.example:1" },
        { "127.0.0.1:1", "127.0.0.1:1" },
        { "[::1]:443", "[::1]:443" },
        { "[0:0:0:0:0:0:0:1]:443", "[::1]:443" },
        { "[2001:DB8::A]", "[2001:db8::a]:80" },
        { "1.example.com:1", "1.example.com:1" },
        { "", NULL },
        { ":443", NULL },
        { ".", NULL },
        { "example.com.:443", NULL },
        { ".example.com:443", NULL },
        { "a..b:443", NULL },
        { "-a.b:443", NULL },
        { "a-.b:443", NULL },
        { "a.b-:443", NULL },
        { "a b:443", NULL },
        { "a%2eb:443", NULL },
        { "user@a.b:443", NULL },
        { "a.b:443:443", NULL },
        { "a.b:", NULL },
        { "a.b:0", NULL },
        { "a.b:00443", NULL },
        { "a.b:65536", NULL },
        { "a.b:+1", NULL },
        { "a.b: 1", NULL },
        { "a.b/c:1", NULL },
        { "2130706433:80", NULL },
        { "0x7f000001:80", NULL },
        { "0x7f.1:80", NULL },
        { "127.1:80", NULL },
        { "0177.0.0.1:80", NULL },
        { "127.0.0.01:80", NULL },
        { "127.0.0.256:80", NULL },
        { "a.0x7f:80", NULL },
        { "[::1%25lo]:80", NULL },
        { "[::1", NULL },
        { "[::1]443", NULL },
        { "[127.0.0.1]:80", NULL },
        { "::1:80", NULL },
        { "ex\xc3\xa4mple.com:443", NULL },
        { "a\xe3\x80\x82"
          "b:443",
          NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct host host;
        char form[HOST_TEXT_SIZE] = "refused";

        if (host_parse(cases[i].text, strlen(cases[i].text), 80, &host))
            host_format(&host, form);
        CHECK_STR(form, cases[i].form != NULL ? cases[i].form : "refused");
    }
}

TEST(a_port_may_be_required)
{
    struct host host;

    CHECK(!host_parse("example.com", 11, 0, &host));
    CHECK(host_parse("example.com:1", 13, 0, &host));
}

TEST(long_names_and_nuls_are_refused)
{
    char name[400];
    struct host host;

    memset(name, 'a', sizeof(name));
    CHECK(host_parse(name, 63, 80, &host));
    CHECK(!host_parse(name, 64, 80, &host));
    for (size_t i = 63; i < sizeof(name); i += 64)
        name[i] = '.';
    CHECK(host_parse(name, 253, 80, &host));
    CHECK(!host_parse(name, 254, 80, &host));
    CHECK(!host_parse("a\0b", 3, 80, &host));
}
