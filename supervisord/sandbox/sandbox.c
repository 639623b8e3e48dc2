#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/child.h"
#include "io/handles.h"
#include "sandbox/bwrap/bwrap.h"
#include "sandbox/control.h"

#define FAILING_WAIT_MS 3000

enum sandbox_state {
    SANDBOX_STARTING,
    SANDBOX_FAILING, /* it could not be started: what there is of it is being ended */
    SANDBOX_READY,
    SANDBOX_OVER,
};

struct sandbox {
    uv_loop_t *loop;
    char *id;
    char *runtime_dir;
    uint32_t host_uid;
    struct sandbox_callbacks callbacks;
    enum sandbox_state state;
    bool stop_asked;
    struct error failure; /* SANDBOX_FAILING */
    struct child *child;  /* NULL for an adopted one */
    bool child_ended;
    int child_code;
    struct control_link *link;
    pid_t init_pid;
    int pidfd;
    uv_poll_t pid_poll;
    bool pid_poll_open;
    uv_timer_t timer;
    struct handles handles;
    unsigned closing_parts;
    bool closing;
    void (*done)(void *data);
    void *done_data;
};

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0u);
}

static int kill_pidfd(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0u);
}

/* The lock is held by init for as long as it lives. */
static bool lock_is_held(const char *runtime_dir)
{
    AUTO_FREE char *path = mem_printf("%s/lock", runtime_dir);
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Life
 * ----------------------------------------------------------------------------------------------------------
 */

static void report_failure(struct sandbox *sandbox)
{
    sandbox->state = SANDBOX_OVER;
    uv_timer_stop(&sandbox->timer);
    sandbox->callbacks.on_ready(sandbox->callbacks.data, &sandbox->failure);
}

static void on_failing_late(uv_timer_t *timer)
{
    report_failure(timer->data);
}

static void fail_start(struct sandbox *sandbox, const struct error *err)
{
    if (sandbox->state != SANDBOX_STARTING)
        return;
    sandbox->state = SANDBOX_FAILING;
    sandbox->failure = *err;
    if (sandbox->child != NULL && !sandbox->child_ended)
        child_kill_group(sandbox->child, SIGKILL);
    if (sandbox->pidfd >= 0)
        kill_pidfd(sandbox->pidfd, SIGKILL);
    /* Its end is told by the child's end or by the descriptor of its init. */
    uv_timer_start(
        &sandbox->timer, on_failing_late,
        sandbox->child_ended && !lock_is_held(sandbox->runtime_dir) ? 0 : FAILING_WAIT_MS, 0);
}

static void on_start_late(uv_timer_t *timer)
{
    struct sandbox *sandbox = timer->data;
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TIMEOUT, 0, "the sandbox tool did not bring a sandbox up in time");
    fail_start(sandbox, &err);
}

static void report_end(struct sandbox *sandbox)
{
    struct sandbox_end end = { .kind = sandbox->stop_asked ? SANDBOX_END_STOPPED : SANDBOX_END_LOST,
                               .exit_code = sandbox->child_ended ? sandbox->child_code : -1 };

    if (sandbox->child != NULL) {
        AUTO_BUF struct buf words = BUF_INIT(2048);
        const char *text = child_stderr(sandbox->child);

        str_append_escaped(&words, text, strcspn(text, "\n"), sizeof(end.text) - 4);
        str_copy(end.text, sizeof(end.text), buf_text(&words));
    }
    sandbox->state = SANDBOX_OVER;
    sandbox->callbacks.on_end(sandbox->callbacks.data, &end);
}

/* init's descriptor becomes readable when it and with it everything in its namespace is gone. */
static void on_init_gone(uv_poll_t *poll, int status, int events)
{
    struct sandbox *sandbox = poll->data;

    (void)status;
    (void)events;
    uv_poll_stop(poll);
    if (sandbox->state == SANDBOX_READY)
        report_end(sandbox);
    else if (sandbox->state == SANDBOX_FAILING)
        report_failure(sandbox);
    else if (sandbox->state == SANDBOX_STARTING)
        on_start_late(&sandbox->timer);
}

static void on_child_exit(void *data, int code, int signal)
{
    struct sandbox *sandbox = data;
    struct error err = ERROR_INIT;

    sandbox->child_ended = true;
    sandbox->child_code = signal != 0 ? 128 + signal : code;
    if (sandbox->state == SANDBOX_STARTING && sandbox->init_pid == 0) {
        bwrap_explain(child_stderr(sandbox->child), &err);
        fail_start(sandbox, &err);
    } else if (sandbox->state == SANDBOX_FAILING && !lock_is_held(sandbox->runtime_dir)) {
        report_failure(sandbox);
    }
}

