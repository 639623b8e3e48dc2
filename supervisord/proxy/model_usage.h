/* model_usage.h: reads along in a model's answer, event stream or JSON, for the tokens that the
 * provider says it used: members of `usage` (Google: `usageMetadata`) of the answer itself, or of
 * its `message` or `response`. What stands elsewhere may be an echo of the request. Of each number
 * the greatest counts, since streams tell them more than once and growing. Pure, with bounded
 * memory. */
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
    int key;         /* what that string means for an object that begins behind the colon */
    uint32_t depth;  /* open objects and arrays */
    uint32_t root;   /* depth within the answer's own object */
    uint32_t outer;  /* the same within its message or response; 0: outside */
    uint32_t inside; /* the same within the usage; 0: outside */
    bool line_begins;
};

void model_usage_feed(struct model_usage *usage, const char *bytes, size_t len);
/* The body is over. */
void model_usage_end(struct model_usage *usage);
void model_usage_tokens(const struct model_usage *usage, struct price_tokens *out);

#endif
