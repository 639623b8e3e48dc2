/* acp_rig.h: an agent that follows a script, on the test's own loop, for tests of the whole driver:
 * it answers each line that it gets with the lines that stand beside it. */
#ifndef TESTS_UNIT_AGENT_ACP_RIG_H
#define TESTS_UNIT_AGENT_ACP_RIG_H

#include <signal.h>
#include <unistd.h>

#include "agent/acp/acp.h"
#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "io/io.h"

#define RIG_STEPS_MAX 24

/* What the driver must say next, and what the agent says then. */
struct rig_step {
    const char *expect; /* a part of the driver's line */
    const char *reply;  /* lines, or NULL */
    int exit;           /* the process ends after the reply, with this code - 1; 0: it lives on */
};

struct rig {
    uv_loop_t loop;
    const struct rig_step *steps; /* up to one without expect */
    size_t at;
    struct agent_profile profile;
    struct agent_options options;
    struct agent *agent;
    struct stream *from_driver;
    struct stream *to_driver;
    struct buf line;
    uv_timer_t later; /* spawn, attach and exit call back from the loop */
    void (*spawn_done)(void *context, const struct agent_process *process, const struct error *err);
    void *spawn_context;
    void (*wait_done)(void *context, int code, int signal, const struct error *err);
    void *wait_context;
    int exit; /* as in the step */
    int driver_fds[2];
    const char *prompt;
    const char *answer; /* to each permission request */
    bool abort_when_taken;
    bool unrecorded;
    bool deaf;               /* it reads no more once it has its prompt */
    const char *first_bytes; /* that an attached process says at once */
    uint64_t settle_ms;
    uint64_t end_ms; /* of the prompt, and of the driver, by the loop's clock */
    uint64_t closed_ms;
    char command[256];
    struct buf log;
};

static inline void rig_later(uv_timer_t *timer);

static inline void rig_kick(struct rig *rig)
{
    uv_timer_start(&rig->later, rig_later, 0, 0);
}

static inline void rig_on_line(struct rig *rig)
{
    const struct rig_step *step = &rig->steps[rig->at];

    if (step->expect == NULL) {
        buf_printf(&rig->log, "unexpected: %s\n", buf_text(&rig->line));
        return;
    }
    CHECK_HAS(buf_text(&rig->line), step->expect);
    rig->at++;
    if (rig->deaf && strstr(step->expect, "session/prompt") != NULL)
        stream_pause(rig->from_driver);
    if (step->reply != NULL)
        stream_write(rig->to_driver, step->reply, strlen(step->reply));
    if (step->exit != 0) {
        rig->exit = step->exit;
        rig_kick(rig);
    }
}

static inline void rig_on_data(void *data, const char *bytes, size_t len)
{
    struct rig *rig = data;

    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n') {
            buf_append_char(&rig->line, bytes[i]);
            continue;
        }
        if (rig->line.len > 0)
            rig_on_line(rig);
        buf_clear(&rig->line);
    }
}

static inline void rig_on_end_of_input(void *data, const struct error *err)
{
    (void)data;
    (void)err;
}

static inline void rig_make_process(struct rig *rig, struct error *err)
{
    const struct stream_callbacks callbacks = { rig_on_data, rig_on_end_of_input, NULL, rig };
    int in[2];
    int out[2];

    CHECK_EQ(pipe2(in, O_CLOEXEC) + pipe2(out, O_CLOEXEC), 0);
    CHECK_EQ(fd_set_nonblocking(in[0], true, err) + fd_set_nonblocking(in[1], true, err) +
                 fd_set_nonblocking(out[0], true, err) + fd_set_nonblocking(out[1], true, err),
             0);
    rig->driver_fds[0] = in[1];
    rig->driver_fds[1] = out[0];
    CHECK_EQ(stream_start(&rig->from_driver, &rig->loop, in[0], &callbacks, err), 0);
    CHECK_EQ(stream_start(&rig->to_driver, &rig->loop, out[1], &callbacks, err), 0);
}

