/* cgroup_find.h: where this process stands in the machine's control groups, read from what the
 * kernel writes in /proc/self/mountinfo and /proc/self/cgroup. Pure. */
#ifndef SANDBOX_CGROUP_FIND_H
#define SANDBOX_CGROUP_FIND_H

#include <stdbool.h>

enum cgroup_tree {
    CGROUP_TREE_MEMORY, /* version 1: a tree a controller */
    CGROUP_TREE_PIDS,
    CGROUP_TREE_CPU,
    CGROUP_TREE_UNIFIED, /* version 2: one tree for all */
    CGROUP_TREE_COUNT
};

/* One tree as it is mounted here. */
struct cgroup_place {
    char *top; /* where it is mounted; NULL: it is not, or our own group can't be seen there */
    char *own; /* our own group's folder, at or below TOP */
    bool read_only;
};

struct cgroup_places {
    struct cgroup_place trees[CGROUP_TREE_COUNT];
};

/* Of several mounts of a tree the first that may be written is taken. Lines that make no sense are
 * passed over. */
void cgroup_places_parse(struct cgroup_places *out, const char *mountinfo, const char *self);
void cgroup_places_finish(struct cgroup_places *places);

/* The number behind NAME in a file of "name number" lines, as memory.events is; 0 without. */
unsigned long long cgroup_count_in(const char *text, const char *name);
/* WORD is one of TEXT's words, as in cgroup.controllers. */
bool cgroup_has_word(const char *text, const char *word);

#endif
