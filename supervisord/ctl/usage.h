/* usage.h: a command's usage line as the grammar that it is: "RUN [REQUEST] ANSWER", or with verbs,
 * "set NAME | list | rm NAME". Words in brackets may be left out. Pure. */
#ifndef CTL_USAGE_H
#define CTL_USAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

bool usage_has_verbs(const char *usage);
/* The part of a line with verbs that begins with VERB, or NULL: there is none such. It ends at the
 * next verb's, see usage_length. */
const char *usage_of_verb(const char *usage, const char *verb);
/* The next verb's part, or NULL. */
const char *usage_next_verb(const char *part);
/* Bytes of a line, or of one verb's part of it. */
size_t usage_length(const char *part);
/* The word at NUMBER, what stands for options aside; NULL behind the last one. */
const char *usage_word(const char *part, size_t number, size_t *len);
void usage_append_verbs(struct buf *out, const char *usage);

/* Whether the COUNT words that somebody typed are enough: ERR_INVALID names what is missing, or the
 * verb that there isn't. With verbs also that they are not too many. */
int usage_check(const char *usage, const char *const *words, size_t count, struct error *err);

#endif
