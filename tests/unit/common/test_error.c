#include "common/error.h"

#include <errno.h>
#include <string.h>

#include "common/str.h"
#include "harness/test.h"

TEST(error_set_fills_and_returns_minus_one)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(error_set(&err, ERR_LIMIT, 0, "at most %d runs", 5), -1);
    CHECK_EQ(err.code, ERR_LIMIT);
    CHECK_EQ(err.sys, 0);
    CHECK_STR(err.text, "at most 5 runs");
    CHECK_STR(err.argument, "");
}

TEST(an_errno_is_spelled_behind_the_text)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_SYSTEM, ENOENT, "open %s", "/x");
    CHECK_STR(err.text, "open /x: No such file or directory");
    CHECK_EQ(err.sys, ENOENT);
    error_set(&err, ERR_NOT_FOUND, ENOENT, "open %s", "/x");
    CHECK_STR(err.text, "open /x: No such file or directory");
    CHECK_EQ(err.sys, 0);
    error_set(&err, ERR_SYSTEM, 123456, "open");
    CHECK_STR(err.text, "open");
    CHECK_EQ(err.sys, 123456);
}

TEST(error_argument_names_the_argument_in_both_places)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(error_argument(&err, "limit", "must be from %d to %d", 1, 100), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_STR(err.argument, "limit");
    CHECK_STR(err.text, "limit: must be from 1 to 100");
}

TEST(an_argument_of_a_peer_is_escaped_and_cut)
{
    struct error err = ERROR_INIT;
    char name[200];

    error_argument(&err, "a\x1b[31m\n", "is not known");
    CHECK_STR(err.argument, "a\\x1b[31m\\x0a");
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    error_argument(&err, name, "is not known");
    CHECK_EQ(strlen(err.argument), 39);
    CHECK(str_ends(err.argument, "xxx…"));
    CHECK_HAS(err.text, "xxx…: is not known");
}

TEST(error_set_forgets_the_argument_of_an_earlier_error)
{
    struct error err = ERROR_INIT;

    error_argument(&err, "limit", "is required");
    error_set(&err, ERR_BUG, 0, "oops");
    CHECK_STR(err.argument, "");
}

TEST(error_wrap_puts_words_in_front_and_keeps_the_rest)
{
    struct error err = ERROR_INIT;

    error_argument(&err, "repository", "must not be empty");
    CHECK_EQ(error_wrap(&err, "%s", "run.create"), -1);
    CHECK_STR(err.text, "run.create: repository: must not be empty");
    CHECK_STR(err.argument, "repository");
    CHECK_EQ(err.code, ERR_INVALID);
    error_set(&err, ERR_SYSTEM, EIO, "read");
    error_wrap(&err, "again: %s", err.text);
    CHECK_STR(err.text, "again: read: Input/output error: read: Input/output error");
    CHECK_EQ(err.sys, EIO);
}

TEST(a_long_text_is_cut_between_characters)
{
    struct error err = ERROR_INIT;
    char text[4000] = "";

    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    error_set(&err, ERR_BUG, 0, "x%s", text);
    CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
    CHECK(str_is_utf8(err.text, strlen(err.text)));
    error_set(&err, ERR_BUG, 0, "%s", text);
    CHECK_EQ(strlen(err.text), sizeof(err.text) - 2);
    CHECK(str_is_utf8(err.text, strlen(err.text)));
    for (int i = 0; i < 100; i++)
        error_wrap(&err, "layer %d", i);
    CHECK(str_starts(err.text, "layer 99: layer 98: "));
    CHECK(str_is_utf8(err.text, strlen(err.text)));
}

TEST(a_text_is_one_line)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_BUG, 0, "two\nlines\x1b[1m\x7f");
    CHECK_STR(err.text, "two lines [1m ");
}

TEST(codes_have_names_that_can_be_parsed)
{
    CHECK_STR(error_code_name(ERR_INVALID), "invalid");
    CHECK_STR(error_code_name(ERR_NOT_FOUND), "not_found");
    for (int code = ERR_NONE; code <= ERR_BUG; code++)
        CHECK_EQ(error_code_parse(error_code_name((enum error_code)code)), (enum error_code)code);
    CHECK_EQ(error_code_parse("nonsense"), ERR_BUG);
    CHECK_EQ(error_code_parse(NULL), ERR_BUG);
    CHECK_STR(error_code_name((enum error_code)99), "bug");
}
