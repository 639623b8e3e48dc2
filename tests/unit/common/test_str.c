#include "common/str.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

TEST(copy_fits_or_is_cut_between_characters)
{
    char to[5];

    CHECK(str_copy(to, sizeof(to), "abcd"));
    CHECK_STR(to, "abcd");
    CHECK(!str_copy(to, sizeof(to), "abcde"));
    CHECK_STR(to, "abcd");
    CHECK(!str_copy(to, sizeof(to), "abc\xc3\xa9"));
    CHECK_STR(to, "abc");
    CHECK(!str_copy(to, sizeof(to), "a\xf0\x9f\x98\x80"));
    CHECK_STR(to, "a");
    CHECK(str_copy(to, sizeof(to), "\xf0\x9f\x98\x80"));
    CHECK(!str_copy(to, 1, "abc"));
    CHECK_STR(to, "");
    CHECK(!str_copy(to, 0, "abc"));
}

TEST(comparisons_know_null_and_edges)
{
    CHECK(str_equal("a", "a"));
    CHECK(!str_equal("a", "b"));
    CHECK(!str_equal("a", NULL));
    CHECK(!str_equal(NULL, "a"));
    CHECK(str_equal(NULL, NULL));
    CHECK(str_starts("abc", "ab"));
    CHECK(str_starts("abc", ""));
    CHECK(!str_starts("ab", "abc"));
    CHECK(str_ends("abc", "bc"));
    CHECK(!str_ends("bc", "abc"));
    CHECK(str_blank(""));
    CHECK(str_blank(" \t\r\n\v\f"));
    CHECK(!str_blank(" x "));
}

TEST(utf8_is_that_of_rfc_3629)
{
    static const char *const good[] = {
        "",
        "abc",
        "\xc2\x80",
        "\xdf\xbf",
        "\xe0\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf",
        "\xef\xbb\xbf",
    };
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc2",
        "\xc2\x41",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xe1\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf0\x90\x80",
        "\xff",
        "\xfe",
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK(str_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!str_is_utf8(bad[i], strlen(bad[i])));
    CHECK(str_is_utf8("a\0b", 3));
}

TEST(steps_give_code_points)
{
    uint32_t c = 0;

    CHECK_EQ(str_utf8_step("\xf0\x9f\x98\x80x", 5, &c), 4);
    CHECK_EQ(c, 0x1f600);
    CHECK_EQ(str_utf8_step("\xf0\x9f\x98\x80", 3, &c), 0);
    CHECK_EQ(str_utf8_step("a", 0, &c), 0);
    CHECK_EQ(str_utf8_step("\xc3\xa9", 2, NULL), 2);
}

static const char *replaced(const char *data, size_t len)
{
    static char text[64];
    AUTO_BUF struct buf buf = BUF_INIT(64);

    str_append_utf8(&buf, data, len);
    str_copy(text, sizeof(text), buf_text(&buf));
    return text;
}

TEST(bytes_that_are_no_utf8_are_replaced_one_by_one)
{
    CHECK_STR(replaced("abc", 3), "abc");
    CHECK_STR(replaced("a\xff"
                       "b",
                       3),
              "a\xef\xbf\xbd"
              "b");
    CHECK_STR(replaced("\xe2\x82", 2), "\xef\xbf\xbd\xef\xbf\xbd");
    CHECK_STR(replaced("a\0b", 3), "a\xef\xbf\xbd"
                                   "b");
    CHECK_STR(replaced("\xc3\xa9\xff", 3), "\xc3\xa9\xef\xbf\xbd");
    CHECK_STR(replaced("", 0), "");
    CHECK_STR(replaced(NULL, 0), "");
}

TEST(length_counts_code_points)
{
    CHECK_EQ(str_utf8_length(""), 0);
    CHECK_EQ(str_utf8_length("abc"), 3);
    CHECK_EQ(str_utf8_length("\xc3\xa9\xf0\x9f\x98\x80x"), 3);
}

TEST(a_cut_splits_no_character)
{
    const char *text = "a\xc3\xa9\xf0\x9f\x98\x80";

    CHECK_EQ(str_utf8_cut(text, 0), 0);
    CHECK_EQ(str_utf8_cut(text, 1), 1);
    CHECK_EQ(str_utf8_cut(text, 2), 1);
    CHECK_EQ(str_utf8_cut(text, 3), 3);
    CHECK_EQ(str_utf8_cut(text, 4), 3);
    CHECK_EQ(str_utf8_cut(text, 6), 3);
    CHECK_EQ(str_utf8_cut(text, 7), 7);
    CHECK_EQ(str_utf8_cut("\x80\x80\x80\x80\x80\x80", 6), 6);
}

