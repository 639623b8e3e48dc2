#include "sandbox/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/cgroup.h"
#include "sandbox/sandbox.h"

#define LOCK_NAME "lock"
#define STATUS_NAME "status"
#define SOCKET_NAME "ctl.sock"
#define STATUS_MAX 4096
#define BACKLOG 16

/* Opening and removing
 * ---------------------------------------------------------------------------------------------- */

static int open_in(const char *dir, const char *name, int flags, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/%s", dir, name);
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "open %s", path);
    return fd;
}

int runtime_open(const char *dir, struct runtime_fds *fds, struct error *err)
{
    AUTO_FREE char *socket_path = mem_printf("%s/" SOCKET_NAME, dir);
    AUTO_CLOSE int lock = -1;
    AUTO_CLOSE int status = -1;
    int listener;

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_set(err, ERR_SYSTEM, errno, "make folder %s", dir);
    lock = open_in(dir, LOCK_NAME, O_RDWR | O_CREAT, err);
    if (lock < 0)
        return -1;
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, errno == EWOULDBLOCK ? ERR_CONFLICT : ERR_SYSTEM,
                         errno == EWOULDBLOCK ? 0 : errno, "a sandbox lives in %s already", dir);
    status = open_in(dir, STATUS_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, err);
    if (status < 0)
        return -1;
    listener = fd_listen_unix(socket_path, SOCK_SEQPACKET, BACKLOG, err);
    if (listener < 0)
        return -1;
    *fds = (struct runtime_fds){ fd_steal(&lock), fd_steal(&status), listener, NULL };
    return 0;
}

void runtime_close(struct runtime_fds *fds)
{
    fd_close(&fds->lock);
    fd_close(&fds->status);
    fd_close(&fds->listener);
}

int runtime_connect(const char *dir, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/" SOCKET_NAME, dir);
    int fd;

    if (!runtime_lives(dir))
        return error_set(err, ERR_NOT_FOUND, 0, "no sandbox lives in %s", dir);
    fd = fd_connect_unix(path, SOCK_SEQPACKET, err);
    if (fd < 0 && err->code == ERR_UNAVAILABLE)
        err->code = ERR_NOT_FOUND;
    return fd;
}

bool runtime_lives(const char *dir)
{
    struct error ignored = ERROR_INIT;
    AUTO_CLOSE int lock = open_in(dir, LOCK_NAME, O_RDWR, &ignored);

    return lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int sandbox_runtime_remove(const char *dir, struct error *err)
{
    static const char *const names[] = { SOCKET_NAME, STATUS_NAME, LOCK_NAME };

    if (runtime_lives(dir))
        return error_set(err, ERR_CONFLICT, 0, "a sandbox still lives in %s", dir);
    if (cgroup_remove(dir, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *path = mem_printf("%s/%s", dir, names[i]);

        if (unlink(path) < 0 && errno != ENOENT)
            return error_set(err, ERR_SYSTEM, errno, "remove %s", path);
    }
    if (rmdir(dir) < 0 && errno != ENOENT)
        return error_set(err, ERR_SYSTEM, errno, "remove folder %s", dir);
    return 0;
}

/* Ending
 * ------------------------------------------------------------------------------------------------------------
 */

/* True when PID has the file open whose device and inode are those of LOCK. */
static bool holds(pid_t pid, const struct stat *lock)
{
    AUTO_FREE char *path = mem_printf("/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool found = false;

    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)) != NULL) {
        struct stat info;

        found = entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 &&
                info.st_ino == lock->st_ino && info.st_dev == lock->st_dev;
    }
    closedir(dir);
    return found;
}

/* The pidfd is taken before the look, so what is killed is what was looked at. */
static void kill_if_holder(pid_t pid, const struct stat *lock)
{
    AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (pidfd >= 0 && holds(pid, lock))
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0u);
}

static void kill_holders(const struct stat *lock)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir)) != NULL) {
        uint64_t pid;

        if (str_parse_u64(entry->d_name, INT32_MAX, &pid) && (pid_t)pid != getpid())
            kill_if_holder((pid_t)pid, lock);
    }
    closedir(dir);
}

/* The tool writes one JSON object a line; the first tells the pid and the namespaces. */
static int read_status(const char *dir, uint64_t *pid, uint64_t *pid_namespace)
{
    AUTO_FREE char *path = mem_printf("%s/" STATUS_NAME, dir);
    AUTO_FREE char *text = NULL;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;
    size_t len;

    if (fd_read_file(path, STATUS_MAX, &text, &len, &ignored) < 0 || !strchr(text, '\n'))
        return -1;
    if (json_parse(&doc, text, strcspn(text, "\n"), STATUS_MAX, &ignored) < 0)
        return -1;
    *pid = json_u64(json_get(json_root(doc), "child-pid"), 0);
    *pid_namespace = json_u64(json_get(json_root(doc), "pid-namespace"), 0);
    return *pid > 0 && *pid <= INT32_MAX && *pid_namespace ? 0 : -1;
}

static int init_pidfd(const char *dir)
{
    AUTO_CLOSE int pidfd = -1;
    AUTO_FREE char *wanted = NULL;
    AUTO_FREE char *path = NULL;
    char link[64];
    uint64_t pid;
    uint64_t pid_namespace;
    ssize_t len;

    if (read_status(dir, &pid, &pid_namespace) < 0)
        return -1;
    pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (pidfd < 0)
        return -1;
    /* The pid may be another's by now; the namespace's number can't, as long as somebody holds the
     * lock. */
    wanted = mem_printf("pid:[%" PRIu64 "]", pid_namespace);
    path = mem_printf("/proc/%" PRIu64 "/ns/pid", pid);
    len = readlink(path, link, sizeof(link) - 1);
    if (len < 0)
        return -1;
    link[len] = '\0';
    return str_equal(link, wanted) ? fd_steal(&pidfd) : -1;
}

void runtime_kill(const char *dir)
{
    AUTO_FREE char *path = mem_printf("%s/" LOCK_NAME, dir);
    AUTO_CLOSE int pidfd = -1;
    struct stat lock;

    if (!runtime_lives(dir))
        return;
    pidfd = init_pidfd(dir);
    if (pidfd >= 0)
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0u);
    cgroup_kill_leftover(dir);
    if (stat(path, &lock) == 0)
        kill_holders(&lock);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int sandbox_kill_leftover(const char *runtime_dir, int timeout_ms, struct error *err)
{
    int64_t deadline = now_ms() + timeout_ms;
    AUTO_CLOSE int pidfd = init_pidfd(runtime_dir);
    struct pollfd gone = { .fd = pidfd, .events = POLLIN };
    int64_t left;

    while (runtime_lives(runtime_dir)) {
        if (now_ms() >= deadline)
            return error_set(err, ERR_TIMEOUT, 0, "what runs in %s does not die", runtime_dir);
        runtime_kill(runtime_dir);
        poll(NULL, 0, 5);
    }
    /* Descriptors are closed a little before the last process of the namespace is gone. */
    left = deadline - now_ms();
    if (pidfd >= 0 && poll(&gone, 1, left > 0 ? (int)left : 0) == 0)
        return error_set(err, ERR_TIMEOUT, 0, "what runs in %s does not die", runtime_dir);
    return cgroup_remove(runtime_dir, err);
}
