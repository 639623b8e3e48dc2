#include "harness/test.h"

#include "fake/fake_run.c"
#include "web/internal.h"

static struct id numbered(int i)
{
    struct id id;

    snprintf(id.text, sizeof(id.text), "run_%026d", i);
    return id;
}

static void note(struct feed *feed, int i)
{
    struct id id = numbered(i);

    feed_note(feed, &id);
}

TEST(a_run_that_changes_twice_is_kept_once_at_its_last_change)
{
    struct feed feed;

    feed_init(&feed);
    note(&feed, 1);
    note(&feed, 2);
    note(&feed, 1);
    CHECK_EQ(feed.count, 2u);
    CHECK_STR(feed.entries[0].id.text, numbered(2).text);
    CHECK_STR(feed.entries[1].id.text, numbered(1).text);
    CHECK_EQ(feed.entries[1].number, 3u);
    CHECK_EQ(feed.lost, 0u);
}

TEST(a_cursor_is_good_until_something_behind_it_is_no_longer_kept)
{
    struct feed feed;
    struct feed later;
    char cursor[FEED_CURSOR_SIZE];
    uint64_t number = 0;

    feed_init(&feed);
    feed_cursor(&feed, 0, cursor);
    CHECK(feed_parse(&feed, cursor, &number));
    for (int i = 0; i < FEED_KEPT; i++)
        note(&feed, i);
    CHECK(feed_parse(&feed, cursor, &number));
    CHECK_EQ(number, 0u);
    note(&feed, FEED_KEPT);
    CHECK_EQ(feed.count, (size_t)FEED_KEPT);
    CHECK(!feed_parse(&feed, cursor, &number));
    feed_cursor(&feed, 1, cursor);
    CHECK(feed_parse(&feed, cursor, &number));
    feed_cursor(&feed, feed.number + 1, cursor);
    CHECK(!feed_parse(&feed, cursor, &number));
    CHECK(!feed_parse(&feed, "", &number));
    CHECK(!feed_parse(&feed, "-1", &number));
    feed_init(&later);
    feed_cursor(&feed, feed.number, cursor);
    CHECK(!feed_parse(&later, cursor, &number));
}
