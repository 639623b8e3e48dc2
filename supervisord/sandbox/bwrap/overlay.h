/* overlay.h: overlays of a spec, mounted where bubblewrap then finds them, before it starts. Its
 * own option for that is younger than what distributions ship. */
#ifndef BWRAP_OVERLAY_H
#define BWRAP_OVERLAY_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"
#include "sandbox/spec.h"

struct overlay {
    struct sandbox_overlay paths; /* the spec's */
    uid_t uid;                    /* the sandbox's */
    struct {
        dev_t device;
        ino_t inode;
    } upper, work;
    uid_t lower_uid;
};

/* Fills OUT, whose paths are SPEC's. ERR_DENIED unless upper and work are folders, no links, and
 * belong to UID: whatever else lies there was put there by somebody. */
int overlay_prepare(struct overlay *out, const struct sandbox_overlay *paths, uid_t uid,
                    struct error *err);

/* The rest runs in the child, between fork and exec, and neither allocates nor locks. */

/* For an ordinary user: namespaces in which it may mount, its uid mapped to itself. 0 or an errno.
 */
int overlay_enter_namespaces(void);
/* Whether a mount at AT would be allowed there, found out in another process: some machines let one
 * enter and do nothing then, and there is no way back. 0 or an errno. */
int overlay_try_namespaces(const char *at);
/* Makes the folder AT and mounts the overlay there; or, where the kernel doesn't allow one, the
 * lower folder read-only. Returns 0, or the errno of the last failure; *FALLEN_BACK gets why there
 * is no overlay, or 0. */
int overlay_mount(const struct overlay *overlay, const char *at, int *fallen_back);

#endif
