#include "common/json_write.h"

#include <math.h>
#include <string.h>

#include "common/str.h"
#include "harness/test.h"

static struct buf buf;
static struct json_writer writer;

static void finish(void *data)
{
    (void)data;
    buf_finish(&buf);
}

static struct json_writer *begin(void)
{
    buf_finish(&buf); /* the one before in the same test */
    buf_init(&buf, 65536);
    test_defer(finish, NULL);
    json_write_init(&writer, &buf);
    return &writer;
}

TEST(commas_are_the_writers_business)
{
    struct json_writer *w = begin();

    json_write_object(w);
    json_member_string(w, "a", "x");
    json_write_name(w, "b");
    json_write_array(w);
    json_write_u64(w, 1);
    json_write_array(w);
    json_write_array_end(w);
    json_write_object(w);
    json_write_object_end(w);
    json_write_null(w);
    json_write_array_end(w);
    json_member_bool(w, "c", true);
    json_write_name(w, "d");
    json_write_object(w);
    json_member_u64(w, "e", 2);
    json_write_object_end(w);
    json_write_object_end(w);
    CHECK_STR(buf_text(&buf), "{\"a\":\"x\",\"b\":[1,[],{},null],\"c\":true,\"d\":{\"e\":2}}");
}

TEST(optional_members_vanish_when_empty)
{
    struct json_writer *w = begin();

    json_write_object(w);
    json_member_string_opt(w, "a", NULL);
    json_member_string_opt(w, "b", "");
    json_member_u64_opt(w, "c", 0);
    json_member_string(w, "d", NULL);
    json_member_string_opt(w, "e", "x");
    json_member_u64_opt(w, "f", 1);
    json_write_object_end(w);
    CHECK_STR(buf_text(&buf), "{\"d\":\"\",\"e\":\"x\",\"f\":1}");
}

TEST(numbers_are_written_exactly)
{
    struct json_writer *w = begin();

    json_write_array(w);
    json_write_u64(w, UINT64_MAX);
    json_write_i64(w, INT64_MIN);
    json_write_double(w, 0.1);
    json_write_double(w, 0.1 + 0.2);
    json_write_double(w, 3);
    json_write_double(w, 9007199254740992.0);
    json_write_double(w, 1e22);
    json_write_double(w, NAN);
    json_write_double(w, -INFINITY);
    json_write_array_end(w);
    CHECK_STR(buf_text(&buf),
              "[18446744073709551615,-9223372036854775808,0.1,0.30000000000000004,3,"
              "9007199254740992,1e+22,0,0]");
}

static const char *quoted(const char *data, size_t len)
{
    json_write_bytes(begin(), data, len);
    return buf_text(&buf);
}

#define QUOTED(literal) quoted(literal, sizeof(literal) - 1)

