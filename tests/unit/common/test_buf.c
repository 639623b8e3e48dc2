#include "common/buf.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

TEST(an_empty_buffer_has_no_memory_and_the_text_of_nothing)
{
    struct buf buf;

    buf_init(&buf, 10);
    CHECK(buf.data == NULL);
    CHECK_STR(buf_text(&buf), "");
    buf_finish(&buf);
}

TEST(appends_add_up_and_end_in_a_nul)
{
    AUTO_BUF struct buf buf = BUF_INIT(100);

    buf_append(&buf, "abc", 2);
    buf_append_char(&buf, '-');
    buf_append_str(&buf, "def");
    buf_printf(&buf, " %d %s", 7, "x");
    CHECK_STR(buf_text(&buf), "ab-def 7 x");
    CHECK_EQ(buf.len, 10);
    CHECK(!buf.failed);
}

TEST(nul_bytes_are_kept)
{
    AUTO_BUF struct buf buf = BUF_INIT(100);

    buf_append(&buf, "a\0b", 3);
    CHECK_EQ(buf.len, 3);
    CHECK(memcmp(buf.data, "a\0b", 4) == 0);
}

TEST(the_maximum_itself_fits_and_one_more_fails_for_good)
{
    AUTO_BUF struct buf buf = BUF_INIT(5);

    buf_append_str(&buf, "12345");
    CHECK(!buf.failed);
    buf_append_char(&buf, '6');
    CHECK(buf.failed);
    CHECK_STR(buf_text(&buf), "12345");
    buf_append(&buf, "", 0);
    CHECK(buf.failed);
    buf_clear(&buf);
    CHECK(!buf.failed);
    buf_append_str(&buf, "abc");
    CHECK_STR(buf_text(&buf), "abc");
}

TEST(a_failed_append_adds_nothing_of_it)
{
    AUTO_BUF struct buf buf = BUF_INIT(5);

    buf_append_str(&buf, "123");
    buf_append_str(&buf, "456");
    CHECK_STR(buf_text(&buf), "123");
    buf_clear(&buf);
    buf_printf(&buf, "%s", "123456");
    CHECK(buf.failed);
    CHECK_STR(buf_text(&buf), "");
}

TEST(a_maximum_of_nothing_takes_nothing)
{
    AUTO_BUF struct buf buf = BUF_INIT(0);

    buf_append(&buf, "", 0);
    CHECK(!buf.failed);
    buf_append_char(&buf, 'x');
    CHECK(buf.failed);
}

TEST(a_length_that_would_overflow_fails)
{
    AUTO_BUF struct buf buf = BUF_INIT((size_t)-1);

    buf_append_char(&buf, 'x');
    CHECK(buf_reserve(&buf, (size_t)-1) == NULL);
    CHECK(buf.failed);
    buf_clear(&buf);
    CHECK(buf_reserve(&buf, (size_t)-1) == NULL);
}

TEST(reserved_room_counts_only_when_committed)
{
    AUTO_BUF struct buf buf = BUF_INIT(1000);
    char *to = buf_reserve(&buf, 900);

    CHECK(to != NULL);
    memset(to, 'x', 900);
    CHECK_EQ(buf.len, 0);
    buf_commit(&buf, 3);
    CHECK_STR(buf_text(&buf), "xxx");
    CHECK(buf_reserve(&buf, 998) == NULL);
    CHECK(buf.failed);
}

static void commit_too_much(void *data)
{
    struct buf *buf = data;

    buf_commit(buf, buf->cap);
}

static void consume_too_much(void *data)
{
    struct buf *buf = data;

    buf_consume(buf, buf->len + 1);
}

TEST(more_than_was_reserved_or_is_there_is_a_bug)
{
    AUTO_BUF struct buf buf = BUF_INIT(100);

    buf_append_str(&buf, "abc");
    CHECK_ABORTS(commit_too_much, &buf);
    CHECK_ABORTS(consume_too_much, &buf);
}

TEST(consume_removes_from_the_front)
{
    AUTO_BUF struct buf buf = BUF_INIT(100);

    buf_consume(&buf, 0);
    buf_append_str(&buf, "one two");
    buf_consume(&buf, 4);
    CHECK_STR(buf_text(&buf), "two");
    buf_consume(&buf, 3);
    CHECK_STR(buf_text(&buf), "");
    CHECK_EQ(buf.len, 0);
}

TEST(what_is_consumed_makes_room_again)
{
    AUTO_BUF struct buf buf = BUF_INIT(4);

    for (int i = 0; i < 1000; i++) {
        buf_append_str(&buf, "1234");
        buf_consume(&buf, 4);
    }
    CHECK(!buf.failed);
    CHECK_EQ(buf.cap, 5);
}

TEST(steal_hands_over_the_text_and_leaves_an_empty_buffer)
{
    AUTO_BUF struct buf buf = BUF_INIT(4);
    AUTO_FREE char *text = NULL;

    buf_append_str(&buf, "abc");
    text = buf_steal(&buf);
    CHECK_STR(text, "abc");
    CHECK(buf.data == NULL);
    CHECK_EQ(buf.len, 0);
    buf_append_str(&buf, "1234");
    CHECK(!buf.failed);
    buf_append_str(&buf, "5");
    CHECK(buf.failed);
}

TEST(steal_is_null_only_when_the_buffer_failed)
{
    AUTO_BUF struct buf buf = BUF_INIT(4);
    AUTO_FREE char *empty = buf_steal(&buf);

    CHECK_STR(empty, "");
    buf_append_str(&buf, "12345");
    CHECK(buf_steal(&buf) == NULL);
}

TEST(growth_keeps_the_content)
{
    AUTO_BUF struct buf buf = BUF_INIT(1 << 20);

    for (int i = 0; i < 100000; i++)
        buf_append_char(&buf, (char)('a' + i % 26));
    CHECK_EQ(buf.len, 100000);
    for (size_t i = 0; i < buf.len; i++)
        CHECK_EQ(buf.data[i], 'a' + (int)(i % 26));
}
