#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define EXEC_TIMEOUT_MS 20000

enum stage { STAGE_STREAMS, STAGE_LIMITS, STAGE_FOLDER, STAGE_EXEC };

static const char *const stage_names[] = { "streams", "limits", "folder", "program" };

struct failure {
    enum stage stage;
    int error;
};

static _Noreturn void fail(int failure_fd, enum stage stage)
{
    struct failure failure = { stage, errno };
    ssize_t written = write(failure_fd, &failure, sizeof(failure));

    _exit(written < 0 ? 126 : 127);
}

static int lower_limit(unsigned resource, uint64_t wanted)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) < 0)
        return -1;
    /* Above an inherited hard limit nobody but the host's root can go. */
    if (limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max)
        limit.rlim_max = (rlim_t)wanted;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(resource, &limit);
}

/* Counted per user namespace, so sandboxes of one host uid don't share the number of processes. */
static int apply_limits(const uint64_t *limits)
{
    static const unsigned resources[] = { RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_FSIZE };

    for (size_t i = 0; i < 3; i++) {
        if (limits[i] && lower_limit(resources[i], limits[i]) < 0)
            return -1;
    }
    /* Of 0 a host's core dump program takes no notice, and would be fed by an agent; of 1 it does.
     */
    return lower_limit(RLIMIT_CORE, 1);
}

static int place_streams(const struct spawn *spawn)
{
    const int *streams = spawn->streams;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0)
        return -1;
    for (int i = 0; i < 3; i++) {
        if (dup2(streams[i] < 0 ? null_fd : streams[i], i) < 0)
            return -1;
    }
    /* All else is marked close-on-exec already; this says it once more. */
    syscall(SYS_close_range, 3u, ~0u, 1u << 2 /* CLOSE_RANGE_CLOEXEC */);
    /* By it whoever has to end all finds those that outlive init. */
    return spawn->keep_lock ? fcntl(INIT_FD_LOCK, F_SETFD, 0) : 0;
}

static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static const char *search_path(char **env)
{
    for (; *env; env++) {
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    }
    return "/usr/local/bin:/usr/bin:/bin";
}

/* execve along the PATH of the program's own environment. Returns with errno. */
static void exec_by_name(const struct spawn *spawn)
{
    const char *name = spawn->argv[0];
    const char *at = search_path(spawn->env);
    size_t name_len = strlen(name);
    int error = ENOENT;
    char path[4096];

    errno = ENOENT;
    if (name[0] == '\0') /* would be the folders of PATH themselves */
        return;
    if (strchr(name, '/')) {
        execve(name, spawn->argv, spawn->env);
        return;
    }
    for (;;) {
        size_t len = strcspn(at, ":");

        if (len > 0 && len + name_len + 2 <= sizeof(path)) {
            memcpy(path, at, len);
            path[len] = '/';
            memcpy(path + len + 1, name, name_len + 1);
            execve(path, spawn->argv, spawn->env);
            if (errno != ENOENT && errno != ENOTDIR)
                error = errno;
        }
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    errno = error;
}

static _Noreturn void run_program(const struct spawn *spawn, int failure_fd)
{
    setsid();
    reset_signals();
    umask(022);
    if (place_streams(spawn) < 0)
        fail(failure_fd, STAGE_STREAMS);
    if (apply_limits(spawn->limits) < 0)
        fail(failure_fd, STAGE_LIMITS);
    if (chdir(spawn->cwd) < 0)
        fail(failure_fd, STAGE_FOLDER);
    exec_by_name(spawn); /* makes the process dumpable again: it is the agent's */
    fail(failure_fd, STAGE_EXEC);
}

/* Whoever is inside may stop the new process before its program runs; init waits for nobody without
 * end, least of all past the deadline. */
static bool may_read(int fd, int deadline)
{
    struct pollfd either[2] = { { fd, POLLIN, 0 }, { deadline, POLLIN, 0 } };
    int64_t until = net_now_ms() + EXEC_TIMEOUT_MS;
    int rc;

    do {
        int64_t left = until - net_now_ms();

        rc = poll(either, 2, left > 0 ? (int)left : 0);
    } while (rc < 0 && errno == EINTR);
    return rc > 0 && either[0].revents;
}

/* 0 when the program runs; -1 with errno when it doesn't, and then it is gone. */
static int await_exec(pid_t pid, int fd, int deadline, const char **failed)
{
    struct failure failure = { STAGE_EXEC, ETIMEDOUT };

    if (may_read(fd, deadline)) {
        ssize_t got = read(fd, &failure, sizeof(failure));

        if (got == 0)
            return 0;
        if (got != sizeof(failure))
            failure = (struct failure){ STAGE_EXEC, EIO };
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *failed = stage_names[failure.stage];
    errno = failure.error;
    return -1;
}

pid_t spawn_program(const struct spawn *spawn, const char **failed)
{
    int ends[2];
    pid_t pid;
    int rc = -1;

    *failed = "fork";
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0)
        run_program(spawn, ends[1]);
    close(ends[1]);
    if (pid > 0)
        rc = await_exec(pid, ends[0], spawn->deadline, failed);
    int error = errno;
    close(ends[0]);
    errno = error;
    return rc < 0 ? -1 : pid;
}
