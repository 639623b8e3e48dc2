#include "harness/test.h"

#include "common/buf.h"
#include "ctl/wording.h"

static struct buf out;

static void finish(void *data)
{
    (void)data;
    buf_finish(&out);
}

static const char *said(const char *text)
{
    buf_finish(&out);
    buf_init(&out, 4096);
    test_defer(finish, NULL);
    wording_append(&out, text);
    return buf_text(&out);
}

TEST(arguments_have_the_names_of_options_and_words)
{
    CHECK_STR(said("timeoutMinutes: must be a whole number"), "--timeout: must be a whole number");
    CHECK_STR(said("runId: give either runId or sessionId"), "RUN: give either RUN or SESSION");
    CHECK_STR(said("limit: must be 1 to 100"), "--limit: must be 1 to 100");
    CHECK_STR(said("name another with the argument `branch`, or `x`"),
              "name another with the argument --branch, or `x`");
    CHECK_STR(said("see opencode_get_diff."), "see sandboxctl diff.");
    CHECK_STR(said("with mode queue it waits"), "with --mode queue it waits");
}

TEST(english_stays_english)
{
    static const char text[] =
        "the branch: no limit on a path, myrunIds, `model-x`, opencode_get_x";

    CHECK_STR(said(text), text);
    CHECK_STR(said("branches: three"), "branches: three");
    CHECK_STR(said("`"), "`");
    CHECK_STR(said("`branch"), "`branch");
    CHECK_STR(said(""), "");
}

TEST(an_error_that_becomes_longer_is_cut)
{
    struct error err = ERROR_INIT;

    for (size_t i = 0; i + 20 < sizeof(err.text); i += 18)
        memcpy(err.text + i, "opencode_answer   ", 18);
    wording_translate(&err);
    CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
}
