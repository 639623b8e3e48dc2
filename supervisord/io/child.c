#include "io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "io/handles.h"

#define STDERR_MAX 4096

struct child {
    uv_loop_t *loop;
    struct handles handles;
    uv_poll_t exit_poll;   /* on pidfd: readable when the process has ended */
    uv_poll_t stderr_poll; /* on stderr_fd; open only if has_stderr */
    bool has_stderr;
    bool reaped;
    pid_t pid;
    int pidfd;
    int stderr_fd;
    void (*on_exit)(void *data, int code, int signal);
    void *data;
    void (*done)(void *data);
    void *done_data;
    size_t stderr_len;
    char stderr_text[STDERR_MAX + 1];
};

/* In the child
 * ------------------------------------------------------------------------------------------------------
 */

enum stage { STAGE_CGROUP, STAGE_PREPARE, STAGE_FDS, STAGE_UID, STAGE_EXEC };

static const char *const stage_names[] = { "enter its control group", "prepare", "pass descriptors",
                                           "change the uid", "start" };

struct failure {
    enum stage stage;
    int error;
};

/* Everything the child needs, made before the fork. */
struct plan {
    const struct child_options *options;
    const char *path;
    char **argv;
    char **env;
    struct child_fd fds[CHILD_FDS_MAX + 3];
    size_t fd_count;
    int failure_fd;
    bool born_in_place; /* in options->cgroup_fd */
};

static _Noreturn void fail(int failure_fd, enum stage stage, int error)
{
    struct failure failure = { stage, error };
    ssize_t written = write(failure_fd, &failure, sizeof(failure));

    _exit(written < 0 ? 126 : 127);
}

/* Puts each descriptor at its number and closes everything else. First all are moved above the
 * highest number, so that no move overwrites a source that is still to come. Returns where the
 * failure pipe is now, or -1. */
static int place_descriptors(const struct plan *plan)
{
    int high = 3;
    int moved[CHILD_FDS_MAX + 3];
    int failure_fd;

    for (size_t i = 0; i < plan->fd_count; i++) {
        if (plan->fds[i].number >= high)
            high = plan->fds[i].number + 1;
    }
    failure_fd = fcntl(plan->failure_fd, F_DUPFD_CLOEXEC, high);
    if (failure_fd < 0)
        return -1;
    for (size_t i = 0; i < plan->fd_count; i++) {
        moved[i] = fcntl(plan->fds[i].fd, F_DUPFD_CLOEXEC, high);
        if (moved[i] < 0)
            return -1;
    }
    /* Without this flag (Linux before 5.11) only descriptors that someone forgot to mark would
     * pass; ours are all marked. */
    syscall(SYS_close_range, 0u, ~0u, 1u << 2 /* CLOSE_RANGE_CLOEXEC */);
    for (size_t i = 0; i < plan->fd_count; i++) {
        if (dup2(moved[i], plan->fds[i].number) < 0) /* the copy is not close-on-exec */
            return -1;
    }
    return failure_fd;
}

/* The raw calls: the C library's would also look for other threads, of which the child has none. */
static int drop_to(uid_t uid)
{
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -1;
    if (getuid() != uid || geteuid() != uid || getgid() != uid || getegid() != uid) {
        errno = EPERM;
        return -1;
    }
    return 0;
}

/* Where the kernel could not make it there. */
static int move_to_cgroup(int folder_fd)
{
    int fd = openat(folder_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 || write(fd, "0", 1) < 0 ? errno : close(fd);
}

static _Noreturn void run_child(const struct plan *plan)
{
    const struct child_options *options = plan->options;
    sigset_t none;
    int failure_fd;
    int error;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    setsid();
    if (options->cgroup_fd > 0 && !plan->born_in_place &&
        (error = move_to_cgroup(options->cgroup_fd)) != 0)
        fail(plan->failure_fd, STAGE_CGROUP, error);
    if (options->before_drop && (error = options->before_drop(options->before_drop_data)) != 0)
        fail(plan->failure_fd, STAGE_PREPARE, error);
    failure_fd = place_descriptors(plan);
    if (failure_fd < 0)
        fail(plan->failure_fd, STAGE_FDS, errno);
    if (options->uid != 0 && drop_to(options->uid) < 0)
        fail(failure_fd, STAGE_UID, errno);
    if (chdir("/") < 0)
        fail(failure_fd, STAGE_PREPARE, errno);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(plan->path, plan->argv, plan->env);
    fail(failure_fd, STAGE_EXEC, errno);
}

/* Starting
 * ----------------------------------------------------------------------------------------------------------
 */

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* PROGRAM itself if it has a slash, else the first executable in our PATH; NULL if there is none.
 * On the heap. */
static char *find_program(const char *program)
{
    const char *at = getenv("PATH");

    if (strchr(program, '/'))
        return mem_strdup(program);
    if (!at || !*at)
        at = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t len = strcspn(at, ":");
        AUTO_FREE char *path = mem_printf("%.*s/%s", (int)len, at, program);

        /* A relative part of PATH would mean another program in another folder. */
        if (at[0] == '/' && is_program(path))
            return STEAL(path);
        if (at[len] == '\0')
            return NULL;
        at += len + 1;
    }
}

