#include "sandbox/bwrap/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"

/* As in the kernel's interface; the C library's headers may be older than the kernel. */
#define OPEN_TREE_CLONE_FLAG 1u
#define MOVE_FROM_EMPTY_PATH 4u
#define ATTR_READ_ONLY UINT64_C(0x00000001)
#define ATTR_ID_MAP UINT64_C(0x00100000)

struct mount_attributes {
    uint64_t set;
    uint64_t clear;
    uint64_t propagation;
    uint64_t user_namespace_fd;
};

/* Preparing
 * ---------------------------------------------------------------------------------------------------------
 */

static int look_at(const char *path, uid_t uid, struct stat *info, struct error *err)
{
    AUTO_CLOSE int fd = open(path, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, info) < 0)
        return error_set(err, errno == ELOOP || errno == ENOTDIR ? ERR_DENIED : ERR_SYSTEM, errno,
                         "open the cache folder %s", path);
    if (info->st_uid != uid)
        return error_set(err, ERR_DENIED, 0, "the cache folder %s belongs to uid %u instead of %u",
                         path, (unsigned)info->st_uid, (unsigned)uid);
    return 0;
}

int overlay_prepare(struct overlay *out, const struct sandbox_overlay *paths, uid_t uid,
                    struct error *err)
{
    struct stat upper;
    struct stat work;
    struct stat lower;

    if (look_at(paths->upper, uid, &upper, err) < 0 || look_at(paths->work, uid, &work, err) < 0)
        return -1;
    if (stat(paths->lower, &lower) < 0)
        return error_set(err, ERR_SYSTEM, errno, "open the cache %s", paths->lower);
    if (!S_ISDIR(lower.st_mode))
        return error_set(err, ERR_INVALID, 0, "the cache %s is no folder", paths->lower);
    *out = (struct overlay){
        .paths = *paths,
        .uid = uid,
        .upper = { upper.st_dev, upper.st_ino },
        .work = { work.st_dev, work.st_ino },
        .lower_uid = lower.st_uid,
    };
    return 0;
}

/* In the child
 * --------------------------------------------------------------------------------------------- */

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t len = (ssize_t)strlen(text);
    bool written;

    if (fd < 0)
        return -1;
    written = write(fd, text, (size_t)len) == len;
    close(fd);
    return written ? 0 : -1;
}

int overlay_enter_namespaces(void)
{
    char uid_map[64];
    char gid_map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();

    snprintf(uid_map, sizeof(uid_map), "%u %u 1", (unsigned)uid, (unsigned)uid);
    snprintf(gid_map, sizeof(gid_map), "%u %u 1", (unsigned)gid, (unsigned)gid);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write_file("/proc/self/uid_map", uid_map) < 0 ||
        write_file("/proc/self/setgroups", "deny") < 0 ||
        write_file("/proc/self/gid_map", gid_map) < 0)
        return errno;
    return 0;
}

