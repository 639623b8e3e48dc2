#include "sandbox/ask.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "sandbox/control.h"
#include "sandbox/sandbox.h"

/* Who asked what. Exactly one of the callbacks is set. */
struct ask {
    struct sandbox *sandbox;
    sandbox_fd_cb fd_done;
    sandbox_spawn_cb spawn_done;
    sandbox_exit_cb exit_done;
    sandbox_done_cb done;
    bool listening;
    bool attached;
    uint32_t process;
    void *data;
};

static int send_ask(struct sandbox *sandbox, const struct ask *ask, struct init_request *request,
                    const struct buf *body, control_done_cb answered, struct error *err)
{
    struct control_link *control = sandbox_control(sandbox);
    struct ask *kept;

    if (!control)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is not running");
    kept = NEW(struct ask);
    *kept = *ask;
    kept->sandbox = sandbox;
    if (control_link_ask(control, request, body ? body->data : NULL, body ? body->len : 0, answered,
                         kept, err) < 0) {
        free(kept);
        return -1;
    }
    return 0;
}

/* What came must be what was asked for, or using it could surprise the loop. */
static bool is_tcp(int fd, bool listening)
{
    int domain = 0;
    int type = 0;
    int accepts = 0;
    socklen_t len = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 &&
           (accepts != 0) == listening;
}

static void on_socket(void *data, struct control_answer *answer, const struct error *err)
{
    AUTO_FREE struct ask *ask = data;
    struct error local = ERROR_INIT;

    if (!err && (answer->reply.fds != 1 || !is_tcp(answer->fds[0], ask->listening))) {
        error_set(&local, ERR_UNAVAILABLE, 0, "the sandbox gave something else than a socket");
        err = &local;
    }
    if (!err && fd_set_nonblocking(answer->fds[0], true, &local) < 0)
        err = &local;
    ask->fd_done(ask->data, err ? -1 : fd_steal(&answer->fds[0]), err);
}

