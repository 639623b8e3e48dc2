/* usage_watch.h: watches what a session's files take while a run is at work. Every two seconds one
 * statvfs; the tree is counted, off the loop, only when the disk has filled by so much that the
 * limit could be passed.
 *
 * Where the file system keeps project quotas these would be exact and immediate: they would take
 * the place of this object, behind the same face. */
#ifndef WORKSPACE_USAGE_WATCH_H
#define WORKSPACE_USAGE_WATCH_H

#include <stdint.h>
#include <uv.h>

#include "workspace/usage.h"

struct usage_watch;

struct usage_watch_options {
    const char *folder;
    uint64_t limit_bytes;      /* 0: none */
    uint64_t free_floor_bytes; /* 0: none */
    uint32_t every_ms;         /* 0: 2000 */
    /* More than the limit; or, where it was over the limit from the start, 64 MiB more than then.
     * May come again. */
    void (*on_over)(void *data, uint64_t bytes);
    /* The disk has less than the floor left. May come again. */
    void (*on_low)(void *data, uint64_t free_bytes);
    void *data;
};

void usage_watch_start(struct usage_watch **out, uv_loop_t *loop,
                       const struct usage_watch_options *options);
/* By how much it grew since the watch began, as far as is known. */
uint64_t usage_watch_growth(const struct usage_watch *watch);
/* No callback comes from here on; the memory is freed when the walk under way has stopped. */
void usage_watch_close(struct usage_watch *watch);

#endif
