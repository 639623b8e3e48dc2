/* page.h: sandboxctl's manual page, from the tables of commands, options and exit codes. Pure. */
#ifndef CTL_PAGE_H
#define CTL_PAGE_H

#include "common/buf.h"

void page_print(struct buf *out);

#endif
