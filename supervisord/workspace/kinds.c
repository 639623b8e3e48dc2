/* kinds.c: what kinds of changes there are, from `git diff --raw --numstat -z`. First each change
 * with its modes and a letter, then each again with its numbers of lines. Names may be anything. */
#include "workspace/workspace.h"

#include <string.h>

#include "common/str.h"

/* A record's head; names are longer and only skipped. */
enum { HEAD_MAX = 200 };

void git_kinds_init(struct git_kinds *kinds)
{
    *kinds = (struct git_kinds){ .names = 0 };
    buf_init(&kinds->head, HEAD_MAX);
}

void git_kinds_finish(struct git_kinds *kinds)
{
    buf_finish(&kinds->head);
}

/* ":100644 160000 abc… def… R100": one name follows, or two. */
static void take_raw(struct git_kinds *kinds, const char *head)
{
    const char *letter = strrchr(head, ' ');
    bool module = strncmp(head + 1, "160000 ", 7) == 0 ||
                  (strlen(head) > 14 && strncmp(head + 8, "160000 ", 7) == 0);

    kinds->names = 1;
    if (letter == NULL)
        return;
    kinds->submodules += module;
    if (letter[1] == 'R' || letter[1] == 'C')
        kinds->names = 2;
    kinds->renames += letter[1] == 'R';
}

/* "-\t-\tNAME" is binary; without a name two follow. */
static void take_numbers(struct git_kinds *kinds, const char *head)
{
    const char *tab = strchr(head, '\t');

    tab = tab != NULL ? strchr(tab + 1, '\t') : NULL;
    if (tab == NULL)
        return;
    kinds->binary_files += str_starts(head, "-\t-\t");
    if (tab[1] == '\0')
        kinds->names = 2;
}

static void take(struct git_kinds *kinds)
{
    const char *head = buf_text(&kinds->head);

    if (kinds->names > 0)
        kinds->names--;
    else if (head[0] == ':')
        take_raw(kinds, head);
    else
        take_numbers(kinds, head);
}

void git_kinds_feed(struct git_kinds *kinds, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\0') {
            take(kinds);
            buf_clear(&kinds->head);
        } else if (kinds->head.len < HEAD_MAX) {
            buf_append_char(&kinds->head, bytes[i]);
        }
    }
}
