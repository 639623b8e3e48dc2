#include "common/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"

#define MAX 1000000

static void free_doc(void *doc)
{
    json_free(doc);
}

/* Documents live to the end of their test. */
static const struct json_value *parsed_len(const char *text, size_t len)
{
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    json_parse(&doc, text, len, MAX, &err);
    CHECK_STR(err.text, "");
    CHECK(doc != NULL);
    test_defer(free_doc, doc);
    return json_root(doc);
}

static const struct json_value *parsed(const char *text)
{
    return parsed_len(text, strlen(text));
}

static const struct json_value *parsed_commented(const char *text)
{
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    json_parse_commented(&doc, text, strlen(text), MAX, &err);
    CHECK_STR(err.text, "");
    test_defer(free_doc, doc);
    return json_root(doc);
}

/* The text of the refusal, or "" when TEXT was accepted. */
static const struct error *refused_len(const char *text, size_t len)
{
    static struct error err;
    struct json_doc *doc = NULL;

    err = (struct error)ERROR_INIT;
    if (json_parse(&doc, text, len, MAX, &err) == 0)
        json_free(doc);
    else
        CHECK(doc == NULL);
    return &err;
}

static const char *refused(const char *text)
{
    return refused_len(text, strlen(text))->text;
}

static const char *refused_commented(const char *text)
{
    static struct error err;
    struct json_doc *doc = NULL;

    err = (struct error)ERROR_INIT;
    if (json_parse_commented(&doc, text, strlen(text), MAX, &err) == 0)
        json_free(doc);
    return err.text;
}

static const char *written(const struct json_value *value)
{
    static char text[4096];
    AUTO_BUF struct buf buf = BUF_INIT(sizeof(text));

    json_append(&buf, value);
    CHECK(!buf.failed);
    str_copy(text, sizeof(text), buf_text(&buf));
    return text;
}

/* Parsing -------------------------------------------------------------------------------------- */

TEST(every_kind_of_value_is_read)
{
    const struct json_value *v = parsed(" { \"n\" : null , \"t\" : true , \"f\":false, \"i\": 5, "
                                        "\"s\":\"x\",\"a\":[1,2],\"o\":{}}\r\n\t");

    CHECK_EQ(json_kind(v), JSON_KIND_OBJECT);
    CHECK_EQ(json_count(v), 7);
    CHECK_EQ(json_kind(json_get(v, "n")), JSON_KIND_NULL);
    CHECK(json_get(v, "n") != NULL);
    CHECK_EQ(json_bool(json_get(v, "t"), false), true);
    CHECK_EQ(json_bool(json_get(v, "f"), true), false);
    CHECK_EQ(json_u64(json_get(v, "i"), 0), 5);
    CHECK_STR(json_string(json_get(v, "s")), "x");
    CHECK_EQ(json_kind(json_get(v, "a")), JSON_KIND_ARRAY);
    CHECK_EQ(json_count(json_get(v, "o")), 0);
}

TEST(a_scalar_alone_is_a_document)
{
    CHECK_EQ(json_u64(parsed("5"), 0), 5);
    CHECK_STR(json_string(parsed("\"x\"")), "x");
    CHECK_EQ(json_kind(parsed("null")), JSON_KIND_NULL);
    CHECK_EQ(json_bool(parsed("true"), false), true);
}

TEST(text_needs_no_end_and_is_not_kept)
{
    char text[] = "[12]345";
    const struct json_value *v = parsed_len(text, 4);

    memset(text, 'x', sizeof(text));
    CHECK_EQ(json_u64(json_first(v), 0), 12);
    CHECK_EQ(json_u64(parsed_len("123", 2), 0), 12);
}