/* Fills in /dev/null for 0, 1 and 2 where nothing else is wanted, and for -1. */
static void plan_descriptors(struct plan *plan, int null_fd, int stderr_fd)
{
    const struct child_options *options = plan->options;
    bool given[3] = { false, false, false };

    BUG_ON(options->fd_count > CHILD_FDS_MAX);
    for (size_t i = 0; i < options->fd_count; i++) {
        struct child_fd fd = options->fds[i];

        BUG_ON(fd.number < 0 || (fd.number == 2 && options->capture_stderr));
        if (fd.number < 3)
            given[fd.number] = true;
        if (fd.fd < 0)
            fd.fd = null_fd;
        plan->fds[plan->fd_count++] = fd;
    }
    for (int number = 0; number < 3; number++) {
        int source = number == 2 && stderr_fd >= 0 ? stderr_fd : null_fd;

        if (!given[number])
            plan->fds[plan->fd_count++] = (struct child_fd){ source, number };
    }
}

/* Waits until the exec happened or failed. On failure the child is gone and reaped. */
static int await_exec(pid_t pid, int read_fd, const char *program, struct error *err)
{
    struct failure failure;
    ssize_t got;

    do
        got = read(read_fd, &failure, sizeof(failure));
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (got != sizeof(failure) || (unsigned)failure.stage >= ARRAY_LEN(stage_names))
        return error_set(err, ERR_SYSTEM, EIO, "start %s", program);
    return error_set(
        err, failure.stage == STAGE_EXEC && failure.error == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM,
        failure.error, "%s: %s", stage_names[failure.stage], program);
}

/* Without the C library, whose fork knows no control groups: the child must call the system only,
 * which is all that run_child does. Moving a process afterwards would take milliseconds. -1 where
 * the kernel (before 5.7) or the rights to the groups don't allow it. */
static pid_t fork_into_cgroup(int folder_fd)
{
    struct clone_args args = { .flags = CLONE_INTO_CGROUP,
                               .exit_signal = SIGCHLD,
                               .cgroup = (unsigned)folder_fd };

    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* The child gets no signal of ours: all are blocked until its handlers are at default. */
static pid_t fork_blocked(struct plan *plan)
{
    sigset_t all;
    sigset_t old;
    pid_t pid = -1;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    plan->born_in_place = plan->options->cgroup_fd > 0;
    if (plan->born_in_place)
        pid = fork_into_cgroup(plan->options->cgroup_fd);
    if (pid < 0) {
        plan->born_in_place = false;
        pid = fork();
    }
    error = errno;
    if (pid == 0)
        run_child(plan);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return pid;
}

/* Forks and execs by PLAN; returns the pid with *PIDFD, or -1. */
static pid_t launch(struct plan *plan, int *pidfd, struct error *err)
{
    const char *program = plan->options->program;
    AUTO_CLOSE int read_fd = -1;
    AUTO_CLOSE int write_fd = -1;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a pipe");
    read_fd = ends[0];
    write_fd = ends[1];
    plan->failure_fd = write_fd;
    pid = fork_blocked(plan);
    if (pid < 0)
        return error_set(err, ERR_SYSTEM, errno, "fork for %s", program);
    fd_close(&write_fd);
    *pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* not reaped yet, so the pid is still its own */
    if (*pidfd < 0) {
        error_set(err, ERR_SYSTEM, errno, "watch %s", program);
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return -1;
    }
    if (await_exec(pid, read_fd, program, err) < 0) {
        fd_close(pidfd);
        return -1;
    }
    return pid;
}

/* A child whose handle was closed is reaped by a thread that does nothing else; if there can be
 * none, the system reaps it when this process ends. */
static void *reap_later(void *data)
{
    pid_t pid = (pid_t)(intptr_t)data;

    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return NULL;
}

static void abandon(pid_t pid)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t old;

    if (pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, &attributes, reap_later, (void *)(intptr_t)pid) != 0)
        waitpid(pid, NULL, WNOHANG);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

/* On the loop
 * -------------------------------------------------------------------------------------------------------
 */

/* Keeps the last STDERR_MAX bytes. */
static void keep_stderr(struct child *child, const char *text, size_t len)
{
    if (len > STDERR_MAX) {
        text += len - STDERR_MAX;
        len = STDERR_MAX;
    }
    if (child->stderr_len + len > STDERR_MAX) {
        size_t drop = child->stderr_len + len - STDERR_MAX;

        memmove(child->stderr_text, child->stderr_text + drop, child->stderr_len - drop);
        child->stderr_len -= drop;
    }
    memcpy(child->stderr_text + child->stderr_len, text, len);
    child->stderr_len += len;
    child->stderr_text[child->stderr_len] = '\0';
}

