#include "fake/fake_sandbox.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#include "common/buf.h"
#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/sandbox.h"

struct fake_sandbox_script fake_sandbox;

struct fake_process {
    struct list link; /* sandbox::processes */
    uint32_t id;
    const struct fake_answer *answer;
    int ends[2]; /* our ends of stdout and stderr of one that hangs */
    int signal;
    sandbox_exit_cb exited;
    void *exited_data;
};

enum fake_call_kind { CALL_READY, CALL_LISTEN, CALL_SPAWN, CALL_EXIT, CALL_END };

/* One callback that is due at the next turn. */
struct fake_call {
    struct list link; /* sandbox::calls */
    enum fake_call_kind kind;
    sandbox_fd_cb fd_done;
    sandbox_spawn_cb spawn_done;
    struct fake_process *process;
    struct sandbox_process streams;
    void *data;
};

struct sandbox {
    uv_loop_t *loop;
    struct sandbox_callbacks callbacks;
    struct list calls;
    struct list processes;
    uint32_t last_process;
    uv_timer_t timer;
    bool ready;
    bool stopping;
    bool over;
    bool out_of_memory;
    void (*closed)(void *data);
    void *closed_data;
};

static struct sandbox *newest;

static const struct error fake_error = { ERR_UNAVAILABLE, 0, "",
                                         "bubblewrap (bwrap) is not installed" };
static const struct error gone_error = { ERR_UNAVAILABLE, 0, "", "the sandbox is gone" };

static void on_turn(uv_timer_t *timer);

static struct fake_call *add_call(struct sandbox *sandbox, enum fake_call_kind kind)
{
    struct fake_call *call = NEW(struct fake_call);

    call->kind = kind;
    list_append(&sandbox->calls, &call->link);
    uv_timer_start(&sandbox->timer, on_turn, 0, 0);
    return call;
}

static void free_process(struct fake_process *process)
{
    for (int i = 0; i < 2; i++) {
        if (process->ends[i] >= 0)
            close(process->ends[i]);
    }
    list_remove(&process->link);
    free(process);
}

static void tell_exit(struct fake_process *process, const struct error *err)
{
    struct sandbox_exit status = { process->signal != 0 ? -1 : process->answer->code,
                                   process->signal };

    process->exited(process->exited_data, err == NULL ? &status : NULL, err);
    free_process(process);
}

static void end_processes(struct sandbox *sandbox)
{
    while (!list_empty(&sandbox->processes)) {
        struct fake_process *process =
            LIST_ENTRY(sandbox->processes.next, struct fake_process, link);

        if (process->exited != NULL)
            tell_exit(process, &gone_error);
        else
            free_process(process);
    }
}

static void tell_end(struct sandbox *sandbox)
{
    struct sandbox_end end = { .kind = sandbox->stopping ? SANDBOX_END_STOPPED : SANDBOX_END_LOST,
                               .out_of_memory = sandbox->out_of_memory,
                               .exit_code = -1 };

    end_processes(sandbox);
    sandbox->over = true;
    fake_sandbox.live--;
    if (sandbox->ready)
        sandbox->callbacks.on_end(sandbox->callbacks.data, &end);
    else
        sandbox->callbacks.on_ready(sandbox->callbacks.data, &gone_error);
}

static void perform(struct sandbox *sandbox, struct fake_call *call)
{
    switch (call->kind) {
    case CALL_READY:
        if (sandbox->over || sandbox->stopping)
            break;
        if (fake_sandbox.ready_fails) {
            sandbox->over = true;
            fake_sandbox.live--;
        } else {
            sandbox->ready = true;
        }
        sandbox->callbacks.on_ready(sandbox->callbacks.data,
                                    fake_sandbox.ready_fails ? &fake_error : NULL);
        break;
    case CALL_LISTEN: {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (listen(fd, 8) < 0 || sandbox->over) {
            close(fd);
            call->fd_done(call->data, -1, &gone_error);
        } else {
            call->fd_done(call->data, fd, NULL);
        }
        break;
    }
    case CALL_SPAWN:
        call->spawn_done(call->data, &call->streams, NULL);
        break;
    case CALL_EXIT:
        tell_exit(call->process, NULL);
        break;
    case CALL_END:
        if (!sandbox->over)
            tell_end(sandbox);
        break;
    }
}

