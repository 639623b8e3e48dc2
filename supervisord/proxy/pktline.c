#include "proxy/pktline.h"

#include "common/mem.h"

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct pktline pktline_read(const char *data, size_t len)
{
    size_t size = 0;

    for (size_t i = 0; i < 4; i++) {
        if (i == len)
            return (struct pktline){ .kind = PKTLINE_MORE };
        if (digit(data[i]) < 0)
            return (struct pktline){ .kind = PKTLINE_BAD };
        size = size << 4 | (size_t)digit(data[i]);
    }
    if (size == 0)
        return (struct pktline){ .kind = PKTLINE_FLUSH, .size = 4 };
    if (size <= 4 || size > PKTLINE_PAYLOAD_MAX + 4)
        return (struct pktline){ .kind = PKTLINE_BAD };
    if (len < size)
        return (struct pktline){ .kind = PKTLINE_MORE };
    return (
        struct pktline){ .kind = PKTLINE_DATA, .data = data + 4, .len = size - 4, .size = size };
}

void pktline_write(struct buf *out, const char *data, size_t len)
{
    BUG_ON(len > PKTLINE_PAYLOAD_MAX);
    buf_printf(out, "%04zx", len + 4);
    buf_append(out, data, len);
}

void pktline_write_flush(struct buf *out)
{
    buf_append_str(out, "0000");
}

void pktline_write_band(struct buf *out, unsigned char band, const char *data, size_t len)
{
    /* side-band allows 995 bytes a line, side-band-64k far more: short ones are understood by both.
     */
    const size_t most = 900;

    for (size_t at = 0; at < len; at += most) {
        size_t piece = len - at < most ? len - at : most;

        buf_printf(out, "%04zx%c", piece + 5, band);
        buf_append(out, data + at, piece);
    }
}
