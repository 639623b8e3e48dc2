#include "agent/shell/shell.h"

#include <signal.h>
#include <string.h>

#include "agent/agent_environment.h"
#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/io.h"

#define LINE_MAX_BYTES 4096
#define OUTPUT_MAX (16 * 1024) /* the end's output: the last bytes of what the command wrote */
#define DRAIN_MS 500           /* a background process may hold the streams open for ever */
#define KILL_MS 3000           /* from SIGTERM to SIGKILL */

enum shell_state {
    SHELL_STARTING,
    SHELL_READY,
    SHELL_SPAWNING,
    SHELL_RUNNING,
    SHELL_DRAINING, /* the command ended, its last output is awaited */
};

/* What a callback of the host holds: it may come when the agent is gone. */
struct shell_call {
    struct shell *shell; /* NULL once the agent doesn't want it any more */
};

struct shell_output {
    struct shell *shell;
    enum agent_event_kind kind;
    struct stream *stream;
    struct buf line;
    bool ended;
};

struct shell {
    struct agent agent; /* first */
    uv_loop_t *loop;
    struct agent_host host;
    struct agent_callbacks callbacks;
    char *directory;
    char **environment;
    enum shell_state state;
    bool abort_asked;
    bool resumed;
    struct shell_call *call; /* spawn, then wait */
    uint32_t process_id;
    int exit_code;
    int exit_signal;
    char lost[160]; /* why there is no exit status; "" */
    struct shell_output outputs[2];
    struct buf tail;
    uint64_t dropped; /* bytes before the tail */
    uv_timer_t timer; /* ready, drain */
    uv_timer_t kill_timer;
    struct handles handles;
    bool closing;
    unsigned pending_closes;
    void (*done)(void *data);
    void *done_data;
};

static struct shell *shell_of(struct agent *agent)
{
    return (struct shell *)agent;
}

/* End of a command ---------------------------------------------------------------------------- */

static void close_outputs(struct shell *shell, void (*done)(void *data))
{
    for (size_t i = 0; i < ARRAY_LEN(shell->outputs); i++) {
        struct shell_output *output = &shell->outputs[i];

        if (output->stream != NULL && done != NULL)
            shell->pending_closes++;
        if (output->stream != NULL)
            stream_close(output->stream, done, shell);
        output->stream = NULL;
        buf_finish(&output->line);
    }
}

/* What is left begins with a whole line. */
static char *output_of(const struct shell *shell)
{
    const char *text = buf_text(&shell->tail);
    const char *line = strchr(text, '\n');
    size_t cut = line != NULL && line[1] != '\0' ? (size_t)(line + 1 - text) : 0;

    if (shell->dropped == 0)
        return mem_strdup(text);
    return mem_printf("[the first %llu bytes are left out; the run's log has all lines]\n%s",
                      (unsigned long long)(shell->dropped + cut), text + cut);
}

static void end_command(struct shell *shell)
{
    char message[200] = "";
    AUTO_FREE
    char *output = output_of(shell);
    struct agent_end end = { .kind = AGENT_END_DONE,
                             .output = output,
                             .finish_reason = "stop",
                             .error_code = "",
                             .message = message,
                             .hint = "" };

    if (shell->lost[0] != '\0')
        str_copy(message, sizeof(message), shell->lost);
    else if (shell->exit_signal != 0)
        (void)snprintf(message, sizeof(message), "the command ended by signal %d",
                       shell->exit_signal);
    else if (shell->exit_code != 0)
        (void)snprintf(message, sizeof(message), "the command exited with code %d",
                       shell->exit_code);
    if (shell->abort_asked) {
        end.kind = AGENT_END_ABORTED;
        end.finish_reason = "";
    } else if (message[0] != '\0') {
        end.kind = AGENT_END_FAILED;
        end.finish_reason = "";
        end.error_code = "command_failed";
    }
    uv_timer_stop(&shell->timer);
    uv_timer_stop(&shell->kill_timer);
    close_outputs(shell, NULL);
    shell->state = SHELL_READY;
    shell->callbacks.on_end(shell->callbacks.data, &end);
}