static void on_hello(void *data, const struct init_reply *reply, int fds[3], pid_t sender,
                     const struct error *err)
{
    struct sandbox *sandbox = data;
    struct error local = ERROR_INIT;

    (void)fds;
    if (err != NULL || sandbox->closing || sandbox->state == SANDBOX_OVER)
        return;
    if (reply->error != 0 || sender <= 1) {
        error_set(&local, ERR_CONFLICT, 0, "the sandbox's init speaks another protocol");
        fail_start(sandbox, &local);
        return;
    }
    sandbox->init_pid = sender;
    sandbox->pidfd = open_pidfd(sender);
    if (sandbox->pidfd < 0) {
        error_set(&local, ERR_SYSTEM, errno, "watch the sandbox's init");
        fail_start(sandbox, &local);
        return;
    }
    BUG_ON(uv_poll_init(sandbox->loop, &sandbox->pid_poll, sandbox->pidfd) != 0);
    handles_add(&sandbox->handles, (uv_handle_t *)&sandbox->pid_poll, sandbox);
    sandbox->pid_poll_open = true;
    uv_poll_start(&sandbox->pid_poll, UV_READABLE, on_init_gone);
    if (sandbox->state == SANDBOX_FAILING) {
        kill_pidfd(sandbox->pidfd, SIGKILL);
        return;
    }
    sandbox->state = SANDBOX_READY;
    uv_timer_stop(&sandbox->timer);
    if (sandbox->stop_asked)
        kill_pidfd(sandbox->pidfd, SIGKILL);
    sandbox->callbacks.on_ready(sandbox->callbacks.data, NULL);
}

static void on_link_lost(void *data)
{
    /* The descriptor of init tells the end; a connection alone that broke means that init dropped
     * us. */
    struct sandbox *sandbox = data;

    log_debug(sandbox->id, "control connection lost");
    if (sandbox->state == SANDBOX_READY && sandbox->pidfd >= 0)
        kill_pidfd(sandbox->pidfd, SIGKILL);
}

static void sandbox_free(void *data)
{
    struct sandbox *sandbox = data;
    void (*done)(void *) = sandbox->done;
    void *done_data = sandbox->done_data;

    fd_close(&sandbox->pidfd);
    free(sandbox->id);
    free(sandbox->runtime_dir);
    free(sandbox);
    if (done != NULL)
        done(done_data);
}

static struct sandbox *sandbox_new(uv_loop_t *loop, const char *id, const char *runtime_dir,
                                   const struct sandbox_callbacks *callbacks)
{
    struct sandbox *sandbox = NEW(struct sandbox);

    sandbox->loop = loop;
    sandbox->id = mem_strdup(id);
    sandbox->runtime_dir = mem_strdup(runtime_dir);
    sandbox->callbacks = *callbacks;
    sandbox->pidfd = -1;
    handles_init(&sandbox->handles, sandbox_free, sandbox);
    uv_timer_init(loop, &sandbox->timer);
    handles_add(&sandbox->handles, (uv_handle_t *)&sandbox->timer, sandbox);
    return sandbox;
}

static int greet(struct sandbox *sandbox, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/ctl.sock", sandbox->runtime_dir);

    if (control_link_start(&sandbox->link, sandbox->loop, path, on_link_lost, sandbox, err) < 0)
        return -1;
    return control_link_ask(sandbox->link, (struct init_request){ .verb = INIT_HELLO }, NULL, 0,
                            on_hello, sandbox, err);
}

static int open_lock(const char *runtime_dir, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/lock", runtime_dir);
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, ERR_CONFLICT, 0, "another sandbox of this session still lives");
    return fd_steal(&fd);
}

/* We are in init's queue before the tool starts: a tool that dies at once is told by its end, with
 * its words. */
static int start_tool(struct sandbox *sandbox, const struct sandbox_options *options,
                      const struct sandbox_spec *spec, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/ctl.sock", spec->runtime_dir);
    AUTO_CLOSE int lock = open_lock(spec->runtime_dir, err);
    AUTO_CLOSE int control = -1;

    if (lock < 0)
        return -1;
    control = fd_listen_unix(path, SOCK_SEQPACKET, 16, err);
    if (control < 0 || greet(sandbox, err) < 0)
        return -1;
    return bwrap_start(&sandbox->child, sandbox->loop, options, spec, control, lock, on_child_exit,
                       sandbox, err);
}

