#include "workspace/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"

#define DEPTH_MAX 65536
#define ENTRIES_BYTES (32u << 10)
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

/* A folder to come back to: no descriptor and no path, or a deep tree could use them up. */
struct level {
    ino_t inode;
    off_t position; /* behind the entry that was entered */
};

struct walk {
    struct usage *usage;
    const atomic_bool *cancel;
    dev_t device;
    int fd; /* the folder being read */
    ino_t inode;
    struct level *levels;
    size_t depth;
    size_t room;
    bool entered; /* the entry was a folder, which is being read now */
    _Alignas(struct dirent64) char entries[ENTRIES_BYTES];
};

static void push(struct walk *walk, off_t position)
{
    if (walk->depth == walk->room) {
        size_t room = walk->room ? walk->room * 2 : 64;
        struct level *more = mem_new_zero(room, sizeof(*more));

        if (walk->depth)
            memcpy(more, walk->levels, walk->depth * sizeof(*more));
        free(walk->levels);
        walk->levels = more;
        walk->room = room;
    }
    walk->levels[walk->depth++] = (struct level){ walk->inode, position };
}

static void add(struct walk *walk, const struct stat *info)
{
    uint64_t bytes = (uint64_t)info->st_blocks * 512;

    if (!S_ISDIR(info->st_mode) && info->st_nlink > 1)
        bytes /= info->st_nlink;
    walk->usage->bytes += bytes;
    walk->usage->inodes++;
}

static void enter(struct walk *walk, const char *name, off_t position)
{
    AUTO_CLOSE
    int fd = walk->depth < DEPTH_MAX ? openat(walk->fd, name, FOLDER_FLAGS) : -1;
    struct stat info;

    if (fd < 0 || fstat(fd, &info) < 0 || info.st_dev != walk->device) {
        walk->usage->complete = false;
        return;
    }
    push(walk, position);
    close(walk->fd);
    walk->fd = fd_steal(&fd);
    walk->inode = info.st_ino;
    walk->entered = true;
}

/* A name that is gone meanwhile takes no space. What is mounted in the tree is not the session's.
 */
static void look_at(struct walk *walk, const struct dirent64 *entry)
{
    struct stat info;

    if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
        return;
    if (fstatat(walk->fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            walk->usage->complete = false;
        return;
    }
    if (info.st_dev != walk->device)
        return;
    add(walk, &info);
    if (S_ISDIR(info.st_mode))
        enter(walk, entry->d_name, (off_t)entry->d_off);
}

/* Back to the folder above, if it still is the one that we came from. */
static bool leave(struct walk *walk)
{
    struct level level = walk->levels[--walk->depth];
    int above = openat(walk->fd, "..", FOLDER_FLAGS);
    struct stat info;

    if (above < 0)
        return false;
    close(walk->fd);
    walk->fd = above;
    walk->inode = level.inode;
    return fstat(above, &info) == 0 && info.st_dev == walk->device && info.st_ino == level.inode &&
           lseek(above, level.position, SEEK_SET) >= 0;
}

static bool is_cancelled(const struct walk *walk)
{
    return walk->cancel && atomic_load(walk->cancel);
}

/* One filling of the buffer; returns the bytes that were read, 0 at the folder's end. */
static long read_entries(struct walk *walk)
{
    long len = syscall(SYS_getdents64, walk->fd, walk->entries, sizeof(walk->entries));

    walk->entered = false;
    for (long at = 0; at < len && !walk->entered;) {
        const struct dirent64 *entry = (const struct dirent64 *)(void *)(walk->entries + at);

        at += entry->d_reclen;
        look_at(walk, entry);
    }
    return len;
}

static void count(struct walk *walk)
{
    for (;;) {
        long len;

        if (is_cancelled(walk)) {
            walk->usage->complete = false;
            return;
        }
        len = read_entries(walk);
        if (len < 0)
            walk->usage->complete = false;
        if (len > 0)
            continue;
        if (walk->depth == 0)
            return;
        if (!leave(walk)) {
            walk->usage->complete = false;
            return;
        }
    }
}

int usage_walk(const char *folder, const atomic_bool *cancel, struct usage *out, struct error *err)
{
    int fd = open(folder, FOLDER_FLAGS);
    struct walk *walk;
    struct stat info;

    if (fd < 0 || fstat(fd, &info) < 0) {
        error_set(err, ERR_SYSTEM, errno, "open folder %s", folder);
        fd_close(&fd);
        return -1;
    }
    *out = (struct usage){ .complete = true };
    walk = NEW(struct walk);
    walk->usage = out;
    walk->cancel = cancel;
    walk->device = info.st_dev;
    walk->fd = fd;
    walk->inode = info.st_ino;
    add(walk, &info);
    count(walk);
    close(walk->fd);
    free(walk->levels);
    free(walk);
    return 0;
}
