#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "io/io.h"

/* The shell driver with real processes: the host is io's child. */

struct host {
    uv_loop_t loop;
    struct agent *agent;
    struct child *child;
    uv_timer_t spawned;
    struct agent_process process;
    void (*spawn_done)(void *context, const struct agent_process *process, const struct error *err);
    void *spawn_context;
    void (*wait_done)(void *context, int code, int signal, const struct error *err);
    void *wait_context;
    bool exited;
    int code;
    int signal;
    const char *prompt;
    bool abort_when_taken;
    bool close_when_taken;
    bool fail_spawn;
    bool unrecorded;
    struct buf log;
};

static void on_exit_status(void *data, int code, int signal)
{
    struct host *host = data;

    host->exited = true;
    host->code = code;
    host->signal = signal;
    if (host->wait_done != NULL)
        host->wait_done(host->wait_context, code, signal, NULL);
    host->wait_done = NULL;
}

static void on_spawned(uv_timer_t *timer)
{
    struct host *host = timer->data;
    struct error err = ERROR_INIT;

    if (host->child == NULL) {
        error_set(&err, ERR_NOT_FOUND, 0, "no sh");
        host->spawn_done(host->spawn_context, NULL, &err);
    } else {
        host->spawn_done(host->spawn_context, &host->process, NULL);
    }
}

static int host_spawn(void *data, const struct agent_command *command,
                      void (*done)(void *context, const struct agent_process *process,
                                   const struct error *err),
                      void *context, struct error *err)
{
    struct host *host = data;
    struct child_fd fds[2] = { { -1, 1 }, { -1, 2 } };
    struct child_options options = {
        .program = "/bin/sh", .argv = command->argv, .env = command->env, .fds = fds, .fd_count = 2
    };
    int out[2];
    int errors[2];

    host->spawn_done = done;
    host->spawn_context = context;
    uv_timer_start(&host->spawned, on_spawned, 0, 0);
    if (host->fail_spawn)
        return 0;
    CHECK_EQ(pipe2(out, O_CLOEXEC) + pipe2(errors, O_CLOEXEC), 0);
    fds[0].fd = out[1];
    fds[1].fd = errors[1];
    CHECK_EQ(child_start(&host->child, &host->loop, &options, on_exit_status, host, err), 0);
    fd_close(&out[1]);
    fd_close(&errors[1]);
    CHECK_EQ(fd_set_nonblocking(out[0], true, err) + fd_set_nonblocking(errors[0], true, err), 0);
    host->process = (struct agent_process){ 5, -1, out[0], errors[0] };
    return 0;
}

static int host_wait(void *data, uint32_t id,
                     void (*done)(void *context, int code, int signal, const struct error *err),
                     void *context, struct error *err)
{
    struct host *host = data;

    (void)id;
    (void)err;
    host->wait_done = done;
    host->wait_context = context;
    if (host->exited)
        on_exit_status(host, host->code, host->signal);
    return 0;
}

static void host_signal(void *data, uint32_t id, int signal)
{
    struct host *host = data;

    (void)id;
    child_kill(host->child, signal);
}

static void on_closed(void *data)
{
    struct host *host = data;
    struct error err = ERROR_INIT;

    uv_close((uv_handle_t *)&host->spawned, NULL);
    if (host->wait_done != NULL) {
        error_set(&err, ERR_CANCELLED, 0, "over");
        host->wait_done(host->wait_context, -1, 0, &err);
        host->wait_done = NULL;
    }
    if (host->child != NULL) {
        child_kill(host->child, SIGKILL);
        child_close(host->child, NULL, NULL);
    }
}

static void on_ready(void *data, const char *failure_code, const struct error *err)
{
    struct host *host = data;
    struct error failed = ERROR_INIT;

    CHECK(failure_code == NULL && err == NULL);
    CHECK_EQ(host->agent->driver->prompt(host->agent, host->prompt, &failed), 0);
    CHECK_EQ(host->agent->driver->prompt(host->agent, host->prompt, &failed), -1);
}

static void on_event(void *data, const struct agent_event *event)
{
    struct host *host = data;

    buf_printf(&host->log, "%s %s\n", event->kind == AGENT_EVENT_TEXT ? "out" : "err", event->text);
}

static void on_process(void *data, uint32_t process_id)
{
    const struct host *host = data;

    CHECK_EQ(process_id, host->process.id);
}

