#include "proxy/decode.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/mem.h"
#include "harness/test.h"

#define TEXT "{\"hello\": \"world, world, world, world\"}\n"

/* What `brotli` makes of TEXT. */
static const unsigned char brotli_text[] = { 0x1b, 0x27, 0x00, 0xf8, 0x8d, 0xd3, 0x15, 0xf3, 0x23,
                                             0x84, 0x75, 0xaf, 0x45, 0x40, 0x58, 0xf6, 0xa6, 0x82,
                                             0x4e, 0x5f, 0x4f, 0xa2, 0xc9, 0x28, 0xd3, 0xc8, 0x04,
                                             0x3c, 0x48, 0x86, 0xfb, 0xa5, 0x74, 0x8b, 0x06 };

static size_t deflate_text(char *to, size_t size, const char *text, size_t len, int bits)
{
    z_stream zlib = { 0 };

    CHECK_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    AUTO_FREE
    char *copy = mem_strndup(text, len);
    zlib.next_in = (Bytef *)copy;
    zlib.avail_in = (uInt)len;
    zlib.next_out = (Bytef *)to;
    zlib.avail_out = (uInt)size;
    CHECK_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
    deflateEnd(&zlib);
    return size - zlib.avail_out;
}

/* DATA in pieces of STEP comes out as TEXT, and only all of it is an end. */
static void check_decodes(const char *name, const char *data, size_t len)
{
    for (size_t step = 1; step <= len; step++) {
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);
        bool known;
        struct decode *decode = decode_new(name, &known);

        CHECK(known && decode != NULL);
        for (size_t at = 0; at < len; at += step) {
            CHECK(!decode_ended(decode));
            CHECK_EQ(decode_feed(decode, data + at, len - at < step ? len - at : step, &out), 0);
        }
        CHECK(decode_ended(decode));
        CHECK_STR(buf_text(&out), TEXT);
        /* Something behind the end. */
        CHECK_EQ(decode_feed(decode, "x", 1, &out), -1);
        decode_free(decode);
    }
}

TEST(every_coding_is_taken_off_wherever_it_is_cut)
{
    char data[1000];
    size_t len = deflate_text(data, sizeof(data), TEXT, strlen(TEXT), 15 + 16);

    check_decodes("gzip", data, len);
    check_decodes("X-GZIP", data, len);
    len = deflate_text(data, sizeof(data), TEXT, strlen(TEXT), 15);
    check_decodes("deflate", data, len);
    len = ZSTD_compress(data, sizeof(data), TEXT, strlen(TEXT), 3);
    check_decodes("zstd", data, len);
    memcpy(data, brotli_text, sizeof(brotli_text));
    check_decodes("br", data, sizeof(brotli_text));
}

TEST(other_codings_are_not_known)
{
    static const char *const names[] = { "compress", "gzip, br", "gzip,gzip", "", "gzip;q=1", "*" };
    bool known;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK(decode_new(names[i], &known) == NULL);
        CHECK(!known);
    }
    CHECK(decode_new("identity", &known) == NULL);
    CHECK(known);
    CHECK(decode_new(NULL, &known) == NULL);
    CHECK(known);
}

TEST(what_is_not_what_it_says_fails)
{
    static const char *const names[] = { "gzip", "deflate", "zstd", "br" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);
        bool known;
        struct decode *decode = decode_new(names[i], &known);

        CHECK_EQ(decode_feed(decode, "\xff\xfe plain text that is no such thing", 40, &out), -1);
        decode_free(decode);
    }
}

TEST(a_bomb_is_stopped)
{
    const size_t size = 16u << 20;
    char *zeros = mem_new_zero(1, size);
    char *data = mem_new_zero(1, 1u << 20);
    size_t lens[2];
    bool known;

    for (size_t i = 0; i < 2; i++) {
        AUTO_BUF struct buf out = BUF_INIT(64u << 20);
        struct decode *decode = decode_new(i == 0 ? "gzip" : "zstd", &known);

        if (i == 0) {
            z_stream zlib = { 0 };

            CHECK_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
            zlib.next_in = (Bytef *)zeros;
            zlib.avail_in = (uInt)size;
            zlib.next_out = (Bytef *)data;
            zlib.avail_out = 1u << 20;
            CHECK_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
            deflateEnd(&zlib);
            lens[i] = (1u << 20) - zlib.avail_out;
        } else {
            lens[i] = ZSTD_compress(data, 1u << 20, zeros, size, 3);
        }
        CHECK_EQ(decode_feed(decode, data, lens[i], &out), -1);
        CHECK(out.len < 4u << 20);
        decode_free(decode);
    }
    free(zeros);
    free(data);
}
