/* usage.h: how much disk a session's files take. The tree is hostile: of any depth and size, with
 * anything in it, and changing while it is counted. Nothing in it is followed, read or changed. */
#ifndef WORKSPACE_USAGE_H
#define WORKSPACE_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct usage {
    uint64_t bytes;  /* that the disk has given; a file with several names counts as one */
    uint64_t inodes; /* names, in fact: each of a file's several names counts */
    bool complete;   /* else there is more: a folder could not be read, was moved meanwhile, lies
                        deeper than 65536 levels, or CANCEL was set */
};

/* Blocking, for a thread of the pool: counts FOLDER and what is below it on the same file system,
 * with two descriptors and memory that does not depend on the number of files. CANCEL may be NULL.
 * ERR_SYSTEM when FOLDER itself can't be opened. */
int usage_walk(const char *folder, const atomic_bool *cancel, struct usage *out, struct error *err);

#endif
