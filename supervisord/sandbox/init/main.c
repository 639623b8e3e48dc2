/* sandbox-init: process 1 of a sandbox. It outlives the supervisor, reaps what is orphaned, and
 * does what a supervisor asks over the control socket. When it ends, the kernel ends everything
 * else in the sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init.h"

#define GREETING_TIMEOUT_MS                                                                        \
    120000 /* nobody asked for us: the supervisor died while it started us */

static void fail(const char *what)
{
    const char *reason = strerror(errno);
    char line[200];
    size_t len = 0;
    const char *parts[] = { "sandbox-init: ", what, ": ", reason, "\n" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t add = strlen(parts[i]);

        if (add > sizeof(line) - len)
            add = sizeof(line) - len;
        memcpy(line + len, parts[i], add);
        len += add;
    }
    if (write(2, line, len) < 0)
        _exit(126);
    _exit(INIT_EXIT_NO_START);
}

static uint64_t limit_argument(const char *text)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || end == text || *end)
        fail("bad limit");
    return value;
}

/* Everything the tool that started us left open is closed; what stays is marked. */
static void keep_only_ours(void)
{
    if (fcntl(INIT_FD_CONTROL, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(INIT_FD_LOCK, F_SETFD, FD_CLOEXEC) < 0)
        fail("control socket or lock is missing");
    if (syscall(SYS_close_range, INIT_FD_LOCK + 1u, ~0u, 0u) == 0)
        return;
    for (int fd = INIT_FD_LOCK + 1; fd < 65536; fd++)
        close(fd);
}

/* Two pipes for each program that runs are more than many a machine's soft limit. */
static void raise_open_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* The tool's stderr is a pipe to a supervisor that may die. Nothing is said after the start. */
static void detach_streams(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0)
        fail("open /dev/null");
    for (int fd = 0; fd < 3; fd++) {
        if (dup2(null_fd, fd) < 0)
            fail("redirect streams");
    }
    if (null_fd > 2)
        close(null_fd);
}

/* Signals that are neither blocked nor handled don't reach a process 1, so only the one that we
 * want is blocked. */
static int watch_children(const struct init *init)
{
    sigset_t set;
    int fd;

    signal(SIGPIPE, SIG_IGN);
    sigfillset(&set);
    if (init->plain) /* a process among others has all signals to fear */
        sigprocmask(SIG_SETMASK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(init->plain ? SIG_BLOCK : SIG_SETMASK, &set, NULL);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        fail("signalfd");
    return fd;
}

enum { FIRST_CONNECTION = 3 }; /* in fds, behind control, signals and deadline */

struct watched {
    struct pollfd fds[FIRST_CONNECTION + CONNECTIONS_MAX + CONNECTS_MAX];
    struct connection *connections[CONNECTIONS_MAX];
    struct pending_connect *connects[CONNECTS_MAX];
    size_t connection_count;
    size_t connect_count;
    int timeout_ms;
};

static void shorten_timeout(struct watched *watched, int64_t deadline_ms)
{
    int64_t left = deadline_ms - net_now_ms();
    int wait = left < 0 ? 0 : (int)left + 1;

    if (watched->timeout_ms < 0 || wait < watched->timeout_ms)
        watched->timeout_ms = wait;
}

static void collect(struct init *init, struct watched *watched)
{
    size_t at = FIRST_CONNECTION;

    watched->fds[0] = (struct pollfd){ init->control, POLLIN, 0 };
    watched->fds[1] = (struct pollfd){ init->signals, POLLIN, 0 };
    watched->fds[2] = (struct pollfd){ init->deadline, POLLIN, 0 };
    watched->connection_count = 0;
    watched->connect_count = 0;
    watched->timeout_ms = init->greeted ? -1 : GREETING_TIMEOUT_MS;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (init->connections[i].fd < 0)
            continue;
        watched->connections[watched->connection_count++] = &init->connections[i];
        watched->fds[at++] = (struct pollfd){ init->connections[i].fd, POLLIN, 0 };
    }
    for (size_t i = 0; i < CONNECTS_MAX; i++) {
        if (init->connects[i].fd < 0)
            continue;
        watched->connects[watched->connect_count++] = &init->connects[i];
        watched->fds[at++] = (struct pollfd){ init->connects[i].fd, POLLOUT, 0 };
        shorten_timeout(watched, init->connects[i].deadline_ms);
    }
}

/* What one event does may close another's descriptor, so each is looked at again before it is used.
 */
static void dispatch(struct init *init, const struct watched *watched)
{
    const struct pollfd *polled = watched->fds;

    if (polled[1].revents)
        reap_ended(init);
    for (size_t i = 0; i < watched->connection_count; i++) {
        const struct pollfd *one = &polled[FIRST_CONNECTION + i];

        if (one->revents && watched->connections[i]->fd == one->fd)
            control_receive(init, watched->connections[i]);
    }
    for (size_t i = 0; i < watched->connect_count; i++) {
        const struct pollfd *one = &polled[FIRST_CONNECTION + watched->connection_count + i];
        struct pending_connect *connect = watched->connects[i];

        if (connect->fd == one->fd && (one->revents || connect->deadline_ms <= net_now_ms()))
            net_connected(init, connect);
    }
    if (polled[0].revents)
        control_accept(init);
}

/* Returns with what init is to end with. */
static int serve(struct init *init)
{
    struct watched watched;

    for (;;) {
        size_t count;
        int ready;

        collect(init, &watched);
        count = FIRST_CONNECTION + watched.connection_count + watched.connect_count;
        ready = poll(watched.fds, (nfds_t)count, watched.timeout_ms);
        if (ready < 0 && errno != EINTR)
            return INIT_EXIT_UNGREETED;
        if (ready == 0 && !init->greeted)
            return INIT_EXIT_UNGREETED;
        if (ready > 0 && watched.fds[2].revents)
            return INIT_EXIT_DEADLINE;
        if (ready >= 0)
            dispatch(init, &watched);
    }
}

static void read_arguments(struct init *init, int *argc, char ***argv)
{
    init->plain = *argc > 1 && strcmp((*argv)[1], INIT_PLAIN) == 0;
    *argc -= 1 + init->plain;
    *argv += 1 + init->plain;
    if (*argc < 3 || (init->plain && *argc > 3)) {
        errno = EINVAL;
        fail("usage: sandbox-init [plain] PROCESSES OPEN_FILES FILE_SIZE [PLACE...]");
    }
    for (int i = 0; i < 3; i++)
        init->limits[i] = limit_argument((*argv)[i]);
    *argc -= 3;
    *argv += 3;
}

/* A plain init touches no network, and inherits whom its children leave behind. */
static void take_place(const struct init *init)
{
    if (!init->plain)
        net_up();
    else if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        fail("reap orphans");
}

int main(int argc, char **argv)
{
    static struct init init;
    int rc;

    /* First of all: from here on nobody inside can read our memory, our descriptors or our
     * environment. */
    prctl(PR_SET_DUMPABLE, 0);
    read_arguments(&init, &argc, &argv);
    keep_only_ours();
    raise_open_files();
    init.control = INIT_FD_CONTROL;
    if (fcntl(init.control, F_SETFL, O_NONBLOCK) < 0)
        fail("control socket");
    init.signals = watch_children(&init);
    init.deadline = deadline_setup();
    if (init.deadline < 0)
        fail("timer");
    take_place(&init);
    control_setup(&init);
    reap_setup(&init);
    detach_streams();
    init.landlock = landlock_apply(argv, (size_t)argc);
    rc = serve(&init);
    if (init.plain) /* else the kernel does it */
        reap_kill_all(&init);
    return rc;
}