static inline void rig_later(uv_timer_t *timer)
{
    struct rig *rig = timer->data;

    if (rig->spawn_done != NULL) {
        struct agent_process process = { 7, rig->driver_fds[0], rig->driver_fds[1], -1 };
        void (*done)(void *, const struct agent_process *, const struct error *) = rig->spawn_done;

        rig->spawn_done = NULL;
        if (rig->first_bytes != NULL)
            stream_write(rig->to_driver, rig->first_bytes, strlen(rig->first_bytes));
        done(rig->spawn_context, &process, NULL);
    } else if (rig->exit != 0 && rig->wait_done != NULL) {
        void (*done)(void *, int, int, const struct error *) = rig->wait_done;

        rig->wait_done = NULL;
        done(rig->wait_context, rig->exit - 1, 0, NULL);
    }
}

static inline int rig_spawn(void *data, const struct agent_command *command,
                            void (*done)(void *, const struct agent_process *,
                                         const struct error *),
                            void *context, struct error *err)
{
    struct rig *rig = data;

    CHECK(command->stdin_pipe);
    str_copy(rig->command, sizeof(rig->command), command->argv[1]);
    rig_make_process(rig, err);
    rig->spawn_done = done;
    rig->spawn_context = context;
    rig_kick(rig);
    return 0;
}

static inline int rig_attach(void *data, uint32_t id,
                             void (*done)(void *, const struct agent_process *,
                                          const struct error *),
                             void *context, struct error *err)
{
    struct rig *rig = data;

    CHECK_EQ(id, 7);
    rig_make_process(rig, err);
    rig->spawn_done = done;
    rig->spawn_context = context;
    rig_kick(rig);
    return 0;
}

static inline int rig_wait(void *data, uint32_t id,
                           void (*done)(void *, int, int, const struct error *), void *context,
                           struct error *err)
{
    struct rig *rig = data;

    (void)id;
    (void)err;
    rig->wait_done = done;
    rig->wait_context = context;
    return 0;
}

static inline void rig_signal(void *data, uint32_t id, int signal)
{
    (void)data;
    (void)id;
    (void)signal;
}

static inline void rig_closed(void *data)
{
    struct rig *rig = data;
    struct error err = ERROR_INIT;

    rig->closed_ms = uv_now(&rig->loop);
    uv_close((uv_handle_t *)&rig->later, NULL);
    if (rig->from_driver != NULL)
        stream_close(rig->from_driver, NULL, NULL);
    if (rig->to_driver != NULL)
        stream_close(rig->to_driver, NULL, NULL);
    if (rig->wait_done != NULL) {
        error_set(&err, ERR_CANCELLED, 0, "over");
        rig->wait_done(rig->wait_context, -1, 0, &err);
    }
}

static inline void rig_close(struct rig *rig)
{
    rig->agent->driver->close(rig->agent, rig_closed, rig);
}

static inline void rig_on_ready(void *data, const char *failure_code, const struct error *err)
{
    struct rig *rig = data;
    struct error failed = ERROR_INIT;

    if (err != NULL) {
        buf_printf(&rig->log, "not ready: %s: %s\n", failure_code, err->text);
        rig_close(rig);
        return;
    }
    buf_append_str(&rig->log, "ready\n");
    if (rig->prompt != NULL && rig->agent->driver->prompt(rig->agent, rig->prompt, &failed) < 0) {
        buf_printf(&rig->log, "refused: %s\n", failed.text);
        rig_close(rig);
    }
}

static inline void rig_on_process(void *data, uint32_t process_id)
{
    (void)data;
    CHECK_EQ(process_id, 7);
}

static inline bool rig_on_sending(void *data, const char *conversation, const char *prompt_id)
{
    struct rig *rig = data;

    buf_printf(&rig->log, "sending %s in %s\n", prompt_id, conversation);
    return !rig->unrecorded;
}

static inline void rig_on_event(void *data, const struct agent_event *event)
{
    static const char *const names[] = {
        [AGENT_EVENT_ALIVE] = NULL,
        [AGENT_EVENT_TEXT] = "text",
        [AGENT_EVENT_REASONING] = "reasoning",
        [AGENT_EVENT_TOOL] = "tool",
        [AGENT_EVENT_TOOL_START] = "start",
        [AGENT_EVENT_TODO] = "todo",
        [AGENT_EVENT_PERMISSION] = "permission",
        [AGENT_EVENT_QUESTION] = "question",
        [AGENT_EVENT_ANSWERED] = "answered",
        [AGENT_EVENT_RETRY] = "retry",
        [AGENT_EVENT_RUNNING] = "running",
        [AGENT_EVENT_TITLE] = "title",
        [AGENT_EVENT_USAGE] = "usage",
        [AGENT_EVENT_LOG] = "log",
    };
    struct rig *rig = data;
    struct error err = ERROR_INIT;

    if (names[event->kind] == NULL)
        return;
    buf_printf(&rig->log, "%s %s%s%s\n", names[event->kind], event->text != NULL ? event->text : "",
               event->request_id != NULL ? " " : "",
               event->request_id != NULL ? event->request_id : "");
    if (event->kind == AGENT_EVENT_PERMISSION && rig->answer != NULL &&
        rig->agent->driver->answer(rig->agent, event->request_id, rig->answer, &err) < 0)
        buf_printf(&rig->log, "no answer: %s\n", err.text);
}

