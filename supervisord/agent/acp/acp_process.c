#include <string.h>

#include "agent/acp/acp_internal.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

#define LINES_PER_SECOND 50
#define RAW_LINE_MAX 4096
#define QUEUE_MAX (4u << 20) /* of what the agent has not read: a task is less */

/* Lines that are for people -------------------------------------------------------------------- */

/* At most LINES_PER_SECOND lines a second become events; the next second tells how many did not. */
static bool line_allowed(struct acp *acp)
{
    uint64_t now = uv_now(acp->loop);

    if (now - acp->line_window_ms >= 1000) {
        unsigned left_out = acp->lines_left_out;

        acp->line_window_ms = now;
        acp->lines_in_window = 0;
        acp->lines_left_out = 0;
        if (left_out > 0)
            acp_log(acp, "(%u lines left out)", left_out);
    }
    if (acp->closing)
        return false;
    if (acp->lines_in_window++ < LINES_PER_SECOND)
        return true;
    acp->lines_left_out++;
    return false;
}

static void on_line(void *data, const char *line, size_t len)
{
    struct acp *acp = data;
    AUTO_BUF struct buf text = BUF_INIT(4 * ACP_LINE_SHOWN);
    struct agent_event event = { .kind = AGENT_EVENT_LOG };

    while (len > 0 && line[len - 1] == '\r')
        len--;
    if (len == 0 || acp->closing)
        return;
    str_append_escaped(&text, line, len, ACP_LINE_SHOWN);
    str_copy(acp->last_lines[acp->line_count++ % ACP_LAST_LINES], sizeof(acp->last_lines[0]),
             buf_text(&text));
    event.text = buf_text(&text);
    if (line_allowed(acp))
        acp->callbacks.on_event(acp->callbacks.data, &event);
}

void acp_last_lines(const struct acp *acp, struct buf *out)
{
    unsigned count = acp->line_count < ACP_LAST_LINES ? acp->line_count : ACP_LAST_LINES;

    for (unsigned i = acp->line_count - count; i != acp->line_count; i++) {
        if (i != acp->line_count - count)
            buf_append_str(out, " | ");
        buf_append_str(out, acp->last_lines[i % ACP_LAST_LINES]);
    }
}

static void on_errors(void *data, const char *bytes, size_t len)
{
    struct acp *acp = data;

    while (len > 0 && !acp->closing) {
        const char *newline = memchr(bytes, '\n', len);
        size_t part = newline != NULL ? (size_t)(newline - bytes) : len;
        size_t room = RAW_LINE_MAX - acp->error_line.len;

        buf_append(&acp->error_line, bytes, part < room ? part : room);
        if (newline == NULL)
            return;
        on_line(acp, acp->error_line.data, acp->error_line.len);
        buf_clear(&acp->error_line);
        bytes += part + 1;
        len -= part + 1;
    }
}

static void on_errors_end(void *data, const struct error *err)
{
    struct acp *acp = data;

    (void)err;
    if (acp->error_line.len > 0)
        on_line(acp, acp->error_line.data, acp->error_line.len);
    buf_clear(&acp->error_line);
}

/* Messages ------------------------------------------------------------------------------------- */

static void on_message(void *data, const struct acp_message *message)
{
    struct acp *acp = data;
    bool answer = message->kind == ACP_RESULT || message->kind == ACP_ERROR;

    if (acp->closing || acp->phase == ACP_DEAD)
        return;
    if (answer && message->number > 0 && message->number < ACP_CALL_PROMPTS)
        acp_open_answer(acp, message);
    else
        acp_prompt_message(acp, message);
}

static void on_output(void *data, const char *bytes, size_t len)
{
    struct acp *acp = data;

    acp_rpc_feed(&acp->rpc, bytes, len);
}

static void on_drained(uv_timer_t *timer);

