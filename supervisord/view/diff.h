/* diff.h: a run's unified diff as git wrote it, taken apart: which files, how many lines, cut to a
 * path and a size. The text comes from a sandbox, so nothing in it is trusted beyond its shape.
 * Pure. */
#ifndef VIEW_DIFF_H
#define VIEW_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/json_write.h"

struct diff_options {
    const char *path; /* only files at or below it; NULL or "": all */
    size_t max_bytes; /* of text */
    bool was_cut;     /* the text given is itself only a part */
};

/* Appends the wanted text to OUT, cut at a line's end behind which a line says so, and writes the
 * wanted files as an array of
 * {"path","insertions","deletions","status"} (added, modified, deleted, renamed; at most
 * DIFF_FILES_MAX). Returns true when anything was left out for its size. */
#define DIFF_FILES_MAX 5000
bool diff_write(const char *text, size_t len, const struct diff_options *options, struct buf *out,
                struct json_writer *files);

#endif
