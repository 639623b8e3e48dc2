#include "run/command.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "io/io.h"

#define ERR_TAIL_MAX 4096
#define LEFT_OPEN_MS 500 /* how long streams may stay open past the exit */

struct command {
    uv_loop_t *loop;
    struct sandbox *sandbox;
    struct command_options options;
    unsigned
        refs; /* callbacks of sandbox and streams that will still come, and the timer's handle */
    uint32_t process;
    struct stream *streams[2]; /* stdout, stderr */
    bool ended[2];
    bool spawned;
    bool exited;
    bool over; /* cancelled or reported */
    bool paused;
    struct command_result result;
    struct buf out;
    struct buf tail;
    uv_timer_t timer;
    uint64_t deadline_ms;
    uint64_t heard_ms;
};

static void command_unref(struct command *command)
{
    if (--command->refs > 0)
        return;
    buf_finish(&command->out);
    buf_finish(&command->tail);
    free(command);
}

static void on_timer_closed(uv_handle_t *handle)
{
    command_unref(handle->data);
}

static void on_stream_closed(void *data)
{
    command_unref(data);
}

static void release(struct command *command)
{
    command->over = true;
    uv_close((uv_handle_t *)&command->timer, on_timer_closed);
    for (int i = 0; i < 2; i++) {
        if (command->streams[i] != NULL)
            stream_close(STEAL(command->streams[i]), on_stream_closed, command);
    }
}

static void report(struct command *command, const struct error *err)
{
    void (*on_done)(void *, const struct command_result *, const struct error *) =
        command->options.on_done;
    void *data = command->options.data;

    if (command->over)
        return;
    command->refs++;
    release(command);
    command->result.out = &command->out;
    command->result.err_tail = buf_text(&command->tail);
    on_done(data, &command->result, err);
    command_unref(command);
}

/* The output is whole when both streams ended; a daemon left behind may hold them open, so the exit
 * decides. */
static void finish_if_done(struct command *command)
{
    if (command->exited && command->ended[0] && command->ended[1])
        report(command, NULL);
}

static void keep_tail(struct buf *tail, const char *bytes, size_t len)
{
    if (len > ERR_TAIL_MAX) {
        bytes += len - ERR_TAIL_MAX;
        len = ERR_TAIL_MAX;
    }
    if (tail->len + len > ERR_TAIL_MAX)
        buf_consume(tail, tail->len + len - ERR_TAIL_MAX);
    buf_append(tail, bytes, len);
}

static void keep_out(struct command *command, const char *bytes, size_t len)
{
    size_t room = command->options.max_output_bytes - command->out.len;

    if (len > room) {
        len = room;
        if (!command->result.truncated && command->options.end_when_full)
            sandbox_signal(command->sandbox, command->process, SIGKILL);
        command->result.truncated = true;
    }
    if (len > 0)
        buf_append(&command->out, bytes, len);
}

static void on_bytes(struct command *command, int which, const char *bytes, size_t len)
{
    command->heard_ms = uv_now(command->loop);
    if (which == 1)
        keep_tail(&command->tail, bytes, len);
    else if (command->options.max_output_bytes > 0)
        keep_out(command, bytes, len);
    if (command->options.on_output != NULL)
        command->options.on_output(command->options.data, which == 1, bytes, len);
}

static void on_stdout(void *data, const char *bytes, size_t len)
{
    on_bytes(data, 0, bytes, len);
}

static void on_stderr(void *data, const char *bytes, size_t len)
{
    on_bytes(data, 1, bytes, len);
}

static void on_stdout_end(void *data, const struct error *err)
{
    struct command *command = data;

    (void)err;
    command->ended[0] = true;
    finish_if_done(command);
}

static void on_stderr_end(void *data, const struct error *err)
{
    struct command *command = data;

    (void)err;
    command->ended[1] = true;
    finish_if_done(command);
}

static void arm(struct command *command);

static void on_timer(uv_timer_t *timer)
{
    struct command *command = timer->data;
    uint64_t now = uv_now(command->loop);

    if (command->paused)
        command->heard_ms = now; /* it is not the program that is silent */
    bool late = command->deadline_ms != 0 && now >= command->deadline_ms;
    bool silent =
        command->options.silence_ms != 0 && now - command->heard_ms >= command->options.silence_ms;

    if (command->exited && command->paused)
        return; /* what is there is still to be read */
    if (command->exited) {
        /* Something left behind holds the streams open: what is there must do. */
        report(command, NULL);
        return;
    }
    if (late || silent) {
        command->result.timed_out = true;
        sandbox_signal(command->sandbox, command->process, SIGKILL);
        report(command, NULL);
        return;
    }
    arm(command);
}