/* At most 64 KiB a call, so that a tool which never stops talking can't hold the loop. False at the
 * end of the pipe. */
static bool read_stderr(struct child *child)
{
    char bytes[4096];

    for (int round = 0; round < 16; round++) {
        ssize_t got = read(child->stderr_fd, bytes, sizeof(bytes));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN;
        if (got == 0)
            return false;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\0')
                bytes[i] = '?';
        }
        keep_stderr(child, bytes, (size_t)got);
    }
    return true;
}

static void on_stderr(uv_poll_t *poll, int status, int events)
{
    struct child *child = poll->data;

    (void)events;
    if (status < 0 || !read_stderr(child))
        uv_poll_stop(poll);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct child *child = poll->data;
    siginfo_t info = { .si_pid = 0 };
    int rc = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG);

    (void)status;
    (void)events;
    if (rc < 0 ? errno != ECHILD : info.si_pid == 0)
        return;
    child->reaped = true;
    uv_poll_stop(poll);
    if (child->has_stderr && !uv_is_closing((uv_handle_t *)&child->stderr_poll))
        read_stderr(child);
    if (!child->on_exit)
        return;
    if (info.si_code == CLD_EXITED)
        child->on_exit(child->data, info.si_status, 0);
    else
        child->on_exit(child->data, -1, info.si_status);
}

static void on_all_closed(void *data)
{
    struct child *child = data;
    void (*done)(void *) = child->done;
    void *done_data = child->done_data;

    if (!child->reaped)
        abandon(child->pid);
    fd_close(&child->pidfd);
    fd_close(&child->stderr_fd);
    free(child);
    if (done)
        done(done_data);
}

static void watch(struct child *child)
{
    handles_init(&child->handles, on_all_closed, child);
    BUG_ON(uv_poll_init(child->loop, &child->exit_poll, child->pidfd) != 0);
    handles_add(&child->handles, (uv_handle_t *)&child->exit_poll, child);
    BUG_ON(uv_poll_start(&child->exit_poll, UV_READABLE, on_ended) != 0);
    if (child->stderr_fd < 0)
        return;
    child->has_stderr = true;
    BUG_ON(uv_poll_init(child->loop, &child->stderr_poll, child->stderr_fd) != 0);
    handles_add(&child->handles, (uv_handle_t *)&child->stderr_poll, child);
    BUG_ON(uv_poll_start(&child->stderr_poll, UV_READABLE, on_stderr) != 0);
}

int child_start(struct child **out, uv_loop_t *loop, const struct child_options *options,
                void (*on_exit)(void *data, int code, int signal), void *data, struct error *err)
{
    static char *const no_environment[] = { NULL };
    AUTO_FREE char *path = find_program(options->program);
    AUTO_CLOSE int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    AUTO_CLOSE int stderr_read = -1;
    AUTO_CLOSE int stderr_write = -1;
    struct plan plan = { .options = options, .path = path };
    struct child *child;
    int pidfd = -1;
    pid_t pid;

    if (!path)
        return error_set(err, ERR_NOT_FOUND, 0, "program %s is not installed", options->program);
    if (null_fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open /dev/null");
    if (options->capture_stderr) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return error_set(err, ERR_SYSTEM, errno, "make a pipe");
        stderr_read = ends[0];
        stderr_write = ends[1];
        if (fd_set_nonblocking(stderr_read, true, err) < 0)
            return -1;
    }
    plan.argv = (char **)(uintptr_t)options->argv;
    plan.env = options->env ? (char **)(uintptr_t)options->env : (char **)(uintptr_t)no_environment;
    plan_descriptors(&plan, null_fd, stderr_write);
    pid = launch(&plan, &pidfd, err);
    if (pid < 0)
        return -1;
    child = NEW(struct child);
    child->loop = loop;
    child->pid = pid;
    child->pidfd = pidfd;
    child->stderr_fd = fd_steal(&stderr_read);
    child->on_exit = on_exit;
    child->data = data;
    watch(child);
    *out = child;
    return 0;
}

pid_t child_pid(const struct child *child)
{
    return child->pid;
}

const char *child_stderr(const struct child *child)
{
    return child->stderr_text;
}

void child_kill(struct child *child, int signal)
{
    syscall(SYS_pidfd_send_signal, child->pidfd, signal, NULL, 0u);
}

void child_kill_group(struct child *child, int signal)
{
    if (!child->reaped)
        kill(-child->pid, signal); /* its own session: see run_child */
    child_kill(child, signal);
}

void child_close(struct child *child, void (*done)(void *data), void *data)
{
    uv_handle_t *list[] = {
        (uv_handle_t *)&child->exit_poll,
        child->has_stderr ? (uv_handle_t *)&child->stderr_poll : NULL,
    };

    child->done = done;
    child->done_data = data;
    handles_close_all(&child->handles, child->loop, list, ARRAY_LEN(list));
}
