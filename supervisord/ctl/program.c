#include "ctl/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mem.h"

extern char **environ;

/* Finding
 * ------------------------------------------------------------------------------------------------
 */

static bool is_program(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

char *program_find(const char *name)
{
    const char *path = getenv("PATH");

    if (strchr(name, '/') != NULL)
        return is_program(name) ? mem_strdup(name) : NULL;
    while (path != NULL && path[0] != '\0') {
        size_t len = strcspn(path, ":");
        AUTO_FREE
        char *candidate = mem_printf("%.*s/%s", (int)len, path, name);

        if (len > 0 && is_program(candidate))
            return STEAL(candidate);
        path += len + (path[len] == ':');
    }
    return NULL;
}

/* Running
 * ------------------------------------------------------------------------------------------------
 */

/* As posix_spawnp has it: 0 or an errno. */
static int start(const struct program *program, int out, pid_t *pid)
{
    char *const *argv = (char *const *)(const void *)program->argv;
    char *const *env = program->env != NULL ? (char *const *)(const void *)program->env : environ;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc;

    posix_spawnattr_init(&attributes);
    if (program->timeout_ms != 0) /* a group of its own, to be killed as one */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&actions);
    if (program->in >= 0)
        posix_spawn_file_actions_adddup2(&actions, program->in, STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (program->capture == PROGRAM_ALL)
        posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(pid, argv[0], &actions, &attributes, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return rc;
}

/* False once DEADLINE_MS, unless it is 0, has passed. */
static bool wait_readable(int fd, uint64_t deadline_ms)
{
    for (;;) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        uint64_t now_ms = clock_mono_ms(clock_system());
        int left_ms = -1;

        if (deadline_ms != 0)
            left_ms = now_ms < deadline_ms ? (int)(deadline_ms - now_ms) : 0;
        int rc = poll(&wait, 1, left_ms);

        if (rc >= 0)
            return rc > 0;
        if (errno != EINTR)
            return true; /* reading says more */
    }
}

static bool read_output(int fd, uint64_t deadline_ms, struct buf *out)
{
    char piece[16384];
    ssize_t got;

    do {
        if (!wait_readable(fd, deadline_ms))
            return false;
        got = read(fd, piece, sizeof(piece));
        if (got > 0 && out->len + (size_t)got <= out->max)
            buf_append(out, piece, (size_t)got);
    } while (got > 0 || (got < 0 && errno == EINTR));
    return true;
}

/* Its output may end before itself. */
static bool wait_end(pid_t pid, uint64_t deadline_ms)
{
    AUTO_CLOSE int fd = deadline_ms != 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

    return fd < 0 || wait_readable(fd, deadline_ms);
}

int program_wait(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int program_run(const struct program *program, struct buf *out, struct error *err)
{
    uint64_t deadline_ms = program->timeout_ms != 0
                               ? clock_mono_ms(clock_system()) + (uint64_t)program->timeout_ms
                               : 0;
    AUTO_CLOSE int from = -1;
    int ends[2];
    bool ended;
    pid_t pid;
    int code;
    int rc;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, ERR_SYSTEM, errno, "pipe");
    from = ends[0];
    rc = start(program, ends[1], &pid);
    close(ends[1]);
    if (rc != 0)
        return error_set(err, ERR_UNAVAILABLE, rc, "%s is needed here and can't be started",
                         program->argv[0]);
    ended = read_output(from, deadline_ms, out) && wait_end(pid, deadline_ms);
    if (!ended)
        kill(-pid, SIGKILL);
    code = program_wait(pid);
    return ended ? code
                 : error_set(err, ERR_TIMEOUT, 0, "%s was not done after %d seconds",
                             program->argv[0], program->timeout_ms / 1000);
}
