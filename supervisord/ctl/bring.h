/* bring.h: a session's work into the user's own repository. What comes from a sandbox is a
 * stranger's: a bundle is checked object by object, and becomes a new branch and nothing else; a
 * patch is judged by its paths and links, and is put on as a whole or not at all. git does both,
 * with hooks and other programs off. */
#ifndef CTL_BRING_H
#define CTL_BRING_H

#include <stdbool.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

/* The top folder of the work tree around the current folder. */
int bring_find_repository(struct buf *top, struct error *err);
/* Names of commits that the repository has, a line each: the tips of its refs, not all if there are
 * many. */
int bring_list_tips(const char *top, struct buf *tips, struct error *err);
/* ERR_INVALID for a name that git doesn't take. THERE: whether there is such a branch. */
int bring_check_branch(const char *top, const char *branch, bool *there, struct error *err);

/* The bundle's HEAD, which must be COMMIT, becomes BRANCH: a new one, or one that is only moved
 * forward. */
int bring_bundle(const char *top, const char *bundle, const char *branch, const char *commit,
                 struct error *err);
/* COMMIT, which the repository should have already, becomes BRANCH, likewise. */
int bring_known(const char *top, const char *branch, const char *commit, struct error *err);
struct bring_patch {
    const char *top;
    const char *patch; /* a file; beside it another one is made for a while */
    const char *base;  /* the commit that it is made against */
};
struct bring_patched {
    size_t files; /* how many it changed */
    bool merged;  /* with what has changed here since BASE */
};
/* Puts it on the files as it is, or merged with what has changed here; or changes nothing:
 * ERR_CONFLICT. The index stays as it is. */
int bring_patch(const struct bring_patch *bring, struct bring_patched *patched, struct error *err);

/* Unpacks the archive on descriptor IN into FOLDER, whose name ends the list of arguments. The
 * child's id; wait with bring_wait. */
int bring_unpack(const char *folder, int in, int *child, struct error *err);
int bring_wait(int child, const char *what, struct error *err);

#endif