TEST(broken_grammar_is_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{,}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{1:1}",
        "{\"a\":1]",
        "{\"a\"}",
        "{\"a\":}",
        "{'a':1}",
        "tru",
        "True",
        "nul",
        "nulll",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "\"",
        "\"abc",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\",
        "'a'",
        "[1]]",
        "{}{}",
        "1 2",
        "[] ,",
        "// x\n1",
        "/**/1",
        "[1,,2]",
        "[\"a\":1]",
        "{\"a\":1 \"b\":2}",
        "\xef\xbb\xbf{}",
        "\v1",
        "\u00a01",
        "1\f",
        ":",
        ",",
        "[:]",
        "{\"a\":,}",
        "[tru]",
        "\"\t\"",
        "\"\n\"",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const struct error *err = refused_len(bad[i], strlen(bad[i]));

        if (err->code != ERR_INVALID)
            CHECK_STR(bad[i], "refused");
        CHECK(str_starts(err->text, "JSON at byte "));
    }
}

TEST(refusals_say_where_and_what)
{
    CHECK_STR(refused(""), "JSON at byte 0: there is no value");
    CHECK_STR(refused("[1,"), "JSON at byte 3: the text ends in the middle");
    CHECK_STR(refused("\"abc"), "JSON at byte 4: the text ends in the middle");
    CHECK_STR(refused("[1 2]"), "JSON at byte 3: \",\" or \"]\" must follow an element");
    CHECK_STR(refused("{\"a\":1;}"), "JSON at byte 6: \",\" or \"}\" must follow a member");
    CHECK_STR(refused("{a:1}"), "JSON at byte 1: a member's name in double quotes must stand here");
    CHECK_STR(refused("[1] x"), "JSON at byte 4: something follows the value");
    CHECK_STR(refused("\"a\nb\""), "JSON at byte 2: control character in a string; escape it");
    CHECK_STR(refused("[None]"), "JSON at byte 1: no value begins like this");
}

TEST(bytes_that_are_no_utf8_are_refused)
{
    CHECK_STR(refused("\"a\xff\""), "JSON at byte 2: not valid UTF-8");
    CHECK_STR(refused("\"\xc0\x80\""), "JSON at byte 1: not valid UTF-8");
    CHECK_STR(refused("\"\xed\xa0\x80\""), "JSON at byte 1: not valid UTF-8");
    CHECK_STR(refused_len("\"\xf0\x9f\x98\"", 5)->text, "JSON at byte 1: not valid UTF-8");
}

TEST(nul_is_refused_raw_and_escaped)
{
    CHECK_STR(refused_len("\"a\0b\"", 5)->text, "JSON at byte 2: NUL byte");
    CHECK_STR(refused_len("1\0", 2)->text, "JSON at byte 1: NUL byte");
    CHECK_HAS(refused("\"a\\u0000b\""), "\\u0000 is not accepted");
    CHECK_HAS(refused("{\"a\\u0000\":1}"), "\\u0000 is not accepted");
}

TEST(control_characters_in_strings_are_refused)
{
    for (char c = 1; c < 0x20; c++) {
        char text[] = { '"', c, '"', '\0' };

        CHECK_HAS(refused(text), "control character");
    }
    CHECK_STR(json_string(parsed("\"\x7f \xc2\x80\"")), "\x7f \xc2\x80");
}

TEST(surrogates_come_in_pairs)
{
    CHECK_STR(json_string(parsed("\"\\ud83d\\ude00\"")), "\xf0\x9f\x98\x80");
    CHECK_STR(json_string(parsed("\"\\uD83D\\uDE00\"")), "\xf0\x9f\x98\x80");
    CHECK_HAS(refused("\"\\ud83d\""), "surrogate");
    CHECK_HAS(refused("\"\\ud83dx\""), "surrogate");
    CHECK_HAS(refused("\"\\ude00\""), "surrogate");
    CHECK_HAS(refused("\"\\ude00\\ud83d\""), "surrogate");
    CHECK_HAS(refused("\"\\ud83d\\ud83d\""), "surrogate");
    CHECK_HAS(refused("\"\\ud83d\\u0041\""), "surrogate");
    CHECK_HAS(refused("\"\\ud83d\\n\""), "surrogate");
}

