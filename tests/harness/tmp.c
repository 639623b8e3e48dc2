#include "harness/tmp.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/test.h"

static char *current; /* the running test's folder, or NULL */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)place;
    (void)info;
    if (type == FTW_DP || type == FTW_D || type == FTW_DNR)
        rmdir(path);
    else
        unlink(path);
    return 0;
}

/* Tests take rights away from folders, too. */
static int open_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)place;
    if (type == FTW_DNR || (type == FTW_D && (info->st_mode & 0700) != 0700))
        chmod(path, 0700);
    return 0;
}

void tmp_remove_tree(const char *path)
{
    nftw(path, open_entry, 16, FTW_PHYS);
    nftw(path, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}

static void remove_current(void *data)
{
    (void)data;
    tmp_remove_tree(current);
    free(current);
    current = NULL;
}

const char *tmp_dir(void)
{
    const char *base = getenv("TMPDIR");

    if (current)
        return current;
    if (asprintf(&current, "%s/sandbox-test.XXXXXX", base && base[0] == '/' ? base : "/tmp") < 0)
        abort();
    if (!mkdtemp(current)) {
        perror(current);
        abort();
    }
    test_defer(remove_current, NULL);
    return current;
}

const char *tmp_path(const char *name)
{
    const char *dir = tmp_dir();
    char *path;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        abort();
    test_defer(free, path);
    return path;
}

const char *tmp_file(const char *name, const void *data, size_t len, mode_t mode)
{
    const char *path = tmp_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, data, len), (ssize_t)len);
    CHECK_EQ(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

const char *tmp_subdir(const char *name)
{
    const char *path = tmp_path(name);

    CHECK_EQ(mkdir(path, 0700), 0);
    return path;
}
