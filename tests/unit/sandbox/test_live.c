/* Real sandboxes: real bubblewrap, real sandbox-init. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/paths.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "io/io.h"
#include "sandbox/sandbox.h"

#define TEST_UID 2100009999u
#define CANARY "canary-5d1f"

struct rig {
    uv_loop_t loop;
    struct sandbox *sandbox;
    struct error ready_error;
    bool ready;
    bool failed;
    bool ended;
    struct sandbox_end end;
    bool closed;
    bool late;
    uv_timer_t timer;
    /* the command under way */
    struct stream *streams[2];
    unsigned open_streams;
    struct buf out;
    bool exited;
    struct sandbox_exit status;
    uint32_t process;
    int fd;
    bool answered;
    struct error error;
};

static uint32_t test_uid(void)
{
    return geteuid() == 0 ? TEST_UID : (uint32_t)geteuid();
}

static char *init_path(void)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    CHECK(len > 0);
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    return mem_printf("%s/../../bin/sandbox-init", self);
}

static void on_ready(void *data, const struct error *err)
{
    struct rig *rig = data;

    uv_stop(&rig->loop); /* libuv runs due timers before it waits: without this a turn could wait
                            for nothing */
    rig->ready = err == NULL;
    rig->failed = err != NULL;
    if (err != NULL)
        rig->ready_error = *err;
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct rig *rig = data;

    uv_stop(&rig->loop);
    rig->ended = true;
    rig->end = *end;
}

static void on_late(uv_timer_t *timer)
{
    ((struct rig *)timer->data)->late = true;
}

static void turn_until(struct rig *rig, const bool *flag)
{
    uv_timer_start(&rig->timer, on_late, 30000, 0);
    while (!*flag && !rig->late)
        uv_run(&rig->loop, UV_RUN_ONCE);
    uv_timer_stop(&rig->timer);
    CHECK(!rig->late);
}

static void open_loop(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    uv_timer_init(&rig->loop, &rig->timer);
    rig->timer.data = rig;
    buf_init(&rig->out, 1u << 20);
}

static void make_folder(const char *path)
{
    CHECK(mkdir(path, 0700) == 0);
    CHECK(chown(path, test_uid(), test_uid()) == 0);
}

/* Folders of a session below a private folder that the sandbox's uid has no way through. */
static void start_with(struct rig *rig, const char *bwrap, uint32_t timeout_ms)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = rig };
    AUTO_FREE char *init = init_path();
    struct sandbox_options options = {
        .backend = "bwrap", .bwrap = bwrap, .init_path = init, .start_timeout_ms = timeout_ms
    };
    struct sandbox_spec spec;
    struct error err = ERROR_INIT;

    open_loop(rig);
    make_folder(tmp_path("workspace"));
    make_folder(tmp_path("home"));
    CHECK_EQ(paths_make_private(tmp_path("runtime"), &err), 0);
    sandbox_spec_init(&spec);
    spec.id = mem_strdup("ses_test");
    spec.runtime_dir = mem_strdup(tmp_path("runtime"));
    spec.host_uid = test_uid();
    spec.hostname = mem_strdup("sandbox");
    spec.limits =
        (struct sandbox_limits){ .processes = 512, .open_files = 256, .tmp_bytes = 8u << 20 };
    sandbox_spec_add_mount(&spec, tmp_path("workspace"), SANDBOX_WORKSPACE, SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(&spec, tmp_path("home"), SANDBOX_HOME, SANDBOX_READ_WRITE);
    sandbox_spec_add_frozen_dir(&spec, "/run/agent-config/tool");
    sandbox_spec_add_file(&spec, "/run/agent-config/tool/settings", "frozen", 6, 0444);
    CHECK_EQ(sandbox_start(&rig->sandbox, &rig->loop, &options, &spec, &callbacks, &err), 0);
    sandbox_spec_finish(&spec);
}