int sandbox_start(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const struct sandbox_spec *spec, const struct sandbox_callbacks *callbacks,
                  struct error *err)
{
    struct sandbox *sandbox;
    struct error local = ERROR_INIT;

    if (spec->host_uid == 0)
        return error_set(err, ERR_DENIED, 0, "a sandbox never runs with the host's uid 0");
    if (geteuid() != 0 && spec->host_uid != geteuid())
        return error_set(err, ERR_DENIED, 0, "only root can start a sandbox under another uid");
    sandbox = sandbox_new(loop, spec->id, spec->runtime_dir, callbacks);
    sandbox->host_uid = spec->host_uid;
    *out = sandbox;
    if (start_tool(sandbox, options, spec, &local) < 0) {
        /* Told by on_ready, like every other reason. */
        sandbox->child_ended = sandbox->child == NULL;
        fail_start(sandbox, &local);
        return 0;
    }
    uv_timer_start(&sandbox->timer, on_start_late, options->start_timeout_ms, 0);
    return 0;
}

int sandbox_adopt(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const char *id, const char *runtime_dir,
                  const struct sandbox_callbacks *callbacks, struct error *err)
{
    struct sandbox *sandbox;
    struct error local = ERROR_INIT;

    if (!lock_is_held(runtime_dir))
        return error_set(err, ERR_NOT_FOUND, 0, "no sandbox lives in %s", runtime_dir);
    sandbox = sandbox_new(loop, id, runtime_dir, callbacks);
    *out = sandbox;
    if (greet(sandbox, &local) < 0)
        fail_start(sandbox, &local);
    else
        uv_timer_start(&sandbox->timer, on_start_late, options->start_timeout_ms, 0);
    return 0;
}

void sandbox_stop(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;

    if (sandbox->stop_asked || sandbox->state == SANDBOX_OVER)
        return;
    sandbox->stop_asked = true;
    if (sandbox->state == SANDBOX_READY) {
        kill_pidfd(sandbox->pidfd, SIGKILL);
    } else {
        error_set(&err, ERR_CANCELLED, 0, "the sandbox was stopped while it started");
        fail_start(sandbox, &err);
    }
}

static void close_handles(struct sandbox *sandbox)
{
    uv_handle_t *list[] = { (uv_handle_t *)&sandbox->timer,
                            sandbox->pid_poll_open ? (uv_handle_t *)&sandbox->pid_poll : NULL };

    handles_close_all(&sandbox->handles, sandbox->loop, list, ARRAY_LEN(list));
}

static void on_part_closed(void *data)
{
    struct sandbox *sandbox = data;

    if (--sandbox->closing_parts == 0)
        close_handles(sandbox);
}

void sandbox_close(struct sandbox *sandbox, void (*done)(void *data), void *data)
{
    sandbox->closing = true;
    sandbox->done = done;
    sandbox->done_data = data;
    if (sandbox->state == SANDBOX_STARTING && sandbox->child != NULL && !sandbox->child_ended)
        child_kill_group(sandbox->child, SIGKILL);
    sandbox->state = SANDBOX_OVER;
    sandbox->closing_parts = 1;
    if (sandbox->link != NULL) {
        sandbox->closing_parts++;
        control_link_close(sandbox->link, on_part_closed, sandbox);
    }
    if (sandbox->child != NULL) {
        sandbox->closing_parts++;
        child_close(sandbox->child, on_part_closed, sandbox);
    }
    on_part_closed(sandbox);
}

/* Without a loop
 * --------------------------------------------------------------------------------------------------
 */

static pid_t ask_pid(const char *runtime_dir, int timeout_ms, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/ctl.sock", runtime_dir);
    AUTO_CLOSE int fd = fd_connect_unix(path, SOCK_SEQPACKET, err);
    struct init_request request = { .protocol = INIT_PROTOCOL_VERSION,
                                    .verb = INIT_HELLO,
                                    .tag = 1 };
    struct init_reply reply;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec bytes = { &reply, sizeof(reply) };
    struct msghdr message = { .msg_iov = &bytes,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    pid_t pid = -1;
    int on = 1;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        send(fd, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request) ||
        poll(&wait, 1, timeout_ms) != 1 || recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0)
        return error_set(err, ERR_TIMEOUT, 0, "the sandbox's init does not answer");
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        struct ucred credentials;

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
        pid = credentials.pid;
    }
    return pid > 1 ? pid : error_set(err, ERR_BUG, 0, "the sandbox's init has no pid");
}

