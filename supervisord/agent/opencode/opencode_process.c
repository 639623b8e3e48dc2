#include <string.h>

#include "agent/opencode/opencode_internal.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define LINES_PER_SECOND 50
#define RAW_LINE_MAX 4096

static const char listening_words[] = "opencode server listening on";

/* Output -------------------------------------------------------------------------------------- */

/* At most LINES_PER_SECOND lines a second become events; the next second tells how many did not. */
static bool line_allowed(struct opencode *opencode)
{
    uint64_t now = uv_now(opencode->loop);

    if (now - opencode->line_window_ms >= 1000) {
        unsigned left_out = opencode->lines_left_out;

        opencode->line_window_ms = now;
        opencode->lines_in_window = 0;
        opencode->lines_left_out = 0;
        if (left_out > 0)
            opencode_log_event(opencode, "(%u lines left out)", left_out);
    }
    if (opencode->closing)
        return false;
    if (opencode->lines_in_window++ < LINES_PER_SECOND)
        return true;
    opencode->lines_left_out++;
    return false;
}

static void on_line(struct opencode *opencode, const char *line, size_t len)
{
    AUTO_BUF struct buf text = { 0 };
    struct agent_event event = { .kind = AGENT_EVENT_LOG };

    if (len == 0)
        return;
    buf_init(&text, 4 * LINE_MAX_BYTES);
    str_append_escaped(&text, line, len, LINE_MAX_BYTES);
    str_copy(opencode->last_lines[opencode->line_count++ % LAST_LINES],
             sizeof(opencode->last_lines[0]), buf_text(&text));
    event.text = buf_text(&text);
    if (line_allowed(opencode))
        opencode->callbacks.on_event(opencode->callbacks.data, &event);
    if (!opencode->closing && opencode->phase == OPENCODE_LISTENING &&
        memmem(line, len, listening_words, strlen(listening_words)) != NULL)
        opencode_on_listening(opencode);
}

static void on_output(void *data, const char *bytes, size_t len)
{
    struct opencode_output *output = data;

    while (len > 0 && !output->opencode->closing) {
        const char *newline = memchr(bytes, '\n', len);
        size_t part = newline != NULL ? (size_t)(newline - bytes) : len;
        size_t room = RAW_LINE_MAX - output->line.len;

        buf_append(&output->line, bytes, part < room ? part : room);
        if (newline == NULL)
            return;
        on_line(output->opencode, output->line.data, output->line.len);
        buf_clear(&output->line);
        bytes += part + 1;
        len -= part + 1;
    }
}

static void on_output_end(void *data, const struct error *err)
{
    struct opencode_output *output = data;

    (void)err;
    if (output->line.len > 0)
        on_line(output->opencode, output->line.data, output->line.len);
    buf_clear(&output->line);
}

static void read_output(struct opencode_output *output, struct opencode *opencode, int fd)
{
    struct stream_callbacks callbacks = { .on_data = on_output,
                                          .on_end = on_output_end,
                                          .data = output };
    struct error err = ERROR_INIT;

    output->opencode = opencode;
    buf_init(&output->line, RAW_LINE_MAX);
    if (fd >= 0 && stream_start(&output->stream, opencode->loop, fd, &callbacks, &err) < 0)
        log_warn(opencode->id, "agent's output: %s", err.text);
}

void opencode_last_lines(const struct opencode *opencode, struct buf *out)
{
    unsigned count = opencode->line_count < LAST_LINES ? opencode->line_count : LAST_LINES;

    for (unsigned i = opencode->line_count - count; i != opencode->line_count; i++) {
        if (i != opencode->line_count - count)
            buf_append_str(out, " | ");
        buf_append_str(out, opencode->last_lines[i % LAST_LINES]);
    }
}

/* Start and end ------------------------------------------------------------------------------- */

static void on_drained(uv_timer_t *timer)
{
    struct opencode *opencode = timer->data;
    enum opencode_phase phase = opencode->phase;
    AUTO_BUF struct buf lines = { 0 };
    struct error err = ERROR_INIT;

    if (phase == OPENCODE_DEAD)
        return;
    if (phase == OPENCODE_READY) {
        opencode_prompt_crashed(opencode);
        return;
    }
    buf_init(&lines, LAST_LINES * (LINE_MAX_BYTES + 16));
    opencode_last_lines(opencode, &lines);
    error_set(&err, ERR_UNAVAILABLE, 0, "OpenCode %s while %s: %s", opencode->exit_text,
              opencode->resumed ? "no supervisor ran" : "starting", buf_text(&lines));
    opencode_start_failed(opencode, "agent_crashed", &err);
}