static void on_drain_timeout(uv_timer_t *timer)
{
    end_command(timer->data);
}

static void end_when_drained(struct shell *shell)
{
    if (shell->state == SHELL_DRAINING && shell->outputs[0].ended && shell->outputs[1].ended)
        uv_timer_start(&shell->timer, on_drain_timeout, 0, 0);
}

static void on_exit_status(void *context, int code, int signal, const struct error *err)
{
    struct shell_call *call = context;
    struct shell *shell = call->shell;

    free(call);
    if (shell == NULL)
        return;
    shell->call = NULL;
    shell->exit_code = code;
    shell->exit_signal = signal;
    if (err != NULL)
        str_copy(shell->lost, sizeof(shell->lost), err->text);
    shell->state = SHELL_DRAINING;
    uv_timer_start(&shell->timer, on_drain_timeout, DRAIN_MS, 0);
    end_when_drained(shell);
}

/* Output -------------------------------------------------------------------------------------- */

static void keep_tail(struct shell *shell, const char *bytes, size_t len)
{
    size_t over = shell->tail.len + len > OUTPUT_MAX ? shell->tail.len + len - OUTPUT_MAX : 0;
    size_t old = over < shell->tail.len ? over : shell->tail.len;

    shell->dropped += over;
    if (old > 0)
        buf_consume(&shell->tail, old);
    bytes += over - old;
    len -= over - old;
    buf_append(&shell->tail, bytes, len);
}

static void tell_line(struct shell_output *output)
{
    struct shell *shell = output->shell;
    AUTO_BUF struct buf text = { 0 };
    struct agent_event event = { .kind = output->kind };

    buf_init(&text, 4 * LINE_MAX_BYTES);
    str_append_utf8(&text, output->line.data, output->line.len);
    buf_clear(&output->line);
    event.text = buf_text(&text);
    shell->callbacks.on_event(shell->callbacks.data, &event);
}

static void on_output(void *data, const char *bytes, size_t len)
{
    struct shell_output *output = data;

    keep_tail(output->shell, bytes, len);
    while (len > 0 && !output->shell->closing) {
        const char *newline = memchr(bytes, '\n', len);
        size_t part = newline != NULL ? (size_t)(newline - bytes) : len;
        size_t room = LINE_MAX_BYTES - output->line.len;

        buf_append(&output->line, bytes, part < room ? part : room);
        if (newline == NULL)
            return;
        tell_line(output);
        bytes += part + 1;
        len -= part + 1;
    }
}

static void on_output_end(void *data, const struct error *err)
{
    struct shell_output *output = data;
    struct shell *shell = output->shell;

    (void)err;
    output->ended = true;
    if (output->line.len > 0)
        tell_line(output);
    if (!shell->closing)
        end_when_drained(shell);
}

static void read_output(struct shell *shell, size_t index, int fd)
{
    struct shell_output *output = &shell->outputs[index];
    struct stream_callbacks callbacks = { .on_data = on_output,
                                          .on_end = on_output_end,
                                          .data = output };
    struct error ignored = ERROR_INIT;

    *output = (struct shell_output){ .shell = shell,
                                     .kind = index == 0 ? AGENT_EVENT_TEXT : AGENT_EVENT_LOG };
    buf_init(&output->line, LINE_MAX_BYTES);
    if (fd < 0 || stream_start(&output->stream, shell->loop, fd, &callbacks, &ignored) < 0)
        output->ended = true;
}

/* Command ------------------------------------------------------------------------------------- */

static void on_kill_timeout(uv_timer_t *timer)
{
    struct shell *shell = timer->data;

    shell->host.signal(shell->host.data, shell->process_id, SIGKILL);
}

static void kill_command(struct shell *shell)
{
    shell->host.signal(shell->host.data, shell->process_id, SIGTERM);
    uv_timer_start(&shell->kill_timer, on_kill_timeout, KILL_MS, 0);
}

