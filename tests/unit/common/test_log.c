#include "common/log.h"

#include <errno.h>
#include <string.h>

#include "common/str.h"
#include "harness/test.h"

static struct {
    unsigned lines;
    char last[4096];
} seen;

static void keep(void *data, const char *line)
{
    (void)data;
    seen.lines++;
    str_copy(seen.last, sizeof(seen.last), line);
}

static void stop_keeping(void *data)
{
    (void)data;
    log_set_sink(NULL, NULL);
    log_set_level(LOG_LEVEL_INFO);
}

static void start_keeping(void)
{
    memset(&seen, 0, sizeof(seen));
    log_set_sink(keep, NULL);
    test_defer(stop_keeping, NULL);
}

TEST(a_line_has_time_level_object_and_text)
{
    start_keeping();
    log_info("run_1", "clone finished in %d ms", 812);
    CHECK_EQ(seen.lines, 1);
    CHECK_EQ(seen.last[23], 'Z');
    CHECK_STR(seen.last + 24, " info run_1 clone finished in 812 ms\n");
    log_error("proxy", "x");
    CHECK_STR(seen.last + 24, " error proxy x\n");
    log_warn("proxy", "x");
    CHECK_STR(seen.last + 24, " warn proxy x\n");
}

TEST(the_level_decides)
{
    start_keeping();
    log_debug("a", "x");
    CHECK_EQ(seen.lines, 0);
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("a", "x");
    CHECK_EQ(seen.lines, 1);
    log_set_level(LOG_LEVEL_ERROR);
    log_warn("a", "x");
    CHECK_EQ(seen.lines, 1);
}

TEST(a_line_is_one_line_and_bounded)
{
    char text[5000];

    start_keeping();
    log_info("a", "one\ntwo\x1b[1m");
    CHECK_STR(seen.last + 24, " info a one two [1m\n");
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        log_info("a", "%s%s", shift ? "x" : "", text);
        CHECK(strlen(seen.last) < 2048);
        CHECK(str_ends(seen.last, "\xc3\xa9\n"));
        CHECK(str_is_utf8(seen.last, strlen(seen.last)));
    }
}

TEST(logging_leaves_errno_alone)
{
    start_keeping();
    errno = EPIPE;
    log_info("a", "x");
    CHECK_EQ(errno, EPIPE);
}

TEST(levels_are_parsed_by_name)
{
    CHECK_EQ(log_level_parse("error"), LOG_LEVEL_ERROR);
    CHECK_EQ(log_level_parse("debug"), LOG_LEVEL_DEBUG);
    CHECK_EQ(log_level_parse("loud"), -1);
    CHECK_EQ(log_level_parse(NULL), -1);
}
