/* mask.c: patterns are few and short, so plain searches do. */
#include "proxy/mask.h"

#include "common/mem.h"

static size_t mask_one(char *data, size_t len, const struct mask_pattern *pattern)
{
    size_t found = 0;
    size_t at = 0;
    char *hit;

    while (at < len && (hit = memmem(data + at, len - at, pattern->text, pattern->len)) != NULL) {
        memset(hit, '*', pattern->len);
        at = (size_t)(hit - data) + pattern->len;
        found++;
    }
    return found;
}

size_t mask_all(char *data, size_t len, const struct mask_pattern *patterns, size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += mask_one(data, len, &patterns[i]);
    return found;
}

static size_t open_end(const char *data, size_t len, const struct mask_pattern *pattern)
{
    size_t longest = pattern->len - 1 < len ? pattern->len - 1 : len;

    for (size_t end = longest; end > 0; end--)
        if (data[len - end] == pattern->text[0] &&
            memcmp(data + len - end, pattern->text, end) == 0)
            return end;
    return 0;
}

size_t mask_open_end(const char *data, size_t len, const struct mask_pattern *patterns,
                     size_t count)
{
    size_t longest = 0;

    for (size_t i = 0; i < count; i++) {
        size_t end = open_end(data, len, &patterns[i]);

        if (end > longest)
            longest = end;
    }
    return longest;
}
