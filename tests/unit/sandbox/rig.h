/* rig.h: one real sandbox on a loop with a watchdog, its folders below the test's private folder.
 */
#ifndef TESTS_UNIT_SANDBOX_RIG_H
#define TESTS_UNIT_SANDBOX_RIG_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "sandbox/sandbox.h"

/* Nobody's: whatever runs under it is ours. Test programs run at the same time, so each has its
 * own; their children share it. */
static uint32_t rig_program_uid;

__attribute__((constructor)) static void rig_choose_uid(void)
{
    rig_program_uid = 2000000002u + 2 * (uint32_t)getpid();
}

static inline uint32_t rig_own_uid(void)
{
    return rig_program_uid;
}

#define RIG_TIMEOUT_MS 60000

struct rig {
    uv_loop_t loop;
    uv_timer_t watchdog;
    bool late;
    struct sandbox_options options;
    struct sandbox_spec spec;
    struct sandbox *sandbox;
    char *init_path;
    char *runtime_dir;
    bool told_ready; /* on_ready was called; error.code says how */
    struct error error;
    bool ended;
    struct sandbox_end end;
    bool closed;
};

static inline void rig_on_watchdog(uv_timer_t *timer)
{
    struct rig *rig = timer->data;

    rig->late = true;
}

#define RIG_UNTIL(rig, condition)                                                                  \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            uv_run(&(rig)->loop, UV_RUN_ONCE);                                                     \
            if ((rig)->late)                                                                       \
                CHECK_FAILED("in time: " #condition);                                              \
        }                                                                                          \
    } while (0)

/* In a build folder the tests lie in another folder than the programs. */
static inline char *rig_find_init(void)
{
    static const char *const places[] = { "sandbox-init", "../../bin/sandbox-init",
                                          "../bin/sandbox-init" };
    const char *given = getenv("SANDBOX_INIT");
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (given)
        return mem_strdup(given);
    CHECK(len > 0);
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char *path = mem_printf("%s/%s", self, places[i]);

        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    test_skip("sandbox-init was not built");
}

static inline uint32_t rig_uid(void)
{
    return geteuid() == 0 ? rig_own_uid() : geteuid();
}

/* A folder of the test's that the sandbox's uid owns, below one that it can't enter. */
static inline const char *rig_folder(const char *name)
{
    const char *path = tmp_subdir(name);

    if (geteuid() == 0)
        CHECK_EQ(chown(path, rig_own_uid(), rig_own_uid()), 0);
    return path;
}

/* A test that failed leaves nothing that others would count. */
static inline void rig_clean_up(void *data)
{
    struct error ignored = ERROR_INIT;

    sandbox_kill_leftover(data, 5000, &ignored);
    free(data);
}

