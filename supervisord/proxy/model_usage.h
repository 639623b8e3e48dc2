/* model_usage.h: reads along in a model's answer, event stream or JSON, for the tokens that the
 * provider says it used. Of each number the greatest counts, since streams tell them more than once
 * and growing. Pure, with bounded memory. */
#ifndef PROXY_MODEL_USAGE_H
#define PROXY_MODEL_USAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/price.h"

enum model_count {
    MODEL_COUNT_INPUT,
    MODEL_COUNT_CACHED,     /* a part of the input */
    MODEL_COUNT_CACHE_READ, /* beside the input, as the next */
    MODEL_COUNT_CACHE_WRITE,
    MODEL_COUNT_TOOL_INPUT, /* beside the input */
    MODEL_COUNT_OUTPUT,
    MODEL_COUNT_THOUGHTS, /* beside the output */
    MODEL_COUNTS,
};

#define MODEL_USAGE_NAME 32u

struct model_usage {
    uint64_t counts[MODEL_COUNTS];
    bool seen; /* any of them */
    /* Where it is in the JSON. */
    int state;
    char name[MODEL_USAGE_NAME]; /* a string under way, cut */
    size_t len;
    int count; /* that the string before a colon names; -1 none */
    uint64_t number;
};

void model_usage_feed(struct model_usage *usage, const char *bytes, size_t len);
/* The body is over. */
void model_usage_end(struct model_usage *usage);
void model_usage_tokens(const struct model_usage *usage, struct price_tokens *out);

#endif