static void on_turn(uv_timer_t *timer)
{
    struct sandbox *sandbox = timer->data;

    while (!list_empty(&sandbox->calls)) {
        struct fake_call *call = LIST_ENTRY(sandbox->calls.next, struct fake_call, link);

        list_remove(&call->link);
        perform(sandbox, call);
        free(call);
    }
}

int sandbox_start(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const struct sandbox_spec *spec, const struct sandbox_callbacks *callbacks,
                  struct error *err)
{
    struct sandbox *sandbox;

    (void)options;
    (void)spec;
    if (fake_sandbox.start_fails)
        return error_set(err, ERR_UNAVAILABLE, 0, "no sandbox here");
    sandbox = NEW(struct sandbox);
    sandbox->loop = loop;
    sandbox->callbacks = *callbacks;
    list_init(&sandbox->calls);
    list_init(&sandbox->processes);
    uv_timer_init(loop, &sandbox->timer);
    sandbox->timer.data = sandbox;
    fake_sandbox.started++;
    fake_sandbox.live++;
    newest = sandbox;
    if (!fake_sandbox.never_ready)
        add_call(sandbox, CALL_READY);
    *out = sandbox;
    return 0;
}

void sandbox_stop(struct sandbox *sandbox)
{
    if (sandbox->stopping || sandbox->over)
        return;
    sandbox->stopping = true;
    add_call(sandbox, CALL_END);
}

static void on_closed(uv_handle_t *handle)
{
    struct sandbox *sandbox = handle->data;

    while (!list_empty(&sandbox->calls)) {
        struct fake_call *call = LIST_ENTRY(sandbox->calls.next, struct fake_call, link);

        list_remove(&call->link);
        if (call->kind == CALL_SPAWN) {
            close(call->streams.stdout_fd);
            close(call->streams.stderr_fd);
            call->spawn_done(call->data, NULL, &gone_error);
        }
        if (call->kind == CALL_LISTEN)
            call->fd_done(call->data, -1, &gone_error);
        free(call);
    }
    end_processes(sandbox);
    sandbox->closed(sandbox->closed_data);
    free(sandbox);
}

void sandbox_close(struct sandbox *sandbox, void (*done)(void *data), void *data)
{
    sandbox->closed = done;
    sandbox->closed_data = data;
    if (newest == sandbox)
        newest = NULL;
    uv_close((uv_handle_t *)&sandbox->timer, on_closed);
}

int sandbox_adopt(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const char *id, const char *runtime_dir,
                  const struct sandbox_callbacks *callbacks, struct error *err)
{
    (void)out;
    (void)loop;
    (void)options;
    (void)id;
    (void)callbacks;
    return error_set(err, ERR_NOT_FOUND, 0, "no sandbox lives in %s", runtime_dir);
}

void sandbox_set_deadline(struct sandbox *sandbox, uint64_t in_ms)
{
    (void)sandbox;
    (void)in_ms;
}

uint64_t sandbox_limit_times(const struct sandbox *sandbox, enum sandbox_limit limit)
{
    (void)sandbox;
    return fake_sandbox.limit_times[limit];
}

uint32_t sandbox_layers(const struct sandbox *sandbox)
{
    (void)sandbox;
    return UINT32_C(1) << SANDBOX_LAYER_SECCOMP;
}

int64_t sandbox_init_pid(const struct sandbox *sandbox)
{
    (void)sandbox;
    return 1;
}

int sandbox_kill_leftover(const char *runtime_dir, int timeout_ms, struct error *err)
{
    (void)runtime_dir;
    (void)timeout_ms;
    (void)err;
    fake_sandbox.leftovers_killed++;
    return 0;
}

int sandbox_runtime_remove(const char *runtime_dir, struct error *err)
{
    (void)err;
    rmdir(runtime_dir);
    return 0;
}

int sandbox_listen(struct sandbox *sandbox, uint16_t port, sandbox_fd_cb done, void *data,
                   struct error *err)
{
    struct fake_call *call = add_call(sandbox, CALL_LISTEN);

    (void)port;
    (void)err;
    call->fd_done = done;
    call->data = data;
    return 0;
}

int sandbox_connect(struct sandbox *sandbox, uint16_t port, sandbox_fd_cb done, void *data,
                    struct error *err)
{
    (void)sandbox;
    (void)port;
    (void)done;
    (void)data;
    return error_set(err, ERR_UNAVAILABLE, 0, "nobody listens in a fake sandbox");
}

