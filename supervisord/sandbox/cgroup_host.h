/* cgroup_host.h: what the files of cgroup share. */
#ifndef SANDBOX_CGROUP_HOST_H
#define SANDBOX_CGROUP_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/cgroup_find.h"

/* Controllers by their version 1 tree: bits 1 << enum cgroup_tree. */
#define CGROUP_CONTROLLERS CGROUP_TREE_UNIFIED
#define CGROUP_ALL ((1u << CGROUP_CONTROLLERS) - 1)
#define CGROUP_TEXT_MAX (1u << 20)

/* A folder in one tree and which controllers it is for. With version 2 one part has all. */
struct cgroup_part {
    char *folder;
    bool unified;
    unsigned controls;
};

struct cgroup_host {
    struct cgroup_part parts[CGROUP_CONTROLLERS]; /* folder: of ours, below which groups are made */
    size_t part_count;
    char *name;      /* of our folder in it */
    bool has_groups; /* there are groups, but not for us */
};

extern const char *const cgroup_controller_names[CGROUP_CONTROLLERS];

/* Writes TEXT into FOLDER/NAME, which exists. 0 or an errno. */
int cgroup_write(const char *folder, const char *name, const char *text);
/* The text of FOLDER/NAME, "" when it can't be read. On the heap. */
char *cgroup_read(const char *folder, const char *name);
/* Lets FOLDER pass on as many of the controllers WANTED as the kernel allows; returns which. */
unsigned cgroup_enable(const char *folder, unsigned wanted);

#endif
