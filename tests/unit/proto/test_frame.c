#include "proto/frame.h"

#include <string.h>

#include "tests/harness/test.h"

static long parse(const char *data, size_t len, struct frame *frame, struct error *err)
{
    *err = (struct error)ERROR_INIT;
    return frame_parse(data, len, frame, err);
}

TEST(a_frame_is_read_back_as_it_was_written)
{
    AUTO_BUF struct buf buf = BUF_INIT(100);
    struct error err = ERROR_INIT;
    struct frame frame;

    CHECK_EQ(frame_append(&buf, FRAME_KIND_JSON, "{}", 2, &err), 0);
    CHECK_EQ(buf.len, 7);
    CHECK_EQ(memcmp(buf.data, "\0\0\0\3J{}", 7), 0);
    CHECK_EQ(frame_parse(buf.data, buf.len, &frame, &err), 7);
    CHECK_EQ((int)frame.kind, FRAME_KIND_JSON);
    CHECK_EQ(frame.len, 2);
    CHECK_EQ(memcmp(frame.data, "{}", 2), 0);
}

TEST(every_short_prefix_asks_for_more)
{
    AUTO_BUF struct buf buf = BUF_INIT(100);
    struct error err = ERROR_INIT;
    struct frame frame;

    CHECK_EQ(frame_append(&buf, FRAME_KIND_BLOB, "secret", 6, &err), 0);
    for (size_t len = 0; len < buf.len; len++)
        CHECK_EQ(frame_parse(buf.data, len, &frame, &err), 0);
}

TEST(an_empty_payload_is_a_frame)
{
    struct error err;
    struct frame frame;

    CHECK_EQ(parse("\0\0\0\1B", 5, &frame, &err), 5);
    CHECK_EQ(frame.len, 0);
}

TEST(length_0_is_refused)
{
    struct error err;
    struct frame frame;

    CHECK_EQ(parse("\0\0\0\0", 4, &frame, &err), -1);
    CHECK_EQ((int)err.code, ERR_INVALID);
}

TEST(a_length_past_the_limit_is_refused_before_its_bytes_are_there)
{
    struct error err;
    struct frame frame;

    CHECK_EQ(parse("\xff\xff\xff\xff", 4, &frame, &err), -1);
    CHECK_EQ((int)err.code, ERR_LIMIT);
    CHECK_EQ(parse("\0\x80\0\2", 4, &frame, &err), -1);
    CHECK_EQ(parse("\0\x80\0\1J", 5, &frame, &err), 0);
}

TEST(a_blob_has_a_smaller_limit)
{
    struct error err;
    struct frame frame;

    CHECK_EQ(parse("\0\1\0\1B", 5, &frame, &err), 0);
    CHECK_EQ(parse("\0\1\0\2B", 5, &frame, &err), -1);
    CHECK_EQ((int)err.code, ERR_LIMIT);
}

TEST(an_unknown_kind_is_refused)
{
    struct error err;
    struct frame frame;

    CHECK_EQ(parse("\0\0\0\3X{}", 7, &frame, &err), -1);
    CHECK_EQ((int)err.code, ERR_INVALID);
}

TEST(what_is_too_large_is_not_appended)
{
    AUTO_BUF struct buf buf = BUF_INIT(1u << 20);
    static char blob[FRAME_BLOB_MAX + 1];
    struct error err = ERROR_INIT;

    CHECK_EQ(frame_append(&buf, FRAME_KIND_BLOB, blob, sizeof(blob), &err), -1);
    CHECK_EQ((int)err.code, ERR_LIMIT);
    CHECK_EQ(buf.len, 0);
    CHECK_EQ(frame_append(&buf, FRAME_KIND_BLOB, blob, sizeof(blob) - 1, &err), 0);
}

TEST(a_full_buffer_gets_no_part_of_a_frame)
{
    AUTO_BUF struct buf buf = BUF_INIT(8);
    struct error err = ERROR_INIT;

    CHECK_EQ(frame_append(&buf, FRAME_KIND_JSON, "{\"a\":1}", 7, &err), -1);
    CHECK_EQ((int)err.code, ERR_LIMIT);
    CHECK_EQ(buf.len, 0);
}