static const char *escaped(const char *data, size_t len, size_t max_bytes)
{
    static char text[256];
    AUTO_BUF struct buf buf = BUF_INIT(256);

    str_append_escaped(&buf, data, len, max_bytes);
    str_copy(text, sizeof(text), buf_text(&buf));
    return text;
}

#define ESCAPED(literal) escaped(literal, sizeof(literal) - 1, 100)

TEST(what_moves_the_cursor_or_hides_is_escaped)
{
    CHECK_STR(ESCAPED("plain \xc3\xa9 \xf0\x9f\x98\x80"), "plain \xc3\xa9 \xf0\x9f\x98\x80");
    CHECK_STR(ESCAPED("a\nb\tc"), "a\\x0ab\\x09c");
    CHECK_STR(ESCAPED("\x1b[31m"), "\\x1b[31m");
    CHECK_STR(ESCAPED("\x7f"), "\\x7f");
    CHECK_STR(ESCAPED("a\0b"), "a\\x00b");
    CHECK_STR(ESCAPED("\xff\xc3"), "\\xff\\xc3");
    CHECK_STR(ESCAPED("\xc2\x9b"), "\\u{009b}");          /* C1: CSI */
    CHECK_STR(ESCAPED("\xe2\x80\xae"), "\\u{202e}");      /* right-to-left override */
    CHECK_STR(ESCAPED("\xe2\x81\xa6"), "\\u{2066}");      /* isolate */
    CHECK_STR(ESCAPED("\xe2\x80\xa8"), "\\u{2028}");      /* line separator */
    CHECK_STR(ESCAPED("\xd8\x9c"), "\\u{061c}");          /* Arabic letter mark */
    CHECK_STR(ESCAPED("\xf3\xa0\x81\x81"), "\\u{e0041}"); /* tag */
}

TEST(escaped_text_is_cut_between_its_pieces)
{
    CHECK_STR(escaped("abcdef", 6, 6), "abcdef");
    CHECK_STR(escaped("abcdef", 6, 5), "abcde…");
    CHECK_STR(escaped("abc\n", 4, 6), "abc…");
    CHECK_STR(escaped("abc\n", 4, 7), "abc\\x0a");
    CHECK_STR(escaped("ab\xc3\xa9", 4, 3), "ab…");
    CHECK_STR(escaped("a", 1, 0), "…");
    CHECK_STR(escaped("", 0, 0), "");
}

TEST(numbers_are_parsed_whole_or_not_at_all)
{
    uint64_t value = 7;

    CHECK(str_parse_u64("0", 10, &value));
    CHECK_EQ(value, 0);
    CHECK(str_parse_u64("18446744073709551615", UINT64_MAX, &value));
    CHECK_EQ(value, UINT64_MAX);
    value = 7;
    CHECK(!str_parse_u64("18446744073709551616", UINT64_MAX, &value));
    CHECK(!str_parse_u64("99999999999999999999999", UINT64_MAX, &value));
    CHECK(!str_parse_u64("11", 10, &value));
    CHECK(!str_parse_u64("", 10, &value));
    CHECK(!str_parse_u64("-1", 10, &value));
    CHECK(!str_parse_u64("+1", 10, &value));
    CHECK(!str_parse_u64(" 1", 10, &value));
    CHECK(!str_parse_u64("1 ", 10, &value));
    CHECK(!str_parse_u64("01", 10, &value));
    CHECK(!str_parse_u64("00", 10, &value));
    CHECK(!str_parse_u64("0x1", 10, &value));
    CHECK(!str_parse_u64(NULL, 10, &value));
    CHECK_EQ(value, 7);
}

TEST(hex_is_lower_case)
{
    char to[9];

    str_hex(to, "\x00\xab\x7f\xff", 4);
    CHECK_STR(to, "00ab7fff");
    str_hex(to, "", 0);
    CHECK_STR(to, "");
}

TEST(a_hash_is_the_published_one_and_goes_on_from_piece_to_piece)
{
    CHECK(str_hash(STR_HASH_START, "") == UINT64_C(0xcbf29ce484222325));
    CHECK(str_hash(STR_HASH_START, "a") == UINT64_C(0xaf63dc4c8601ec8c));
    CHECK(str_hash(STR_HASH_START, "foobar") == UINT64_C(0x85944171f73967e8));
    CHECK(str_hash(str_hash(STR_HASH_START, "foo"), "bar") == UINT64_C(0x85944171f73967e8));
}

TEST(a_hexadecimal_digit_has_a_value_in_either_case)
{
    static const char digits[] = "0123456789abcdefABCDEF";

    for (int c = -128; c < 128; c++) {
        const char *at = c != 0 ? strchr(digits, c) : NULL;
        int want = at == NULL ? -1 : (int)(at - digits);

        CHECK_EQ(str_hex_value((char)c), want < 16 ? want : want - 6);
    }
}
