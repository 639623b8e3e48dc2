#include "mcp-stdio/jsonrpc.h"

#include <string.h>

#include "tests/harness/test.h"

static struct jsonrpc_lines lines;
static struct jsonrpc_message message;
static struct error why;

static void finish(void *data)
{
    (void)data;
    jsonrpc_lines_finish(&lines);
    jsonrpc_finish(&message);
}

static void add(const char *data, size_t len)
{
    while (len) {
        size_t step = len < 65536 ? len : 65536;

        memcpy(jsonrpc_lines_reserve(&lines, step), data, step);
        jsonrpc_lines_commit(&lines, step);
        data += step;
        len -= step;
    }
}

static bool next_is(const char *text)
{
    struct jsonrpc_slice line;

    return jsonrpc_lines_next(&lines, &line) && line.len == strlen(text) &&
           memcmp(line.data, text, line.len) == 0;
}

static bool nothing_left(void)
{
    struct jsonrpc_slice line;

    return !jsonrpc_lines_next(&lines, &line);
}

TEST(lines_come_whole_whatever_the_pieces)
{
    const char *text = "one\r\n\n  \ntwo\nthr";

    for (size_t split = 0; split <= strlen(text); split++) {
        struct jsonrpc_slice line;
        int count = 0;

        jsonrpc_lines_init(&lines);
        test_defer(finish, NULL);
        add(text, split);
        while (jsonrpc_lines_next(&lines, &line))
            count++;
        add(text + split, strlen(text) - split);
        while (jsonrpc_lines_next(&lines, &line))
            count++;
        CHECK_EQ(count, 2);
        add("ee\n", 3);
        CHECK(next_is("three"));
        CHECK(nothing_left());
        jsonrpc_lines_finish(&lines);
    }
}

TEST(a_byte_order_mark_is_dropped)
{
    jsonrpc_lines_init(&lines);
    test_defer(finish, NULL);
    add("\xef\xbb\xbf{}\n", 6);
    CHECK(next_is("{}"));
}

TEST(a_line_that_is_too_long_is_passed_over_and_the_next_one_read)
{
    static char block[65536];

    jsonrpc_lines_init(&lines);
    test_defer(finish, NULL);
    memset(block, 'x', sizeof(block));
    for (size_t sent = 0; sent <= JSONRPC_LINE_MAX; sent += sizeof(block)) {
        add(block, sizeof(block));
        CHECK(nothing_left());
    }
    add("y\nnext\n", 7);
    CHECK(next_is("next"));
    CHECK(nothing_left());
    CHECK(lines.in.len < 1000000);
}

static enum jsonrpc_verdict read_text(const char *text)
{
    jsonrpc_finish(&message);
    test_defer(finish, NULL);
    why = (struct error)ERROR_INIT;
    return jsonrpc_read(&message, (struct jsonrpc_slice){ text, strlen(text) }, &why);
}

static bool id_is(const char *text)
{
    return message.id.len == strlen(text) && memcmp(message.id.data, text, message.id.len) == 0;
}

TEST(ids_are_kept_as_they_were_written)
{
    static const char *const ids[] = { "0",
                                       "1",
                                       "-1",
                                       "\"1\"",
                                       "1.0",
                                       "1e2",
                                       "123456789012345678901234567890",
                                       "\"a\\u0041\\\"}\"",
                                       "\"\xc3\xa4\"" };

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        AUTO_BUF struct buf text = BUF_INIT(1000);

        buf_printf(&text,
                   "{\"method\":\"m\",\"params\":{\"id\":9,\"x\":[{\"id\":\"}\"}]}, "
                   "\"jsonrpc\":\"2.0\", \"id\" : %s }",
                   ids[i]);
        CHECK_EQ((int)read_text(buf_text(&text)), JSONRPC_REQUEST);
        if (!id_is(ids[i]))
            CHECK_FAILED(ids[i]);
    }
}

TEST(a_name_written_with_escapes_is_the_same_name)
{
    CHECK_EQ((int)read_text("{\"jsonrpc\":\"2.0\",\"\\u0069d\":7,\"method\":\"m\"}"),
             JSONRPC_REQUEST);
    CHECK(id_is("7"));
}

TEST(verdicts)
{
    static const struct {
        const char *text;
        enum jsonrpc_verdict verdict;
    } cases[] = {
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", JSONRPC_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", JSONRPC_NOTIFICATION },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", JSONRPC_RESPONSE },
        { "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", JSONRPC_RESPONSE },
        { "[]", JSONRPC_BATCH },
        { "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"m\"}", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", JSONRPC_REFUSED },
        { "{\"id\":1,\"method\":\"m\"}", JSONRPC_REFUSED },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", JSONRPC_REFUSED },
        { "{\"jsonrpc\":\"2.0\",\"id\":1}", JSONRPC_REFUSED },
        { "{\"jsonrpc\":\"2.0\",\"method\":5}", JSONRPC_SILENT },
        { "5", JSONRPC_SILENT },
        { "\"text\"", JSONRPC_SILENT },
        { "null", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x", JSONRPC_SILENT },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,}", JSONRPC_SILENT },
        { "hello", JSONRPC_SILENT },
        /* Refused by the strict parser, but an object whose sender waits for an answer. */
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"method\":\"n\"}", JSONRPC_REFUSED },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (read_text(cases[i].text) != cases[i].verdict)
            CHECK_FAILED(cases[i].text);
}

TEST(too_many_levels_are_refused_with_the_id)
{
    AUTO_BUF struct buf text = BUF_INIT(100000);

    buf_append_str(&text, "{\"jsonrpc\":\"2.0\",\"id\":\"deep\",\"method\":\"m\",\"params\":");
    for (int i = 0; i < 20000; i++)
        buf_append_char(&text, '[');
    for (int i = 0; i < 20000; i++)
        buf_append_char(&text, ']');
    buf_append_char(&text, '}');
    CHECK_EQ((int)read_text(buf_text(&text)), JSONRPC_REFUSED);
    CHECK(id_is("\"deep\""));
}

TEST(half_pairs_nul_escapes_and_bad_bytes_are_repaired)
{
    CHECK_EQ(
        (int)read_text(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\\ud83d!\",\"b\":"
            "\"\\ude00\\ud83d\\ude00\",\"c\":\"\\u0000\",\"d\":\"\xff\",\"e\":\"\\\\ud83d\"}}"),
        JSONRPC_REQUEST);
    CHECK_STR(json_string(json_get(message.params, "a")), "\xef\xbf\xbd!");
    CHECK_STR(json_string(json_get(message.params, "b")), "\xef\xbf\xbd\xf0\x9f\x98\x80");
    CHECK_STR(json_string(json_get(message.params, "c")), "\xef\xbf\xbd");
    CHECK_STR(json_string(json_get(message.params, "d")), "?");
    CHECK_STR(json_string(json_get(message.params, "e")), "\\ud83d");
    CHECK(id_is("1"));
}

TEST(elements_of_an_array_are_walked)
{
    struct jsonrpc_slice array = { " [1, {\"a\":[2,\"]\"]} ,\"x\"]", 0 };
    struct jsonrpc_slice element;
    size_t at = 0;

    array.len = strlen(array.data);
    CHECK(jsonrpc_next_element(array, &at, &element));
    CHECK_EQ(element.len, 1);
    CHECK(jsonrpc_next_element(array, &at, &element));
    CHECK_EQ(memcmp(element.data, "{\"a\":[2,\"]\"]}", element.len), 0);
    CHECK(jsonrpc_next_element(array, &at, &element));
    CHECK_EQ(element.len, 3);
    CHECK(!jsonrpc_next_element(array, &at, &element));
}