static const struct fake_answer *find_answer(const struct sandbox_command *command)
{
    static const struct fake_answer nothing = { "", "", 0, "", 0, false };
    AUTO_BUF struct buf joined;

    buf_init(&joined, 1u << 20);
    for (size_t i = 0; command->argv[i] != NULL; i++)
        buf_printf(&joined, "%s ", command->argv[i]);
    for (size_t i = 0; i < fake_sandbox.count; i++) {
        if (strstr(buf_text(&joined), fake_sandbox.answers[i].words) != NULL)
            return &fake_sandbox.answers[i];
    }
    return &nothing;
}

/* The reading end of a pipe that holds TEXT; the writing end stays open in *KEPT if that is wanted.
 */
static int pipe_with(const char *text, size_t len, int *kept)
{
    int ends[2];

    BUG_ON(pipe2(ends, O_CLOEXEC) < 0);
    BUG_ON(len > 32768 || write(ends[1], text, len) != (ssize_t)len);
    if (kept != NULL)
        *kept = ends[1];
    else
        close(ends[1]);
    return ends[0];
}

int sandbox_spawn(struct sandbox *sandbox, const struct sandbox_command *command,
                  sandbox_spawn_cb done, void *data, struct error *err)
{
    struct fake_process *process;
    struct fake_call *call;
    const struct fake_answer *answer;

    if (sandbox->over || sandbox->stopping)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is gone");
    process = NEW(struct fake_process);
    answer = process->answer = find_answer(command);
    process->id = ++sandbox->last_process;
    process->ends[0] = process->ends[1] = -1;
    list_append(&sandbox->processes, &process->link);
    call = add_call(sandbox, CALL_SPAWN);
    call->spawn_done = done;
    call->data = data;
    call->streams = (struct sandbox_process){ .id = process->id, .stdin_fd = -1 };
    call->streams.stdout_fd =
        pipe_with(answer->out, answer->out_len != 0 ? answer->out_len : strlen(answer->out),
                  answer->hangs ? &process->ends[0] : NULL);
    call->streams.stderr_fd = pipe_with(answer->err != NULL ? answer->err : "",
                                        answer->err != NULL ? strlen(answer->err) : 0,
                                        answer->hangs ? &process->ends[1] : NULL);
    return 0;
}

static struct fake_process *find_process(struct sandbox *sandbox, uint32_t id)
{
    LIST_EACH(&sandbox->processes, link) {
        struct fake_process *process = LIST_ENTRY(link, struct fake_process, link);

        if (process->id == id)
            return process;
    }
    return NULL;
}

int sandbox_wait(struct sandbox *sandbox, uint32_t process_id, sandbox_exit_cb done, void *data,
                 struct error *err)
{
    struct fake_process *process = find_process(sandbox, process_id);

    if (process == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "no such process");
    process->exited = done;
    process->exited_data = data;
    if (!process->answer->hangs)
        add_call(sandbox, CALL_EXIT)->process = process;
    return 0;
}

int sandbox_attach(struct sandbox *sandbox, uint32_t process_id, sandbox_spawn_cb done, void *data,
                   struct error *err)
{
    (void)sandbox;
    (void)done;
    (void)data;
    return error_set(err, ERR_NOT_FOUND, 0, "no process %u", process_id);
}

void sandbox_forget(struct sandbox *sandbox, uint32_t process_id)
{
    (void)sandbox;
    (void)process_id;
}

int sandbox_kill_programs(struct sandbox *sandbox, sandbox_done_cb done, void *data,
                          struct error *err)
{
    (void)sandbox;
    (void)done;
    (void)data;
    return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is not running");
}

void sandbox_signal(struct sandbox *sandbox, uint32_t process_id, int signal)
{
    struct fake_process *process = find_process(sandbox, process_id);

    if (process == NULL || process->signal != 0 || !process->answer->hangs)
        return;
    process->signal = signal;
    for (int i = 0; i < 2; i++) {
        close(process->ends[i]);
        process->ends[i] = -1;
    }
    if (process->exited != NULL)
        add_call(sandbox, CALL_EXIT)->process = process;
}

void fake_sandbox_lose(bool out_of_memory)
{
    BUG_ON(newest == NULL);
    newest->out_of_memory = out_of_memory;
    add_call(newest, CALL_END);
}
