#include "ctl/usage.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define VERB_BEHIND " | "

bool usage_has_verbs(const char *usage)
{
    return usage[0] >= 'a' && usage[0] <= 'z' && strstr(usage, VERB_BEHIND) != NULL;
}

size_t usage_length(const char *part)
{
    const char *end = strstr(part, VERB_BEHIND);

    return end != NULL ? (size_t)(end - part) : strlen(part);
}

const char *usage_next_verb(const char *part)
{
    const char *end = part + usage_length(part);

    return *end != '\0' ? end + strlen(VERB_BEHIND) : NULL;
}

const char *usage_of_verb(const char *usage, const char *verb)
{
    size_t len = strlen(verb);

    for (const char *at = usage; at != NULL; at = usage_next_verb(at)) {
        if (len > 0 && strncmp(at, verb, len) == 0 && (at[len] == ' ' || at[len] == '\0'))
            return at;
    }
    return NULL;
}

static bool is_word(const char *text, size_t len)
{
    return len > 0 && strncmp(text, "[OPTIONS]", len) != 0 && strncmp(text, "[--]", len) != 0;
}

const char *usage_word(const char *part, size_t number, size_t *len)
{
    const char *end = part + usage_length(part);

    for (const char *at = part; at < end;) {
        *len = strcspn(at, " ");
        if (is_word(at, *len) && number-- == 0)
            return at;
        at += *len + (at[*len] == ' ');
    }
    return NULL;
}

void usage_append_verbs(struct buf *out, const char *usage)
{
    const char *comma = "";

    for (const char *at = usage; at != NULL; at = usage_next_verb(at)) {
        buf_printf(out, "%s%.*s", comma, (int)strcspn(at, " "), at);
        comma = ", ";
    }
}

/* COUNT words fill those that are needed, in order. */
static int check_missing(const char *part, size_t count, struct error *err)
{
    const char *word;
    size_t needed = 0;
    size_t len;

    for (size_t i = 0; (word = usage_word(part, i, &len)) != NULL; i++) {
        if (word[0] != '[' && needed++ == count) {
            bool dots = len > 3 && strncmp(word + len - 3, "...", 3) == 0;

            return error_set(err, ERR_INVALID, 0, "%.*s is missing", (int)(dots ? len - 3 : len),
                             word);
        }
    }
    return 0;
}

static int check_verb(const char *usage, const char *const *words, size_t count, struct error *err)
{
    AUTO_BUF struct buf verbs = BUF_INIT(1024);
    const char *part = usage_of_verb(usage, words[0]);
    size_t len;

    if (part == NULL) {
        usage_append_verbs(&verbs, usage);
        return error_set(err, ERR_INVALID, 0, "there is no \"%.40s\" here: %s", words[0],
                         buf_text(&verbs));
    }
    if (check_missing(part, count, err) < 0)
        return -1;
    return usage_word(part, count - 1, &len) == NULL
               ? error_set(err, ERR_INVALID, 0, "too many words from \"%.100s\" on",
                           words[count - 1])
               : 0;
}

int usage_check(const char *usage, const char *const *words, size_t count, struct error *err)
{
    if (!usage_has_verbs(usage))
        return check_missing(usage, count, err);
    if (count > 0)
        return check_verb(usage, words, count, err);
    AUTO_BUF struct buf verbs = BUF_INIT(1024);
    usage_append_verbs(&verbs, usage);
    return error_set(err, ERR_INVALID, 0, "what to do is missing: %s", buf_text(&verbs));
}
