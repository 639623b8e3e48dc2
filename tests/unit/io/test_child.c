#include "io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"

struct fixture {
    uv_loop_t loop;
    struct child *child;
    bool exited;
    int code;
    int signal;
    bool closed;
    int read_fd; /* what the child writes to its stdout */
    struct child_fd fds[4];
    struct child_options options;
};

static void on_exit_told(void *data, int code, int signal)
{
    struct fixture *fixture = data;

    CHECK(!fixture->exited);
    fixture->exited = true;
    fixture->code = code;
    fixture->signal = signal;
}

static void on_closed(void *data)
{
    struct fixture *fixture = data;

    fixture->closed = true;
}

static void fixture_init(struct fixture *fixture, const char *const *argv)
{
    int ends[2];

    *fixture = (struct fixture){ .read_fd = -1 };
    CHECK_EQ(uv_loop_init(&fixture->loop), 0);
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    fixture->read_fd = ends[0];
    fixture->fds[0] = (struct child_fd){ ends[1], 1 };
    fixture->options = (struct child_options){
        .program = argv[0], .argv = argv, .fds = fixture->fds, .fd_count = 1, .capture_stderr = 1
    };
}

static void fixture_start(struct fixture *fixture)
{
    struct error err = ERROR_INIT;

    if (child_start(&fixture->child, &fixture->loop, &fixture->options, on_exit_told, fixture,
                    &err) < 0)
        CHECK_STR(err.text, "");
    close(fixture->fds[0].fd);
    CHECK(!fixture->exited);
}

static void fixture_end(struct fixture *fixture)
{
    if (fixture->child) {
        child_close(fixture->child, on_closed, fixture);
        CHECK(!fixture->closed);
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
        CHECK(fixture->closed);
    }
    CHECK_EQ(uv_loop_close(&fixture->loop), 0);
    fd_close(&fixture->read_fd);
}

static void await_exit(struct fixture *fixture)
{
    while (!fixture->exited)
        uv_run(&fixture->loop, UV_RUN_ONCE);
}

static void read_all(struct fixture *fixture, struct buf *out)
{
    char bytes[4096];
    ssize_t got;

    while ((got = read(fixture->read_fd, bytes, sizeof(bytes))) > 0)
        buf_append(out, bytes, (size_t)got);
}

TEST(a_child_writes_and_ends_with_its_code)
{
    static const char *const argv[] = { "sh", "-c", "echo hello; pwd; exit 3", NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);

    fixture_init(&fixture, argv);
    fixture_start(&fixture);
    CHECK(child_pid(fixture.child) > 0);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_STR(buf_text(&out), "hello\n/\n");
    CHECK_EQ(fixture.code, 3);
    CHECK_EQ(fixture.signal, 0);
    fixture_end(&fixture);
}

/* A new group in the machine's version 2 tree; its path, on the heap and removed at the end. */
static void remove_group(void *path)
{
    CHECK_EQ(rmdir(path), 0);
    free(path);
}

static const char *make_group(void)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "r");
    char line[4096];
    char *path = NULL;

    while (mounts && !path && fgets(line, sizeof(line), mounts)) {
        char place[2048];

        if (strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %2047s", place) == 1)
            path = mem_printf("%s/sandbox-mcp-test-%d", place, (int)getpid());
    }
    if (mounts)
        fclose(mounts);
    if (!path || mkdir(path, 0700) < 0) {
        free(path);
        test_skip("no control groups of version 2 can be made here");
    }
    test_defer(remove_group, path);
    return path;
}

