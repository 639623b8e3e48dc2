#include "proto/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mem.h"
#include "proto/client.h"
#include "tests/harness/test.h"
#include "tests/harness/tmp.h"

static struct paths paths;
static struct error err;
static int started = -1;

static void finish_paths(void *data)
{
    (void)data;
    paths_finish(&paths);
    unsetenv("SANDBOX_MCP_SUPERVISORD");
    unsetenv("SANDBOX_MCP_STATE");
}

/* SCRIPT is what is started as the supervisor. */
static void prepare(const char *script)
{
    AUTO_FREE char *text = mem_printf("#!/bin/sh\n%s\n", script);

    err = (struct error)ERROR_INIT;
    setenv("SANDBOX_MCP_STATE", tmp_path("state"), 1);
    setenv("SANDBOX_MCP_SUPERVISORD", tmp_file("supervisor", text, strlen(text), 0700), 1);
    test_defer(finish_paths, NULL);
    CHECK_EQ(paths_init(&paths, &err), 0);
}

static bool appears(const char *path)
{
    for (int i = 0; i < 500; i++) {
        if (access(path, F_OK) == 0)
            return true;
        usleep(10000);
    }
    return false;
}

TEST(a_supervisor_is_started_detached)
{
    AUTO_FREE char *seen = NULL;
    char session[32];

    /* Fields of stat: 4 is the parent, 6 the session. A shell's own pid is $$. */
    prepare(
        "seen=$(cut -d' ' -f4,6 /proc/$$/stat; readlink /proc/$$/cwd /proc/$$/fd/0 /proc/$$/fd/1)\n"
        "echo \"$seen\" > \"$SANDBOX_MCP_STATE/new\"\n"
        "mv \"$SANDBOX_MCP_STATE/new\" \"$SANDBOX_MCP_STATE/seen\"");
    CHECK_EQ(launch_supervisor(&paths, &started, &err), 0);
    CHECK_STR(err.text, "");
    CHECK(appears(tmp_path("state/seen")));
    CHECK_EQ(fd_read_file(tmp_path("state/seen"), 1000, &seen, NULL, &err), 0);
    CHECK_HAS(seen, "\n/\n/dev/null\n/dev/null\n");
    snprintf(session, sizeof(session), " %d\n", (int)getsid(0));
    CHECK(strstr(seen, session) == NULL);
    snprintf(session, sizeof(session), "%d ", (int)getpid());
    CHECK(strncmp(seen, session, strlen(session)) != 0);
}

TEST(a_program_that_is_missing_is_said_at_once)
{
    prepare("");
    setenv("SANDBOX_MCP_SUPERVISORD", "/nonexistent/supervisor", 1);
    CHECK_EQ(launch_supervisor(&paths, &started, &err), -1);
    CHECK_EQ((int)err.code, ERR_UNAVAILABLE);
    CHECK_HAS(err.text, "/nonexistent/supervisor");
}

TEST(one_that_ends_is_explained_at_once_with_the_last_line_of_its_log)
{
    uint64_t begun_ms = clock_mono_ms(clock_system());
    struct client *client = NULL;

    prepare("echo first >&2; printf 'bad setting \\033[31m in config\\n\\n' >&2; exit 1");
    CHECK_EQ(launch_connect(&client, &paths, "test", 60000, &err), -1);
    CHECK(clock_mono_ms(clock_system()) - begun_ms < 30000);
    CHECK_EQ((int)err.code, ERR_UNAVAILABLE);
    CHECK_HAS(err.text, "the supervisor can't start (see ");
    CHECK_HAS(err.text, "supervisord.log): bad setting");
    CHECK_HAS(err.text, "bad setting");
    CHECK(strchr(err.text, '\033') == NULL);
}

TEST(one_that_runs_on_without_serving_is_said_to)
{
    struct client *client = NULL;

    prepare("echo 'still thinking' >&2; exec sleep 5");
    CHECK_EQ(launch_connect(&client, &paths, "test", 400, &err), -1);
    CHECK_HAS(err.text, "supervisord.log): still thinking");
}

TEST(the_end_of_what_was_started_is_seen)
{
    prepare("read line < \"$SANDBOX_MCP_STATE/../gate\"");
    CHECK_EQ(mkfifo(tmp_path("gate"), 0600), 0);
    CHECK_EQ(launch_supervisor(&paths, &started, &err), 0);
    CHECK(started >= 0);
    CHECK(!launch_ended(started));
    CHECK(!launch_ended(-1));
    int gate = open(tmp_path("gate"), O_WRONLY | O_CLOEXEC);
    CHECK(gate >= 0);
    close(gate);
    CHECK_EQ(poll(&(struct pollfd){ .fd = started, .events = POLLIN }, 1, 30000), 1);
    CHECK(launch_ended(started));
    close(started);
}

TEST(the_log_is_private_and_grows)
{
    struct stat info;

    prepare("echo line >&2; touch \"$SANDBOX_MCP_STATE/done\"");
    CHECK_EQ(launch_supervisor(&paths, &started, &err), 0);
    CHECK(appears(tmp_path("state/done")));
    CHECK_EQ(stat(tmp_path("state/supervisord.log"), &info), 0);
    CHECK_EQ(info.st_mode & 0777, 0600u);
    unlink(tmp_path("state/done"));
    CHECK_EQ(launch_supervisor(&paths, &started, &err), 0);
    CHECK(appears(tmp_path("state/done")));
    CHECK_EQ(stat(tmp_path("state/supervisord.log"), &info), 0);
    CHECK_EQ(info.st_size, 10);
}
