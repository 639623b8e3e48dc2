#include "proxy/pktline.h"

#include <string.h>

#include "harness/test.h"

TEST(lines_and_flushes_are_read_one_by_one)
{
    const char *text = "0009hello0000000aworld\n";
    struct pktline line = pktline_read(text, strlen(text));

    CHECK_EQ(line.kind, PKTLINE_DATA);
    CHECK_EQ(line.len, 5);
    CHECK_EQ(line.size, 9);
    CHECK(memcmp(line.data, "hello", 5) == 0);
    line = pktline_read(text + 9, strlen(text) - 9);
    CHECK_EQ(line.kind, PKTLINE_FLUSH);
    CHECK_EQ(line.size, 4);
    line = pktline_read(text + 13, strlen(text) - 13);
    CHECK_EQ(line.kind, PKTLINE_DATA);
    CHECK_EQ(line.len, 6);
}

TEST(a_cut_line_waits_for_the_rest)
{
    const char *text = "0009hello";

    for (size_t len = 0; len < 9; len++)
        CHECK_EQ(pktline_read(text, len).kind, PKTLINE_MORE);
}

TEST(lengths_that_no_client_sends_are_refused)
{
    static const char *const bad[] = {
        "0001", "0002", "0003", "0004",     "000A", "fff1", "ffff",
        "g000", "-001", "+009", " 009aaaa", "0x09", "00 9", "PACK\0"
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(pktline_read(bad[i], strlen(bad[i])).kind, PKTLINE_BAD);
    CHECK_EQ(pktline_read("fff0", 4).kind, PKTLINE_MORE);
}

TEST(what_is_written_is_read_again)
{
    struct buf out;
    char large[3000];

    buf_init(&out, 1 << 20);
    memset(large, 'x', sizeof(large));
    pktline_write(&out, "abc", 3);
    pktline_write_band(&out, 1, large, sizeof(large));
    pktline_write_flush(&out);
    size_t at = 0;
    size_t got = 0;
    struct pktline line = pktline_read(out.data, out.len);
    CHECK_EQ(line.len, 3);
    for (at += line.size; (line = pktline_read(out.data + at, out.len - at)).kind == PKTLINE_DATA;
         at += line.size) {
        CHECK_EQ(line.data[0], 1);
        CHECK(line.size <= 999);
        got += line.len - 1;
    }
    CHECK_EQ(line.kind, PKTLINE_FLUSH);
    CHECK_EQ(got, sizeof(large));
    CHECK_EQ(at + line.size, out.len);
    buf_finish(&out);
}
