#include "common/nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define DISTANCE_LEN_MAX 64

/* Edit distance (Levenshtein), on the first DISTANCE_LEN_MAX bytes. */
static size_t distance(const char *a, const char *b)
{
    size_t a_len = strnlen(a, DISTANCE_LEN_MAX);
    size_t b_len = strnlen(b, DISTANCE_LEN_MAX);
    size_t row[DISTANCE_LEN_MAX + 1];

    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[b_len];
}

#define NEAREST_MAX 5

static void append(struct buf *out, const char *const *names, size_t count, const char *wanted,
                   size_t max_distance)
{
    size_t chosen[NEAREST_MAX];
    size_t chosen_count = 0;

    for (size_t i = 0; i < count; i++) {
        size_t at = chosen_count;

        if (distance(names[i], wanted) > max_distance)
            continue;
        while (at > 0 && distance(names[i], wanted) < distance(names[chosen[at - 1]], wanted))
            at--;
        if (at == NEAREST_MAX)
            continue;
        if (chosen_count < NEAREST_MAX)
            chosen_count++;
        for (size_t j = chosen_count - 1; j > at; j--)
            chosen[j] = chosen[j - 1];
        chosen[at] = i;
    }
    for (size_t i = 0; i < chosen_count; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "", names[chosen[i]]);
}

void nearest_append(struct buf *out, const char *const *names, size_t count, const char *wanted)
{
    append(out, names, count, wanted, SIZE_MAX);
}

void nearest_append_similar(struct buf *out, const char *const *names, size_t count,
                            const char *wanted)
{
    append(out, names, count, wanted, strnlen(wanted, DISTANCE_LEN_MAX) > 3 ? 2 : 1);
}

/* Small letters and digits alone. */
static size_t plain(char to[DISTANCE_LEN_MAX + 1], const char *name)
{
    size_t len = 0;

    for (; *name != '\0' && len < DISTANCE_LEN_MAX; name++)
        if (isalnum((unsigned char)*name))
            to[len++] = (char)tolower((unsigned char)*name);
    to[len] = '\0';
    return len;
}

bool nearest_meant(const char *given, const char *name)
{
    char a[DISTANCE_LEN_MAX + 1];
    char b[DISTANCE_LEN_MAX + 1];
    size_t a_len = plain(a, given);
    size_t b_len = plain(b, name);
    size_t wrong = b_len >= 8 ? 2 : b_len >= 5 ? 1 : 0;

    return (a_len >= 4 && strncmp(a, b, a_len) == 0) || distance(a, b) <= wrong;
}