static int ask_socket(struct sandbox *sandbox, enum init_verb verb, uint16_t port,
                      sandbox_fd_cb done, void *data, struct error *err)
{
    struct ask ask = { .fd_done = done, .listening = verb == INIT_LISTEN, .data = data };
    struct init_request request = { .verb = verb, .number = port };

    if (port == 0)
        return error_set(err, ERR_INVALID, 0, "port 0 can't be asked for");
    return send_ask(sandbox, &ask, &request, NULL, on_socket, err);
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

/* Programs
 * ----------------------------------------------------------------------------------------------------------
 */

/* Opens a pipe's end anew, so that init's copy shares no file flags with ours: one who cleared
 * O_NONBLOCK there would stop our loop. -1 when it is no pipe. */
static int own_pipe_end(int *received, bool writes)
{
    AUTO_FREE char *path = mem_printf("/proc/self/fd/%d", *received);
    struct error ignored = ERROR_INIT;
    struct stat info;
    int fd;

    if (fstat(*received, &info) < 0 || !S_ISFIFO(info.st_mode))
        return -1;
    fd = open(path, (writes ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    /* Nobody reads a dead process's input. */
    return fd_set_nonblocking(*received, true, &ignored) < 0 ? -1 : fd_steal(received);
}

static void close_streams(struct sandbox_process *process)
{
    fd_close(&process->stdin_fd);
    fd_close(&process->stdout_fd);
    fd_close(&process->stderr_fd);
}

static int take_streams(struct control_answer *answer, struct sandbox_process *process,
                        struct error *err)
{
    int *const to[3] = { &process->stdin_fd, &process->stdout_fd, &process->stderr_fd };

    for (int i = 0; i < 3; i++) {
        if (answer->fds[i] < 0)
            continue;
        *to[i] = own_pipe_end(&answer->fds[i], i == 0);
        if (*to[i] < 0) {
            close_streams(process);
            return error_set(err, ERR_UNAVAILABLE, 0,
                             "the sandbox gave something else than a pipe");
        }
    }
    return 0;
}

static void tell(struct sandbox *sandbox, enum init_verb verb, uint32_t process, uint32_t number)
{
    struct init_request request = { .verb = verb, .process = process, .number = number };
    struct control_link *control = sandbox_control(sandbox);

    if (control)
        control_link_tell(control, &request);
}

static void on_spawned(void *data, struct control_answer *answer, const struct error *err)
{
    AUTO_FREE struct ask *ask = data;
    struct sandbox_process process = { 0, -1, -1, -1 };
    struct error local = ERROR_INIT;

    if (!err &&
        (answer->reply.process == 0 || (ask->attached && answer->reply.process != ask->process)))
        err = (error_set(&local, ERR_UNAVAILABLE, 0, "the sandbox gave a wrong process"), &local);
    if (!err && take_streams(answer, &process, &local) < 0)
        err = &local;
    if (err) {
        /* It runs, but without its streams it is of no use: our table of descriptors is full. */
        if (answer && answer->reply.error == 0 && answer->reply.process != 0 && !ask->attached)
            tell(ask->sandbox, INIT_SIGNAL, answer->reply.process, SIGKILL);
        ask->spawn_done(ask->data, NULL, err);
        return;
    }
    process.id = answer->reply.process;
    ask->spawn_done(ask->data, &process, NULL);
}

static uint32_t append_strings(struct buf *body, const char *const *strings)
{
    uint32_t count = 0;

    for (; strings[count]; count++)
        buf_append(body, strings[count], strlen(strings[count]) + 1);
    return count;
}

int sandbox_spawn(struct sandbox *sandbox, const struct sandbox_command *command,
                  sandbox_spawn_cb done, void *data, struct error *err)
{
    struct ask ask = { .spawn_done = done, .data = data };
    struct init_request request = { .verb = INIT_SPAWN };
    AUTO_BUF struct buf body = BUF_INIT(INIT_DATA_MAX);

    buf_append(&body, command->cwd, strlen(command->cwd) + 1);
    request.argc = append_strings(&body, command->argv);
    request.envc = append_strings(&body, command->env);
    request.flags = command->stdin_mode == SANDBOX_STDIN_PIPE ? INIT_SPAWN_STDIN : 0;
    if (request.argc == 0)
        return error_set(err, ERR_INVALID, 0, "a command without a program");
    if (body.failed || request.argc > INIT_STRINGS_MAX || request.envc > INIT_STRINGS_MAX)
        return error_set(err, ERR_LIMIT, 0, "command and environment are longer than %u KiB",
                         INIT_DATA_MAX / 1024);
    return send_ask(sandbox, &ask, &request, &body, on_spawned, err);
}

int sandbox_attach(struct sandbox *sandbox, uint32_t process_id, sandbox_spawn_cb done, void *data,
                   struct error *err)
{
    struct ask ask = { .spawn_done = done, .attached = true, .process = process_id, .data = data };
    struct init_request request = { .verb = INIT_ATTACH, .process = process_id };

    return send_ask(sandbox, &ask, &request, NULL, on_spawned, err);
}

static void on_exit_status(void *data, struct control_answer *answer, const struct error *err)
{
    AUTO_FREE struct ask *ask = data;
    struct sandbox_exit status = { -1, 0 };
    struct error local = ERROR_INIT;

    if (!err && (answer->reply.code < -1 || answer->reply.code > 255 || answer->reply.signal < 0 ||
                 answer->reply.signal >= NSIG))
        err =
            (error_set(&local, ERR_UNAVAILABLE, 0, "the sandbox gave a wrong exit status"), &local);
    if (err) {
        ask->exit_done(ask->data, NULL, err);
        return;
    }
    status.code = answer->reply.code;
    status.signal = answer->reply.signal;
    ask->exit_done(ask->data, &status, NULL);
}

int sandbox_wait(struct sandbox *sandbox, uint32_t process_id, sandbox_exit_cb done, void *data,
                 struct error *err)
{
    struct ask ask = { .exit_done = done, .process = process_id, .data = data };
    struct init_request request = { .verb = INIT_WAIT, .process = process_id };

    return send_ask(sandbox, &ask, &request, NULL, on_exit_status, err);
}

void sandbox_forget(struct sandbox *sandbox, uint32_t process_id)
{
    tell(sandbox, INIT_FORGET, process_id, 0);
}

static void on_done(void *data, struct control_answer *answer, const struct error *err)
{
    AUTO_FREE struct ask *ask = data;

    (void)answer;
    ask->done(ask->data, err);
}

int sandbox_kill_programs(struct sandbox *sandbox, sandbox_done_cb done, void *data,
                          struct error *err)
{
    struct ask ask = { .done = done, .data = data };
    struct init_request request = { .verb = INIT_KILL_ALL };

    return send_ask(sandbox, &ask, &request, NULL, on_done, err);
}

void sandbox_signal(struct sandbox *sandbox, uint32_t process_id, int signal)
{
    tell(sandbox, INIT_SIGNAL, process_id, (uint32_t)signal);
}

void sandbox_end_input(struct sandbox *sandbox, uint32_t process_id)
{
    tell(sandbox, INIT_END_INPUT, process_id, 0);
}

void sandbox_set_deadline(struct sandbox *sandbox, uint64_t in_ms)
{
    struct init_request request = { .verb = INIT_DEADLINE, .time_ms = in_ms };
    struct control_link *control = sandbox_control(sandbox);

    if (control)
        control_link_tell(control, &request);
}
