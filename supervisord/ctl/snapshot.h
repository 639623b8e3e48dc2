/* snapshot.h: the user's files as they are, as a commit that no ref names, for a run to begin with.
 * The user's index, HEAD, refs and files stay as they are: objects are all that is added. */
#ifndef CTL_SNAPSHOT_H
#define CTL_SNAPSHOT_H

#include <stdint.h>

#include "common/error.h"

struct snapshot_options {
    const char *folder;    /* in the work tree; NULL: the current one */
    const char *untracked; /* file or folder, seen from FOLDER, whose untracked files come along,
                              but not those that are ignored; NULL: none do */
    const char *objects;   /* where they are kept in the place of the repository, which knows of
                              nothing   then; a tree is all that is made. NULL: there */
};

struct snapshot {
    char tree[65];     /* of the files */
    char commit[65];   /* "": there is nothing that HEAD has not */
    uint64_t left_out; /* untracked files that stay out */
};

/* How many tracked files of the work tree around FOLDER are changed; untracked ones aside. 0 also
 * where it can't be known: it only serves a hint. */
size_t snapshot_count_changed(const char *folder);

/* The same files on the same HEAD are the same commit, so that a request can be repeated. git
 * removes it when it is not used for two weeks. ERR_CONFLICT, with what to do, for a repository
 * without a commit, with conflicts or without a work tree. */
int snapshot_make(const struct snapshot_options *options, struct snapshot *out, struct error *err);

#endif
