/* model_usage.c: inside JSON text a quote is escaped, so what a model writes about such names is
 * not mistaken for them; and a line can't end inside of text, so nothing leads the reader astray
 * for longer than a line. */
#include "proxy/model_usage.h"

#include <string.h>

#include "common/mem.h"

#define NUMBER_MAX UINT64_C(1000000000)

/* As Anthropic, OpenAI (both interfaces) and Google give them. */
static const struct {
    const char *name;
    enum model_count count;
} names[] = {
    { "input_tokens", MODEL_COUNT_INPUT },
    { "prompt_tokens", MODEL_COUNT_INPUT },
    { "promptTokenCount", MODEL_COUNT_INPUT },
    { "cached_tokens", MODEL_COUNT_CACHED },
    { "cachedContentTokenCount", MODEL_COUNT_CACHED },
    { "cache_read_input_tokens", MODEL_COUNT_CACHE_READ },
    { "cache_creation_input_tokens", MODEL_COUNT_CACHE_WRITE },
    { "toolUsePromptTokenCount", MODEL_COUNT_TOOL_INPUT },
    { "output_tokens", MODEL_COUNT_OUTPUT },
    { "completion_tokens", MODEL_COUNT_OUTPUT },
    { "candidatesTokenCount", MODEL_COUNT_OUTPUT },
    { "thoughtsTokenCount", MODEL_COUNT_THOUGHTS },
};

enum { KEY_OTHER, KEY_USAGE, KEY_OUTER };

static const struct {
    const char *name;
    int key;
} keys[] = {
    { "usage", KEY_USAGE },
    { "usageMetadata", KEY_USAGE },
    { "message", KEY_OUTER },
    { "response", KEY_OUTER },
};

enum { OUTSIDE, IN_TEXT, ESCAPED, BEHIND_TEXT, BEHIND_COLON, IN_NUMBER };

static bool is_named(const struct model_usage *usage, const char *name)
{
    return strlen(name) == usage->len && memcmp(name, usage->name, usage->len) == 0;
}

static int find_count(const struct model_usage *usage)
{
    for (size_t i = 0; usage->inside > 0 && i < ARRAY_LEN(names); i++)
        if (is_named(usage, names[i].name))
            return (int)names[i].count;
    return -1;
}

static int find_key(const struct model_usage *usage)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (is_named(usage, keys[i].name))
            return keys[i].key;
    return KEY_OTHER;
}

/* Google streams an array of answers. */
static void open_value(struct model_usage *usage, bool object)
{
    uint32_t within = usage->depth++;

    if (within == 0)
        usage->root = object ? 1 : 2;
    else if (object && usage->key == KEY_OUTER && within == usage->root && usage->outer == 0)
        usage->outer = usage->depth;
    else if (object && usage->key == KEY_USAGE && usage->inside == 0 &&
             (within == usage->root || within == usage->outer))
        usage->inside = usage->depth;
}

static void close_value(struct model_usage *usage)
{
    if (usage->depth > 0)
        usage->depth--;
    if (usage->depth < usage->inside)
        usage->inside = 0;
    if (usage->depth < usage->outer)
        usage->outer = 0;
}

static void begin_text(struct model_usage *usage)
{
    usage->state = IN_TEXT;
    usage->len = 0;
}

static void take_number(struct model_usage *usage)
{
    uint64_t *count = &usage->counts[usage->count];

    if (usage->number > *count)
        *count = usage->number;
    usage->seen = true;
    usage->state = OUTSIDE;
    usage->key = KEY_OTHER;
}

static void step_text(struct model_usage *usage, char c)
{
    if (usage->state == ESCAPED) {
        usage->state = IN_TEXT;
    } else if (c == '\\') {
        usage->state = ESCAPED;
        usage->len = MODEL_USAGE_NAME; /* no name of ours */
    } else if (c == '"') {
        usage->state = BEHIND_TEXT;
    } else if (usage->len < MODEL_USAGE_NAME) {
        usage->name[usage->len++] = c;
    }
}

static void step_between(struct model_usage *usage, char c)
{
    bool digit = c >= '0' && c <= '9';

    if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
        return;
    if (c == '"') {
        begin_text(usage);
        return;
    }
    if (usage->state == BEHIND_TEXT && c == ':') {
        usage->count = find_count(usage);
        usage->key = find_key(usage);
        usage->state = BEHIND_COLON;
        return;
    }
    if (usage->state == BEHIND_COLON && digit && usage->count >= 0) {
        usage->number = (uint64_t)(c - '0');
        usage->state = IN_NUMBER;
        return;
    }
    if (c == '{' || c == '[')
        open_value(usage, c == '{');
    else if (c == '}' || c == ']')
        close_value(usage);
    usage->state = OUTSIDE;
    usage->key = KEY_OTHER;
}

static void step_number(struct model_usage *usage, char c)
{
    if (c < '0' || c > '9') {
        take_number(usage);
        step_between(usage, c);
        return;
    }
    usage->number = usage->number * 10 + (uint64_t)(c - '0');
    if (usage->number > NUMBER_MAX)
        usage->number = NUMBER_MAX;
}

/* A field of an event begins with its name at the start of a line, where JSON has none: whatever
 * was open before is over. */
static void step_line(struct model_usage *usage, char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

    if (usage->line_begins && letter)
        usage->depth = usage->outer = usage->inside = 0;
    usage->line_begins = c == '\n';
}

void model_usage_feed(struct model_usage *usage, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        step_line(usage, bytes[i]);
        if (usage->state == IN_NUMBER)
            step_number(usage, bytes[i]);
        else if (bytes[i] == '\n' && (usage->state == IN_TEXT || usage->state == ESCAPED))
            usage->state = OUTSIDE;
        else if (usage->state == IN_TEXT || usage->state == ESCAPED)
            step_text(usage, bytes[i]);
        else
            step_between(usage, bytes[i]);
    }
}

void model_usage_end(struct model_usage *usage)
{
    if (usage->state == IN_NUMBER)
        take_number(usage);
}

void model_usage_tokens(const struct model_usage *usage, struct price_tokens *out)
{
    const uint64_t *counts = usage->counts;
    uint64_t cached = counts[MODEL_COUNT_CACHED];

    if (cached > counts[MODEL_COUNT_INPUT])
        cached = counts[MODEL_COUNT_INPUT];
    *out = (struct price_tokens){
        .input = counts[MODEL_COUNT_INPUT] - cached + counts[MODEL_COUNT_TOOL_INPUT],
        .output = counts[MODEL_COUNT_OUTPUT] + counts[MODEL_COUNT_THOUGHTS],
        .cache_read = cached + counts[MODEL_COUNT_CACHE_READ],
        .cache_write = counts[MODEL_COUNT_CACHE_WRITE],
    };
}