int sandbox_kill_leftover(const char *runtime_dir, int timeout_ms, struct error *err)
{
    AUTO_CLOSE int pidfd = -1;
    struct pollfd wait = { .events = POLLIN };
    pid_t pid;

    if (!lock_is_held(runtime_dir))
        return 0;
    pid = ask_pid(runtime_dir, timeout_ms, err);
    if (pid < 0)
        return lock_is_held(runtime_dir) ? -1 : 0;
    pidfd = open_pidfd(pid);
    if (pidfd < 0)
        return errno == ESRCH ? 0 : error_set(err, ERR_SYSTEM, errno, "watch process %d", (int)pid);
    kill_pidfd(pidfd, SIGKILL);
    wait.fd = pidfd;
    if (poll(&wait, 1, timeout_ms) != 1)
        return error_set(err, ERR_TIMEOUT, 0, "process %d does not end", (int)pid);
    return 0;
}

int sandbox_runtime_remove(const char *runtime_dir, struct error *err)
{
    static const char *const names[] = { "ctl.sock", "lock" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *path = mem_printf("%s/%s", runtime_dir, names[i]);

        if (unlink(path) < 0 && errno != ENOENT)
            return error_set(err, ERR_SYSTEM, errno, "remove %s", path);
    }
    if (rmdir(runtime_dir) < 0 && errno != ENOENT)
        return error_set(err, ERR_SYSTEM, errno, "remove %s", runtime_dir);
    return 0;
}

/* Requests to init
 * ------------------------------------------------------------------------------------------------
 */

struct ask {
    struct sandbox *sandbox;
    sandbox_fd_cb fd_done;
    sandbox_spawn_cb spawn_done;
    sandbox_exit_cb exit_done;
    void *data;
};

static bool refused(const struct init_reply *reply, const struct error *err, const char *what,
                    struct error *to)
{
    if (err != NULL) {
        *to = *err;
        return true;
    }
    if (reply->error == 0)
        return false;
    AUTO_BUF struct buf words = BUF_INIT(1024);
    str_append_escaped(&words, reply->text, strlen(reply->text), INIT_TEXT_MAX);
    error_set(to, reply->error == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM,
              reply->error == ENOENT ? 0 : reply->error, "%s inside the sandbox: %s", what,
              buf_text(&words));
    return true;
}

static void set_nonblocking(int fd)
{
    struct error ignored = ERROR_INIT;

    if (fd >= 0)
        fd_set_nonblocking(fd, true, &ignored);
}

static void on_fd(void *data, const struct init_reply *reply, int fds[3], pid_t sender,
                  const struct error *err)
{
    struct ask *ask = data;
    struct error local = ERROR_INIT;

    (void)sender;
    if (refused(reply, err, "a socket", &local)) {
        ask->fd_done(ask->data, -1, &local);
    } else if (fds[0] < 0) {
        error_set(&local, ERR_BUG, 0, "the sandbox sent no socket");
        ask->fd_done(ask->data, -1, &local);
    } else {
        set_nonblocking(fds[0]);
        ask->fd_done(ask->data, fds[0], NULL);
        fds[0] = -1;
    }
    for (int i = 0; i < 3; i++)
        fd_close(&fds[i]);
    free(ask);
}

static int ask_socket(struct sandbox *sandbox, enum init_verb verb, uint16_t port,
                      sandbox_fd_cb done, void *data, struct error *err)
{
    struct ask *ask;

    if (sandbox->state != SANDBOX_READY)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is not up");
    ask = NEW(struct ask);
    ask->fd_done = done;
    ask->data = data;
    if (control_link_ask(sandbox->link, (struct init_request){ .verb = verb, .number = port }, NULL,
                         0, on_fd, ask, err) == 0)
        return 0;
    free(ask);
    return -1;
}

int sandbox_listen(struct sandbox *sandbox, uint16_t port, sandbox_fd_cb done, void *data,
                   struct error *err)
{
    return ask_socket(sandbox, INIT_LISTEN, port, done, data, err);
}

int sandbox_connect(struct sandbox *sandbox, uint16_t port, sandbox_fd_cb done, void *data,
                    struct error *err)
{
    return ask_socket(sandbox, INIT_CONNECT, port, done, data, err);
}

static void on_spawned(void *data, const struct init_reply *reply, int fds[3], pid_t sender,
                       const struct error *err)
{
    struct ask *ask = data;
    struct error local = ERROR_INIT;
    struct sandbox_process process;

    (void)sender;
    if (refused(reply, err, "start a program", &local)) {
        for (int i = 0; i < 3; i++)
            fd_close(&fds[i]);
        ask->spawn_done(ask->data, NULL, &local);
    } else {
        for (int i = 0; i < 3; i++)
            set_nonblocking(fds[i]);
        process = (struct sandbox_process){ reply->process, fds[0], fds[1], fds[2] };
        ask->spawn_done(ask->data, &process, NULL);
    }
    free(ask);
}

