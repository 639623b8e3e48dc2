/* manual.h: what a program says of itself: its --help and its manual page, from one description.
 *
 * A page is source for man(1), in the macros of man(7). Text may hold anything; a line that begins
 * with a space keeps its shape. Pure. */
#ifndef COMMON_MANUAL_H
#define COMMON_MANUAL_H

#include "buf.h"

struct manual_item {
    const char *term; /* NULL behind the last row of a table */
    const char *words;
};

struct manual {
    const char *name;    /* "sandbox-mcp" */
    const char *summary; /* one line, lower case, no full stop */
    const char *usage;   /* what stands behind the name; "" nothing */
    const char *about;   /* lines of text */
    const struct manual_item *options;
    const struct manual_item *environment;
    const char *see_also; /* "sandboxctl(1), …" */
};

/* What --help prints. */
void manual_help(struct buf *out, const struct manual *manual);

/* A page: begin (name, synopsis, description, options), what the program has besides, end. */
void manual_begin(struct buf *out, const struct manual *manual);
void manual_section(struct buf *out, const char *title);
void manual_text(struct buf *out, const char *text);
/* TERM and what is said of it. */
void manual_item(struct buf *out, const char *term, const char *words);
/* One more paragraph under the item before. */
void manual_more(struct buf *out, const char *text);
void manual_end(struct buf *out, const struct manual *manual);

#endif