static inline void rig_on_taken(void *data)
{
    struct rig *rig = data;

    buf_append_str(&rig->log, "taken\n");
    if (rig->abort_when_taken)
        rig->agent->driver->abort(rig->agent);
}

static inline void rig_on_end(void *data, const struct agent_end *end)
{
    static const char *const kinds[] = { "done", "incomplete", "failed", "aborted" };
    struct rig *rig = data;

    rig->end_ms = uv_now(&rig->loop);
    buf_printf(&rig->log, "%s %s %s [%s]%s%s", kinds[end->kind], end->finish_reason,
               end->error_code, end->output, end->message[0] != '\0' ? " " : "", end->message);
    if (end->usage_known)
        buf_printf(&rig->log, " %llu+%llu $%llu", (unsigned long long)end->usage.input_tokens,
                   (unsigned long long)end->usage.output_tokens,
                   (unsigned long long)end->usage.cost_microdollars);
    rig_close(rig);
}

static inline void rig_init(struct rig *rig, const struct rig_step *steps)
{
    *rig = (struct rig){ .steps = steps, .prompt = "do it", .settle_ms = 1 };
    rig->profile = (struct agent_profile){ .name = "tester",
                                           .driver = "acp",
                                           .program = "tester",
                                           .model = "",
                                           .before = "",
                                           .set_model = "",
                                           .set_mode = "",
                                           .install = "" };
    rig->options = (struct agent_options){ .id = "run_1",
                                           .token = "",
                                           .model = "anthropic/m-1",
                                           .directory = "/workspace/x",
                                           .home = "/home/agent",
                                           .conversation = "",
                                           .title = "",
                                           .profile = &rig->profile };
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    buf_init(&rig->log, 100000);
    buf_init(&rig->line, 100000);
    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    uv_timer_init(&rig->loop, &rig->later);
    rig->later.data = rig;
}

/* RESUME NULL: starts. The whole log, borrowed until rig_finish. */
static inline const char *rig_run(struct rig *rig, const struct agent_resume *resume)
{
    const struct acp_timing timing = { .start_ms = 500,
                                       .quiet_ms = 30,
                                       .settle_ms = rig->settle_ms,
                                       .stop_ms = 50,
                                       .drain_ms = 20,
                                       .mute_ms = 50 };
    const struct agent_host host = { .data = rig,
                                     .spawn = rig_spawn,
                                     .attach = rig_attach,
                                     .wait = rig_wait,
                                     .signal = rig_signal };
    const struct agent_callbacks callbacks = { .on_ready = rig_on_ready,
                                               .on_process = rig_on_process,
                                               .on_sending = rig_on_sending,
                                               .on_event = rig_on_event,
                                               .on_prompt_taken = rig_on_taken,
                                               .on_end = rig_on_end,
                                               .data = rig };
    struct error err = ERROR_INIT;
    int rc = resume == NULL
                 ? acp_driver.start(&rig->agent, &rig->loop, &host, &rig->options, &callbacks, &err)
                 : acp_driver.resume(&rig->agent, &rig->loop, &host, &rig->options, resume,
                                     &callbacks, &err);

    if (rc == 0) {
        acp_set_timing(rig->agent, &timing);
    } else {
        buf_printf(&rig->log, "refused: %s", err.text);
        uv_close((uv_handle_t *)&rig->later, NULL);
    }
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    if (rig->steps[rig->at].expect != NULL)
        buf_printf(&rig->log, "\nnever said: %s", rig->steps[rig->at].expect);
    return buf_text(&rig->log);
}

static inline void rig_finish(struct rig *rig)
{
    buf_finish(&rig->log);
    buf_finish(&rig->line);
}

#endif
