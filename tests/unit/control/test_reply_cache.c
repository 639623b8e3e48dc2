#include "control/reply_cache.h"

#include <stdio.h>

#include "tests/harness/test.h"

static void free_cache(void *data)
{
    reply_cache_free(data);
}

static struct reply_cache *new_cache(void)
{
    struct reply_cache *cache = reply_cache_new();

    test_defer(free_cache, cache);
    return cache;
}

static void keep(struct reply_cache *cache, const char *run, uint64_t changes, const char *text)
{
    AUTO_BUF struct buf reply = BUF_INIT(1u << 20);

    buf_append_str(&reply, text);
    reply_cache_keep(cache, run, changes, "http://w", &reply);
}

static const char *find(const struct reply_cache *cache, const char *run, uint64_t changes)
{
    const struct buf *reply = reply_cache_find(cache, run, changes, "http://w");

    return reply != NULL ? buf_text(reply) : "none";
}

TEST(a_reply_holds_until_something_is_written)
{
    struct reply_cache *cache = new_cache();

    CHECK_STR(find(cache, "run_1", 0), "none");
    CHECK_STR(find(cache, "", 0), "none");
    keep(cache, "run_1", 7, "one");
    CHECK_STR(find(cache, "run_1", 7), "one");
    CHECK_STR(find(cache, "run_2", 7), "none");
    CHECK_STR(find(cache, "run_1", 8), "none");
    CHECK(reply_cache_find(cache, "run_1", 7, "http://other") == NULL);
    keep(cache, "run_1", 8, "two");
    CHECK_STR(find(cache, "run_1", 8), "two");
    CHECK_STR(find(cache, "run_1", 7), "none");
}

TEST(the_oldest_gives_way_and_a_long_one_is_not_kept)
{
    struct reply_cache *cache = new_cache();
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);
    char run[16];

    for (int i = 0; i < 17; i++) {
        snprintf(run, sizeof(run), "run_%d", i);
        keep(cache, run, 1, run);
    }
    CHECK_STR(find(cache, "run_0", 1), "none");
    CHECK_STR(find(cache, "run_1", 1), "run_1");
    CHECK_STR(find(cache, "run_16", 1), "run_16");
    buf_printf(&text, "%040000d", 1);
    keep(cache, "run_17", 1, buf_text(&text));
    CHECK_STR(find(cache, "run_17", 1), "none");
}
