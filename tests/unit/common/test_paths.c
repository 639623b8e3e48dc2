#include "common/paths.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"

static const char *const variables[] = {
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "SANDBOX_MCP_CONFIG",
    "SANDBOX_MCP_STATE",
    "SANDBOX_MCP_RUNTIME",
    "SANDBOX_MCP_DATA",
};

static void clear_environment(void)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        unsetenv(variables[i]);
}

static void finish(void *paths)
{
    paths_finish(paths);
}

static const struct paths *made(void)
{
    static struct paths paths;
    struct error err = ERROR_INIT;

    CHECK_EQ(paths_init(&paths, &err), 0);
    test_defer(finish, &paths);
    return &paths;
}

TEST(home_alone_is_enough)
{
    const struct paths *paths;

    clear_environment();
    setenv("HOME", "/home/someone/", 1);
    paths = made();
    CHECK_STR(paths->home, "/home/someone");
    CHECK_STR(paths->config_file, "/home/someone/.config/sandbox-mcp/config.json");
    CHECK_STR(paths->state, "/home/someone/.local/state/sandbox-mcp");
    CHECK_STR(paths->runtime, "/home/someone/.local/state/sandbox-mcp/run");
    CHECK_STR(paths->socket, "/home/someone/.local/state/sandbox-mcp/run/supervisor.sock");
    CHECK_STR(paths->data, "/home/someone/.local/share/sandbox-mcp");
}

TEST(without_home_the_password_file_is_asked)
{
    clear_environment();
    CHECK_EQ(made()->home[0], '/');
}

TEST(xdg_folders_come_before_home)
{
    const struct paths *paths;

    clear_environment();
    setenv("HOME", "/h", 1);
    setenv("XDG_CONFIG_HOME", "/c", 1);
    setenv("XDG_STATE_HOME", "/s", 1);
    setenv("XDG_DATA_HOME", "/d", 1);
    paths = made();
    CHECK_STR(paths->config_file, "/c/sandbox-mcp/config.json");
    CHECK_STR(paths->state, "/s/sandbox-mcp");
    CHECK_STR(paths->socket, "/s/sandbox-mcp/run/supervisor.sock");
    CHECK_STR(paths->data, "/d/sandbox-mcp");
}

TEST(our_own_variables_come_first)
{
    const struct paths *paths;

    clear_environment();
    setenv("HOME", "/h", 1);
    setenv("XDG_STATE_HOME", "/s", 1);
    setenv("SANDBOX_MCP_CONFIG", "/a/b.json", 1);
    setenv("SANDBOX_MCP_STATE", "/state/", 1);
    setenv("SANDBOX_MCP_RUNTIME", "/runtime", 1);
    setenv("SANDBOX_MCP_DATA", "/data", 1);
    paths = made();
    CHECK_STR(paths->config_file, "/a/b.json");
    CHECK_STR(paths->state, "/state");
    CHECK_STR(paths->socket, "/runtime/supervisor.sock");
    CHECK_STR(paths->data, "/data");
}

TEST(an_empty_variable_counts_as_unset)
{
    clear_environment();
    setenv("HOME", "/h", 1);
    setenv("XDG_STATE_HOME", "", 1);
    CHECK_STR(made()->state, "/h/.local/state/sandbox-mcp");
}

TEST(relative_values_are_refused_by_name)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        struct paths paths;
        struct error err = ERROR_INIT;

        clear_environment();
        setenv("HOME", "/h", 1);
        setenv(variables[i], "some/where", 1);
        CHECK_EQ(paths_init(&paths, &err), -1);
        CHECK_EQ(err.code, ERR_INVALID);
        CHECK_STR(err.argument, variables[i]);
        CHECK(paths.home == NULL);
    }
}

static mode_t mode_of(const char *path)
{
    struct stat info;

    CHECK_EQ(stat(path, &info), 0);
    return info.st_mode & 07777;
}

TEST(missing_folders_are_made_private)
{
    struct error err = ERROR_INIT;
    mode_t old = umask(0);

    CHECK_EQ(paths_make_private(tmp_path("a/b/c/"), &err), 0);
    umask(old);
    CHECK_EQ(mode_of(tmp_path("a")), 0700);
    CHECK_EQ(mode_of(tmp_path("a/b/c")), 0700);
    CHECK_EQ(paths_make_private(tmp_path("a/b/c"), &err), 0);
}

TEST(folders_above_are_left_as_they_are)
{
    struct error err = ERROR_INIT;
    const char *above = tmp_subdir("above");

    CHECK_EQ(chmod(above, 0777), 0);
    CHECK_EQ(paths_make_private(tmp_path("above/mine"), &err), 0);
    CHECK_EQ(mode_of(above), 0777);
}

TEST(a_folder_that_others_may_write_to_is_refused)
{
    struct error err = ERROR_INIT;
    const char *open = tmp_subdir("open");

    CHECK_EQ(chmod(open, 0770), 0);
    CHECK_EQ(paths_make_private(open, &err), -1);
    CHECK_EQ(err.code, ERR_DENIED);
    CHECK_EQ(chmod(open, 0702), 0);
    CHECK_EQ(paths_make_private(open, &err), -1);
    CHECK_EQ(chmod(open, 0755), 0);
    CHECK_EQ(paths_make_private(open, &err), 0);
}

TEST(another_users_folder_is_refused)
{
    struct error err = ERROR_INIT;

    /* "/" is root's; when this test is root, it takes a folder of its own and gives it away. */
    if (geteuid() == 0) {
        const char *given = tmp_subdir("given");

        if (chown(given, 65534, 65534) < 0)
            test_skip("chown is not allowed");
        CHECK_EQ(paths_make_private(given, &err), -1);
    } else {
        CHECK_EQ(paths_make_private("/", &err), -1);
    }
    CHECK_EQ(err.code, ERR_DENIED);
}

TEST(a_file_in_the_way_is_reported)
{
    struct error err = ERROR_INIT;
    const char *file = tmp_file("file", "", 0, 0600);

    CHECK_EQ(paths_make_private(file, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    CHECK_EQ(paths_make_private(tmp_path("file/below"), &err), -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
}

TEST(a_symbolic_link_of_our_own_is_followed)
{
    struct error err = ERROR_INIT;
    const char *link = tmp_path("link");

    CHECK_EQ(symlink(tmp_subdir("target"), link), 0);
    CHECK_EQ(paths_make_private(link, &err), 0);
    CHECK_EQ(symlink(tmp_path("nowhere"), tmp_path("dangling")), 0);
    CHECK_EQ(paths_make_private(tmp_path("dangling"), &err), -1);
}

TEST(a_relative_path_is_refused)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(paths_make_private("a/b", &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
}
