/* wording.h: what the supervisor says in the words of its interface, in those of the command line:
 * "timeoutMinutes: must be …" is "--timeout: must be …" here. Pure. */
#ifndef CTL_WORDING_H
#define CTL_WORDING_H

#include "common/buf.h"
#include "common/error.h"

/* TEXT may begin with an argument's name and a colon. */
void wording_append(struct buf *out, const char *text);
void wording_translate(struct error *err);

#endif
