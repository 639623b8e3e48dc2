#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "harness/test.h"
#include "proxy/registry.h"

static void add(void *data, const char *rule)
{
    buf_append_str(data, rule);
    buf_append_char(data, '\n');
}

TEST(registries_are_read_from_what_tools_say)
{
    static const struct {
        enum registry_form form;
        const char *text;
        const char *rules;
    } cases[] = {
        { REGISTRY_PLAIN, "https://npm.example/\n", "GET,HEAD npm.example:443\n" },
        { REGISTRY_PLAIN, "http://u:p@npm.example:4873/x/", "GET,HEAD npm.example:4873\n" },
        { REGISTRY_PLAIN, "https://a.example,direct\nsum.example\n",
          "GET,HEAD a.example:443\nGET,HEAD sum.example:443\n" },
        { REGISTRY_PLAIN, "https://a.example|http://[::1]:80/x,off\n",
          "GET,HEAD a.example:443\nGET,HEAD [::1]:80\n" },
        { REGISTRY_PLAIN, "off\nundefined\nnpm ERR! code\n", "" },
        { REGISTRY_PLAIN, "https://2130706433/\nhttps://a..b/\nftp://a.example/\nhttps://\n", "" },
        { REGISTRY_SETTING,
          "global.index-url='https://i.example/simple'\nglobal.proxy='http://p.example:3128'\n"
          ":env:.extra-index-url='https://x.example:8443/s http://y.example/s'\n",
          "GET,HEAD i.example:443\nGET,HEAD x.example:8443\nGET,HEAD y.example:80\n" },
        { REGISTRY_SETTING,
          "[source.mirror]\nregistry = \"sparse+https://m.example/index/\"\n"
          " # registry = \"https://old.example\"\n[net]\nproxy = \"http://p.example\"\n",
          "GET,HEAD m.example:443\n" },
        { REGISTRY_SETTING,
          "{\n  \"dl\": \"https://d.example/crates\",\n  \"api\": "
          "\"https://a.example\"\n}\n",
          "GET,HEAD d.example:443\n" },
        { REGISTRY_HELP,
          "  -i, --index-url <url>  Base URL of the Index (default\n         "
          "https://p.example/simple). See https://no.example\n (default: 5)\n",
          "GET,HEAD p.example:443\n" },
        { REGISTRY_SOURCES,
          "# deb http://old.example/ x main\ndeb [signed-by=/k] http://d.example/debian x main\n"
          "URIs: https://e.example/debian https://f.example\nTypes: deb\n",
          "GET,HEAD d.example:80\nGET,HEAD e.example:443\nGET,HEAD f.example:443\n" },
        { REGISTRY_FOLDER, "index.example-6f17d22bba15001f", "GET,HEAD index.example:443\n" },
        { REGISTRY_FOLDER, "noname-1", "" },
        { REGISTRY_FOLDER, "..", "" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf rules = BUF_INIT(4096);

        registry_read(cases[i].form, cases[i].text, strlen(cases[i].text), add, &rules);
        CHECK_STR(buf_text(&rules), cases[i].rules);
    }
}

TEST(there_is_an_end_to_addresses)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 16);
    AUTO_BUF struct buf rules = BUF_INIT(1u << 16);

    for (unsigned i = 0; i < 1000; i++)
        buf_printf(&text, "https://h%u.example ", i);
    registry_read(REGISTRY_PLAIN, buf_text(&text), text.len, add, &rules);
    CHECK(strstr(buf_text(&rules), "h31.") != NULL && strstr(buf_text(&rules), "h32.") == NULL);
}

TEST(tools_inside_are_told_what_tools_outside_are_set_to)
{
    static const struct {
        const char *tool;
        const char *text;
        const char *variables;
    } cases[] = {
        { "npm", "https://npm.example/r/\n", "npm_config_registry=https://npm.example/r/\n" },
        { "npm", "https://user:key@npm.example/\n", "" },
        { "npm", "undefined\nhttps://other.example/\n", "" },
        { "npm", "", "" },
        { "pip3",
          "global.index-url='https://i.example/simple'\nglobal.extra-index-url='https://"
          "x.example'\n"
          "global.no-index-url='https://no.example'\n",
          "PIP_INDEX_URL=https://i.example/simple\nPIP_EXTRA_INDEX_URL=https://x.example\n" },
        { "pip3", "global.index-url='https://a:b@i.example/simple'\n", "" },
        { "pip3", "=\nindex-url=\n.index-url='\n", "" },
        { "go", "https://p.example,direct\nsum.example\n",
          "GOPROXY=https://p.example,direct\nGOSUMDB=sum.example\n" },
        { "go", "off\noff\n", "GOSUMDB=off\n" },
        { "go", "https://p.example\n", "GOPROXY=https://p.example\n" },
        { "cargo", "https://c.example\n", "" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf variables = BUF_INIT(4096);

        registry_variables(cases[i].tool, cases[i].text, strlen(cases[i].text), add, &variables);
        CHECK_STR(buf_text(&variables), cases[i].variables);
    }
}