TEST(escapes_become_their_characters)
{
    CHECK_STR(json_string(parsed("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\"")),
              "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac");
}

TEST(repeated_names_are_refused_however_they_are_spelled)
{
    CHECK_STR(refused("{\"a\":1,\"a\":2}"), "JSON: member \"a\" appears twice");
    CHECK_HAS(refused("{\"a\":1,\"\\u0061\":2}"), "appears twice");
    CHECK_HAS(refused("{\"x\":[{\"\":1,\"\":2}]}"), "member \"\" appears twice");
    CHECK_HAS(refused("{\"\\u001b[31m\":1,\"\\u001b[31m\":2}"),
              "member \"\\x1b[31m\" appears twice");
    CHECK_STR(refused("{\"a\":1,\"A\":2,\"b\":{\"a\":1}}"), "");
}

TEST(repeated_names_among_many_are_refused)
{
    CHECK_HAS(
        refused(
            "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"c\":1}"),
        "\"c\"");
    CHECK_STR(
        refused(
            "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":1}"),
        "");
}

TEST(an_object_of_100000_members_does_not_take_the_square)
{
    AUTO_BUF struct buf buf = BUF_INIT(4000000);
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    clock_t before = clock();

    buf_append_char(&buf, '{');
    for (unsigned i = 0; i < 100000; i++)
        buf_printf(&buf, "\"%05x\":1,", (i * 7919) % 100000);
    buf_printf(&buf, "\"%05x\":1}", (99999 * 7919) % 100000); /* the last one again */
    CHECK(!buf.failed);
    CHECK_EQ(json_parse(&doc, buf.data, buf.len, buf.max, &err), -1);
    CHECK_HAS(err.text, "appears twice");
    /* The square would be 5 000 000 000 comparisons. */
    CHECK((double)(clock() - before) / CLOCKS_PER_SEC < 5);
}

TEST(numbers_must_be_finite)
{
    CHECK_EQ(json_number(parsed("1.7976931348623157e308"), 0), 1.7976931348623157e308);
    CHECK_EQ(json_number(parsed("-0.5e-3"), 0), -0.0005);
    CHECK_EQ(json_number(parsed("5e-324"), 0), 5e-324);
    CHECK_EQ(json_number(parsed("1e-999"), 5), 0);
    CHECK_EQ(json_number(parsed("1E+2"), 5), 100);
    CHECK_HAS(refused("1e999"), "number is too large");
    CHECK_HAS(refused("[-1e999]"), "number is too large");
    CHECK_HAS(refused("1.8e308"), "number is too large");
}

TEST(numbers_of_63_characters_are_read_and_of_64_refused)
{
    char text[65];

    memset(text, '1', sizeof(text));
    CHECK(json_number(parsed_len(text, 63), 0) > 1.1e62);
    CHECK_EQ(refused_len(text, 64)->code, ERR_LIMIT);
    memset(text, '0', sizeof(text));
    text[1] = '.';
    text[62] = '1';
    CHECK_EQ(json_number(parsed_len(text, 63), 0), 1e-61);
}

TEST(depth_is_limited)
{
    char text[2 * JSON_DEPTH_MAX + 3];
    const struct json_value *v;
    unsigned depth = 0;

    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    v = parsed_len(text, 2 * JSON_DEPTH_MAX);
    CHECK_EQ(strlen(written(v)), 2 * JSON_DEPTH_MAX);
    for (; v; v = json_first(v))
        depth++;
    CHECK_EQ(depth, JSON_DEPTH_MAX);
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    CHECK_EQ(refused_len(text, 2 * JSON_DEPTH_MAX + 2)->code, ERR_LIMIT);
    CHECK_HAS(refused_len(text, 2 * JSON_DEPTH_MAX + 2)->text, "nested too deeply");
}

