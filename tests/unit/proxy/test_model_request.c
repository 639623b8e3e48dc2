#include "proxy/model_request.h"

#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "harness/test.h"

TEST(a_request_says_its_model_and_its_greatest_length)
{
    static const struct {
        const char *path;
        const char *body;
        const char *model;
        uint64_t max_output;
    } rows[] = {
        { "/v1/messages", "{\"model\":\"claude\",\"max_tokens\":32000}", "claude", 32000 },
        { "/v1/messages", " {\n \"max_tokens\" : 5 , \"model\" : \"m/x:free\" }\r\n ", "m/x:free",
          5 },
        { "/v1/chat/completions", "{\"model\":\"gpt\",\"messages\":[{\"model\":\"no\"}]}", "gpt",
          0 },
        { "/v1/chat/completions",
          "{\"model\":\"gpt\",\"max_tokens\":1,\"max_completion_tokens\":9}", "gpt", 9 },
        { "/v1/chat/completions", "{\"n\":3,\"model\":\"gpt\",\"max_tokens\":100}", "gpt", 300 },
        { "/v1/responses", "{\"max_output_tokens\":null,\"model\":\"gpt\",\"background\":false}",
          "gpt", 0 },
        { "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
          "{\"contents\":[],\"generationConfig\":{\"maxOutputTokens\":8,\"candidateCount\":2}}",
          "gemini-2.5-pro", 16 },
        { "/openai/deployments/mine/chat/completions", "{\"model\":\"other\"}", "mine", 0 },
        /* What is said about such names is not taken for them. */
        { "/v1/messages",
          "{\"model\":\"a\",\"system\":\"\\\"max_tokens\\\":9\",\"x\":{\"max_tokens\":9}}", "a",
          0 },
        { "/v1/messages", "{\"x\":[1,{\"y\":[\"]\",-1.5e3,true]}],\"model\":\"a\"}", "a", 0 },
        { "/v1/messages", "{}", "", 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct model_request request;

        if (!model_request_read(rows[i].path, rows[i].body, strlen(rows[i].body), &request))
            CHECK_FAILED(rows[i].body);
        CHECK_STR(request.model, rows[i].model);
        CHECK_EQ(request.max_output, rows[i].max_output);
    }
}

TEST(what_may_be_read_in_two_ways_is_not_understood)
{
    static const char *const rows[] = {
        "",
        "[]",
        "null",
        "{\"model\":\"a\"",
        "{\"model\":\"a\"}{",
        "{\"model\":\"a\",\"model\":\"b\"}",
        "{\"max_tokens\":1,\"max_tokens\":2}",
        "{\"max\\u005ftokens\":99999,\"max_tokens\":1}",
        "{\"model\":\"\\u0061\"}",
        "{\"model\":7}",
        "{\"model\":\"a\",\"max_tokens\":\"7\"}",
        "{\"model\":\"a\",\"max_tokens\":7.5}",
        "{\"model\":\"a\",\"max_tokens\":-7}",
        "{\"model\":\"a\",\"max_tokens\":1e9}",
        "{\"model\":\"a\",\"max_tokens\":99999999999999}",
        "{\"model\":\"a\",\"background\":true}",
        "{\"model\":\"a\",\"background\":1}",
        "{\"model\":\"a\",\"background\":\"true\"}",
        "{\"model\":\"a\",\"models\":[\"b\"]}",
        "{\"model\":\"a\",\"fallbacks\":[{\"model\":\"b\"}]}",
        "{\"model\":\"a\",\"generationConfig\":[]}",
        "{\"model\":\"a\",}",
        "{\"model\" \"a\"}",
        "{\"model\":\"a\" \"x\":1}",
        "{'model':\"a\"}",
        "{\"x\":]}",
        "{\"x\":,\"model\":\"a\"}",
        "{\"x\":\"unended}",
        "{\"x\":\"a\\",
    };
    struct model_request request;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (model_request_read("/v1/messages", rows[i], strlen(rows[i]), &request))
            CHECK_FAILED(rows[i]);
}

TEST(depth_and_length_of_names_are_bounded)
{
    struct buf deep = BUF_INIT(1u << 20);
    struct model_request request;

    buf_append_str(&deep, "{\"x\":");
    for (int i = 0; i < 100000; i++)
        buf_append_char(&deep, '[');
    CHECK(!model_request_read("/v1/messages", deep.data, deep.len, &request));
    buf_clear(&deep);
    buf_append_str(&deep, "{\"model\":\"");
    for (int i = 0; i < 300; i++)
        buf_append_char(&deep, 'a');
    buf_append_str(&deep, "\"}");
    CHECK(!model_request_read("/v1/messages", deep.data, deep.len, &request));
    buf_finish(&deep);
}
