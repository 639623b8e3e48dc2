#include "proxy/git_tips.h"

#include "common/mem.h"
#include "common/str.h"

static void forget(struct git_tips *tips, size_t at)
{
    free(tips->items[at].place);
    free(tips->items[at].ref);
    free(tips->items[at].id);
    tips->count--;
    memmove(&tips->items[at], &tips->items[at + 1], (tips->count - at) * sizeof(tips->items[0]));
}

void git_tips_finish(struct git_tips *tips)
{
    while (tips->count > 0)
        forget(tips, tips->count - 1);
}

static size_t find(const struct git_tips *tips, const char *place, const char *ref)
{
    size_t at = 0;

    while (at < tips->count &&
           (!str_equal(tips->items[at].place, place) || !str_equal(tips->items[at].ref, ref)))
        at++;
    return at;
}

const char *git_tips_get(const struct git_tips *tips, const char *place, const char *ref)
{
    size_t at = find(tips, place, ref);

    return at < tips->count ? tips->items[at].id : NULL;
}

void git_tips_set(struct git_tips *tips, const char *place, const char *ref, const char *id)
{
    size_t at = find(tips, place, ref);

    if (at < tips->count)
        forget(tips, at);
    if (id[strspn(id, "0")] == '\0')
        return;
    if (tips->count == GIT_TIPS_MAX)
        forget(tips, 0);
    tips->items[tips->count++] = (struct git_tip){ .place = mem_strdup(place),
                                                   .ref = mem_strdup(ref),
                                                   .id = mem_strdup(id) };
}

static void parse_line(struct git_tips *tips, const char *line, size_t len)
{
    const char *first = memchr(line, ' ', len);
    const char *second =
        first != NULL ? memchr(first + 1, ' ', len - (size_t)(first + 1 - line)) : NULL;

    if (second == NULL)
        return;
    AUTO_FREE
    char *place = mem_strndup(line, (size_t)(first - line));
    AUTO_FREE
    char *ref = mem_strndup(first + 1, (size_t)(second - first - 1));
    AUTO_FREE
    char *id = mem_strndup(second + 1, len - (size_t)(second + 1 - line));
    size_t id_len = strlen(id);

    if ((id_len == 40 || id_len == 64) && strspn(id, "0123456789abcdef") == id_len)
        git_tips_set(tips, place, ref, id);
}

void git_tips_parse(struct git_tips *tips, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");

        parse_line(tips, text, len);
        text += len + (text[len] == '\n' ? 1 : 0);
    }
}

void git_tips_format(const struct git_tips *tips, struct buf *out)
{
    for (size_t i = 0; i < tips->count; i++)
        buf_printf(out, "%s %s %s\n", tips->items[i].place, tips->items[i].ref, tips->items[i].id);
}
