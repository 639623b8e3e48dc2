/* cgroup_watch.h: hears from the kernel that a limit was held. Version 2 tells of each hit; version
 * 1 only of memory, so there the count of processes is read when somebody asks. */
#ifndef SANDBOX_CGROUP_WATCH_H
#define SANDBOX_CGROUP_WATCH_H

#include <stdbool.h>
#include <uv.h>

#include "sandbox/cgroup.h"

struct cgroup_watch;

/* ON_HIT: the limit was held TIMES so far; not more often than twice a second for each, first for
 * what happened before the watch began. GROUP is borrowed until the close. Where the kernel can't
 * tell, the counts are still read at the end (cgroup_watch_killed). */
void cgroup_watch_start(struct cgroup_watch **out, uv_loop_t *loop, const struct cgroup *group,
                        void (*on_hit)(void *data, enum cgroup_hit hit, uint64_t times),
                        void *data);
/* How often the limit has been held until now, looked up at once. After the first refused process
 * the group has room for what init starts. */
uint64_t cgroup_watch_look(struct cgroup_watch *watch, enum cgroup_hit hit);
/* The kernel killed for want of memory within the last seconds. */
bool cgroup_watch_killed(struct cgroup_watch *watch);
void cgroup_watch_close(struct cgroup_watch *watch, void (*done)(void *data), void *data);

#endif
