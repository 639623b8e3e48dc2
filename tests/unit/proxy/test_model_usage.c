#include "proxy/model_usage.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

/* As the providers send them, cut to what matters. */
static const struct {
    const char *answer;
    struct price_tokens tokens;
} rows[] = {
    { "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
      "{\"input_tokens\":10,\"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":3000,"
      "\"cache_creation\":{\"ephemeral_5m_input_tokens\":20},\"output_tokens\":1}}}\n\n"
      "event: content_block_delta\ndata: {\"delta\":{\"text\":\"\\\"output_tokens\\\":999\"}}\n\n"
      "event: message_delta\ndata: {\"usage\":{\"output_tokens\":42}}\n\n",
      { .input = 10, .output = 42, .cache_read = 3000, .cache_write = 20 } },
    { "{\"content\":[],\"usage\":{\"input_tokens\": 7 ,\"output_tokens\":8}}",
      { .input = 7, .output = 8 } },
    { "data: {\"choices\":[]}\r\n\r\ndata: "
      "{\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":"
      "50,\"total_tokens\":1050,\"prompt_tokens_details\":{\"cached_tokens\":900},"
      "\"completion_tokens_details\":{\"reasoning_tokens\":30}}}\r\n\r\ndata: [DONE]\r\n\r\n",
      { .input = 100, .output = 50, .cache_read = 900 } },
    { "event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":500,"
      "\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":60,"
      "\"output_tokens_details\":{\"reasoning_tokens\":10},\"total_tokens\":560}}}\n\n",
      { .input = 500, .output = 60 } },
    { "data: {\"usageMetadata\":{\"promptTokenCount\":100,\"candidatesTokenCount\":5}}\n\n"
      "data: {\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":40,"
      "\"candidatesTokenCount\":9,\"thoughtsTokenCount\":11,\"totalTokenCount\":120}}\n\n",
      { .input = 60, .output = 20, .cache_read = 40 } },
    /* No sum of those can overflow. */
    { "{\"usage\":{\"input_tokens\":99999999999999999999999999,\"cached_tokens\":"
      "99999999999999999999}}",
      { .cache_read = 1000000000 } },
    { "{\"usage\":{\"input_tokens\":null,\"output_tokens\":-5}}", { 0 } },
    { "{\"usage\":{\"input_tokens\":5\"output_tokens\":6", { .input = 5, .output = 6 } },
    { "data: {\"a\":{\"b\":\"unended\n\ndata: {\"usage\":{\"output_tokens\":6}}", { .output = 6 } },
    { "[{\n  \"usageMetadata\": {\n    \"promptTokenCount\": 4\n  }\n}\n,\n{\"usageMetadata\":"
      "{\"candidatesTokenCount\":2}}]",
      { .input = 4, .output = 2 } },
    { "{\"response\":{\"usageMetadata\":{\"promptTokenCount\":3}}}", { .input = 3 } },
    /* What a request can have an answer say of itself counts for nothing. */
    { "data: {\"response\":{\"tools\":[{\"parameters\":{\"default\":{\"input_tokens\":1}}}]}}\n\n",
      { 0 } },
    { "data: {\"response\":{\"tools\":[{\"usage\":{\"input_tokens\":1}}]}}\n\n", { 0 } },
    { "{\"metadata\":{\"response\":{\"usage\":{\"input_tokens\":1}}},\"input_tokens\":2}", { 0 } },
    { "{\"metadata\":{\"usage\":{\"input_tokens\":1}},\"usage\":{\"input_tokens\":9}}",
      { .input = 9 } },
};

TEST(the_greatest_of_each_number_counts_however_it_is_cut)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].answer);

        for (size_t cut = 0; cut <= len; cut++) {
            struct model_usage usage = { .seen = false };
            struct price_tokens tokens;

            model_usage_feed(&usage, rows[i].answer, cut);
            model_usage_feed(&usage, rows[i].answer + cut, len - cut);
            model_usage_end(&usage);
            model_usage_tokens(&usage, &tokens);
            CHECK_EQ(tokens.input, rows[i].tokens.input);
            CHECK_EQ(tokens.output, rows[i].tokens.output);
            CHECK_EQ(tokens.cache_read, rows[i].tokens.cache_read);
            CHECK_EQ(tokens.cache_write, rows[i].tokens.cache_write);
        }
    }
}
