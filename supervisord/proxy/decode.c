#include "proxy/decode.h"

#include <brotli/decode.h>
#include <stdint.h>
#include <strings.h>
#define ZLIB_CONST /* its input is read only */
#include <zlib.h>
#include <zstd.h>

#include "common/mem.h"

#define PIECE (32u << 10)
/* An honest text seldom shrinks to less than a fiftieth. */
#define RATIO_MAX 100u
#define FREE_BYTES (1u << 20)
#define ZSTD_WINDOW_LOG 23 /* 8 MiB, as RFC 9659 has it */

struct coding {
    const char *name;
    bool (*start)(struct decode *decode);
    /* Takes from *DATA and *LEN; writes at most PIECE bytes and returns how many, or -1. */
    ptrdiff_t (*step)(struct decode *decode, const char **data, size_t *len, char *to);
    void (*stop)(struct decode *decode);
};

struct decode {
    const struct coding *coding;
    union {
        z_stream zlib;
        BrotliDecoderState *brotli;
        ZSTD_DStream *zstd;
    } state;
    bool ended;
    uint64_t in;
    uint64_t out;
};

static bool start_zlib(struct decode *decode)
{
    /* 32: a gzip or zlib header, whichever is there. */
    return inflateInit2(&decode->state.zlib, 15 + 32) == Z_OK;
}

static ptrdiff_t step_zlib(struct decode *decode, const char **data, size_t *len, char *to)
{
    z_stream *zlib = &decode->state.zlib;
    int status;

    zlib->next_in = (const Bytef *)*data;
    zlib->avail_in = (uInt)*len;
    zlib->next_out = (Bytef *)to;
    zlib->avail_out = PIECE;
    status = inflate(zlib, Z_NO_FLUSH);
    *data = (const char *)zlib->next_in;
    *len = zlib->avail_in;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return -1;
    decode->ended = status == Z_STREAM_END;
    return (ptrdiff_t)(PIECE - zlib->avail_out);
}

static void stop_zlib(struct decode *decode)
{
    inflateEnd(&decode->state.zlib);
}

static bool start_brotli(struct decode *decode)
{
    decode->state.brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    return decode->state.brotli != NULL;
}

static ptrdiff_t step_brotli(struct decode *decode, const char **data, size_t *len, char *to)
{
    const uint8_t *in = (const uint8_t *)*data;
    uint8_t *out = (uint8_t *)to;
    size_t room = PIECE;
    BrotliDecoderResult result =
        BrotliDecoderDecompressStream(decode->state.brotli, len, &in, &room, &out, NULL);

    *data = (const char *)in;
    if (result == BROTLI_DECODER_RESULT_ERROR)
        return -1;
    decode->ended = result == BROTLI_DECODER_RESULT_SUCCESS;
    return (ptrdiff_t)(PIECE - room);
}

static void stop_brotli(struct decode *decode)
{
    BrotliDecoderDestroyInstance(decode->state.brotli);
}

static bool start_zstd(struct decode *decode)
{
    decode->state.zstd = ZSTD_createDStream();
    if (decode->state.zstd == NULL)
        return false;
    ZSTD_DCtx_setParameter(decode->state.zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    return true;
}

static ptrdiff_t step_zstd(struct decode *decode, const char **data, size_t *len, char *to)
{
    ZSTD_inBuffer in = { *data, *len, 0 };
    ZSTD_outBuffer out = { to, PIECE, 0 };
    size_t left = ZSTD_decompressStream(decode->state.zstd, &out, &in);

    if (ZSTD_isError(left))
        return -1;
    *data += in.pos;
    *len -= in.pos;
    decode->ended = left == 0;
    return (ptrdiff_t)out.pos;
}

static void stop_zstd(struct decode *decode)
{
    ZSTD_freeDStream(decode->state.zstd);
}

static const struct coding codings[] = {
    { "gzip", start_zlib, step_zlib, stop_zlib },
    { "x-gzip", start_zlib, step_zlib, stop_zlib },
    { "deflate", start_zlib, step_zlib, stop_zlib },
    { "br", start_brotli, step_brotli, stop_brotli },
    { "zstd", start_zstd, step_zstd, stop_zstd },
};

struct decode *decode_new(const char *value, bool *known)
{
    *known = true;
    if (value == NULL || strcasecmp(value, "identity") == 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
        struct decode *decode;

        if (strcasecmp(value, codings[i].name) != 0)
            continue;
        decode = NEW(struct decode);
        decode->coding = &codings[i];
        if (decode->coding->start(decode))
            return decode;
        free(decode);
        break;
    }
    *known = false;
    return NULL;
}

void decode_free(struct decode *decode)
{
    if (decode == NULL)
        return;
    decode->coding->stop(decode);
    free(decode);
}

int decode_feed(struct decode *decode, const char *data, size_t len, struct buf *out)
{
    decode->in += len;
    for (;;) {
        size_t before = len;
        char *to;
        ptrdiff_t made;

        if (decode->ended)
            return len == 0 ? 0 : -1; /* something behind the end: nobody could say what it is */
        to = buf_reserve(out, PIECE);
        made = to != NULL ? decode->coding->step(decode, &data, &len, to) : -1;
        if (made < 0)
            return -1;
        buf_commit(out, (size_t)made);
        decode->out += (uint64_t)made;
        if (decode->out > FREE_BYTES + decode->in * RATIO_MAX)
            return -1;
        if (made == 0 && len == before)
            return len == 0 ? 0 : -1; /* wants more than there is */
        if (len == 0 && (size_t)made < PIECE && !decode->ended)
            return 0;
    }
}

bool decode_ended(const struct decode *decode)
{
    return decode->ended;
}