static int try_mount(const char *at)
{
    int error = overlay_enter_namespaces();

    if (!error && (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
                   mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k") < 0))
        error = errno;
    return error;
}

int overlay_try_namespaces(const char *at)
{
    pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
    int status = 0;

    if (pid == 0)
        _exit(try_mount(at));
    if (pid < 0)
        return errno;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

/* A mount can be used only in the namespace that it is in, so what was opened before the child left
 * ours is of no use: the folder is opened once more, and must be the same. */
static int open_same(const char *path, dev_t device, ino_t inode)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    struct stat info;

    if (fd < 0)
        return -1;
    if (fstat(fd, &info) == 0 && info.st_dev == device && info.st_ino == inode)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

/* By descriptor: a path would be looked up again, and a colon or comma in it be taken for more than
 * a name. user.* attributes also as root, so that the mount can't follow what an agent wrote into
 * its folder with trusted ones of an older life. */
static int mount_layers(int lower, int upper, int work, const char *at)
{
    char options[160];

    snprintf(
        options, sizeof(options),
        "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,userxattr",
        lower, upper, work);
    return mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options);
}

static int mount_on(const struct overlay *overlay, int lower, const char *at)
{
    int upper = open_same(overlay->paths.upper, overlay->upper.device, overlay->upper.inode);
    int work = open_same(overlay->paths.work, overlay->work.device, overlay->work.inode);
    int rc = upper < 0 || work < 0 ? -1 : mount_layers(lower, upper, work, at);
    int error = errno;

    if (upper >= 0)
        close(upper);
    if (work >= 0)
        close(work);
    errno = error;
    return rc;
}

/* A descriptor of a user namespace that maps the cache's owner to the sandbox's uid; -1. The
 * namespace needs a process only until it is open. */
static int map_owner(const struct overlay *overlay)
{
    char path[64];
    char map[64];
    pid_t pid =
        (pid_t)syscall(SYS_clone, (unsigned long)CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    int fd = -1;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    if (pid < 0)
        return -1;
    snprintf(map, sizeof(map), "%u %u 1", (unsigned)overlay->lower_uid, (unsigned)overlay->uid);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    if (write_file(path, map) == 0) {
        snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
        if (write_file(path, map) == 0) {
            snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
            fd = open(path, O_RDONLY | O_CLOEXEC);
        }
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return fd;
}

/* A mount of the lower folder in which its owner's files appear as the sandbox's: else an agent
 * could read of another user's cache only what everybody may, and change none of it in its own
 * layer. -1 where that can't be. */
static int clone_as_own(const struct overlay *overlay, int lower)
{
    struct mount_attributes attributes = { .set = ATTR_READ_ONLY | ATTR_ID_MAP };
    int namespace_fd = map_owner(overlay);
    int tree = -1;

    if (namespace_fd < 0)
        return -1;
    tree = (int)syscall(SYS_open_tree, lower, "",
                        OPEN_TREE_CLONE_FLAG | (unsigned)O_CLOEXEC | AT_EMPTY_PATH);
    attributes.user_namespace_fd = (uint64_t)namespace_fd;
    if (tree >= 0 &&
        syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0) {
        close(tree);
        tree = -1;
    }
    close(namespace_fd);
    return tree;
}

/* Hangs TREE at AT, for layers are looked up in our namespace, and opens it there. The overlay then
 * covers it. */
static int hang(int tree, const char *at)
{
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, at, MOVE_FROM_EMPTY_PATH) < 0)
        return -1;
    return open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int mount_with_owner_mapped(const struct overlay *overlay, int lower, const char *at)
{
    int tree = clone_as_own(overlay, lower);
    int mapped;
    int rc = -1;

    if (tree < 0)
        return -1;
    mapped = hang(tree, at);
    if (mapped >= 0) {
        rc = mount_on(overlay, mapped, at);
        close(mapped);
    }
    close(tree);
    return rc;
}

static int bind_read_only(int lower, const char *at)
{
    struct mount_attributes attributes = { .set = ATTR_READ_ONLY };
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", lower);
    if (mount(path, at, NULL, MS_BIND | MS_REC, NULL) < 0)
        return errno;
    if (syscall(SYS_mount_setattr, AT_FDCWD, at, AT_RECURSIVE, &attributes, sizeof(attributes)) < 0)
        return errno;
    return 0;
}

int overlay_mount(const struct overlay *overlay, const char *at, int *fallen_back)
{
    bool foreign = geteuid() == 0 && overlay->lower_uid != overlay->uid;
    int lower;
    int rc = 0;

    *fallen_back = 0;
    if (mkdir(at, 0755) < 0)
        return errno;
    lower = open(overlay->paths.lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (lower < 0)
        return errno;
    if (!(foreign && mount_with_owner_mapped(overlay, lower, at) == 0) &&
        mount_on(overlay, lower, at) < 0) {
        *fallen_back = errno;
        rc = bind_read_only(lower, at);
    }
    close(lower);
    return rc;
}
