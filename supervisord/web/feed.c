/* feed.c: which runs have changed, in order. Boards show states and not events, so a run that
 * changed twice is kept once, and a board that reads slowly costs nothing. */
#include "web/internal.h"

void feed_init(struct feed *feed)
{
    unsigned char random[(FEED_EPOCH_SIZE - 1) / 2];

    memset(feed, 0, sizeof(*feed));
    id_random(random, sizeof(random));
    str_hex(feed->epoch, random, sizeof(random));
}

static void drop(struct feed *feed, size_t index)
{
    feed->count--;
    memmove(&feed->entries[index], &feed->entries[index + 1],
            (feed->count - index) * sizeof(feed->entries[0]));
}

void feed_note(struct feed *feed, const struct id *id)
{
    size_t i = 0;

    while (i < feed->count && !str_equal(feed->entries[i].id.text, id->text))
        i++;
    if (i < feed->count) {
        drop(feed, i);
    } else if (feed->count == FEED_KEPT) {
        feed->lost = feed->entries[0].number;
        drop(feed, 0);
    }
    feed->entries[feed->count].id = *id;
    feed->entries[feed->count++].number = ++feed->number;
}

void feed_cursor(const struct feed *feed, uint64_t number, char cursor[FEED_CURSOR_SIZE])
{
    snprintf(cursor, FEED_CURSOR_SIZE, "%s-%llu", feed->epoch, (unsigned long long)number);
}

bool feed_parse(const struct feed *feed, const char *cursor, uint64_t *number)
{
    size_t len = strlen(feed->epoch);

    return strncmp(cursor, feed->epoch, len) == 0 && cursor[len] == '-' &&
           str_parse_u64(cursor + len + 1, feed->number, number) && *number >= feed->lost;
}
