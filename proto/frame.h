/* frame.h: bytes to frames and back. A frame is a 4-byte big-endian length, one byte of kind, and
 * the payload; the length counts kind and payload. A length of 0, a length past the limit and an
 * unknown kind end the connection. No I/O. */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define FRAME_HEAD_SIZE 5
#define FRAME_JSON_MAX (8u << 20) /* payload bytes */
#define FRAME_BLOB_MAX (64u << 10)

enum frame_kind {
    FRAME_KIND_JSON = 'J',
    FRAME_KIND_BLOB = 'B', /* raw bytes that belong to the JSON frame before it: a secret's value,
                              a piece of a file */
};

struct frame {
    enum frame_kind kind;
    const char *data; /* borrowed from the input */
    size_t len;
};

/* Looks at the front of DATA. Returns the number of bytes the whole frame takes, with FRAME filled;
 * 0 when more bytes are needed; -1 with ERR when the peer broke the rules. */
long frame_parse(const char *data, size_t len, struct frame *frame, struct error *err);

/* Appends the head of a frame whose LEN bytes of payload the caller appends right behind it, for
 * which there is room then. Fails as frame_append does. */
int frame_append_head(struct buf *buf, enum frame_kind kind, size_t len, struct error *err);
/* Appends a frame; -1 with ERR_LIMIT when the payload is too large (nothing is appended then). */
int frame_append(struct buf *buf, enum frame_kind kind, const void *data, size_t len,
                 struct error *err);

#endif
