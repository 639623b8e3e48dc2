/* terminal.h: what is done for a person at a terminal and for nobody else: lines that fit, colour,
 * a pager. */
#ifndef CTL_TERMINAL_H
#define CTL_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

/* Columns of the terminal at FD, or 80. */
size_t terminal_width(int fd);
/* Whether the terminal at FD is one, and colour is wanted: NO_COLOR (no-color.org) is not set and
 * TERM is not "dumb". */
bool terminal_has_color(int fd);

/* Cuts each line of TEXT, which is escaped already, to WIDTH code points. Pure. */
void terminal_fit(struct buf *text, size_t width);
/* Appends the patch TEXT with the colours that git uses, escaped, line by line. Pure. */
void terminal_color_diff(struct buf *out, const char *text);

/* Shows TEXT through $SANDBOX_MCP_PAGER, $PAGER or less, and waits until the person leaves it.
 * Without any of them TEXT is printed. */
void terminal_page(const struct buf *text);

#endif
