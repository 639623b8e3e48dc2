/* pktline.h: the frames of git's wire protocol (gitprotocol-common): four hex digits that count
 * themselves, then so many bytes. Pure; what comes from a peer is bounded by the form itself. */
#ifndef PROXY_PKTLINE_H
#define PROXY_PKTLINE_H

#include <stddef.h>

#include "common/buf.h"

#define PKTLINE_PAYLOAD_MAX 65516u /* 65520 with the four digits */

enum pktline_kind {
    PKTLINE_MORE, /* it isn't all there yet */
    PKTLINE_DATA,
    PKTLINE_FLUSH,
    PKTLINE_BAD, /* no length, one that is too large, or a special packet that has no place here */
};

struct pktline {
    enum pktline_kind kind;
    const char *data; /* into what was read */
    size_t len;
    size_t size; /* how many bytes of the stream it takes, 0 unless DATA or FLUSH */
};

/* What stands at the start of DATA. Stricter than git: hex digits in lower case only, no empty
 * line, no delimiter of protocol version 2. */
struct pktline pktline_read(const char *data, size_t len);

/* One line; LEN is at most PKTLINE_PAYLOAD_MAX. */
void pktline_write(struct buf *out, const char *data, size_t len);
void pktline_write_flush(struct buf *out);
/* DATA in as many lines of the side band BAND (1 data, 2 progress, 3 error) as it takes. */
void pktline_write_band(struct buf *out, unsigned char band, const char *data, size_t len);

#endif
