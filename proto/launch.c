#include "proto/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "proto/client.h"

#define SUPERVISOR "sandbox-supervisord"
#define EXEC_WAIT_MS 2000 /* for exec to happen or fail; takes about one millisecond */
#define RETRY_MS 20
#define LOG_TAIL_SIZE 4096

static char *log_path(const struct paths *paths)
{
    return mem_printf("%s/supervisord.log", paths->state);
}

/* The program beside our own file; NULL when there is none. */
static char *beside_ourselves(void)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    AUTO_FREE char *path = NULL;
    char *slash;

    if (len <= 0)
        return NULL;
    self[len] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    path = mem_printf("%s/%s", self, SUPERVISOR);
    return access(path, X_OK) == 0 ? STEAL(path) : NULL;
}

char *launch_program(void)
{
    const char *chosen = getenv("SANDBOX_MCP_SUPERVISORD");
    char *beside;

    if (chosen && chosen[0])
        return mem_strdup(chosen);
    beside = beside_ourselves();
    return beside ? beside : mem_strdup(SUPERVISOR);
}

/* Everything the grandchild needs, made before the fork. */
struct plan {
    const char *program;
    int null_fd;
    int log_fd;
    int report_fd; /* close-on-exec: reports, and end of file once exec has worked */
};

struct report {
    int32_t pid; /* of who is to become the supervisor; 0: it came not so far */
    int32_t failure;
};

static bool tell(const struct plan *plan, pid_t pid, int failure)
{
    const struct report report = { .pid = (int32_t)pid, .failure = failure };

    return write(plan->report_fd, &report, sizeof(report)) == (ssize_t)sizeof(report);
}

_Noreturn static void report_and_exit(const struct plan *plan, int failure)
{
    _exit(tell(plan, 0, failure) ? 127 : 126);
}

/* Ignored signals and the mask go through exec; the supervisor starts with neither. */
static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void become_supervisor(const struct plan *plan)
{
    char *const argv[] = { (char[]){ SUPERVISOR }, NULL };

    if (!tell(plan, getpid(), 0))
        _exit(126);
    reset_signals();
    umask(077);
    if (dup2(plan->null_fd, STDIN_FILENO) < 0 || dup2(plan->null_fd, STDOUT_FILENO) < 0 ||
        dup2(plan->log_fd, STDERR_FILENO) < 0 || chdir("/") < 0)
        report_and_exit(plan, errno);
    /* A client must not wait for a pipe of its own that only the supervisor still holds. */
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    execvp(plan->program, argv);
    report_and_exit(plan, errno);
}

/* The child leads a session of its own and ends at once, so that the grandchild belongs to nobody.
 */
_Noreturn static void fork_again(const struct plan *plan)
{
    pid_t pid;

    if (setsid() < 0)
        report_and_exit(plan, errno);
    pid = fork();
    if (pid < 0)
        report_and_exit(plan, errno);
    if (pid == 0)
        become_supervisor(plan);
    _exit(0);
}

/* One report; false at the end, or when it takes too long: connecting will show. */
static bool read_report(int report_fd, struct report *report)
{
    struct pollfd wait = { .fd = report_fd, .events = POLLIN };

    return poll(&wait, 1, EXEC_WAIT_MS) > 0 &&
           read(report_fd, report, sizeof(*report)) == (ssize_t)sizeof(*report);
}

/* The pid is told before exec, so whom it names is there until it has at least tried. */
static int await_exec(int report_fd, const char *program, int *started, struct error *err)
{
    struct report report;

    *started = -1;
    while (read_report(report_fd, &report)) {
        if (report.failure != 0) {
            fd_close(started);
            return error_set(err, report.failure == ENOENT ? ERR_UNAVAILABLE : ERR_SYSTEM,
                             report.failure, "start %s", program);
        }
        *started = (int)syscall(SYS_pidfd_open, report.pid, 0);
    }
    return 0;
}

bool launch_ended(int started)
{
    struct pollfd wait = { .fd = started, .events = POLLIN };

    return started >= 0 && poll(&wait, 1, 0) > 0;
}

static int start_detached(struct plan *plan, int *started, struct error *err)
{
    int report[2];
    AUTO_CLOSE int report_fd = -1;
    pid_t pid;

    if (pipe2(report, O_CLOEXEC) < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a pipe");
    report_fd = report[0];
    plan->report_fd = report[1];
    pid = fork();
    if (pid == 0)
        fork_again(plan);
    close(report[1]);
    if (pid < 0)
        return error_set(err, ERR_SYSTEM, errno, "start %s", plan->program);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return await_exec(report_fd, plan->program, started, err);
}

int launch_supervisor(const struct paths *paths, int *started, struct error *err)
{
    AUTO_FREE char *program = launch_program();
    AUTO_FREE char *log = log_path(paths);
    AUTO_CLOSE int null_fd = -1;
    AUTO_CLOSE int log_fd = -1;
    struct plan plan = { .program = program };

    if (paths_make_private(paths->state, err) < 0)
        return error_wrap(err, "start %s", SUPERVISOR);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open /dev/null");
    log_fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log_fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", log);
    plan.null_fd = null_fd;
    plan.log_fd = log_fd;
    return start_detached(&plan, started, err);
}

/* Cuts the last line that isn't empty out of TEXT; "" when there is none. */
static char *last_line(char *text)
{
    size_t len = strlen(text);
    char *line;

    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text[len] = '\0';
    line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

int launch_explain(const struct paths *paths, bool ended, struct error *err)
{
    AUTO_FREE char *log = log_path(paths);
    AUTO_CLOSE int fd = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    AUTO_BUF struct buf line = BUF_INIT(2048);
    char tail[LOG_TAIL_SIZE + 1];
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t got = 0;

    if (size > 0)
        got = pread(fd, tail, LOG_TAIL_SIZE, size > LOG_TAIL_SIZE ? size - LOG_TAIL_SIZE : 0);
    tail[got > 0 ? got : 0] = '\0';
    if (tail[0]) {
        const char *text = last_line(tail);

        str_append_escaped(&line, text, strlen(text), 400);
    }
    return error_set(err, ERR_UNAVAILABLE, 0, "the supervisor %s (see %s)%s%s",
                     ended ? "can't start" : "was started but does not serve its socket yet", log,
                     line.len ? ": " : "", buf_text(&line));
}

static void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

int launch_connect(struct client **out, const struct paths *paths, const char *role, int timeout_ms,
                   struct error *err)
{
    uint64_t deadline_ms = clock_mono_ms(clock_system()) + (uint64_t)timeout_ms;
    AUTO_CLOSE int started = -1;
    bool ended = false;
    uint64_t now_ms;

    if (client_connect(out, paths->socket, role, timeout_ms, err) == 0)
        return 0;
    if (err->code != ERR_UNAVAILABLE)
        return -1;
    if (launch_supervisor(paths, &started, err) < 0)
        return -1;
    for (;;) {
        now_ms = clock_mono_ms(clock_system());
        if (now_ms >= deadline_ms || ended)
            break;
        ended = launch_ended(started); /* perhaps because another one serves */
        if (client_connect(out, paths->socket, role, (int)(deadline_ms - now_ms), err) == 0)
            return 0;
        if (err->code != ERR_UNAVAILABLE)
            return -1;
        pause_ms(ended ? 0 : RETRY_MS);
    }
    return launch_explain(paths, ended, err);
}
