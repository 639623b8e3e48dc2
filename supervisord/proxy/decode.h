/* decode.h: takes a content coding off an answer, so that what it holds can be searched. Streams;
 * what comes out is bounded by what went in, so that a small body can't become an endless one.
 * Pure. */
#ifndef PROXY_DECODE_H
#define PROXY_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

struct decode;

/* VALUE of a Content-Encoding header: gzip, x-gzip, deflate, br, zstd. NULL for identity, and with
 * *KNOWN false for others and for several at once. */
struct decode *decode_new(const char *value, bool *known);
void decode_free(struct decode *decode); /* NULL is fine */
/* Appends to OUT. -1: it isn't what it said, or grows beyond measure. */
int decode_feed(struct decode *decode, const char *data, size_t len, struct buf *out);
/* True when the coded stream has come to its end. */
bool decode_ended(const struct decode *decode);

#endif