static struct shell_call *call_new(struct shell *shell)
{
    struct shell_call *call = NEW(struct shell_call);

    call->shell = shell;
    return call;
}

static void close_process_fds(const struct agent_process *process)
{
    int fds[] = { process->stdin_fd, process->stdout_fd, process->stderr_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fd_close(&fds[i]);
}

static void lose_command(struct shell *shell, const struct error *err)
{
    str_copy(shell->lost, sizeof(shell->lost), err->text);
    shell->state = SHELL_DRAINING;
    uv_timer_start(&shell->timer, on_drain_timeout, 0, 0);
}

static void on_spawned(void *context, const struct agent_process *process, const struct error *err)
{
    struct shell_call *call = context;
    struct shell *shell = call->shell;
    struct error failed = ERROR_INIT;
    int stdin_fd;

    free(call);
    if (shell == NULL) {
        if (err == NULL)
            close_process_fds(process);
        return;
    }
    shell->call = NULL;
    if (err != NULL && shell->resumed) {
        shell->callbacks.on_ready(shell->callbacks.data, "agent_crashed", err);
        return;
    }
    if (err != NULL) {
        lose_command(shell, err);
        return;
    }
    stdin_fd = process->stdin_fd;
    fd_close(&stdin_fd);
    shell->process_id = process->id;
    shell->state = SHELL_RUNNING;
    read_output(shell, 0, process->stdout_fd);
    read_output(shell, 1, process->stderr_fd);
    shell->call = call_new(shell);
    if (shell->host.wait(shell->host.data, process->id, on_exit_status, shell->call, &failed) < 0) {
        free(STEAL(shell->call));
        lose_command(shell, &failed);
        return;
    }
    if (shell->abort_asked)
        kill_command(shell);
    if (shell->resumed) {
        shell->callbacks.on_ready(shell->callbacks.data, NULL, NULL);
    } else {
        shell->callbacks.on_process(shell->callbacks.data, process->id);
        shell->callbacks.on_prompt_taken(shell->callbacks.data);
    }
}

static int driver_prompt(struct agent *agent, const char *text, struct error *err)
{
    struct shell *shell = shell_of(agent);
    const char *const argv[] = { "sh", "-c", text, NULL };
    AUTO_FREE
    const char **env = NULL;
    size_t count = 0;
    struct agent_command command = { .argv = argv, .cwd = shell->directory, .stdin_pipe = false };

    if (shell->state != SHELL_READY)
        return error_set(err, ERR_CONFLICT, 0, "the agent is at work");
    while (shell->environment[count] != NULL)
        count++;
    env = mem_new_zero(count + 1, sizeof(*env));
    for (size_t i = 0; i < count; i++)
        env[i] = shell->environment[i];
    command.env = env;
    if (!shell->callbacks.on_sending(shell->callbacks.data, "", ""))
        return error_set(err, ERR_UNAVAILABLE, 0, "the prompt could not be recorded");
    shell->call = call_new(shell);
    if (shell->host.spawn(shell->host.data, &command, on_spawned, shell->call, err) < 0) {
        free(STEAL(shell->call));
        return -1;
    }
    shell->state = SHELL_SPAWNING;
    shell->resumed = false;
    shell->abort_asked = false;
    shell->exit_code = shell->exit_signal = 0;
    shell->lost[0] = '\0';
    buf_clear(&shell->tail);
    shell->dropped = 0;
    return 0;
}

static void driver_abort(struct agent *agent)
{
    struct shell *shell = shell_of(agent);

    if (shell->abort_asked || (shell->state != SHELL_SPAWNING && shell->state != SHELL_RUNNING))
        return;
    shell->abort_asked = true;
    if (shell->state == SHELL_RUNNING)
        kill_command(shell);
}

static int driver_answer(struct agent *agent, const char *request_id, const char *answer,
                         struct error *err)
{
    (void)agent;
    (void)answer;
    return error_set(err, ERR_NOT_FOUND, 0, "no open request %.40s", request_id);
}

/* Life ---------------------------------------------------------------------------------------- */

static void closed_one(void *data)
{
    struct shell *shell = data;
    void (*done)(void *data) = shell->done;
    void *done_data = shell->done_data;

    if (--shell->pending_closes > 0)
        return;
    agent_environment_free(shell->environment);
    free(shell->directory);
    buf_finish(&shell->tail);
    free(shell);
    if (done != NULL)
        done(done_data);
}

static void on_ready(uv_timer_t *timer)
{
    struct shell *shell = timer->data;

    shell->state = SHELL_READY;
    shell->callbacks.on_ready(shell->callbacks.data, NULL, NULL);
}

static struct shell *shell_new(uv_loop_t *loop, const struct agent_host *host,
                               const struct agent_options *options,
                               const struct agent_callbacks *callbacks)
{
    struct shell *shell = NEW(struct shell);

    shell->agent.driver = &shell_driver;
    shell->loop = loop;
    shell->host = *host;
    shell->callbacks = *callbacks;
    shell->directory = mem_strdup(options->directory);
    shell->environment = agent_environment_new(options, NULL, 0);
    buf_init(&shell->tail, OUTPUT_MAX);
    handles_init(&shell->handles, closed_one, shell);
    uv_timer_init(loop, &shell->timer);
    handles_add(&shell->handles, (uv_handle_t *)&shell->timer, shell);
    uv_timer_init(loop, &shell->kill_timer);
    handles_add(&shell->handles, (uv_handle_t *)&shell->kill_timer, shell);
    return shell;
}

static int driver_start(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                        const struct agent_options *options,
                        const struct agent_callbacks *callbacks, struct error *err)
{
    struct shell *shell = shell_new(loop, host, options, callbacks);

    (void)err;
    uv_timer_start(&shell->timer, on_ready, 0, 0);
    *out = &shell->agent;
    return 0;
}

static void driver_close(struct agent *agent, void (*done)(void *data), void *data)
{
    struct shell *shell = shell_of(agent);
    uv_handle_t *timers[] = { (uv_handle_t *)&shell->timer, (uv_handle_t *)&shell->kill_timer };

    if (shell->closing)
        return;
    shell->closing = true;
    shell->done = done;
    shell->done_data = data;
    if (shell->call != NULL)
        shell->call->shell = NULL;
    shell->pending_closes = 1;
    close_outputs(shell, closed_one);
    handles_close_all(&shell->handles, shell->loop, timers, ARRAY_LEN(timers));
}

/* There is a process only while a prompt is under way. */
static int driver_resume(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                         const struct agent_options *options, const struct agent_resume *resume,
                         const struct agent_callbacks *callbacks, struct error *err)
{
    struct shell *shell;

    if (resume->prompt_id == NULL)
        return driver_start(out, loop, host, options, callbacks, err);
    if (resume->process_id == 0)
        return error_set(err, ERR_NOT_FOUND, 0, "it is not known whether the command was started");
    shell = shell_new(loop, host, options, callbacks);
    shell->resumed = true;
    shell->state = SHELL_SPAWNING;
    keep_tail(shell, resume->output, strlen(resume->output));
    shell->call = call_new(shell);
    if (host->attach(host->data, resume->process_id, on_spawned, shell->call, err) < 0) {
        free(STEAL(shell->call));
        driver_close(&shell->agent, NULL, NULL);
        return -1;
    }
    *out = &shell->agent;
    return 0;
}

static int driver_prepare(const struct agent_options *options, const char *program,
                          const struct agent_files *files, struct error *err)
{
    (void)options;
    (void)program;
    (void)files;
    (void)err;
    return 0;
}

const struct agent_driver shell_driver = {
    .name = "shell",
    .asks_once = true,
    .locate = NULL,
    .prepare = driver_prepare,
    .check_model = NULL,
    .start = driver_start,
    .resume = driver_resume,
    .prompt = driver_prompt,
    .answer = driver_answer,
    .abort = driver_abort,
    .close = driver_close,
};