TEST(a_child_begins_in_its_control_group)
{
    static const char *const argv[] = { "cat", "/proc/self/cgroup", NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    const char *group = make_group();
    AUTO_CLOSE int folder = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FREE char *line = mem_printf("%s\n", strrchr(group, '/'));

    fixture_init(&fixture, argv);
    fixture.options.cgroup_fd = folder;
    fixture_start(&fixture);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_EQ(fixture.code, 0);
    CHECK_HAS(strstr(buf_text(&out), "0::"), line);
    fixture_end(&fixture);
}

TEST(a_child_that_can_t_be_made_in_its_control_group_moves_there)
{
    static const char *const argv[] = { "true", NULL };
    struct fixture fixture;
    const char *folder_path = tmp_subdir("group");
    const char *procs = tmp_file("group/cgroup.procs", "", 0, 0600);
    AUTO_CLOSE int folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char text[4] = "";

    fixture_init(&fixture, argv);
    fixture.options.cgroup_fd = folder;
    fixture_start(&fixture);
    await_exit(&fixture);
    fixture_end(&fixture);
    AUTO_CLOSE int fd = open(procs, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(read(fd, text, sizeof(text) - 1), 1);
    CHECK_STR(text, "0");
}

TEST(a_child_without_a_way_into_its_control_group_is_not_started)
{
    static const char *const argv[] = { "true", NULL };
    struct fixture fixture;
    struct error err = ERROR_INIT;
    AUTO_CLOSE int folder = open(tmp_subdir("group"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    fixture_init(&fixture, argv);
    fixture.options.cgroup_fd = folder;
    CHECK_EQ(
        child_start(&fixture.child, &fixture.loop, &fixture.options, on_exit_told, &fixture, &err),
        -1);
    CHECK_HAS(err.text, "enter its control group");
    close(fixture.fds[0].fd);
    fixture_end(&fixture);
}

TEST(a_child_has_only_the_descriptors_it_was_given)
{
    /* The shell's list needs a descriptor itself, which is the lowest that is free. */
    static const char *const argv[] = { "/bin/sh", "-c",
                                        "cd /proc/self/fd; echo *; readlink 0 2; cat <&9", NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    int inherited = open("/dev/zero", O_RDONLY); /* not marked, as some library might leave one */
    const char *path = tmp_file("given", "content\n", 8, 0600);
    int given = open(path, O_RDONLY | O_CLOEXEC);

    fixture_init(&fixture, argv);
    fixture.options.capture_stderr = 0;
    fixture.fds[1] = (struct child_fd){ given, 9 };
    fixture.fds[2] = (struct child_fd){ -1, 7 };
    fixture.options.fd_count = 3;
    fixture_start(&fixture);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_STR(buf_text(&out), "0 1 2 3 7 9\n/dev/null\n/dev/null\ncontent\n");
    fixture_end(&fixture);
    close(inherited);
    close(given);
}

/* The numbers are those of the sources themselves, crosswise. */
TEST(descriptors_may_change_places)
{
    static const char *const argv[] = { "sh", "-c", "cat <&$A; cat <&$B", NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    int a = open(tmp_file("a", "a", 1, 0600), O_RDONLY | O_CLOEXEC);
    int b = open(tmp_file("b", "b", 1, 0600), O_RDONLY | O_CLOEXEC);
    AUTO_FREE char *name_a = mem_printf("A=%d", a);
    AUTO_FREE char *name_b = mem_printf("B=%d", b);
    const char *const env[] = { "PATH=/usr/bin:/bin", name_a, name_b, NULL };

    fixture_init(&fixture, argv);
    fixture.options.env = env;
    fixture.fds[1] = (struct child_fd){ a, b };
    fixture.fds[2] = (struct child_fd){ b, a };
    fixture.options.fd_count = 3;
    fixture_start(&fixture);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_STR(buf_text(&out), "ba");
    fixture_end(&fixture);
    close(a);
    close(b);
}

TEST(a_program_that_is_missing_is_told_at_once)
{
    static const char *const argv[] = { "no-such-program", NULL };
    static const char *const by_path[] = { "/no/such/program", NULL };
    static const char *const no_program[] = { "/etc/passwd", NULL };
    struct fixture fixture;
    struct error err = ERROR_INIT;

    fixture_init(&fixture, argv);
    CHECK_EQ(
        child_start(&fixture.child, &fixture.loop, &fixture.options, on_exit_told, &fixture, &err),
        -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    fixture.options.program = by_path[0];
    fixture.options.argv = by_path;
    CHECK_EQ(
        child_start(&fixture.child, &fixture.loop, &fixture.options, on_exit_told, &fixture, &err),
        -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    fixture.options.program = no_program[0];
    fixture.options.argv = no_program;
    CHECK_EQ(
        child_start(&fixture.child, &fixture.loop, &fixture.options, on_exit_told, &fixture, &err),
        -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
    CHECK_EQ(err.sys, EACCES);
    close(fixture.fds[0].fd);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1); /* none is left to reap */
    fixture_end(&fixture);
}

TEST(signals_are_as_a_fresh_program_wants_them)
{
    static const char *const argv[] = { "grep", "Sig[BI]", "/proc/self/status", NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    sigset_t set;
    sigset_t old;

    fixture_init(&fixture, argv);
    signal(SIGUSR1, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &old);
    fixture_start(&fixture);
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(SIGUSR1, SIG_DFL);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_STR(buf_text(&out), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    fixture_end(&fixture);
}

TEST(a_kill_is_told_as_a_signal)
{
    static const char *const argv[] = { "sleep", "1000", NULL };
    struct fixture fixture;

    fixture_init(&fixture, argv);
    fixture_start(&fixture);
    CHECK_EQ(getsid(child_pid(fixture.child)), child_pid(fixture.child));
    child_kill(fixture.child, SIGKILL);
    await_exit(&fixture);
    CHECK_EQ(fixture.code, -1);
    CHECK_EQ(fixture.signal, SIGKILL);
    child_kill(fixture.child, SIGKILL);
    child_kill_group(fixture.child, SIGKILL);
    fixture_end(&fixture);
}

TEST(a_group_is_killed_as_a_whole)
{
    static const char *const argv[] = { "sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait",
                                        NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);
    char up[3];

    fixture_init(&fixture, argv);
    fixture.options.capture_stderr = 0;
    fixture_start(&fixture);
    CHECK_EQ(read(fixture.read_fd, up, 3), 3);
    child_kill_group(fixture.child, SIGKILL);
    read_all(&fixture, &out); /* ends when all who hold the pipe are gone */
    await_exit(&fixture);
    fixture_end(&fixture);
}

TEST(the_end_of_what_a_child_says_on_stderr_is_kept)
{
    static const char *const argv[] = { "sh", "-c",
                                        "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; "
                                        "i=$((i+1)); done; printf 'a\\0b\\nlast' >&2",
                                        NULL };
    struct fixture fixture;
    size_t len;

    fixture_init(&fixture, argv);
    fixture_start(&fixture);
    await_exit(&fixture);
    len = strlen(child_stderr(fixture.child));
    CHECK_EQ(len, 4096);
    CHECK_STR(child_stderr(fixture.child) + len - 8, "a?b\nlast");
    fixture_end(&fixture);
}

TEST(a_child_that_is_let_go_lives_on_and_is_reaped)
{
    static const char *const argv[] = { "sh", "-c", "echo up; exec sleep 0.2", NULL };
    struct fixture fixture;
    char up[3];
    pid_t pid;
    int tries = 0;

    fixture_init(&fixture, argv);
    fixture_start(&fixture);
    CHECK_EQ(read(fixture.read_fd, up, 3), 3);
    pid = child_pid(fixture.child);
    fixture_end(&fixture);
    CHECK(!fixture.exited);
    CHECK_EQ(kill(pid, 0), 0);
    while (kill(pid, 0) == 0 && tries++ < 500)
        poll(NULL, 0, 10);
    CHECK_EQ(errno, ESRCH);
}

static int refuse_to_prepare(void *data)
{
    (void)data;
    return EXDEV;
}

static int say_prepared(void *data)
{
    return write(*(int *)data, "prepared\n", 9) == 9 ? 0 : errno;
}

TEST(what_is_to_be_done_before_the_drop_is_done_or_fails_the_start)
{
    static const char *const argv[] = { "true", NULL };
    struct fixture fixture;
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf out = BUF_INIT(4096);

    fixture_init(&fixture, argv);
    fixture.options.before_drop = refuse_to_prepare;
    CHECK_EQ(
        child_start(&fixture.child, &fixture.loop, &fixture.options, on_exit_told, &fixture, &err),
        -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
    CHECK_EQ(err.sys, EXDEV);
    fixture.options.before_drop = say_prepared;
    fixture.options.before_drop_data = &fixture.fds[0].fd;
    fixture_start(&fixture);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_STR(buf_text(&out), "prepared\n");
    fixture_end(&fixture);
}

TEST(another_uid_is_taken_with_nothing_of_ours)
{
    static const char *const argv[] = { "sh", "-c",
                                        "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' "
                                        "/proc/self/status",
                                        NULL };
    struct fixture fixture;
    AUTO_BUF struct buf out = BUF_INIT(4096);

    if (geteuid() != 0)
        test_skip("only root can");
    fixture_init(&fixture, argv);
    fixture.options.uid = 2000000001;
    fixture_start(&fixture);
    read_all(&fixture, &out);
    await_exit(&fixture);
    CHECK_STR(buf_text(&out), "Uid:\t2000000001\t2000000001\t2000000001\t2000000001\n"
                              "Gid:\t2000000001\t2000000001\t2000000001\t2000000001\n"
                              "Groups:\t \n"
                              "CapPrm:\t0000000000000000\n"
                              "CapEff:\t0000000000000000\n");
    fixture_end(&fixture);
}
