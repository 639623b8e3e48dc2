/* reply_cache.h: the newest replies to run.get about runs that have ended, as they were written.
 * Many look at the same run again and again, and nothing of it changes but by a write to the store:
 * a reply holds for as long as store_changes stands. Bounded. */
#ifndef CONTROL_REPLY_CACHE_H
#define CONTROL_REPLY_CACHE_H

#include <stdint.h>

#include "common/buf.h"

struct reply_cache;

struct reply_cache *reply_cache_new(void);
void reply_cache_free(struct reply_cache *cache); /* NULL is fine */

/* The reply about RUN_ID that was kept at CHANGES with WEB_URL in it, borrowed until the next
 * reply_cache_keep; NULL when there is none. */
const struct buf *reply_cache_find(const struct reply_cache *cache, const char *run_id,
                                   uint64_t changes, const char *web_url);
/* Keeps a copy, in place of an older one about the same run or of the oldest; not of a long one. */
void reply_cache_keep(struct reply_cache *cache, const char *run_id, uint64_t changes,
                      const char *web_url, const struct buf *reply);

#endif
