#include "proxy/sse_end.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

static bool seen(const char *text, size_t step)
{
    struct sse_end end;
    size_t len = strlen(text);

    sse_end_init(&end);
    for (size_t at = 0; at < len; at += step)
        sse_end_feed(&end, text + at, len - at < step ? len - at : step);
    return end.seen;
}

TEST(final_events_are_seen_however_they_are_split)
{
    static const char *const finals[] = {
        "event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n",
        "event:message_stop\r\ndata:{}\r\n\r\n",
        "data: {\"type\": \"message_stop\"}\n\n",
        "data: {\"choices\":[]}\n\ndata: [DONE]\n\n",
        "data: [DONE]",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n",
        "data: {\"type\":\"response.incomplete\"}\n\n",
        "data: {\"type\":\"response.failed\"}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
        "data: {\"error\": {\"message\": \"no\"}}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"candidates\": [{\"content\": {},\"finishReason\": \"STOP\"}]}\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(finals); i++)
        for (size_t step = 1; step < 40; step++)
            if (!seen(finals[i], step))
                CHECK_FAILED(finals[i]);
}

TEST(a_greatest_length_is_noticed_however_it_is_split)
{
    static const struct {
        const char *text;
        bool at_length;
    } streams[] = {
        { "event: message_delta\ndata: {\"delta\": {\"stop_reason\": \"max_tokens\"}}\n\n"
          "event: message_stop\ndata: {}\n\n",
          true },
        { "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n",
          true },
        { "data: {\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":"
          "{\"reason\":\"max_output_tokens\"}}}\n\n",
          true },
        { "data: {\"candidates\": [{\"finishReason\": \"MAX_TOKENS\"}]}\r\n\r\n", true },
        { "data: {\"candidates\": [{\"finishReason\": \"STOP\"}]}\r\n\r\n", false },
        { "data: {\"text\":\"\\\"finish_reason\\\":\\\"length\\\"\"}\n\n", false },
        { "data: {\"usage\":{\"max_tokens\":5},\"finish_reason\":\"stop\"}\n\n", false },
    };

    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        size_t len = strlen(streams[i].text);

        for (size_t step = 1; step < 40; step++) {
            struct sse_end end;

            sse_end_init(&end);
            for (size_t at = 0; at < len; at += step)
                sse_end_feed(&end, streams[i].text + at, len - at < step ? len - at : step);
            CHECK_EQ(end.at_length, streams[i].at_length);
        }
    }
}

TEST(a_stream_without_one_is_incomplete)
{
    static const char *const cut[] = {
        "",
        "event: content_block_delta\ndata: {\"delta\":{\"text\":\"hi\"}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n",
        /* A model that writes about the marks. */
        "data: {\"text\":\"then \\\"type\\\":\\\"message_stop\\\" ends it\"}\n\n",
        "data: {\"text\":\"\\ndata: [DONE]\"}\n\n",
        "data: {\"text\":\"event: message_stop\"}\n\n",
        "data: {\"text\":\"\\\"finish_reason\\\":\\\"stop\\\"\"}\n\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(cut); i++)
        for (size_t step = 1; step < 40; step++)
            if (seen(cut[i], step))
                CHECK_FAILED(cut[i]);
}
