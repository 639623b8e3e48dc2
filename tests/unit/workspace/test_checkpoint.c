#include "workspace/checkpoint.h"

#include "common/mem.h"
#include "harness/test.h"

static int parse(const char *text, struct checkpoint_made *made)
{
    AUTO_BUF struct buf output = BUF_INIT(1000);
    struct error err = ERROR_INIT;

    buf_append_str(&output, text);
    return checkpoint_made_parse(&output, made, &err);
}

TEST(what_the_command_printed_is_taken_whole_or_not_at_all)
{
    struct checkpoint_made made;

    CHECK_EQ(parse("bytes=12 entries=3 large=1 unreadable=0 torn=1 end=1\n", &made), 0);
    CHECK_EQ(made.bytes, 12u);
    CHECK_EQ(made.entries, 3u);
    CHECK_EQ(made.large, 1u);
    CHECK(made.torn);
    CHECK(!made.same);
    CHECK_EQ(parse("same=1\n", &made), 0);
    CHECK(made.same);
    CHECK_EQ(parse("", &made), -1);
    CHECK_EQ(parse("bytes=12 entries=3 large=1 unreadable=0 torn=0", &made), -1);
    CHECK_EQ(parse("bytes=x entries=3 large=1 unreadable=0 torn=0 end=1", &made), -1);
    CHECK_EQ(parse("bytes=99999999999999999999 entries=3 large=1 unreadable=0 torn=0 end=1", &made),
             -1);
}

TEST(each_command_is_a_shell_with_its_arguments_behind)
{
    struct checkpoint_make make = {
        .number = 7, .parent = 6, .keep = "5 6", .max_bytes = UINT64_C(3) << 30
    };
    struct git_command command;

    checkpoint_make_command(&command, &make);
    CHECK_EQ(command.argc, 8u);
    CHECK_STR(command.argv[4], "7");
    CHECK_STR(command.argv[5], "6");
    CHECK_STR(command.argv[6], "5 6");
    CHECK_STR(command.argv[7], "6291456"); /* ulimit counts 512 bytes */
    git_command_finish(&command);
    checkpoint_restore_command(&command, "5 6 7");
    CHECK_STR(command.argv[4], "5 6 7");
    git_command_finish(&command);
    checkpoint_clear_command(&command, "/a /b");
    CHECK_STR(command.argv[4], "/a");
    CHECK_STR(command.argv[5], "/b");
    CHECK_EQ(command.argc, 6u);
    git_command_finish(&command);
}
