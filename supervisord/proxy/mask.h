/* mask.h: hides given byte strings in a stream, each by as many asterisks, wherever the stream is
 * cut into pieces. Pure. */
#ifndef PROXY_MASK_H
#define PROXY_MASK_H

#include <stddef.h>

#include "common/buf.h"

#define MASK_PATTERNS_MAX 4

struct mask_pattern {
    const char *text;
    size_t len; /* at least 1 */
};

/* Overwrites every occurrence in DATA; returns how many there were. */
size_t mask_all(char *data, size_t len, const struct mask_pattern *patterns, size_t count);
/* Length of the longest end of DATA that begins a pattern without being all of it: what must be
 * held back until more is known. */
size_t mask_open_end(const char *data, size_t len, const struct mask_pattern *patterns,
                     size_t count);

#endif