static void on_output_end(void *data, const struct error *err)
{
    struct acp *acp = data;

    (void)err;
    acp_rpc_end(&acp->rpc);
    if (acp->closing || acp->exit_text[0] != '\0' || acp->phase == ACP_DEAD)
        return;
    /* Its end is the rule. One that goes on without an output can't be talked with. */
    uv_timer_start(&acp->drain_timer, on_drained, acp->timing.mute_ms, 0);
}

static void on_input(void *data, const char *bytes, size_t len)
{
    (void)data;
    (void)bytes;
    (void)len;
}

static void on_input_end(void *data, const struct error *err)
{
    (void)data;
    (void)err; /* the process's end tells more */
}

/* An agent may ask without end and read none of our answers. */
static void give_up(struct acp *acp)
{
    if (acp->exit_text[0] != '\0')
        return;
    str_copy(acp->exit_text, sizeof(acp->exit_text), "does not read its input");
    uv_timer_start(&acp->drain_timer, on_drained, 0, 0);
}

void acp_send(struct acp *acp, const struct buf *line)
{
    if (acp->input == NULL || line->failed)
        return;
    if (stream_queued(acp->input) > QUEUE_MAX) {
        give_up(acp);
        return;
    }
    if (acp->resync)
        stream_write(acp->input, "\n", 1);
    acp->resync = false;
    stream_write(acp->input, line->data, line->len);
}

/* Start and end -------------------------------------------------------------------------------- */

static void on_drained(uv_timer_t *timer)
{
    struct acp *acp = timer->data;
    AUTO_BUF struct buf lines = BUF_INIT(ACP_LAST_LINES * (ACP_LINE_SHOWN + 16));
    struct error err = ERROR_INIT;

    if (acp->phase == ACP_DEAD)
        return;
    if (acp->exit_text[0] == '\0')
        str_copy(acp->exit_text, sizeof(acp->exit_text), "closed its output");
    if (acp->phase == ACP_READY) {
        acp_prompt_crashed(acp);
        return;
    }
    acp_last_lines(acp, &lines);
    error_set(&err, ERR_UNAVAILABLE, 0, "%s %s while starting: %s", acp->profile->name,
              acp->exit_text, buf_text(&lines));
    acp_start_failed(acp, "agent_crashed", &err);
}

static void on_exit_status(void *context, int code, int signal, const struct error *err)
{
    struct acp_call *call = context;
    struct acp *acp = call->acp;

    free(call);
    if (acp == NULL)
        return;
    acp->wait_call = NULL;
    if (err != NULL)
        (void)snprintf(acp->exit_text, sizeof(acp->exit_text), "is gone (%.120s)", err->text);
    else if (signal != 0)
        (void)snprintf(acp->exit_text, sizeof(acp->exit_text), "ended by signal %d", signal);
    else
        (void)snprintf(acp->exit_text, sizeof(acp->exit_text), "exited with code %d", code);
    log_info(acp->id, "agent %s", acp->exit_text);
    /* Its last words may still be on their way. */
    uv_timer_start(&acp->drain_timer, on_drained, acp->timing.drain_ms, 0);
}

static struct acp_call *call_new(struct acp *acp)
{
    struct acp_call *call = NEW(struct acp_call);

    call->acp = acp;
    return call;
}

