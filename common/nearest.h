/* nearest.h: for a name that is not known, those that were probably meant. Pure. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/* Appends up to five of NAMES to OUT, the most similar to WANTED first (by edit distance), with
 * ", " between them. */
void nearest_append(struct buf *out, const char *const *names, size_t count, const char *wanted);
/* Only those that a slip of the hand makes of WANTED: one or two letters; may be none. */
void nearest_append_similar(struct buf *out, const char *const *names, size_t count,
                            const char *wanted);

/* GIVEN is most likely NAME spelled otherwise: in other case, with underscores or dashes, one or
 * two letters wrong, or shortened ("repo" for "repository"). */
bool nearest_meant(const char *given, const char *name);

#endif
