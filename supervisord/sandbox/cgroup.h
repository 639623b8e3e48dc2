/* cgroup.h: control groups: what limits the memory, the processes and the share of the processor of
 * all of a sandbox's processes together, and counts how often a limit was held. */
#ifndef SANDBOX_CGROUP_H
#define SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

struct sandbox_limits;

/* What this machine lets us use. Found once, at the start.
 * ------------------------------------------------------------------------------------------ */

struct cgroup_host;

/* Groups will be made below our own group, in a folder that RUNTIME_DIR names, so that supervisors
 * do not meet. On a version 2 tree this may move the process into a group `supervisor` below its
 * own, when that was delegated to it and it is alone there: a group that passes controllers on may
 * hold no processes. ROOT is put before every path: "", but in tests. Never NULL: a host without
 * usable groups says so. */
struct cgroup_host *cgroup_host_find(const char *root, const char *runtime_dir);
void cgroup_host_free(struct cgroup_host *host); /* NULL is fine */
/* "cgroup v1: memory, processes, cpu", or why there are none and what to do. */
void cgroup_host_describe(const struct cgroup_host *host, struct buf *out);

/* One sandbox's.
 * ---------------------------------------------------------------------------------------------------------
 */

struct cgroup;

enum cgroup_hit { CGROUP_HIT_MEMORY, CGROUP_HIT_PROCESSES, CGROUP_HIT_COUNT };

/* Makes the group ID with LIMITS and writes down in RUNTIME_DIR where it is. *OUT is NULL, and that
 * is no error, when the host has none. What an earlier sandbox of this name left in it is killed.
 * On failure nothing is left. */
int cgroup_make(struct cgroup **out, const struct cgroup_host *host, const char *id,
                const char *runtime_dir, const struct sandbox_limits *limits, struct error *err);
/* The group that is written down in RUNTIME_DIR; NULL if there is none. */
struct cgroup *cgroup_find(const char *runtime_dir);
void cgroup_free(struct cgroup *group); /* the group itself stays; NULL is fine */
/* A process is put into the group while it is made: the child moves itself into the version 1
 * trees, and is born in the version 2 tree (child_options.cgroup_fd). */
/* Moves the calling thread, the only one of its process, into the version 1 trees: system calls
 * only, for between a fork and an exec. 0 or an errno. */
int cgroup_join(const struct cgroup *group);
/* The group's folder in the version 2 tree, borrowed; -1 when it has none there, or was found and
 * not made. NULL is fine. */
int cgroup_birthplace(const struct cgroup *group);
/* Bits 1 << enum sandbox_layer; NULL has none. */
uint32_t cgroup_layers(const struct cgroup *group);
/* How often the limit was held since the group was made. */
uint64_t cgroup_hits(const struct cgroup *group, enum cgroup_hit hit);
/* After the process limit was seen to hold, the group leaves a few processes more, which init alone
 * can start: the programs inside are held at the same number by their own rlimit. Without it init
 * could not start what takes the evidence. */
void cgroup_leave_room(const struct cgroup *group);
/* SIGKILL to every process in it. */
void cgroup_kill(const struct cgroup *group);
/* The same where the kernel does it in one write (version 2); else nothing, and false. */
bool cgroup_kill_at_once(const struct cgroup *group);

/* Kills what is in the group written down in RUNTIME_DIR and removes it, and its parents once they
 * are empty. 0 also when there is none. May wait some milliseconds. */
int cgroup_remove(const char *runtime_dir, struct error *err);
/* The same kill without the removal. */
void cgroup_kill_leftover(const char *runtime_dir);

/* For cgroup_watch.c: the files that change when a limit is held; NULL without. On the heap. */
char *cgroup_events_file(const struct cgroup *group, enum cgroup_hit hit);
/* True when that file is told about by cgroup.event_control, which lies beside it. */
bool cgroup_events_by_eventfd(const struct cgroup *group, enum cgroup_hit hit);

#endif
