/* sse_end.c: looks for the marks of the known interfaces. Inside JSON text a quote is escaped and a
 * line end can't occur, so a model that writes about these marks isn't mistaken for one. */
#include "proxy/sse_end.h"

#include "common/mem.h"

static const char *const marks[] = {
    "\nevent:message_stop\n",
    "\nevent:error\n",
    "\ndata:[DONE]",
    "\ndata:{\"error\"",
    "\"type\":\"message_stop\"",
    "\"type\":\"response.completed\"",
    "\"type\":\"response.incomplete\"",
    "\"type\":\"response.failed\"",
    "\"type\":\"error\"",
    "\"finish_reason\":\"",
    "\"finishReason\":\"",
};

/* The reason of an end, as Anthropic, OpenAI (both interfaces) and Google give it. */
static const char *const lengths[] = {
    "\"stop_reason\":\"max_tokens\"",
    "\"finish_reason\":\"length\"",
    "\"reason\":\"max_output_tokens\"",
    "\"finishReason\":\"MAX_TOKENS\"",
};

void sse_end_init(struct sse_end *end)
{
    *end = (struct sse_end){ .window = "\n", .len = 1 };
}

static bool ends_with(const struct sse_end *end, const char *const *list, size_t count)
{
    char last = end->window[end->len - 1];

    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(list[i]);

        if (list[i][len - 1] == last && end->len >= len &&
            memcmp(end->window + end->len - len, list[i], len) == 0)
            return true;
    }
    return false;
}

static void push(struct sse_end *end, char c)
{
    if (end->len == SSE_END_WINDOW) {
        /* Half of the window is longer than any mark. */
        memmove(end->window, end->window + SSE_END_WINDOW / 3, SSE_END_WINDOW - SSE_END_WINDOW / 3);
        end->len -= SSE_END_WINDOW / 3;
    }
    end->window[end->len++] = c;
}

void sse_end_feed(struct sse_end *end, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];

        if (c == ' ' || c == '\t')
            continue;
        /* CR, LF and CR LF end lines alike; an empty line more changes nothing. */
        push(end, c == '\r' ? '\n' : c);
        if (c == '"' || c == ']' || c == '\n' || c == '\r')
            end->seen = end->seen || ends_with(end, marks, ARRAY_LEN(marks));
        /* In some it stands behind the mark of the end. */
        if (c == '"')
            end->at_length = end->at_length || ends_with(end, lengths, ARRAY_LEN(lengths));
    }
}