static void start(struct rig *rig)
{
    start_with(rig, "bwrap", 20000);
    while (!rig->failed && !rig->ready)
        uv_run(&rig->loop, UV_RUN_ONCE);
    CHECK_STR(rig->ready_error.text, "");
}

static void on_closed(void *data)
{
    uv_stop(&((struct rig *)data)->loop);
    ((struct rig *)data)->closed = true;
}

static void leave(struct rig *rig)
{
    struct error err = ERROR_INIT;

    sandbox_close(rig->sandbox, on_closed, rig);
    turn_until(rig, &rig->closed);
    uv_close((uv_handle_t *)&rig->timer, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    buf_finish(&rig->out);
    CHECK_EQ(sandbox_runtime_remove(tmp_path("runtime"), &err), 0);
}

static void finish(struct rig *rig)
{
    sandbox_stop(rig->sandbox);
    turn_until(rig, &rig->ended);
    CHECK_EQ((int)rig->end.kind, SANDBOX_END_STOPPED);
    leave(rig);
}

/* Commands
 * ------------------------------------------------------------------------------------------------------
 */

static void on_data(void *data, const char *bytes, size_t len)
{
    buf_append(&((struct rig *)data)->out, bytes, len);
}

static void on_stream_end(void *data, const struct error *err)
{
    (void)err;
    ((struct rig *)data)->open_streams--;
}

static void on_exit_status(void *data, const struct sandbox_exit *status, const struct error *err)
{
    struct rig *rig = data;

    rig->exited = true;
    if (status != NULL)
        rig->status = *status;
    else
        rig->error = *err;
}

static void read_stream(struct rig *rig, int which, int fd)
{
    const struct stream_callbacks callbacks = { .on_data = on_data,
                                                .on_end = on_stream_end,
                                                .data = rig };
    struct error err = ERROR_INIT;

    CHECK_EQ(stream_start(&rig->streams[which], &rig->loop, fd, &callbacks, &err), 0);
    rig->open_streams++;
}

static void on_spawned(void *data, const struct sandbox_process *process, const struct error *err)
{
    struct rig *rig = data;
    struct error local = ERROR_INIT;

    rig->answered = true;
    if (process == NULL) {
        rig->error = *err;
        rig->exited = true;
        return;
    }
    rig->process = process->id;
    rig->fd = process->stdin_fd;
    read_stream(rig, 0, process->stdout_fd);
    read_stream(rig, 1, process->stderr_fd);
    CHECK_EQ(sandbox_wait(rig->sandbox, process->id, on_exit_status, rig, &local), 0);
}

static void spawn(struct rig *rig, const char *const *argv, enum sandbox_stdin stdin_mode)
{
    static const char *const env[] = { "PATH=/usr/bin:/bin", "HOME=/home/agent", NULL };
    const struct sandbox_command command = {
        .argv = argv, .env = env, .cwd = SANDBOX_WORKSPACE, .stdin_mode = stdin_mode
    };
    struct error err = ERROR_INIT;

    buf_clear(&rig->out);
    rig->exited = rig->answered = false;
    rig->error = (struct error)ERROR_INIT;
    CHECK_EQ(sandbox_spawn(rig->sandbox, &command, on_spawned, rig, &err), 0);
}

static void drop_streams(struct rig *rig)
{
    for (int i = 0; i < 2; i++) {
        if (rig->streams[i] != NULL)
            stream_close(STEAL(rig->streams[i]), NULL, NULL);
    }
    rig->open_streams = 0;
}

/* Runs SCRIPT to its end; what it printed is in rig->out. */
static void run(struct rig *rig, const char *script)
{
    const char *const argv[] = { "bash", "-c", script, NULL };

    spawn(rig, argv, SANDBOX_STDIN_NULL);
    turn_until(rig, &rig->exited);
    while (rig->open_streams > 0 && !rig->late)
        uv_run(&rig->loop, UV_RUN_ONCE);
    drop_streams(rig);
}

/* Without the dead that process 1 has yet to reap: orphans of the test before, say. */
static unsigned processes_of_uid(uint32_t uid)
{
    DIR *proc = opendir("/proc");
    unsigned count = 0;
    struct dirent *entry;

    CHECK(proc != NULL);
    while ((entry = readdir(proc)) != NULL) {
        AUTO_FREE char *path = mem_printf("/proc/%s/status", entry->d_name);
        AUTO_FREE char *text = NULL;
        AUTO_FREE char *line = mem_printf("\nUid:\t%u\t", uid);
        struct error err = ERROR_INIT;
        FILE *file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        size_t got;

        (void)err;
        if (file == NULL)
            continue;
        text = mem_new_zero(4096, 1);
        got = fread(text, 1, 4095, file);
        fclose(file);
        count += got > 0 && strstr(text, line) != NULL && strstr(text, "\nState:\tZ") == NULL;
    }
    closedir(proc);
    return count;
}

TEST(output_exit_codes_and_signals_come_back)
{
    struct rig rig;

    start(&rig);
    run(&rig, "echo out; echo err >&2; pwd; exit 7");
    CHECK_HAS(buf_text(&rig.out), "out\n");
    CHECK_HAS(buf_text(&rig.out), "err\n");
    CHECK_HAS(buf_text(&rig.out), SANDBOX_WORKSPACE "\n");
    CHECK_EQ(rig.status.code, 7);
    run(&rig, "kill -TERM $$");
    CHECK_EQ(rig.status.signal, SIGTERM);
    {
        static const char *const missing[] = { "no-such-program", NULL };

        spawn(&rig, missing, SANDBOX_STDIN_NULL);
        turn_until(&rig, &rig.exited);
        CHECK(rig.error.text[0] != '\0');
    }
    finish(&rig);
}

TEST(the_host_is_out_of_sight_and_out_of_reach)
{
    struct rig rig;

    tmp_file("canary", CANARY, strlen(CANARY), 0644);
    start(&rig);
    run(&rig, "id -u; hostname; ls -A / | tr '\\n' ' '; echo; ls -A /home /root /var/lib /sys 2>&1 "
              "| tr '\\n' ' '; echo");
    CHECK_HAS(buf_text(&rig.out), "1000\nsandbox\n");
    CHECK(strstr(buf_text(&rig.out), "root ") == NULL ||
          strstr(buf_text(&rig.out), "/root") != NULL);
    run(&rig, "grep -r " CANARY
              " / --exclude-dir=proc --exclude-dir=usr 2>/dev/null | head -1; echo done");
    CHECK_STR(buf_text(&rig.out), "done\n");
    run(&rig, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t\\n'");
    CHECK_HAS(buf_text(&rig.out), "CapBnd:0000000000000000");
    CHECK_HAS(buf_text(&rig.out), "NoNewPrivs:1");
    CHECK_HAS(buf_text(&rig.out), "Seccomp:2");
    /* The value that was read is what would be written. */
    run(&rig,
        "v=$(cat /proc/sys/kernel/core_pattern); (echo \"$v\" >/proc/sys/kernel/core_pattern) "
        "2>/dev/null && echo written; "
        "cat /proc/1/environ 2>/dev/null && echo read; ls /proc/1/fd 2>/dev/null && echo listed; "
        "kill -9 1; kill -STOP 1; touch /usr/x /etc/x /x /dev/x 2>/dev/null && echo touched; "
        "unshare -U true 2>/dev/null && echo unshared; echo done");
    CHECK_STR(buf_text(&rig.out), "done\n");
    run(&rig, "cat /run/agent-config/tool/settings; touch /run/agent-config/tool/x 2>/dev/null || "
              "echo frozen; env | sort");
    CHECK_HAS(buf_text(&rig.out), "frozenfrozen\n");
    CHECK(strstr(buf_text(&rig.out), "LD_") == NULL && strstr(buf_text(&rig.out), "SUDO") == NULL);
    /* The network is a loopback of its own. */
    run(&rig, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n'; echo; tail -n +2 "
              "/proc/net/route | wc -l; "
              "(exec 3<>/dev/tcp/10.0.0.1/80) 2>/dev/null || echo no way out");
    CHECK_STR(buf_text(&rig.out), "lo\n0\nno way out\n");
    finish(&rig);
}

static void on_fd(void *data, int fd, const struct error *err)
{
    struct rig *rig = data;

    rig->answered = true;
    rig->fd = fd;
    if (err != NULL)
        rig->error = *err;
}

TEST(a_port_inside_is_served_outside_and_the_other_way_round)
{
    struct rig rig;
    struct error err = ERROR_INIT;
    struct pollfd ready = { .events = POLLIN };
    char text[32] = "";
    int listener;
    int peer;

    start(&rig);
    CHECK_EQ(sandbox_listen(rig.sandbox, 4999, on_fd, &rig, &err), 0);
    turn_until(&rig, &rig.answered);
    CHECK_STR(rig.error.text, "");
    listener = rig.fd;
    run(&rig, "exec 3<>/dev/tcp/127.0.0.1/4999 && printf hello >&3 && echo sent");
    CHECK_STR(buf_text(&rig.out), "sent\n");
    peer = accept(listener, NULL, NULL);
    CHECK(peer >= 0);
    ready.fd = peer;
    CHECK_EQ(poll(&ready, 1, 5000), 1);
    CHECK_EQ(read(peer, text, sizeof(text)), 5);
    CHECK_STR(text, "hello");
    close(peer);
    rig.answered = false;
    CHECK_EQ(sandbox_connect(rig.sandbox, 4999, on_fd, &rig, &err), 0);
    turn_until(&rig, &rig.answered);
    CHECK(rig.fd >= 0);
    close(rig.fd);
    rig.answered = false;
    CHECK_EQ(sandbox_connect(rig.sandbox, 4998, on_fd, &rig, &err), 0);
    turn_until(&rig, &rig.answered);
    CHECK_EQ(rig.fd, -1);
    CHECK(rig.error.text[0] != '\0');
    close(listener);
    finish(&rig);
}

TEST(stopping_ends_everything_however_it_hides)
{
    struct rig rig;

    start(&rig);
    run(&rig, "for i in $(seq 60); do setsid sleep 1000 >/dev/null 2>&1 & done; nohup setsid sh -c "
              "'trap \"\" TERM HUP INT; sleep 1000' "
              ">/dev/null 2>&1 & disown -a; echo started");
    CHECK_HAS(buf_text(&rig.out), "started");
    if (geteuid() == 0)
        CHECK(processes_of_uid(TEST_UID) > 60);
    finish(&rig);
    if (geteuid() == 0)
        CHECK_EQ(processes_of_uid(TEST_UID), 0u);
}

TEST(a_missing_tool_is_named_with_what_to_install)
{
    struct rig rig;

    start_with(&rig, "no-such-bubblewrap", 20000);
    turn_until(&rig, &rig.failed);
    CHECK_EQ((int)rig.ready_error.code, ERR_UNAVAILABLE);
    CHECK_HAS(rig.ready_error.text, "apt install bubblewrap");
    leave(&rig);
}

TEST(a_tool_that_hangs_is_given_up_and_ended)
{
    static const char script[] = "#!/bin/sh\nexec sleep 1000\n";
    const char *tool = tmp_file("hanging", script, sizeof(script) - 1, 0755);
    struct rig rig;

    if (geteuid() == 0)
        CHECK(chmod(tmp_dir(), 0755) == 0); /* the tool runs under the session's uid */
    start_with(&rig, tool, 200);
    CHECK(!rig.failed); /* told later, never from inside the call */
    turn_until(&rig, &rig.failed);
    CHECK_EQ((int)rig.ready_error.code, ERR_TIMEOUT);
    leave(&rig);
    if (geteuid() == 0)
        CHECK_EQ(processes_of_uid(TEST_UID), 0u);
}

TEST(the_hosts_root_user_is_refused)
{
    struct sandbox_spec spec;
    struct sandbox_options options = { .backend = "bwrap",
                                       .bwrap = "bwrap",
                                       .init_path = "/nowhere" };
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready, .on_end = on_end };
    struct error err = ERROR_INIT;
    struct sandbox *sandbox;
    struct rig rig;

    open_loop(&rig);
    sandbox_spec_init(&spec);
    spec.host_uid = 0;
    CHECK_EQ(sandbox_start(&sandbox, &rig.loop, &options, &spec, &callbacks, &err), -1);
    CHECK_EQ((int)err.code, ERR_DENIED);
    sandbox_spec_finish(&spec);
    uv_close((uv_handle_t *)&rig.timer, NULL);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig.loop), 0);
}

