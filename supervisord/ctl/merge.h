/* merge.h: a patch that doesn't fit as it is, merged with what has changed here meanwhile, by git's
 * own rules, in a repository of its own that borrows the objects of the user's: there nothing
 * changes, and no driver, filter of attributes or hook of anybody is asked. */
#ifndef CTL_MERGE_H
#define CTL_MERGE_H

#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

struct merge_options {
    const char *top;    /* the user's work tree */
    const char *base;   /* the commit that the patch is made against */
    const char *patch;  /* a file */
    const char *merged; /* the file that gets what is to be done to the files here */
};

enum merge_end {
    MERGE_CLEAN,      /* MERGED is written; empty: all of it is here already */
    MERGE_CONFLICTS,  /* both sides changed the same: their names are in CONFLICTS */
    MERGE_IMPOSSIBLE, /* the base isn't known here, or git is too old */
};

/* -1 only for what is wrong with this machine. */
int merge_patch(const struct merge_options *options, enum merge_end *end, struct buf *conflicts,
                struct error *err);

#endif