static void on_exit_status(void *context, int code, int signal, const struct error *err)
{
    struct opencode_call *call = context;
    struct opencode *opencode = call->opencode;

    free(call);
    if (opencode == NULL)
        return;
    opencode->wait_call = NULL;
    if (err != NULL)
        (void)snprintf(opencode->exit_text, sizeof(opencode->exit_text), "is gone (%.120s)",
                       err->text);
    else if (signal != 0)
        (void)snprintf(opencode->exit_text, sizeof(opencode->exit_text), "ended by signal %d",
                       signal);
    else
        (void)snprintf(opencode->exit_text, sizeof(opencode->exit_text), "exited with code %d",
                       code);
    log_info(opencode->id, "agent %s", opencode->exit_text);
    /* Its last lines may still be on their way. */
    uv_timer_start(&opencode->drain_timer, on_drained, opencode->timing.drain, 0);
}

static struct opencode_call *call_new(struct opencode *opencode)
{
    struct opencode_call *call = NEW(struct opencode_call);

    call->opencode = opencode;
    return call;
}

static void watch_process(struct opencode *opencode, uint32_t process_id)
{
    struct error err = ERROR_INIT;

    opencode->wait_call = call_new(opencode);
    if (opencode->host.wait(opencode->host.data, process_id, on_exit_status, opencode->wait_call,
                            &err) == 0)
        return;
    free(STEAL(opencode->wait_call));
    error_wrap(&err, "OpenCode");
    opencode_start_failed(opencode, "agent_not_ready", &err);
}

static void close_process_fds(const struct agent_process *process)
{
    int fds[] = { process->stdin_fd, process->stdout_fd, process->stderr_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fd_close(&fds[i]);
}

static void on_spawned(void *context, const struct agent_process *process, const struct error *err)
{
    struct opencode_call *call = context;
    struct opencode *opencode = call->opencode;
    struct error failed = ERROR_INIT;
    int stdin_fd;

    free(call);
    if (opencode == NULL || opencode->phase != OPENCODE_SPAWNING) {
        if (opencode != NULL)
            opencode->spawn_call = NULL;
        if (err == NULL)
            close_process_fds(process);
        return;
    }
    opencode->spawn_call = NULL;
    if (err != NULL) {
        failed = *err;
        error_wrap(&failed, opencode->resumed ? "find OpenCode again" : "start OpenCode");
        opencode_start_failed(opencode,
                              opencode->resumed            ? "agent_crashed"
                              : err->code == ERR_NOT_FOUND ? "agent_not_found"
                                                           : "agent_not_ready",
                              &failed);
        return;
    }
    stdin_fd = process->stdin_fd;
    fd_close(&stdin_fd);
    opencode->phase = OPENCODE_LISTENING;
    read_output(&opencode->outputs[0], opencode, process->stdout_fd);
    read_output(&opencode->outputs[1], opencode, process->stderr_fd);
    watch_process(opencode, process->id);
    if (opencode->phase != OPENCODE_LISTENING || opencode->closing)
        return;
    if (opencode->resumed)
        opencode_resume_attached(opencode);
    else
        opencode->callbacks.on_process(opencode->callbacks.data, process->id);
}

int opencode_process_start(struct opencode *opencode, struct error *err)
{
    AUTO_FREE
    char *port = mem_printf("%d", OPENCODE_PORT);
    const char *const argv[] = { OPENCODE_PROGRAM, "serve", "--hostname", OPENCODE_HOST,
                                 "--port",         port,    NULL };
    AUTO_FREE
    const char **env = NULL;
    size_t count = 0;
    struct agent_command command = { .argv = argv,
                                     .cwd = opencode->directory,
                                     .stdin_pipe = false };

    while (opencode->environment[count] != NULL)
        count++;
    env = mem_new_zero(count + 1, sizeof(*env));
    for (size_t i = 0; i < count; i++)
        env[i] = opencode->environment[i];
    command.env = env;
    opencode->spawn_call = call_new(opencode);
    if (opencode->host.spawn(opencode->host.data, &command, on_spawned, opencode->spawn_call,
                             err) == 0)
        return 0;
    free(STEAL(opencode->spawn_call));
    return -1;
}

int opencode_process_attach(struct opencode *opencode, uint32_t process_id, struct error *err)
{
    opencode->spawn_call = call_new(opencode);
    if (opencode->host.attach(opencode->host.data, process_id, on_spawned, opencode->spawn_call,
                              err) == 0)
        return 0;
    free(STEAL(opencode->spawn_call));
    return -1;
}

void opencode_process_close(struct opencode *opencode)
{
    if (opencode->spawn_call != NULL)
        opencode->spawn_call->opencode = NULL;
    if (opencode->wait_call != NULL)
        opencode->wait_call->opencode = NULL;
    for (size_t i = 0; i < ARRAY_LEN(opencode->outputs); i++) {
        if (opencode->outputs[i].stream == NULL)
            continue;
        opencode->pending_closes++;
        stream_close(opencode->outputs[i].stream, opencode_closed_one, opencode);
        opencode->outputs[i].stream = NULL;
    }
}