/* Starts a sandbox with `cat` in it and dies like a killed supervisor: nothing is closed or told.
 */
static void supervisor_that_dies(void)
{
    static const char *const argv[] = { "cat", NULL };
    struct rig rig;

    start(&rig);
    spawn(&rig, argv, SANDBOX_STDIN_PIPE);
    turn_until(&rig, &rig.answered);
    CHECK_EQ(rig.process, 1u);
    raise(SIGKILL);
}

static void adopt(struct rig *rig)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = rig };
    struct sandbox_options options = { .start_timeout_ms = 20000 };
    struct error err = ERROR_INIT;

    open_loop(rig);
    CHECK_EQ(sandbox_adopt(&rig->sandbox, &rig->loop, &options, "ses_test", tmp_path("runtime"),
                           &callbacks, &err),
             0);
    turn_until(rig, &rig->ready);
}

TEST(a_sandbox_outlives_its_supervisor_and_obeys_the_next_one)
{
    struct error err = ERROR_INIT;
    struct rig rig;
    const char *shared = tmp_dir(); /* made before the fork */
    pid_t child = fork();

    CHECK(shared != NULL);
    if (child == 0) {
        supervisor_that_dies();
        _exit(1);
    }
    CHECK_EQ(waitpid(child, NULL, 0), child);
    adopt(&rig);
    CHECK_EQ(sandbox_attach(rig.sandbox, 1, on_spawned, &rig, &err), 0);
    turn_until(&rig, &rig.answered);
    CHECK_STR(rig.error.text, "");
    CHECK_EQ(write(rig.fd, "still here\n", 11), 11);
    while (rig.out.len < 11 && !rig.late)
        uv_run(&rig.loop, UV_RUN_ONCE);
    CHECK_STR(buf_text(&rig.out), "still here\n");
    sandbox_signal(rig.sandbox, 1, SIGTERM);
    turn_until(&rig, &rig.exited);
    CHECK_EQ(rig.status.signal, SIGTERM);
    close(rig.fd);
    drop_streams(&rig);
    finish(&rig);
}

TEST(what_a_dead_supervisor_left_is_ended_for_certain)
{
    struct error err = ERROR_INIT;
    const char *shared = tmp_dir();
    pid_t child = fork();

    CHECK(shared != NULL);
    if (child == 0) {
        supervisor_that_dies();
        _exit(1);
    }
    CHECK_EQ(waitpid(child, NULL, 0), child);
    if (geteuid() == 0)
        CHECK(processes_of_uid(TEST_UID) > 0);
    CHECK_EQ(sandbox_kill_leftover(tmp_path("runtime"), 10000, &err), 0);
    CHECK_EQ(sandbox_kill_leftover(tmp_path("runtime"), 10000, &err), 0);
    CHECK_EQ(sandbox_runtime_remove(tmp_path("runtime"), &err), 0);
}
