#include "proxy/model_request.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define DEPTH_MAX 512u
#define OUTPUT_MAX UINT64_C(10000000)

struct reader {
    const char *at;
    const char *end;
    unsigned seen; /* one bit a member */
    uint64_t longest;
    uint64_t answers;
    struct model_request *out;
};

enum member { MEMBER_MODEL, MEMBER_LENGTH, MEMBER_ANSWERS, MEMBER_LATER, MEMBER_SETTINGS };

static const struct {
    const char *name;
    enum member means;
    bool nested; /* it stands in the member that Google has for it */
} members[] = {
    { "model", MEMBER_MODEL, false },
    { "max_tokens", MEMBER_LENGTH, false },
    { "max_completion_tokens", MEMBER_LENGTH, false },
    { "max_output_tokens", MEMBER_LENGTH, false },
    { "n", MEMBER_ANSWERS, false },
    { "best_of", MEMBER_ANSWERS, false },
    { "background", MEMBER_LATER, false },
    { "models", MEMBER_LATER, false },
    { "fallbacks", MEMBER_LATER, false },
    { "generationConfig", MEMBER_SETTINGS, false },
    { "generation_config", MEMBER_SETTINGS, false },
    { "maxOutputTokens", MEMBER_LENGTH, true },
    { "max_output_tokens", MEMBER_LENGTH, true },
    { "candidateCount", MEMBER_ANSWERS, true },
    { "candidate_count", MEMBER_ANSWERS, true },
};
_Static_assert(ARRAY_LEN(members) <= 32, "a bit for each member");

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL &&
           *reader->at != '\0')
        reader->at++;
}

static bool take(struct reader *reader, char c)
{
    skip_space(reader);
    if (reader->at >= reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* What stands between the quotes. *PLAIN: without escapes. */
static bool read_string(struct reader *reader, const char **text, size_t *len, bool *plain)
{
    if (!take(reader, '"'))
        return false;
    *text = reader->at;
    *plain = true;
    for (; reader->at < reader->end; reader->at++) {
        if (*reader->at == '"') {
            *len = (size_t)(reader->at++ - *text);
            return true;
        }
        if (*reader->at == '\\') {
            *plain = false;
            reader->at++;
        }
    }
    return false;
}

/* A value of any kind; brackets are only counted, the service reads them itself. */
static bool skip_value(struct reader *reader)
{
    unsigned depth = 0;

    do {
        const char *text;
        size_t len;
        bool plain;

        skip_space(reader);
        if (reader->at >= reader->end)
            return false;
        char c = *reader->at;
        if (c == '"') {
            if (!read_string(reader, &text, &len, &plain))
                return false;
            continue;
        }
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return false;
            depth--;
        } else if ((c == ',' || c == ':') && depth == 0) {
            return false;
        } else if (c != ',' && c != ':') {
            while (reader->at + 1 < reader->end && strchr(",:]} \t\r\n\"{[", reader->at[1]) == NULL)
                reader->at++;
        }
        reader->at++;
    } while (depth > 0 && depth <= DEPTH_MAX);
    return depth == 0;
}

static bool read_model(struct reader *reader)
{
    const char *text;
    size_t len;
    bool plain;

    if (!read_string(reader, &text, &len, &plain) || !plain || len >= MODEL_NAME_MAX ||
        memchr(text, '\0', len) != NULL)
        return false;
    memcpy(reader->out->model, text, len);
    reader->out->model[len] = '\0';
    return true;
}

/* A whole number or null, which says nothing. */
static bool read_number(struct reader *reader, uint64_t *number)
{
    char digits[16] = "";
    size_t len = 0;

    skip_space(reader);
    while (reader->at + len < reader->end && len < sizeof(digits) - 1 &&
           strchr("0123456789nul", reader->at[len]) != NULL && reader->at[len] != '\0')
        len++;
    memcpy(digits, reader->at, len);
    reader->at += len;
    *number = 0;
    return str_equal(digits, "null") || str_parse_u64(digits, OUTPUT_MAX, number);
}

static bool read_object(struct reader *reader, bool nested);

static bool read_member(struct reader *reader, enum member member)
{
    uint64_t number = 0;
    const char *value;

    switch (member) {
    case MEMBER_MODEL:
        return read_model(reader);
    case MEMBER_SETTINGS:
        return read_object(reader, true);
    case MEMBER_LATER: /* an answer that comes later, or another model's, is not seen here */
        skip_space(reader);
        value = reader->at;
        return skip_value(reader) && (value[0] == 'f' || value[0] == 'n');
    case MEMBER_LENGTH:
        if (!read_number(reader, &number))
            return false;
        reader->longest = number > reader->longest ? number : reader->longest;
        return true;
    case MEMBER_ANSWERS:
        if (!read_number(reader, &number))
            return false;
        reader->answers = number > reader->answers ? number : reader->answers;
        return true;
    }
    return false;
}

/* Index in the table, or -1 for a member that is of no interest. */
static int find_member(const char *name, size_t len, bool nested)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (members[i].nested == nested && strlen(members[i].name) == len &&
            memcmp(members[i].name, name, len) == 0)
            return (int)i;
    return -1;
}

static bool read_pair(struct reader *reader, bool nested)
{
    const char *name;
    size_t len;
    bool plain;
    int found;

    /* Who escapes a name's letters may hide one of ours. */
    if (!read_string(reader, &name, &len, &plain) || !plain || !take(reader, ':'))
        return false;
    found = find_member(name, len, nested);
    if (found < 0)
        return skip_value(reader);
    if ((reader->seen & 1u << found) != 0)
        return false;
    reader->seen |= 1u << found;
    return read_member(reader, members[found].means);
}

/* One level of nesting at most. */
static bool read_object(struct reader *reader, bool nested)
{
    if (!take(reader, '{'))
        return false;
    if (take(reader, '}'))
        return true;
    do {
        if (!read_pair(reader, nested))
            return false;
    } while (take(reader, ','));
    return take(reader, '}');
}

/* ".../models/NAME:method", ".../deployments/NAME/..." */
static bool read_path(const char *path, struct model_request *out)
{
    static const char *const folders[] = { "/models/", "/deployments/" };

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        const char *name = strstr(path, folders[i]);
        size_t len = name != NULL ? strcspn(name + strlen(folders[i]), "/:") : 0;

        if (len == 0)
            continue;
        if (len >= MODEL_NAME_MAX)
            return false;
        memcpy(out->model, name + strlen(folders[i]), len);
        out->model[len] = '\0';
    }
    return true;
}

bool model_request_read(const char *path, const char *body, size_t len, struct model_request *out)
{
    struct reader reader = { .at = body, .end = body + len, .out = out };

    *out = (struct model_request){ .model = "" };
    if (len == 0 || !read_object(&reader, false))
        return false;
    skip_space(&reader);
    if (reader.at != reader.end || !read_path(path, out))
        return false;
    out->max_output = reader.longest * (reader.answers > 1 ? reader.answers : 1);
    return true;
}
