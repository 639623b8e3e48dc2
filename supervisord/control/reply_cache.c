#include "control/reply_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/id.h"
#include "common/mem.h"
#include "common/str.h"

#define ENTRIES 16
#define REPLY_MAX (32u << 10) /* bytes */

struct entry {
    char run_id[ID_SIZE]; /* "": free */
    uint64_t changes;
    char *web_url;
    struct buf reply;
};

struct reply_cache {
    struct entry entries[ENTRIES];
    size_t next; /* to be replaced */
};

struct reply_cache *reply_cache_new(void)
{
    struct reply_cache *cache = NEW(struct reply_cache);

    for (size_t i = 0; i < ENTRIES; i++)
        buf_init(&cache->entries[i].reply, REPLY_MAX);
    return cache;
}

void reply_cache_free(struct reply_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < ENTRIES; i++) {
        free(cache->entries[i].web_url);
        buf_finish(&cache->entries[i].reply);
    }
    free(cache);
}

const struct buf *reply_cache_find(const struct reply_cache *cache, const char *run_id,
                                   uint64_t changes, const char *web_url)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        const struct entry *entry = &cache->entries[i];

        if (entry->changes == changes && str_equal(entry->run_id, run_id) &&
            str_equal(entry->web_url, web_url))
            return &entry->reply;
    }
    return NULL;
}

static struct entry *entry_for(struct reply_cache *cache, const char *run_id)
{
    struct entry *entry;

    for (size_t i = 0; i < ENTRIES; i++)
        if (str_equal(cache->entries[i].run_id, run_id))
            return &cache->entries[i];
    entry = &cache->entries[cache->next];
    cache->next = (cache->next + 1) % ENTRIES;
    return entry;
}

void reply_cache_keep(struct reply_cache *cache, const char *run_id, uint64_t changes,
                      const char *web_url, const struct buf *reply)
{
    struct entry *entry;

    if (reply->failed || reply->len > REPLY_MAX || strlen(run_id) >= ID_SIZE)
        return;
    entry = entry_for(cache, run_id);
    str_copy(entry->run_id, sizeof(entry->run_id), run_id);
    entry->changes = changes;
    free(entry->web_url);
    entry->web_url = mem_strdup(web_url);
    buf_clear(&entry->reply);
    buf_append(&entry->reply, reply->data, reply->len);
}
