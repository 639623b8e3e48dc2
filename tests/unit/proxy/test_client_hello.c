#include "proxy/client_hello.h"

#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "harness/test.h"

static void add_number(struct buf *out, size_t number, unsigned bytes)
{
    for (unsigned i = bytes; i > 0; i--)
        buf_append_char(out, (char)(number >> (8 * (i - 1)) & 0xff));
}

/* A message with as many server_name extensions as there are NAMES up to NULL. */
static void make_message(struct buf *out, const char *const *names)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    AUTO_BUF struct buf extensions = BUF_INIT(4096);

    add_number(&extensions, 43, 2); /* another one first */
    add_number(&extensions, 1, 2);
    buf_append_char(&extensions, 'x');
    for (; *names != NULL; names++) {
        size_t len = strlen(*names);

        add_number(&extensions, 0, 2);
        add_number(&extensions, len + 5, 2);
        add_number(&extensions, len + 3, 2);
        add_number(&extensions, 0, 1);
        add_number(&extensions, len, 2);
        buf_append(&extensions, *names, len);
    }
    add_number(&body, 0x0303, 2);
    for (int i = 0; i < 32; i++)
        buf_append_char(&body, 'r');
    add_number(&body, 0, 1);
    add_number(&body, 2, 2);
    add_number(&body, 0x1301, 2);
    add_number(&body, 1, 1);
    add_number(&body, 0, 1);
    add_number(&body, extensions.len, 2);
    buf_append(&body, extensions.data, extensions.len);
    add_number(out, 1, 1);
    add_number(out, body.len, 3);
    buf_append(out, body.data, body.len);
}

/* Cut into records of PIECE bytes. */
static void make_records(struct buf *out, const struct buf *message, size_t piece)
{
    for (size_t at = 0; at < message->len; at += piece) {
        size_t len = message->len - at < piece ? message->len - at : piece;

        add_number(out, 22, 1);
        add_number(out, 0x0301, 2);
        add_number(out, len, 2);
        buf_append(out, message->data + at, len);
    }
}

static enum client_hello read_hello(const char *const *names, size_t piece, char name[256])
{
    AUTO_BUF struct buf message = BUF_INIT(8192);
    AUTO_BUF struct buf records = BUF_INIT(32768);

    make_message(&message, names);
    make_records(&records, &message, piece);
    for (size_t len = 0; len < records.len; len++)
        CHECK_EQ(client_hello_read(records.data, len, name), CLIENT_HELLO_MORE);
    return client_hello_read(records.data, records.len, name);
}

TEST(the_name_is_found_however_it_is_cut)
{
    const char *const one[] = { "a.example", NULL };
    const char *const none[] = { NULL };
    const char *const two[] = { "a.example", "b.example", NULL };
    static const size_t pieces[] = { 1, 3, 4, 50, 16384 };

    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        char name[256] = "";

        CHECK_EQ(read_hello(one, pieces[i], name), CLIENT_HELLO_NAME);
        CHECK_STR(name, "a.example");
        CHECK_EQ(read_hello(none, pieces[i], name), CLIENT_HELLO_NONE);
        CHECK_EQ(read_hello(two, pieces[i], name), CLIENT_HELLO_BAD);
    }
}

TEST(other_protocols_and_broken_ones_are_told_apart)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum client_hello hello;
    } cases[] = {
        { "", 0, CLIENT_HELLO_MORE },
        { "SSH-2.0-x\r\n", 11, CLIENT_HELLO_OTHER },
        { "GET / HTTP/1.1\r\n", 16, CLIENT_HELLO_OTHER },
        { "\x16", 1, CLIENT_HELLO_MORE },
        { "\x16\x02\x00\x00\x10", 5, CLIENT_HELLO_BAD },
        { "\x16\x03\x01\x00\x00", 5, CLIENT_HELLO_BAD },
        { "\x16\x03\x01\xff\xff", 5, CLIENT_HELLO_BAD },
        { "\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9, CLIENT_HELLO_BAD },
        { "\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9, CLIENT_HELLO_BAD },
        { "\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9, CLIENT_HELLO_BAD },
        { "\x16\x03\x01\x00\x01\x01\x17\x03\x03\x00\x01x", 12, CLIENT_HELLO_BAD },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[256];

        CHECK_EQ(client_hello_read(cases[i].bytes, cases[i].len, name), cases[i].hello);
    }
}

TEST(there_is_an_end_to_waiting)
{
    AUTO_BUF struct buf records = BUF_INIT(1u << 20);
    AUTO_BUF struct buf message = BUF_INIT(1u << 20);
    char name[256];

    add_number(&message, 1, 1);
    add_number(&message, 17000, 3);
    for (int i = 0; i < 4000; i++)
        buf_append_char(&message, 'x');
    make_records(&records, &message, 1);
    CHECK(records.len > CLIENT_HELLO_MAX);
    CHECK_EQ(client_hello_read(records.data, records.len, name), CLIENT_HELLO_BAD);
}