TEST(any_bytes_become_one_valid_line)
{
    CHECK_STR(QUOTED("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    CHECK_STR(QUOTED("\b\f\n\r\t\x01\x1f"), "\"\\b\\f\\n\\r\\t\\u0001\\u001f\"");
    CHECK_STR(QUOTED("\x7f\xc2\x85\xe2\x80\xa8\xe2\x80\xa9"), "\"\\u007f\\u0085\\u2028\\u2029\"");
    CHECK_STR(QUOTED("a\0b"), "\"a\xef\xbf\xbd"
                              "b\"");
    CHECK_STR(QUOTED("\xff\xc3\xa9\xe2\x82"), "\"\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"");
    CHECK_STR(QUOTED("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    CHECK_STR(QUOTED(""), "\"\"");
    CHECK_STR(quoted(NULL, 0), "\"\"");
}

TEST(every_byte_alone_and_in_company_can_be_read_back)
{
    for (unsigned i = 0; i < 65536; i++) {
        char data[3] = { 'x', (char)(i >> 8), (char)i };
        struct json_doc *doc = NULL;
        struct error err = ERROR_INIT;
        AUTO_BUF struct buf text = BUF_INIT(64);
        AUTO_BUF struct buf expected = BUF_INIT(64);
        struct json_writer w;

        json_write_init(&w, &text);
        json_write_bytes(&w, data, sizeof(data));
        str_append_utf8(&expected, data, sizeof(data));
        CHECK_EQ(json_parse(&doc, text.data, text.len, 64, &err), 0);
        CHECK_STR(json_string(json_root(doc)), buf_text(&expected));
        json_free(doc);
    }
}

TEST(raw_text_and_values_are_put_in_place)
{
    struct json_writer *w = begin();
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(json_parse(&doc, "{ \"k\": [1, 2] }", 15, 100, &err), 0);
    json_write_array(w);
    json_write_raw(w, "{\"a\":1}", 7);
    json_write_value(w, json_root(doc));
    json_write_value(w, json_get(json_root(doc), "k"));
    json_write_value(w, NULL);
    json_write_array_end(w);
    json_free(doc);
    CHECK_STR(buf_text(&buf), "[{\"a\":1},{\"k\":[1,2]},[1,2],null]");
}

TEST(a_full_buffer_is_no_bug)
{
    struct json_writer *w = begin();

    buf.max = 10;
    json_write_object(w);
    for (int i = 0; i < 100; i++)
        json_member_string(w, "name", "value");
    json_write_object_end(w);
    CHECK(buf.failed);
}

/* Each of these is a wrong order of calls. */

static void name_outside(void *data)
{
    json_write_name(data, "a");
}

static void name_in_array(void *data)
{
    json_write_array(data);
    json_write_name(data, "a");
}

static void value_without_name(void *data)
{
    json_write_object(data);
    json_write_u64(data, 1);
}

static void two_names(void *data)
{
    json_write_object(data);
    json_write_name(data, "a");
    json_write_name(data, "b");
}

static void name_without_value(void *data)
{
    json_write_object(data);
    json_write_name(data, "a");
    json_write_object_end(data);
}

static void wrong_bracket(void *data)
{
    json_write_object(data);
    json_write_array_end(data);
}

static void end_outside(void *data)
{
    json_write_object_end(data);
}

static void two_values_outside(void *data)
{
    json_write_null(data);
    json_write_null(data);
}

static void too_deep(void *data)
{
    for (int i = 0; i <= JSON_WRITE_DEPTH; i++)
        json_write_array(data);
}

TEST(a_wrong_order_of_calls_is_a_bug)
{
    CHECK_ABORTS(name_outside, begin());
    CHECK_ABORTS(name_in_array, begin());
    CHECK_ABORTS(value_without_name, begin());
    CHECK_ABORTS(two_names, begin());
    CHECK_ABORTS(name_without_value, begin());
    CHECK_ABORTS(wrong_bracket, begin());
    CHECK_ABORTS(end_outside, begin());
    CHECK_ABORTS(two_values_outside, begin());
    CHECK_ABORTS(too_deep, begin());
}

struct params {
    const char *task;
    const char *note;
    bool follow;
    uint32_t limit;
    int colour;
    const struct json_value *extra;
};

static const char *const colours[] = { "red", "green", NULL };

TEST(a_table_becomes_a_schema)
{
    static const struct json_field fields[] = {
        JSON_STRING_FIELD(struct params, task, JSON_REQUIRED, 1, 50000, "What to do."),
        JSON_STRING_FIELD(struct params, note, JSON_OPTIONAL, 0, UINT64_MAX, NULL),
        JSON_BOOL_FIELD(struct params, follow, JSON_OPTIONAL, NULL),
        JSON_U32_FIELD(struct params, limit, JSON_REQUIRED, 0, 100, NULL),
        JSON_ENUM_FIELD(struct params, colour, JSON_OPTIONAL, colours, NULL),
        JSON_VALUE_FIELD(struct params, extra, JSON_OPTIONAL, NULL),
        JSON_FIELD_LAST,
    };

    json_write_schema(begin(), fields);
    CHECK_STR(buf_text(&buf), "{\"type\":\"object\",\"properties\":{"
                              "\"task\":{\"type\":\"string\",\"description\":\"What to "
                              "do.\",\"minLength\":1,\"maxLength\":50000},"
                              "\"note\":{\"type\":\"string\"},"
                              "\"follow\":{\"type\":\"boolean\"},"
                              "\"limit\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100},"
                              "\"colour\":{\"type\":\"string\",\"enum\":[\"red\",\"green\"]},"
                              "\"extra\":{\"type\":\"object\"}},"
                              "\"required\":[\"task\",\"limit\"]}");
}

TEST(a_table_without_required_fields_has_no_required)
{
    static const struct json_field fields[] = { JSON_FIELD_LAST };

    json_write_schema(begin(), fields);
    CHECK_STR(buf_text(&buf), "{\"type\":\"object\",\"properties\":{}}");
}