static void close_process_fds(const struct agent_process *process)
{
    int fds[] = { process->stdin_fd, process->stdout_fd, process->stderr_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fd_close(&fds[i]);
}

/* All three descriptors are taken, also when one can't be used. */
static int open_streams(struct acp *acp, const struct agent_process *process, struct error *err)
{
    const struct stream_callbacks input = { on_input, on_input_end, NULL, acp };
    const struct stream_callbacks output = { on_output, on_output_end, NULL, acp };
    const struct stream_callbacks errors = { on_errors, on_errors_end, NULL, acp };
    const struct acp_rpc_callbacks rpc = { on_message, on_line, acp };
    struct error ignored = ERROR_INIT;
    int rc = 0;

    acp_rpc_init(&acp->rpc, &rpc);
    acp->rpc.torn = acp->resumed;
    if (process->stderr_fd >= 0)
        stream_start(&acp->errors, acp->loop, process->stderr_fd, &errors, &ignored);
    if (process->stdin_fd < 0 || process->stdout_fd < 0) {
        struct agent_process rest = { 0, process->stdin_fd, process->stdout_fd, -1 };

        close_process_fds(&rest);
        return error_set(err, ERR_UNAVAILABLE, 0, "its streams are not there any more");
    }
    if (stream_start(&acp->input, acp->loop, process->stdin_fd, &input, err) < 0)
        rc = -1;
    if (stream_start(&acp->output, acp->loop, process->stdout_fd, &output,
                     rc < 0 ? &ignored : err) < 0)
        rc = -1;
    return rc;
}

static void on_started(struct acp *acp, const struct agent_process *process)
{
    struct error err = ERROR_INIT;

    if (open_streams(acp, process, &err) < 0) {
        acp_start_failed(acp, "agent_not_ready", &err);
        return;
    }
    acp->wait_call = call_new(acp);
    if (acp->host.wait(acp->host.data, process->id, on_exit_status, acp->wait_call, &err) < 0) {
        free(STEAL(acp->wait_call));
        acp_start_failed(acp, "agent_not_ready", &err);
        return;
    }
    if (acp->resumed) {
        acp_ready(acp);
        return;
    }
    acp->callbacks.on_process(acp->callbacks.data, process->id);
    if (!acp->closing)
        acp_open_begin(acp);
}

static void on_spawned(void *context, const struct agent_process *process, const struct error *err)
{
    struct acp_call *call = context;
    struct acp *acp = call->acp;
    struct error failed = ERROR_INIT;

    free(call);
    if (acp != NULL)
        acp->spawn_call = NULL;
    if (acp == NULL || acp->phase != ACP_SPAWNING) {
        if (err == NULL)
            close_process_fds(process);
        return;
    }
    if (err == NULL) {
        on_started(acp, process);
        return;
    }
    failed = *err;
    error_wrap(&failed, "%s %s", acp->resumed ? "find again" : "start", acp->profile->name);
    acp_start_failed(acp, acp->resumed ? "agent_crashed" : "agent_not_ready", &failed);
}

int acp_process_start(struct acp *acp, struct error *err)
{
    static const char *const argv[] = { "/bin/sh", ACP_START_SCRIPT, NULL };
    AUTO_FREE
    const char **env = NULL;
    struct agent_command command = { .argv = argv, .cwd = acp->directory, .stdin_pipe = true };
    size_t count = 0;

    while (acp->environment[count] != NULL)
        count++;
    env = mem_new_zero(count + 1, sizeof(*env));
    for (size_t i = 0; i < count; i++)
        env[i] = acp->environment[i];
    command.env = env;
    acp->spawn_call = call_new(acp);
    if (acp->host.spawn(acp->host.data, &command, on_spawned, acp->spawn_call, err) == 0)
        return 0;
    free(STEAL(acp->spawn_call));
    return -1;
}

int acp_process_attach(struct acp *acp, uint32_t process_id, struct error *err)
{
    acp->spawn_call = call_new(acp);
    if (acp->host.attach(acp->host.data, process_id, on_spawned, acp->spawn_call, err) == 0)
        return 0;
    free(STEAL(acp->spawn_call));
    return -1;
}

void acp_process_close(struct acp *acp)
{
    struct stream **streams[] = { &acp->input, &acp->output, &acp->errors };

    if (acp->spawn_call != NULL)
        acp->spawn_call->acp = NULL;
    if (acp->wait_call != NULL)
        acp->wait_call->acp = NULL;
    acp_rpc_stop(&acp->rpc);
    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        struct stream *stream = STEAL(*streams[i]);

        if (stream == NULL)
            continue;
        acp->pending_closes++;
        stream_close(stream, acp_closed_one, acp);
    }
}