static bool on_sending(void *data, const char *conversation, const char *prompt_id)
{
    const struct host *host = data;

    CHECK_STR(conversation, "");
    CHECK_STR(prompt_id, "");
    return !host->unrecorded;
}

static void on_taken(void *data)
{
    struct host *host = data;

    if (host->abort_when_taken)
        host->agent->driver->abort(host->agent);
    if (host->close_when_taken)
        host->agent->driver->close(host->agent, on_closed, host);
}

static void on_end(void *data, const struct agent_end *end)
{
    static const char *const kinds[] = { "done", "incomplete", "failed", "aborted" };
    struct host *host = data;

    buf_printf(&host->log, "%s %s %s [%s]", kinds[end->kind], end->error_code, end->message,
               end->output);
    host->agent->driver->close(host->agent, on_closed, host);
}

static const char *run(struct host *host)
{
    struct agent_options options = { .id = "run_1",
                                     .token = "",
                                     .model = "",
                                     .directory = "/",
                                     .home = "/",
                                     .conversation = "",
                                     .title = "" };
    struct agent_host functions = {
        .data = host, .spawn = host_spawn, .wait = host_wait, .signal = host_signal
    };
    struct agent_callbacks callbacks = { .on_ready = on_ready,
                                         .on_process = on_process,
                                         .on_sending = on_sending,
                                         .on_event = on_event,
                                         .on_prompt_taken = on_taken,
                                         .on_end = on_end,
                                         .data = host };
    struct error err = ERROR_INIT;
    const struct agent_driver *driver = agent_driver_find("shell");

    buf_init(&host->log, 100000);
    CHECK_EQ(uv_loop_init(&host->loop), 0);
    uv_timer_init(&host->loop, &host->spawned);
    host->spawned.data = host;
    CHECK_EQ(driver->start(&host->agent, &host->loop, &functions, &options, &callbacks, &err), 0);
    uv_run(&host->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&host->loop), 0);
    return buf_text(&host->log);
}

TEST(a_command_that_succeeds_is_done_with_its_output)
{
    struct host host = { .prompt = "echo one; echo two; printf three" };

    CHECK_STR(run(&host), "out one\nout two\nout three\ndone   [one\ntwo\nthree]");
    buf_finish(&host.log);
}

/* 5,000 lines of five bytes, of which 16 KiB are kept. */
TEST(what_is_left_out_of_a_long_output_is_said)
{
    struct host host = { .prompt = "i=1000; while [ $i -lt 6000 ]; do echo $i; i=$((i+1)); done" };
    const char *end;

    run(&host);
    end = strstr(buf_text(&host.log), "done ");
    CHECK(end != NULL);
    CHECK_HAS(end, "[[the first 8620 bytes are left out; the run's log has all lines]\n2724\n");
    CHECK_HAS(end, "\n5999\n]");
    buf_finish(&host.log);
}

TEST(a_command_that_fails_says_how)
{
    struct host host = { .prompt = "echo oops >&2; exit 3" };

    CHECK_STR(run(&host),
              "err oops\nfailed command_failed the command exited with code 3 [oops\n]");
    buf_finish(&host.log);
}

TEST(an_abort_kills_the_command)
{
    struct host host = { .prompt = "exec sleep 100", .abort_when_taken = true };

    CHECK_STR(run(&host), "aborted  the command ended by signal 15 []");
    buf_finish(&host.log);
}

TEST(a_shell_that_cannot_start_fails_the_prompt)
{
    struct host host = { .prompt = "true", .fail_spawn = true };

    CHECK_STR(run(&host), "failed command_failed no sh []");
    buf_finish(&host.log);
}

TEST(closing_in_a_command_leaves_nothing_behind)
{
    struct host host = { .prompt = "exec sleep 100", .close_when_taken = true };

    CHECK_STR(run(&host), "");
    buf_finish(&host.log);
}

TEST(the_table_knows_its_drivers)
{
    CHECK_STR(agent_driver_find("opencode")->name, "opencode");
    CHECK(agent_driver_find("other") == NULL);
    CHECK_STR(agent_driver_at(1)->name, "shell");
    CHECK_STR(agent_driver_at(2)->name, "acp");
    CHECK(agent_driver_at(3) == NULL);
}
