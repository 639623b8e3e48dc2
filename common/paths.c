#include "common/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

#define PRODUCT "sandbox-mcp"

/* A copy without slashes at the end. */
static char *copy_path(const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    return mem_strndup(path, len);
}

/* Sets *OUT to the variable's value, or leaves it NULL when it is unset or empty. */
static int from_environment(char **out, const char *variable, struct error *err)
{
    const char *value = getenv(variable);

    if (!value || !value[0])
        return 0;
    if (value[0] != '/')
        return error_argument(err, variable, "must be an absolute path");
    *out = copy_path(value);
    return 0;
}

static int find_home(char **out, struct error *err)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char strings[4096];
    int rc;

    if (from_environment(out, "HOME", err) < 0)
        return -1;
    if (*out)
        return 0;
    rc = getpwuid_r(getuid(), &entry, strings, sizeof(strings), &found);
    if (!found || !found->pw_dir || found->pw_dir[0] != '/')
        return error_set(err, ERR_UNAVAILABLE, rc,
                         "HOME is not set and the password file has no home folder for user %u",
                         (unsigned)getuid());
    *out = copy_path(found->pw_dir);
    return 0;
}

/* Where one folder or file comes from: OWN, else XDG/below, else HOME/fallback/below. */
struct source {
    const char *own;
    const char *xdg;
    const char *fallback;
    const char *below;
};

static int find_path(char **out, const struct source *source, const char *home, struct error *err)
{
    AUTO_FREE char *base = NULL;

    if (from_environment(out, source->own, err) < 0)
        return -1;
    if (*out)
        return 0;
    if (from_environment(&base, source->xdg, err) < 0)
        return -1;
    *out = base ? mem_printf("%s/%s", base, source->below)
                : mem_printf("%s/%s/%s", home, source->fallback, source->below);
    return 0;
}

static int find_all(struct paths *paths, struct error *err)
{
    static const struct source config = { "SANDBOX_MCP_CONFIG", "XDG_CONFIG_HOME", ".config",
                                          PRODUCT "/config.json" };
    static const struct source state = { "SANDBOX_MCP_STATE", "XDG_STATE_HOME", ".local/state",
                                         PRODUCT };
    static const struct source data = { "SANDBOX_MCP_DATA", "XDG_DATA_HOME", ".local/share",
                                        PRODUCT };

    if (find_home(&paths->home, err) < 0 ||
        find_path(&paths->config_file, &config, paths->home, err) < 0 ||
        find_path(&paths->state, &state, paths->home, err) < 0 ||
        find_path(&paths->data, &data, paths->home, err) < 0 ||
        from_environment(&paths->runtime, "SANDBOX_MCP_RUNTIME", err) < 0)
        return -1;
    if (!paths->runtime)
        paths->runtime = mem_printf("%s/run", paths->state);
    paths->socket = mem_printf("%s/supervisor.sock", paths->runtime);
    return 0;
}

int paths_init(struct paths *paths, struct error *err)
{
    *paths = (struct paths){ .home = NULL };
    if (find_all(paths, err) < 0) {
        paths_finish(paths);
        return -1;
    }
    return 0;
}

void paths_finish(struct paths *paths)
{
    free(paths->home);
    free(paths->config_file);
    free(paths->state);
    free(paths->runtime);
    free(paths->socket);
    free(paths->data);
    *paths = (struct paths){ .home = NULL };
}

static int make_folder(const char *path, struct error *err)
{
    struct stat info;
    int failure;

    if (mkdir(path, 0700) == 0)
        return 0;
    failure = errno;
    /* EROFS and EACCES come before EEXIST on some file systems. */
    if (failure == EEXIST || stat(path, &info) == 0)
        return 0;
    return error_set(err, failure == EACCES ? ERR_DENIED : ERR_SYSTEM, failure, "make folder %s",
                     path);
}

static int check_private(const char *path, struct error *err)
{
    struct stat info;

    if (lstat(path, &info) < 0)
        return error_set(err, ERR_SYSTEM, errno, "look at %s", path);
    if (S_ISLNK(info.st_mode) && info.st_uid != geteuid() && info.st_uid != 0)
        return error_set(err, ERR_DENIED, 0, "%s is another user's symbolic link", path);
    if (stat(path, &info) < 0)
        return error_set(err, ERR_SYSTEM, errno, "look at %s", path);
    if (!S_ISDIR(info.st_mode))
        return error_set(err, ERR_CONFLICT, 0, "%s is not a folder", path);
    if (info.st_uid != geteuid())
        return error_set(err, ERR_DENIED, 0, "%s belongs to another user", path);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, ERR_DENIED, 0,
                         "others may write to %s; take that away with chmod go-w", path);
    return 0;
}

int paths_make_private(const char *path, struct error *err)
{
    AUTO_FREE char *copy = copy_path(path);

    if (copy[0] != '/')
        return error_set(err, ERR_INVALID, 0, "%s is not an absolute path", path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (make_folder(copy, err) < 0)
            return -1;
        *slash = '/';
    }
    if (make_folder(copy, err) < 0)
        return -1;
    return check_private(copy, err);
}
