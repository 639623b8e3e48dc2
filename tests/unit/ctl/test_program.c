#include "ctl/program.h"

#include "harness/test.h"

#include "common/clock.h"
#include "common/mem.h"

static struct error err;

static int shell(const char *script, enum program_capture capture, int timeout_ms, struct buf *out)
{
    const char *const argv[] = { "sh", "-c", script, NULL };

    err = (struct error)ERROR_INIT;
    return program_run(
        &(struct program){ .argv = argv, .in = -1, .capture = capture, .timeout_ms = timeout_ms },
        out, &err);
}

TEST(what_a_program_prints_is_read_to_its_end)
{
    AUTO_BUF struct buf out = BUF_INIT(1000);

    CHECK_EQ(shell("echo one; echo two >&2; exit 3", PROGRAM_OUT, 0, &out), 3);
    CHECK_STR(buf_text(&out), "one\n");
    buf_clear(&out);
    CHECK_EQ(shell("echo one; echo two >&2", PROGRAM_ALL, 10000, &out), 0);
    CHECK_STR(buf_text(&out), "one\ntwo\n");
}

TEST(a_signal_is_a_code_above_128)
{
    AUTO_BUF struct buf out = BUF_INIT(1000);

    CHECK_EQ(shell("kill -9 $$", PROGRAM_OUT, 0, &out), 137);
}

TEST(more_output_than_there_is_room_for_is_dropped)
{
    AUTO_BUF struct buf out = BUF_INIT(1000);

    CHECK_EQ(shell("yes | head -c 1000000", PROGRAM_OUT, 0, &out), 0);
    CHECK(!out.failed);
    CHECK(out.len <= 1000);
}

TEST(a_program_that_hangs_is_ended_with_what_it_started)
{
    AUTO_BUF struct buf out = BUF_INIT(1000);
    uint64_t before_ms = clock_mono_ms(clock_system());

    CHECK_EQ(shell("echo here; sleep 600 & sleep 600", PROGRAM_OUT, 300, &out), -1);
    CHECK_EQ((int)err.code, ERR_TIMEOUT);
    CHECK_STR(buf_text(&out), "here\n");
    CHECK_EQ(shell("exec >/dev/null; sleep 600", PROGRAM_OUT, 300, &out), -1);
    CHECK_EQ((int)err.code, ERR_TIMEOUT);
    CHECK(clock_mono_ms(clock_system()) - before_ms < 60000);
}

TEST(a_program_that_is_not_there_is_unavailable)
{
    const char *const argv[] = { "/nonexistent/program", NULL };
    AUTO_BUF struct buf out = BUF_INIT(1000);

    err = (struct error)ERROR_INIT;
    CHECK_EQ(program_run(&(struct program){ .argv = argv, .in = -1 }, &out, &err), -1);
    CHECK_EQ((int)err.code, ERR_UNAVAILABLE);
}

TEST(programs_are_found_by_path)
{
    AUTO_FREE
    char *shell_path = program_find("sh");
    AUTO_FREE
    char *same = program_find(shell_path);

    CHECK_HAS(shell_path, "/sh");
    CHECK_STR(same, shell_path);
    CHECK(program_find("no-such-program-here") == NULL);
    CHECK(program_find("/") == NULL);
}
