/* bwrap_args.h: a sandbox's description spelled as bubblewrap's arguments. Pure: what had to be
 * found out comes in a plan. */
#ifndef BWRAP_ARGS_H
#define BWRAP_ARGS_H

#include <stddef.h>

#include "common/error.h"
#include "sandbox/spec.h"

#define BWRAP_INIT_TARGET "/run/sandbox-init"
#define BWRAP_ARGS_MAX 768
#define BWRAP_FILES_MAX (SANDBOX_FILES_MAX + 16)
#define BWRAP_ROOT_LINKS_MAX 8
#define BWRAP_MASKS_MAX 16

/* Numbers of descriptors in bubblewrap; 3 and 4 are init's. Sources of mounts follow the files. */
enum {
    BWRAP_FD_STATUS = 5,
    BWRAP_FD_SECCOMP = 6,
    BWRAP_FD_FILES = 10,
    BWRAP_FD_SOURCES = BWRAP_FD_FILES + BWRAP_FILES_MAX
};

/* What the host has at /bin, /lib, …: a link into /usr or a folder. */
struct bwrap_root_link {
    const char *name; /* "/bin" */
    char link[64];    /* "usr/bin"; "" for a folder */
};

struct bwrap_plan {
    struct bwrap_root_link root_links[BWRAP_ROOT_LINKS_MAX];
    size_t root_link_count;
    const char *masks[BWRAP_MASKS_MAX]; /* what of /proc exists and must not be read */
    size_t mask_count;
    char *init_source;                 /* where bubblewrap finds sandbox-init */
    char *sources[SANDBOX_MOUNTS_MAX]; /* and each of the spec's mounts */
    /* And its overlays, which are mounted there; with a lower folder beside it, that is shown to be
     * read where nothing could be mounted. Borrowed. */
    const char *overlays[SANDBOX_OVERLAYS_MAX];
    const char *lowers[SANDBOX_OVERLAYS_MAX];
};

/* The files that are made from bytes: ours for /etc, then the spec's, which replace ours. The
 * array's index is the place of the file's descriptor behind BWRAP_FD_FILES. Borrowed from the spec
 * and from constants. */
struct bwrap_file {
    const char *target;
    const char *data;
    size_t len;
    uint32_t mode;
};
size_t bwrap_files(const struct sandbox_spec *spec, struct bwrap_file out[BWRAP_FILES_MAX]);

struct bwrap_args {
    char *argv[BWRAP_ARGS_MAX + 1]; /* ends with NULL */
    size_t count;
};
/* ERR_INVALID when the spec asks for something below a folder that the agent can write: a link that
 * it put there would be followed. */
int bwrap_args_make(struct bwrap_args *args, const struct sandbox_spec *spec,
                    const struct bwrap_plan *plan, struct error *err);
void bwrap_args_finish(struct bwrap_args *args);

#endif