static inline void rig_init(struct rig *rig)
{
    tmp_dir(); /* goes after what lives in it */
    test_defer(rig_clean_up, mem_strdup(tmp_path("runtime")));
    memset(rig, 0, sizeof(*rig));
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    uv_timer_init(&rig->loop, &rig->watchdog);
    rig->watchdog.data = rig;
    uv_timer_start(&rig->watchdog, rig_on_watchdog, RIG_TIMEOUT_MS, 0);
    uv_unref((uv_handle_t *)&rig->watchdog);
    rig->init_path = rig_find_init();
    rig->runtime_dir = mem_strdup(tmp_path("runtime"));
    mkdir(rig->runtime_dir, 0700); /* may be there from a supervisor that died */
    rig->options = (struct sandbox_options){
        .backend = "bwrap", .bwrap = "bwrap", .init_path = rig->init_path, .start_timeout_ms = 20000
    };
    sandbox_spec_init(&rig->spec);
    rig->spec.id = mem_strdup("test");
    rig->spec.runtime_dir = mem_strdup(rig->runtime_dir);
    rig->spec.host_uid = rig_uid();
    rig->spec.hostname = mem_strdup("sandbox");
    rig->spec.limits = (struct sandbox_limits){ .processes = 300, .open_files = 256 };
    sandbox_spec_add_mount(&rig->spec, rig_folder("workspace"), SANDBOX_WORKSPACE,
                           SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(&rig->spec, rig_folder("home"), SANDBOX_HOME, SANDBOX_READ_WRITE);
}

static inline void rig_on_ready(void *data, const struct error *err)
{
    struct rig *rig = data;

    CHECK(!rig->told_ready);
    rig->told_ready = true;
    if (err)
        rig->error = *err;
}

static inline void rig_on_end(void *data, const struct sandbox_end *end)
{
    struct rig *rig = data;

    CHECK(rig->told_ready && !rig->ended);
    rig->ended = true;
    rig->end = *end;
}

static inline struct sandbox_callbacks rig_callbacks(struct rig *rig)
{
    return (
        struct sandbox_callbacks){ .on_ready = rig_on_ready, .on_end = rig_on_end, .data = rig };
}

/* Starts and waits for the verdict, which is in rig->error. */
static inline void rig_try(struct rig *rig)
{
    struct sandbox_callbacks callbacks = rig_callbacks(rig);
    struct error err = ERROR_INIT;

    if (sandbox_start(&rig->sandbox, &rig->loop, &rig->options, &rig->spec, &callbacks, &err) < 0)
        CHECK_STR(err.text, "");
    CHECK(!rig->told_ready);
    RIG_UNTIL(rig, rig->told_ready);
}

static inline void rig_start(struct rig *rig)
{
    rig_init(rig);
    rig_try(rig);
    CHECK_STR(rig->error.text, "");
    CHECK(sandbox_init_pid(rig->sandbox) > 0);
}

static inline void rig_on_closed(void *data)
{
    struct rig *rig = data;

    rig->closed = true;
}

static inline void rig_close(struct rig *rig)
{
    if (rig->sandbox) {
        sandbox_close(rig->sandbox, rig_on_closed, rig);
        CHECK(!rig->closed);
        RIG_UNTIL(rig, rig->closed);
    }
    uv_close((uv_handle_t *)&rig->watchdog, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    sandbox_spec_finish(&rig->spec);
    free(rig->init_path);
    free(rig->runtime_dir);
}

/* Ends the sandbox, and everything. */
static inline void rig_stop(struct rig *rig)
{
    sandbox_stop(rig->sandbox);
    sandbox_stop(rig->sandbox);
    RIG_UNTIL(rig, rig->ended);
    CHECK_EQ(rig->end.kind, SANDBOX_END_STOPPED);
    rig_close(rig);
}

/* Programs ------------------------------------------------------------------------------------- */

struct rig_process {
    bool spawned;
    struct sandbox_process process;
    struct error error;
    bool exited;
    struct sandbox_exit status;
};

static inline void rig_on_spawned(void *data, const struct sandbox_process *process,
                                  const struct error *err)
{
    struct rig_process *one = data;

    CHECK(!one->spawned);
    one->spawned = true;
    if (err)
        one->error = *err;
    else
        one->process = *process;
}

static inline void rig_on_exited(void *data, const struct sandbox_exit *status,
                                 const struct error *err)
{
    struct rig_process *one = data;

    CHECK(!one->exited);
    one->exited = true;
    if (err)
        one->error = *err;
    else
        one->status = *status;
}

static const char *const rig_env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/agent",
                                       "GIVEN=yes", NULL };

static inline void rig_spawn(struct rig *rig, struct rig_process *one, const char *const *argv,
                             const char *cwd, enum sandbox_stdin mode)
{
    struct sandbox_command command = {
        .argv = argv, .env = rig_env, .cwd = cwd, .stdin_mode = mode
    };
    struct error err = ERROR_INIT;

    *one = (struct rig_process){ .process = { 0, -1, -1, -1 } };
    CHECK_EQ(sandbox_spawn(rig->sandbox, &command, rig_on_spawned, one, &err), 0);
    CHECK(!one->spawned);
    RIG_UNTIL(rig, one->spawned);
}

/* Starts a shell script, whose output and errors are one stream. */
static inline void rig_shell_start(struct rig *rig, struct rig_process *one, const char *script)
{
    AUTO_FREE char *joined = mem_printf("exec 2>&1\n%s", script);
    const char *const argv[] = { "bash", "-c", joined, NULL };

    rig_spawn(rig, one, argv, SANDBOX_WORKSPACE, SANDBOX_STDIN_NULL);
    CHECK_STR(one->error.text, "");
    CHECK(one->process.id > 0);
    CHECK_EQ(one->process.stdin_fd, -1);
}

/* Reads until TEXT has come or the stream ends. The program runs without us, so this may wait. */
static inline void rig_read(int fd, struct buf *out, const char *text)
{
    struct pollfd state = { .fd = fd, .events = POLLIN };

    while (!text || !strstr(buf_text(out), text)) {
        char bytes[4096];
        ssize_t got;

        if (poll(&state, 1, 30000) <= 0)
            CHECK_FAILED("output in time");
        got = read(fd, bytes, sizeof(bytes));
        if (got == 0)
            return;
        CHECK(got > 0 || errno == EAGAIN);
        if (got > 0)
            buf_append(out, bytes, (size_t)got);
    }
}

static inline void rig_close_streams(struct rig_process *one)
{
    fd_close(&one->process.stdin_fd);
    fd_close(&one->process.stdout_fd);
    fd_close(&one->process.stderr_fd);
}

static inline void rig_wait(struct rig *rig, struct rig_process *one)
{
    struct error err = ERROR_INIT;

    one->exited = false;
    CHECK_EQ(sandbox_wait(rig->sandbox, one->process.id, rig_on_exited, one, &err), 0);
    CHECK(!one->exited);
    RIG_UNTIL(rig, one->exited);
}

/* Runs a script to its end; OUT gets what it said. Returns the exit code. */
static inline int rig_shell(struct rig *rig, const char *script, struct buf *out)
{
    struct rig_process one;

    rig_shell_start(rig, &one, script);
    rig_read(one.process.stdout_fd, out, NULL);
    rig_close_streams(&one);
    rig_wait(rig, &one);
    CHECK_STR(one.error.text, "");
    return one.status.code;
}

/* The host ------------------------------------------------------------------------------------- */

/* Processes with this real uid, without this one. */
static inline unsigned rig_count_processes(uint32_t uid)
{
    AUTO_FREE char *wanted = mem_printf("\nUid:\t%u\t", uid);
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    unsigned count = 0;

    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        uint64_t pid;
        char status[4096] = "";
        int fd;

        if (!str_parse_u64(entry->d_name, INT32_MAX, &pid) || (pid_t)pid == getpid())
            continue;
        AUTO_FREE char *path = mem_printf("/proc/%s/status", entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (read(fd, status, sizeof(status) - 1) > 0 && strstr(status, wanted) &&
            !strstr(status, "\nState:\tZ"))
            count++;
        close(fd);
    }
    closedir(dir);
    return count;
}

/* Processes under the sandbox's uid. As an ordinary user it is ours too, and only this process may
 * have it. */
static inline unsigned rig_leftovers(void)
{
    return rig_count_processes(rig_uid());
}

/* Also a tool that is nobody's child any more has ended, a moment after its sandbox. */
static inline bool rig_nothing_left(void)
{
    for (int i = 0; i < 200 && rig_leftovers() > 0; i++)
        poll(NULL, 0, 10);
    return rig_leftovers() == 0;
}

/* The same again ------------------------------------------------------------------------------- */

static inline void rig_drop_and_run(uid_t uid, int program, const char *folder, const char *init)
{
    char *const argv[] = { (char *)(uintptr_t) "test", (char *)(uintptr_t) "user_", NULL };
    char tmpdir[256];
    char given[256];
    char *const env[] = { (char *)(uintptr_t) "PATH=/usr/local/bin:/usr/bin:/bin", tmpdir, given,
                          NULL };

    snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", folder);
    snprintf(given, sizeof(given), "SANDBOX_INIT=%s", init);
    if (setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0)
        fexecve(program, argv, env);
    _exit(99);
}

/* Runs this program's tests whose names begin with "user" once more under an ordinary uid. The
 * program and init may lie in folders that only root can enter. */
static inline void rig_run_as_user(void)
{
    char folder[] = "/tmp/sandbox-user-XXXXXX";
    const uid_t uid = rig_own_uid() + 1;
    AUTO_FREE char *init = NULL;
    AUTO_FREE char *bytes = NULL;
    AUTO_FREE char *copy = NULL;
    struct error err = ERROR_INIT;
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    int status;
    int fd;
    pid_t pid;

    if (geteuid() != 0)
        test_skip("this is one");
    init = rig_find_init();
    CHECK(program >= 0 && mkdtemp(folder) != NULL);
    copy = mem_printf("%s/sandbox-init", folder);
    CHECK_EQ(fd_read_file(init, 16 << 20, &bytes, &len, &err), 0);
    fd = open(copy, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
    CHECK_EQ(fd_write_all(fd, bytes, len, &err), 0);
    close(fd);
    CHECK_EQ(chown(folder, uid, uid), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        rig_drop_and_run(uid, program, folder, copy);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    close(program);
    tmp_remove_tree(folder);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

#endif