static void arm(struct command *command)
{
    uint64_t now = uv_now(command->loop);
    uint64_t delay = UINT64_MAX;

    if (command->deadline_ms != 0)
        delay = command->deadline_ms > now ? command->deadline_ms - now : 0;
    if (command->options.silence_ms != 0) {
        uint64_t at = command->heard_ms + command->options.silence_ms;
        uint64_t left = at > now ? at - now : 0;

        delay = left < delay ? left : delay;
    }
    if (delay != UINT64_MAX)
        uv_timer_start(&command->timer, on_timer, delay, 0);
}

static void on_exit_status(void *data, const struct sandbox_exit *status, const struct error *err)
{
    struct command *command = data;

    if (!command->over) {
        if (err != NULL) {
            report(command, err);
        } else {
            command->exited = true;
            command->result.code = status->code;
            command->result.signal = status->signal;
            sandbox_forget(command->sandbox, command->process);
            finish_if_done(command);
            if (!command->over)
                uv_timer_start(&command->timer, on_timer, LEFT_OPEN_MS, 0);
        }
    }
    command_unref(command);
}

static void close_fds(const struct sandbox_process *process)
{
    int fds[] = { process->stdin_fd, process->stdout_fd, process->stderr_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static int open_stream(struct command *command, int which, int fd, struct error *err)
{
    struct stream_callbacks callbacks = {
        .on_data = which == 0 ? on_stdout : on_stderr,
        .on_end = which == 0 ? on_stdout_end : on_stderr_end,
        .data = command,
    };

    if (stream_start(&command->streams[which], command->loop, fd, &callbacks, err) < 0)
        return -1;
    command->refs++;
    return 0;
}

static void on_spawned(void *data, const struct sandbox_process *process, const struct error *err)
{
    struct command *command = data;
    struct error local = ERROR_INIT;

    if (err == NULL && command->over) {
        sandbox_signal(command->sandbox, process->id, SIGKILL);
        close_fds(process);
    } else if (err != NULL) {
        report(command, err);
    } else {
        command->process = process->id;
        command->spawned = true;
        if (process->stdin_fd >= 0)
            close(process->stdin_fd);
        if (open_stream(command, 0, process->stdout_fd, &local) < 0) {
            close(process->stderr_fd);
            report(command, &local);
        } else if (open_stream(command, 1, process->stderr_fd, &local) < 0) {
            report(command, &local);
        } else if (sandbox_wait(command->sandbox, process->id, on_exit_status, command, &local) <
                   0) {
            report(command, &local);
        } else {
            command->refs++;
        }
    }
    command_unref(command);
}

int command_start(struct command **out, uv_loop_t *loop, struct sandbox *sandbox,
                  const struct command_options *options, struct error *err)
{
    struct command *command = NEW(struct command);
    struct sandbox_command wanted = { .argv = options->argv,
                                      .env = options->env,
                                      .cwd = options->cwd,
                                      .stdin_mode = SANDBOX_STDIN_NULL };

    command->loop = loop;
    command->sandbox = sandbox;
    command->options = *options;
    command->options.argv = command->options.env = NULL;
    command->options.cwd = NULL;
    command->result.code = -1;
    buf_init(&command->out, options->max_output_bytes);
    buf_init(&command->tail, ERR_TAIL_MAX);
    if (sandbox_spawn(sandbox, &wanted, on_spawned, command, err) < 0) {
        free(command);
        return -1;
    }
    uv_timer_init(loop, &command->timer);
    command->timer.data = command;
    command->refs = 2;
    command->heard_ms = uv_now(loop);
    command->deadline_ms = options->timeout_ms != 0 ? uv_now(loop) + options->timeout_ms : 0;
    arm(command);
    *out = command;
    return 0;
}

void command_pause(struct command *command)
{
    if (command->over || command->paused)
        return;
    command->paused = true;
    if (command->streams[0] != NULL)
        stream_pause(command->streams[0]);
}

void command_resume(struct command *command)
{
    if (command->over || !command->paused)
        return;
    command->paused = false;
    command->heard_ms = uv_now(command->loop);
    if (command->streams[0] != NULL)
        stream_resume(command->streams[0]);
    if (command->exited)
        uv_timer_start(&command->timer, on_timer, LEFT_OPEN_MS, 0);
}

void command_cancel(struct command *command)
{
    if (command->over)
        return;
    if (command->spawned && !command->exited)
        sandbox_signal(command->sandbox, command->process, SIGKILL);
    release(command);
}
