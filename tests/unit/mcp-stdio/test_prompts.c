#include "mcp-stdio/prompts.h"

#include "tests/unit/mcp-stdio/lab.h"

#define GET(id, params) REQUEST(id, "prompts/get", params)

TEST(prompts_are_listed_in_both_eras)
{
    lab_start_alone();
    CHECK_EQ(lab_code(REQUEST("1", "prompts/list", "")), 0);
    CHECK_EQ(json_count(lab_get("result.prompts")), 3);
    CHECK(!lab_get("result.ttlMs"));
    CHECK_EQ(lab_code(REQUEST("2", "prompts/list", MODERN_META)), 0);
    CHECK_STR(json_string(lab_get("result.cacheScope")), "public");
    CHECK_EQ(lab_code(REQUEST("2", "prompts/list", "\"cursor\":\"x\"")), -32602);
}

TEST(a_prompt_holds_what_it_was_given)
{
    lab_start_alone();
    CHECK_EQ(lab_code(GET("1", "\"name\":\"delegate\",\"arguments\":{\"task\":\"Fix \\\"it\\\"\","
                               "\"repository\":\"https://github.com/me/x\"}")),
             0);
    CHECK_HAS(buf_text(&lab.line), "Repository: https://github.com/me/x");
    CHECK_HAS(buf_text(&lab.line), "Fix \\\"it\\\"");
    CHECK_HAS(buf_text(&lab.line), "\"role\":\"user\",\"content\":{\"type\":\"text\"");
    CHECK_EQ(lab_code(GET("2", "\"name\":\"check_runs\"")), 0);
    CHECK_EQ(lab_code(GET("3", "\"name\":\"review_diff\",\"arguments\":{\"runId\":\"" RUN_ID
                               "\",\"focus\":null}")),
             0);
    CHECK_HAS(buf_text(&lab.line), RUN_ID);
    CHECK(!strstr(buf_text(&lab.line), "especially"));
}

TEST(what_a_prompt_needs_must_be_there)
{
    static const char *const wrong[] = {
        GET("1", ""),
        GET("1", "\"name\":5"),
        GET("1", "\"name\":\"nope\""),
        GET("1", "\"name\":\"delegate\""),
        GET("1", "\"name\":\"delegate\",\"arguments\":{\"task\":\" \"}"),
        GET("1", "\"name\":\"delegate\",\"arguments\":{\"task\":5}"),
        GET("1", "\"name\":\"delegate\",\"arguments\":[]"),
        GET("1", "\"name\":\"review_diff\",\"arguments\":{\"focus\":\"x\"}"),
    };

    lab_start_alone();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (lab_code(wrong[i]) != -32602)
            CHECK_FAILED(wrong[i]);
    CHECK_HAS(json_string(lab_get("error.message")), "runId");
}

TEST(a_very_long_argument_is_refused)
{
    AUTO_BUF struct buf line = BUF_INIT(1u << 20);

    lab_start_alone();
    buf_append_str(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{"
                          "\"name\":\"delegate\",\"arguments\":{\"task\":\"");
    for (int i = 0; i < 60001; i++)
        buf_append_char(&line, 'x');
    buf_append_str(&line, "\"}}}");
    CHECK_EQ(lab_code(buf_text(&line)), -32602);
}