static void add_strings(struct buf *buf, const char *const *strings, uint32_t *count)
{
    for (; *strings != NULL; strings++) {
        buf_append(buf, *strings, strlen(*strings) + 1);
        (*count)++;
    }
}

int sandbox_spawn(struct sandbox *sandbox, const struct sandbox_command *command,
                  sandbox_spawn_cb done, void *data, struct error *err)
{
    struct init_request request = { .verb = INIT_SPAWN,
                                    .flags = command->stdin_mode == SANDBOX_STDIN_PIPE
                                                 ? INIT_SPAWN_STDIN
                                                 : 0 };
    AUTO_BUF struct buf strings = BUF_INIT(INIT_DATA_MAX);
    struct ask *ask;

    if (sandbox->state != SANDBOX_READY)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is not up");
    buf_append(&strings, command->cwd, strlen(command->cwd) + 1);
    add_strings(&strings, command->argv, &request.argc);
    add_strings(&strings, command->env, &request.envc);
    if (strings.failed || request.argc > INIT_STRINGS_MAX || request.envc > INIT_STRINGS_MAX)
        return error_set(err, ERR_LIMIT, 0, "the command and its environment are too long");
    ask = NEW(struct ask);
    ask->spawn_done = done;
    ask->data = data;
    if (control_link_ask(sandbox->link, request, strings.data, strings.len, on_spawned, ask, err) ==
        0)
        return 0;
    free(ask);
    return -1;
}

int sandbox_attach(struct sandbox *sandbox, uint32_t process_id, sandbox_spawn_cb done, void *data,
                   struct error *err)
{
    struct ask *ask;

    if (sandbox->state != SANDBOX_READY)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is not up");
    ask = NEW(struct ask);
    ask->spawn_done = done;
    ask->data = data;
    if (control_link_ask(sandbox->link,
                         (struct init_request){ .verb = INIT_ATTACH, .process = process_id }, NULL,
                         0, on_spawned, ask, err) == 0)
        return 0;
    free(ask);
    return -1;
}

static void on_exited(void *data, const struct init_reply *reply, int fds[3], pid_t sender,
                      const struct error *err)
{
    struct ask *ask = data;
    struct error local = ERROR_INIT;
    struct error ignored = ERROR_INIT;
    struct sandbox_exit status;

    (void)sender;
    for (int i = 0; i < 3; i++)
        fd_close(&fds[i]);
    if (refused(reply, err, "wait for a program", &local)) {
        ask->exit_done(ask->data, NULL, &local);
    } else {
        status = (struct sandbox_exit){ reply->code, reply->signal };
        control_link_ask(ask->sandbox->link,
                         (struct init_request){ .verb = INIT_FORGET, .process = reply->process },
                         NULL, 0, NULL, NULL, &ignored);
        ask->exit_done(ask->data, &status, NULL);
    }
    free(ask);
}

int sandbox_wait(struct sandbox *sandbox, uint32_t process_id, sandbox_exit_cb done, void *data,
                 struct error *err)
{
    struct ask *ask;

    if (sandbox->state != SANDBOX_READY)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is not up");
    ask = NEW(struct ask);
    ask->sandbox = sandbox;
    ask->exit_done = done;
    ask->data = data;
    if (control_link_ask(sandbox->link,
                         (struct init_request){ .verb = INIT_WAIT, .process = process_id }, NULL, 0,
                         on_exited, ask, err) == 0)
        return 0;
    free(ask);
    return -1;
}

void sandbox_signal(struct sandbox *sandbox, uint32_t process_id, int signal)
{
    struct error ignored = ERROR_INIT;

    if (sandbox->state == SANDBOX_READY)
        control_link_ask(sandbox->link,
                         (struct init_request){ .verb = INIT_SIGNAL,
                                                .process = process_id,
                                                .number = (uint32_t)signal },
                         NULL, 0, NULL, NULL, &ignored);
}

/* About
 * ------------------------------------------------------------------------------------------------------------
 */

const char *sandbox_id(const struct sandbox *sandbox)
{
    return sandbox->id;
}

int64_t sandbox_init_pid(const struct sandbox *sandbox)
{
    return sandbox->init_pid;
}

void sandbox_describe(const struct sandbox *sandbox, struct buf *out)
{
    buf_printf(out,
               "user, pid, net, ipc, uts, mount namespaces; seccomp; no capabilities; host uid %u",
               sandbox->host_uid);
}