TEST(a_million_open_brackets_are_refused_early)
{
    char *text = mem_new_zero(1, MAX);

    test_defer(free, text);
    memset(text, '[', MAX);
    CHECK_EQ(refused_len(text, MAX)->code, ERR_LIMIT);
    for (size_t i = 0; i + 5 <= MAX; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    CHECK_EQ(refused_len(text, MAX)->code, ERR_LIMIT);
}

TEST(size_is_limited)
{
    struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(json_parse(&doc, "[10]", 4, 4, &err), 0);
    json_free(doc);
    CHECK_EQ(json_parse(&doc, "[100]", 5, 4, &err), -1);
    CHECK_EQ(err.code, ERR_LIMIT);
    CHECK_STR(err.text, "JSON of 5 bytes; at most 4 are accepted");
}

/* Comments ------------------------------------------------------------------------------------- */

TEST(comments_and_trailing_commas_are_allowed_in_files_only)
{
    static const char text[] = "// first\n{ /* a\n block */ \"a\": [1, 2, // two\n ], \"b\": \"// "
                               "no /* comment */\",\n}\n//";

    CHECK_STR(written(parsed_commented(text)), "{\"a\":[1,2],\"b\":\"// no /* comment */\"}");
    CHECK(refused(text)[0] != '\0');
    CHECK_STR(written(parsed_commented("[/**/]")), "[]");
    CHECK_STR(written(parsed_commented("[\"a\\\"//\",/***/]")), "[\"a\\\"//\"]");
    CHECK_STR(written(parsed_commented("1//")), "1");
    CHECK_STR(written(parsed_commented("\xef\xbb\xbf{}")), "{}");
    CHECK_STR(written(parsed_commented("{\"a\":{},}")), "{\"a\":{}}");
}

TEST(a_comma_needs_something_in_front_even_in_files)
{
    CHECK(refused_commented("[,]")[0]);
    CHECK(refused_commented("{,}")[0]);
    CHECK(refused_commented("[1,,]")[0]);
    CHECK(refused_commented("[1],")[0]);
    CHECK(refused_commented("{\"a\":,}")[0]);
    CHECK(refused_commented("[/*x*/,/*y*/]")[0]);
    CHECK(refused_commented("/")[0]);
    CHECK(refused_commented("[1 / 2]")[0]);
}

TEST(errors_in_files_name_line_and_column)
{
    CHECK_STR(refused_commented("{\n  \"a\": 1\n  \"b\": 2\n}"),
              "line 3, column 3: \",\" or \"}\" must follow a member");
    CHECK_STR(refused_commented("{\n /* \xc3\xa9 */ \"\xc3\xa9\": nope }"),
              "line 2, column 15: no value begins like this");
    CHECK_STR(refused_commented("{\n\n /* no end"), "line 3, column 2: comment without an end");
    CHECK_STR(refused_commented("{\"a\":1,\n \"b\":1,\n  \"a\":1}"),
              "line 3, column 3: member \"a\" appears twice");
    CHECK_STR(refused_commented("[\n\"a\xff\"]"), "line 2, column 3: not valid UTF-8");
    CHECK_STR(refused_commented("{\"a\": \"no end\n}"),
              "line 1, column 14: control character in a string; escape it");
    CHECK_STR(refused_commented("{\n"), "line 2, column 1: the text ends in the middle");
}

TEST(the_later_of_many_equal_names_is_the_one_named)
{
    CHECK_HAS(refused_commented("{\"k\":1,\n\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":"
                                "7,\"h\":8,\n\"k\":9}"),
              "line 3, column 1: member \"k\"");
}

TEST(lines_of_members_and_elements_are_known)
{
    const struct json_value *v =
        parsed_commented("// first\n{\n  \"a\":\n    1,\n  \"b\": [ 1,\n 2 ], /*\n\n*/ \"c\": { "
                         "\"d\": {} },\n\"e\": true }");

    CHECK_EQ(json_line(v), 2);
    CHECK_EQ(json_line(json_get(v, "a")), 3);
    CHECK_EQ(json_line(json_get(v, "b")), 5);
    CHECK_EQ(json_line(json_first(json_get(v, "b"))), 5);
    CHECK_EQ(json_line(json_next(json_first(json_get(v, "b")))), 6);
    CHECK_EQ(json_line(json_get(v, "c")), 8);
    CHECK_EQ(json_line(json_path(v, "c.d")), 8);
    CHECK_EQ(json_line(json_get(v, "e")), 9);
    CHECK_EQ(json_number(json_get(v, "a"), 0), 1);
    CHECK_EQ(json_bool(json_get(v, "e"), false), true);
    CHECK_EQ(json_line(parsed("5")), 0);
    CHECK_EQ(json_line(NULL), 0);
}

/* Accessors ------------------------------------------------------------------------------------ */

TEST(accessors_of_nothing_answer_nothing)
{
    CHECK(json_root(NULL) == NULL);
    CHECK_EQ(json_kind(NULL), JSON_KIND_NULL);
    CHECK(json_get(NULL, "a") == NULL);
    CHECK(json_path(NULL, "a.b") == NULL);
    CHECK(json_string(NULL) == NULL);
    CHECK_EQ(json_bool(NULL, true), true);
    CHECK_EQ(json_number(NULL, 2.5), 2.5);
    CHECK_EQ(json_u64(NULL, 7), 7);
    CHECK_EQ(json_count(NULL), 0);
    CHECK(json_first(NULL) == NULL);
    CHECK(json_next(NULL) == NULL);
    CHECK(json_name(NULL) == NULL);
    CHECK_STR(written(NULL), "null");
    json_free(NULL);
}

TEST(accessors_of_another_kind_answer_nothing)
{
    const struct json_value *v = parsed("{\"s\":\"x\",\"n\":1,\"a\":[1]}");

    CHECK(json_get(json_get(v, "a"), "x") == NULL);
    CHECK(json_get(json_get(v, "s"), "x") == NULL);
    CHECK(json_string(json_get(v, "n")) == NULL);
    CHECK_EQ(json_bool(json_get(v, "n"), true), true);
    CHECK_EQ(json_number(json_get(v, "s"), 3), 3);
    CHECK_EQ(json_count(json_get(v, "s")), 0);
    CHECK(json_first(json_get(v, "s")) == NULL);
}

TEST(names_are_matched_exactly)
{
    const struct json_value *v = parsed("{\"Name\":1,\"name\":2,\"nam\":3,\"\":4}");

    CHECK_EQ(json_u64(json_get(v, "name"), 0), 2);
    CHECK_EQ(json_u64(json_get(v, "Name"), 0), 1);
    CHECK_EQ(json_u64(json_get(v, "nam"), 0), 3);
    CHECK_EQ(json_u64(json_get(v, ""), 0), 4);
    CHECK(json_get(v, "NAME") == NULL);
    CHECK(json_get(v, "names") == NULL);
}

TEST(paths_are_walked)
{
    const struct json_value *v = parsed("{\"info\":{\"time\":{\"completed\":5},\"x.y\":1}}");

    CHECK_EQ(json_u64(json_path(v, "info.time.completed"), 0), 5);
    CHECK_EQ(json_kind(json_path(v, "info")), JSON_KIND_OBJECT);
    CHECK(json_path(v, "info.nothing.completed") == NULL);
    CHECK(json_path(v, "info.time.completed.more") == NULL);
    CHECK(json_path(v, "info.x.y") == NULL);
    CHECK(json_path(v, "info.") == NULL);
    CHECK(json_path(v, "") == NULL);
}

TEST(whole_numbers_are_told_from_others)
{
    CHECK_EQ(json_u64(parsed("0"), 7), 0);
    CHECK_EQ(json_u64(parsed("-0"), 7), 0);
    CHECK_EQ(json_u64(parsed("5.0"), 7), 5);
    CHECK_EQ(json_u64(parsed("1e3"), 7), 1000);
    CHECK_EQ(json_u64(parsed("9007199254740992"), 7), UINT64_C(9007199254740992));
    CHECK_EQ(json_u64(parsed("9007199254740994"), 7), 7);
    CHECK_EQ(json_u64(parsed("1e300"), 7), 7);
    CHECK_EQ(json_u64(parsed("-1"), 7), 7);
    CHECK_EQ(json_u64(parsed("0.5"), 7), 7);
    CHECK_EQ(json_u64(parsed("\"5\""), 7), 7);
}

TEST(members_are_walked_in_order)
{
    const struct json_value *v = json_first(parsed("{\"b\":1,\"a\":2}"));

    CHECK_STR(json_name(v), "b");
    v = json_next(v);
    CHECK_STR(json_name(v), "a");
    CHECK(json_next(v) == NULL);
    CHECK(json_name(json_first(parsed("[1]"))) == NULL);
}

TEST(values_are_written_as_they_came)
{
    static const char *const same[] = {
        "null",
        "true",
        "[]",
        "{}",
        "[[],{},[{}]]",
        "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"x\"}",
        "0",
        "-0",
        "5",
        "-5",
        "0.1",
        "1.5",
        "123456789012",
        "9007199254740992",
        "1e+300",
        "2.5e-300",
        "0.30000000000000004",
        "1.7976931348623157e+308",
        "\"\\\"\\\\\\n\\t\\u001b\"",
        "\"\xc3\xa9/\"",
    };

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        CHECK_STR(written(parsed(same[i])), same[i]);
    CHECK_STR(written(parsed(" [ 1.0 , 1e2 , \"\\u0041\" ] ")), "[1,100,\"A\"]");
}

TEST(a_part_is_written_without_its_neighbours)
{
    const struct json_value *v = parsed("{\"a\":[1,2],\"b\":3}");

    CHECK_STR(written(json_get(v, "a")), "[1,2]");
    CHECK_STR(written(json_first(json_get(v, "a"))), "1");
}

TEST(writing_into_a_full_buffer_fails_and_nothing_else)
{
    AUTO_BUF struct buf buf = BUF_INIT(5);

    json_append(&buf, parsed("{\"a\":[1,2,3],\"b\":\"long text\"}"));
    CHECK(buf.failed);
}

/* Field tables --------------------------------------------------------------------------------- */

enum colour { COLOUR_RED, COLOUR_GREEN };
static const char *const colour_names[] = { "red", "green", NULL };

struct params {
    const char *task;
    const char *title;
    const char *code;
    bool follow;
    uint32_t limit;
    uint64_t after;
    int colour;
    const struct json_value *extra;
};

static const struct json_field fields[] = {
    JSON_STRING_FIELD(struct params, task, JSON_REQUIRED, 1, 10, NULL),
    JSON_STRING_FIELD(struct params, title, JSON_OPTIONAL, 0, 5, NULL),
    JSON_STRING_FIELD(struct params, code, JSON_OPTIONAL, 3, 3, NULL),
    JSON_BOOL_FIELD(struct params, follow, JSON_OPTIONAL, NULL),
    JSON_U32_FIELD(struct params, limit, JSON_OPTIONAL, 1, 100, NULL),
    JSON_U64_FIELD(struct params, after, JSON_OPTIONAL, 0, UINT64_C(1) << 53, NULL),
    JSON_ENUM_FIELD(struct params, colour, JSON_OPTIONAL, colour_names, NULL),
    JSON_VALUE_FIELD(struct params, extra, JSON_OPTIONAL, NULL),
    JSON_FIELD_LAST,
};

#define DEFAULTS                                                                                   \
    {                                                                                              \
        .title = "none", .limit = 10, .colour = COLOUR_GREEN                                       \
    }

static struct params read_mode(const char *text, enum json_mode mode)
{
    struct params params = DEFAULTS;
    struct error err = ERROR_INIT;

    json_read(parsed(text), fields, mode, &params, &err);
    CHECK_STR(err.text, "");
    return params;
}

static const struct error *not_read(const char *text, enum json_mode mode)
{
    static struct error err;
    struct params params = DEFAULTS;

    err = (struct error)ERROR_INIT;
    CHECK_EQ(json_read(parsed(text), fields, mode, &params, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    return &err;
}

TEST(a_table_fills_a_struct)
{
    struct params params =
        read_mode("{\"task\":\"x\",\"title\":\"\",\"code\":\"abc\",\"follow\":true,\"limit\":100,"
                  "\"after\":9007199254740992,\"colour\":\"red\",\"extra\":[1]}",
                  JSON_STRICT);

    CHECK_STR(params.task, "x");
    CHECK_STR(params.title, "");
    CHECK_STR(params.code, "abc");
    CHECK(params.follow);
    CHECK_EQ(params.limit, 100);
    CHECK_EQ(params.after, UINT64_C(1) << 53);
    CHECK_EQ(params.colour, COLOUR_RED);
    CHECK_EQ(json_count(params.extra), 1);
}

TEST(absent_members_keep_their_defaults)
{
    struct params params = read_mode("{\"task\":\"x\"}", JSON_STRICT);

    CHECK_STR(params.title, "none");
    CHECK(params.code == NULL);
    CHECK_EQ(params.limit, 10);
    CHECK_EQ(params.colour, COLOUR_GREEN);
    CHECK(params.extra == NULL);
}

static void check_refused(const char *text, enum json_mode mode, const char *argument,
                          const char *why)
{
    const struct error *err = not_read(text, mode);
    AUTO_FREE char *whole = mem_printf("%s: %s", argument, why);

    CHECK_STR(err->argument, argument);
    CHECK_STR(err->text, whole);
}

TEST(refusals_name_the_field_and_say_what_is_allowed)
{
    check_refused("{}", JSON_STRICT, "task", "is required");
    check_refused("{\"task\":\"\"}", JSON_STRICT, "task", "must not be empty");
    check_refused("{\"task\":5}", JSON_STRICT, "task", "must be a string");
    check_refused("{\"task\":null}", JSON_STRICT, "task", "must be a string");
    check_refused("{\"task\":\"12345678901\"}", JSON_STRICT, "task",
                  "must have 1 to 10 characters; it has 11");
    check_refused("{\"task\":\"x\",\"title\":\"123456\"}", JSON_STRICT, "title",
                  "must have at most 5 characters; it has 6");
    check_refused("{\"task\":\"x\",\"code\":\"ab\"}", JSON_STRICT, "code",
                  "must have exactly 3 characters; it has 2");
    check_refused("{\"task\":\"x\",\"follow\":1}", JSON_STRICT, "follow", "must be true or false");
    check_refused("{\"task\":\"x\",\"limit\":0}", JSON_STRICT, "limit",
                  "must be a whole number from 1 to 100");
    check_refused("{\"task\":\"x\",\"limit\":101}", JSON_STRICT, "limit",
                  "must be a whole number from 1 to 100");
    check_refused("{\"task\":\"x\",\"limit\":1.5}", JSON_STRICT, "limit",
                  "must be a whole number from 1 to 100");
    check_refused("{\"task\":\"x\",\"limit\":\"5\"}", JSON_STRICT, "limit",
                  "must be a whole number from 1 to 100");
    check_refused("{\"task\":\"x\",\"limit\":4294967297}", JSON_STRICT, "limit",
                  "must be a whole number from 1 to 100");
    check_refused("{\"task\":\"x\",\"after\":-1}", JSON_STRICT, "after",
                  "must be a whole number from 0 to 9007199254740992");
    check_refused("{\"task\":\"x\",\"colour\":\"blue\"}", JSON_STRICT, "colour",
                  "must be one of \"red\", \"green\"");
    check_refused("{\"task\":\"x\",\"colour\":0}", JSON_STRICT, "colour",
                  "must be one of \"red\", \"green\"");
}

TEST(lengths_count_code_points)
{
    CHECK_EQ(
        strlen(
            read_mode("{\"task\":"
                      "\"\\u20ac\\u20ac\\u20ac\\u20ac\\u20ac\\u20ac\\u20ac\\u20ac\\u20ac\\u20ac\"}",
                      JSON_STRICT)
                .task),
        30);
}

TEST(unknown_members_are_refused_in_strict_mode_and_ignored_in_lenient)
{
    check_refused(
        "{\"task\":\"x\",\"Limit\":1}", JSON_STRICT, "Limit",
        "is not known here; known are task, title, code, follow, limit, after, colour, extra");
    CHECK_STR(not_read("{\"\\u001b\\n\":1}", JSON_STRICT)->argument, "\\x1b\\x0a");
    CHECK_STR(read_mode("{\"task\":\"x\",\"Limit\":1}", JSON_LENIENT).task, "x");
}

TEST(what_is_no_object_is_refused)
{
    struct params params = DEFAULTS;
    struct error err = ERROR_INIT;

    CHECK_STR(not_read("[]", JSON_STRICT)->text, "must be an object");
    CHECK_STR(not_read("\"x\"", JSON_LENIENT)->text, "must be an object");
    CHECK_STR(not_read("null", JSON_STRICT)->text, "must be an object");
    CHECK_EQ(json_read(NULL, fields, JSON_STRICT, &params, &err), -1);
    CHECK_STR(err.text, "must be an object");
    check_refused("null", JSON_LENIENT, "task", "is required");
    CHECK_EQ(json_read(NULL, fields, JSON_LENIENT, &params, &err), -1);
    CHECK_STR(err.argument, "task");
    CHECK_EQ(json_read(NULL, fields + 1, JSON_LENIENT, &params, &err), 0);
}

TEST(lenient_mode_takes_what_models_write)
{
    struct params params = read_mode(
        "{\"task\":\"x\",\"follow\":\"true\",\"limit\":\"5\",\"after\":7.0}", JSON_LENIENT);

    CHECK(params.follow);
    CHECK_EQ(params.limit, 5);
    CHECK_EQ(params.after, 7);
    CHECK(!read_mode("{\"task\":\"x\",\"follow\":\"false\"}", JSON_LENIENT).follow);
}

TEST(lenient_mode_takes_null_and_its_like_as_absent)
{
    struct params params =
        read_mode("{\"task\":\"x\",\"title\":null,\"code\":\"\",\"follow\":\"null\",\"limit\":\"\","
                  "\"after\":null,\"colour\":\"null\",\"extra\":null}",
                  JSON_LENIENT);

    CHECK_STR(params.title, "none");
    CHECK(params.code == NULL);
    CHECK(!params.follow);
    CHECK_EQ(params.limit, 10);
    CHECK_EQ(params.colour, COLOUR_GREEN);
    CHECK(params.extra == NULL);
    CHECK_STR(read_mode("{\"task\":\"null\"}", JSON_LENIENT).task, "null");
    check_refused("{\"task\":null}", JSON_LENIENT, "task", "is required");
    check_refused("{\"task\":\"\"}", JSON_LENIENT, "task", "must not be empty");
}

TEST(lenient_mode_has_bounds_too)
{
    static const char *const bad[] = { "\"0\"",  "\"101\"",  "\"5.0\"", "\" 5\"",
                                       "\"-5\"", "\"five\"", "true",    "[]",
                                       "{}",     "5.5",      "-1" };
    char text[64];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(text, sizeof(text), "{\"task\":\"x\",\"limit\":%s}", bad[i]);
        check_refused(text, JSON_LENIENT, "limit", "must be a whole number from 1 to 100");
    }
    check_refused("{\"task\":\"x\",\"follow\":\"yes\"}", JSON_LENIENT, "follow",
                  "must be true or false");
    check_refused("{\"task\":\"x\",\"follow\":1}", JSON_LENIENT, "follow", "must be true or false");
}
