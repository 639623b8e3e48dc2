/* Starts sandboxes through the supervisor's own code, beside bare bubblewrap with the same
 * arguments, filter and mounts, in turns, so that both meet the same machine. Prints JSON lines;
 * sandbox-start.mjs makes the numbers of them.
 *
 *   bench_sandbox_start turns COUNT    one line for each turn, times in microseconds
 *   bench_sandbox_start hold COUNT     starts COUNT sandboxes and keeps them until its input ends
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/child.h"
#include "sandbox/bwrap/bwrap_args.h"
#include "sandbox/bwrap/host_look.h"
#include "sandbox/bwrap/seccomp.h"
#include "sandbox/cgroup.h"
#include "sandbox/sandbox.h"

#define BENCH_UID 2000000007u /* nobody's: whatever runs under it is ours */
#define HOLD_MAX 256
#define CONFIG_TEXT "{ \"share\": \"disabled\" }\n"

struct bench {
    uv_loop_t loop;
    struct sandbox_options options;
    struct cgroup_host *cgroups;
    char *root;
    char *init_path; /* a copy below ROOT, where the sandbox's uid may look it up */
};

struct box {
    struct bench *bench;
    struct sandbox_spec spec;
    struct sandbox *sandbox;
    uint64_t started_ns;
    uint64_t ready_ns;
    uint64_t ended_ns;
    bool closed;
};

/* bubblewrap alone, with what it is given made beforehand. */
struct bare {
    struct bwrap_args args;
    char *argv[BWRAP_ARGS_MAX + 8];
    struct child_fd fds[CHILD_FDS_MAX];
    size_t fd_count;
    int rewind[BWRAP_FILES_MAX + 1]; /* what bubblewrap reads to its end */
    size_t rewind_count;
    struct child *child;
    uint64_t ended_ns;
    int code;
    bool closed;
};

static _Noreturn void die(const char *what, const struct error *err)
{
    fprintf(stderr, "bench_sandbox_start: %s: %s\n", what, err ? err->text : strerror(errno));
    exit(1);
}

static uint32_t bench_uid(void)
{
    return geteuid() == 0 ? BENCH_UID : geteuid();
}

/* Folders
 * -------------------------------------------------------------------------------------------- */

static void make_folder(const char *path, mode_t mode)
{
    if (mkdir(path, 0700) < 0 || chmod(path, mode) < 0)
        die(path, NULL);
}

static char *make_agent_folder(const char *parent, const char *name)
{
    char *path = mem_printf("%s/%s", parent, name);

    make_folder(path, 0700);
    if (chown(path, bench_uid(), bench_uid()) < 0)
        die(path, NULL);
    return path;
}

static void copy_program(const char *from, const char *to)
{
    AUTO_CLOSE int source = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    struct error err = ERROR_INIT;
    char bytes[65536];
    ssize_t got = 0;

    if (source < 0 || target < 0)
        die(source < 0 ? from : to, NULL);
    while ((got = read(source, bytes, sizeof(bytes))) > 0) {
        if (fd_write_all(target, bytes, (size_t)got, &err) < 0)
            die(to, &err);
    }
    if (got < 0 || fchmod(target, 0755) < 0)
        die(to, NULL);
}

/* The programs lie in bin/ of the build folder, this one in tests/bin/. */
static char *find_init(void)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (len < 0)
        die("/proc/self/exe", NULL);
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    return mem_printf("%s/../../bin/sandbox-init", self);
}

static void bench_init(struct bench *bench)
{
    AUTO_FREE char *init = find_init();
    const char *folder = getenv("TMPDIR");

    bench->root = mem_printf("%s/sandbox-bench-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(bench->root) || chmod(bench->root, 0755) < 0)
        die(bench->root, NULL);
    bench->init_path = mem_printf("%s/sandbox-init", bench->root);
    copy_program(init, bench->init_path);
    bench->cgroups = cgroup_host_find("", bench->root);
    bench->options = (struct sandbox_options){
        .backend = "bwrap",
        .cgroups = bench->cgroups,
        .bwrap = "bwrap",
        .init_path = bench->init_path,
        .start_timeout_ms = 20000,
    };
    if (uv_loop_init(&bench->loop) != 0)
        die("uv_loop_init", NULL);
}

static void bench_finish(struct bench *bench)
{
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&bench->loop) != 0)
        die("a handle is left open", NULL);
    cgroup_host_free(bench->cgroups);
    unlink(bench->init_path);
    rmdir(bench->root);
    free(bench->init_path);
    free(bench->root);
}

/* What a run's sandbox has: workspace, home, a frozen folder with the agent's configuration, git's.
 */
static void describe(struct sandbox_spec *spec, const struct bench *bench, unsigned number)
{
    AUTO_FREE char *folder = mem_printf("%s/%u", bench->root, number);
    AUTO_FREE char *workspace = NULL;
    AUTO_FREE char *home = NULL;

    make_folder(folder, 0755);
    workspace = make_agent_folder(folder, "workspace");
    home = make_agent_folder(folder, "home");
    sandbox_spec_init(spec);
    spec->id = mem_printf("bench-%u", number);
    spec->runtime_dir = mem_printf("%s/runtime", folder);
    make_folder(spec->runtime_dir, 0700);
    spec->host_uid = bench_uid();
    spec->hostname = mem_strdup("sandbox");
    spec->limits = (struct sandbox_limits){
        .memory_bytes = UINT64_C(4) << 30, .processes = 512, .cpu_weight = 100, .open_files = 4096
    };
    sandbox_spec_add_mount(spec, workspace, SANDBOX_WORKSPACE, SANDBOX_READ_WRITE);
    sandbox_spec_add_mount(spec, home, SANDBOX_HOME, SANDBOX_READ_WRITE);
    sandbox_spec_add_frozen_dir(spec, "/opt/agent");
    sandbox_spec_add_file(spec, "/opt/agent/config.json", CONFIG_TEXT, sizeof(CONFIG_TEXT) - 1,
                          0444);
    sandbox_spec_add_file(spec, "/etc/gitconfig", "", 0, 0444);
}

static void forget(struct sandbox_spec *spec, const struct bench *bench, unsigned number)
{
    static const char *const names[] = { "workspace", "home", "." };
    struct error err = ERROR_INIT;

    if (sandbox_runtime_remove(spec->runtime_dir, &err) < 0)
        die("runtime folder", &err);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *path = i < 2 ? mem_printf("%s/%u/%s", bench->root, number, names[i])
                                     : mem_printf("%s/%u", bench->root, number);

        if (rmdir(path) < 0)
            die(path, NULL);
    }
    sandbox_spec_finish(spec);
}

/* Ours
 * --------------------------------------------------------------------------------------------- */

static void on_ready(void *data, const struct error *err)
{
    struct box *box = data;

    if (err)
        die("start", err);
    box->ready_ns = uv_hrtime();
}

static void on_end(void *data, const struct sandbox_end *end)
{
    struct box *box = data;

    if (end->kind != SANDBOX_END_STOPPED)
        die(end->text, NULL);
    box->ended_ns = uv_hrtime();
}

static void on_box_closed(void *data)
{
    ((struct box *)data)->closed = true;
}

static void box_start(struct box *box)
{
    const struct sandbox_callbacks callbacks = { .on_ready = on_ready,
                                                 .on_end = on_end,
                                                 .data = box };
    struct bench *bench = box->bench;
    struct error err = ERROR_INIT;

    box->started_ns = uv_hrtime();
    if (sandbox_start(&box->sandbox, &bench->loop, &bench->options, &box->spec, &callbacks, &err) <
        0)
        die("sandbox_start", &err);
    while (box->ready_ns == 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
}

static void box_stop(struct box *box)
{
    sandbox_stop(box->sandbox);
    while (box->ended_ns == 0)
        uv_run(&box->bench->loop, UV_RUN_ONCE);
    sandbox_close(box->sandbox, on_box_closed, box);
    while (!box->closed)
        uv_run(&box->bench->loop, UV_RUN_ONCE);
}

/* Bare
 * --------------------------------------------------------------------------------------------- */

static void bare_pass(struct bare *bare, int fd, int number)
{
    BUG_ON(bare->fd_count == ARRAY_LEN(bare->fds));
    bare->fds[bare->fd_count++] = (struct child_fd){ fd, number };
}

static void bare_pass_file(struct bare *bare, int fd, int number)
{
    BUG_ON(bare->rewind_count == ARRAY_LEN(bare->rewind));
    bare->rewind[bare->rewind_count++] = fd;
    bare_pass(bare, fd, number);
}

static void bare_make_files(struct bare *bare, const struct sandbox_spec *spec)
{
    struct bwrap_file files[BWRAP_FILES_MAX];
    size_t count = bwrap_files(spec, files);
    struct error err = ERROR_INIT;
    int filter = seccomp_make_file(&err);

    for (size_t i = 0; i < count; i++) {
        int fd = memfd_create("file", MFD_CLOEXEC);

        if (fd < 0 || fd_write_all(fd, files[i].data, files[i].len, &err) < 0)
            die(files[i].target, &err);
        bare_pass_file(bare, fd, BWRAP_FD_FILES + (int)i);
    }
    if (filter < 0)
        die("filter", &err);
    bare_pass_file(bare, filter, BWRAP_FD_SECCOMP);
    bare_pass(bare, -1, BWRAP_FD_STATUS);
}

/* The arguments that the supervisor would give, but sources by path and PAYLOAD in place of init.
 */
static void bare_init(struct bare *bare, const struct bench *bench, const struct sandbox_spec *spec,
                      const char *const *payload)
{
    struct bwrap_plan plan = { .init_source = bench->init_path };
    struct error err = ERROR_INIT;
    size_t at = 0;

    bwrap_look_at_host(&plan);
    for (size_t i = 0; i < spec->mount_count; i++)
        plan.sources[i] = spec->mounts[i].source;
    if (bwrap_args_make(&bare->args, spec, &plan, &err) < 0)
        die("arguments", &err);
    do
        bare->argv[at] = bare->args.argv[at];
    while (!str_equal(bare->args.argv[at++], "--"));
    while (*payload)
        bare->argv[at++] = mem_strdup(*payload++);
    bare_make_files(bare, spec);
}

static void bare_finish(struct bare *bare)
{
    size_t at = 0;

    for (size_t i = 0; i < bare->rewind_count; i++)
        close(bare->rewind[i]);
    while (!str_equal(bare->argv[at++], "--"))
        continue;
    while (bare->argv[at])
        free(bare->argv[at++]);
    bwrap_args_finish(&bare->args);
}

static void on_bare_exit(void *data, int code, int signal)
{
    struct bare *bare = data;

    bare->ended_ns = uv_hrtime();
    bare->code = signal ? 128 + signal : code;
}

static void on_bare_closed(void *data)
{
    ((struct bare *)data)->closed = true;
}

/* Returns when the payload's first byte came, or, without OUTPUT, when bubblewrap had ended. */
static uint64_t bare_run(struct bare *bare, struct bench *bench, bool output)
{
    struct child_options options = { .program = "bwrap",
                                     .argv = (const char *const *)bare->argv,
                                     .fds = bare->fds,
                                     .uid = geteuid() == 0 ? bench_uid() : 0,
                                     .capture_stderr = true };
    struct error err = ERROR_INIT;
    uint64_t started_ns;
    uint64_t answered_ns = 0;
    int pipe_fds[2];
    char byte;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        die("pipe", NULL);
    bare->ended_ns = 0;
    bare->closed = false;
    for (size_t i = 0; i < bare->rewind_count; i++)
        lseek(bare->rewind[i], 0, SEEK_SET);
    bare->fds[bare->fd_count] = (struct child_fd){ pipe_fds[1], 1 };
    options.fd_count = bare->fd_count + 1;
    started_ns = uv_hrtime();
    if (child_start(&bare->child, &bench->loop, &options, on_bare_exit, bare, &err) < 0)
        die("bwrap", &err);
    close(pipe_fds[1]);
    if (output && read(pipe_fds[0], &byte, 1) == 1)
        answered_ns = uv_hrtime();
    while (bare->ended_ns == 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
    if (bare->code != 0 || (output && answered_ns == 0)) {
        fprintf(stderr, "bwrap ended with %d: %s\n", bare->code, child_stderr(bare->child));
        exit(1);
    }
    child_close(bare->child, on_bare_closed, bare);
    while (!bare->closed)
        uv_run(&bench->loop, UV_RUN_ONCE);
    close(pipe_fds[0]);
    return ((output ? answered_ns : bare->ended_ns) - started_ns) / 1000;
}

/* Modes
 * -------------------------------------------------------------------------------------------- */

static void turns(struct bench *bench, unsigned count)
{
    static const char *const answering[] = { "/usr/bin/echo", NULL };
    static const char *const silent[] = { "/usr/bin/true", NULL };
    struct sandbox_spec spec;
    struct bare answer = { 0 };
    struct bare quiet = { 0 };

    describe(&spec, bench, 0);
    bare_init(&answer, bench, &spec, answering);
    bare_init(&quiet, bench, &spec, silent);
    for (unsigned i = 0; i < count; i++) {
        struct box *box = NEW(struct box);
        uint64_t answer_us;
        uint64_t quiet_us;
        uint64_t asked_ns;

        box->bench = bench;
        describe(&box->spec, bench, i + 1);
        answer_us = bare_run(&answer, bench, true);
        box_start(box);
        quiet_us = bare_run(&quiet, bench, false);
        asked_ns = uv_hrtime();
        box_stop(box);
        printf("{\"turn\":%u,\"startUs\":%" PRIu64 ",\"stopUs\":%" PRIu64
               ",\"bareAnswerUs\":%" PRIu64 ",\"bareTrueUs\":%" PRIu64 "}\n",
               i, (box->ready_ns - box->started_ns) / 1000, (box->ended_ns - asked_ns) / 1000,
               answer_us, quiet_us);
        forget(&box->spec, bench, i + 1);
        free(box);
    }
    bare_finish(&answer);
    bare_finish(&quiet);
    forget(&spec, bench, 0);
}

static void on_input_end(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    uv_close((uv_handle_t *)poll, NULL);
    *(bool *)poll->data = true;
}

static void hold(struct bench *bench, unsigned count)
{
    struct box *boxes = mem_new_zero(count, sizeof(*boxes));
    bool over = false;
    uv_poll_t input;

    for (unsigned i = 0; i < count; i++) {
        boxes[i].bench = bench;
        describe(&boxes[i].spec, bench, i);
        box_start(&boxes[i]);
        printf("{\"sandbox\":%u,\"startUs\":%" PRIu64 ",\"initPid\":%" PRId64 "}\n", i,
               (boxes[i].ready_ns - boxes[i].started_ns) / 1000,
               sandbox_init_pid(boxes[i].sandbox));
        fflush(stdout);
    }
    printf("{\"holding\":%u}\n", count);
    fflush(stdout);
    input.data = &over;
    if (uv_poll_init(&bench->loop, &input, 0) != 0 ||
        uv_poll_start(&input, UV_READABLE | UV_DISCONNECT, on_input_end) != 0)
        die("input", NULL);
    while (!over)
        uv_run(&bench->loop, UV_RUN_ONCE);
    for (unsigned i = 0; i < count; i++) {
        box_stop(&boxes[i]);
        forget(&boxes[i].spec, bench, i);
    }
    free(boxes);
}

int main(int argc, char **argv)
{
    struct bench bench = { 0 };
    uint64_t count = 0;

    if (argc != 3 || !str_parse_u64(argv[2], HOLD_MAX, &count) || count == 0 ||
        (!str_equal(argv[1], "turns") && !str_equal(argv[1], "hold"))) {
        fprintf(stderr, "usage: bench_sandbox_start turns|hold COUNT (up to %d)\n", HOLD_MAX);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    bench_init(&bench);
    if (str_equal(argv[1], "turns"))
        turns(&bench, (unsigned)count);
    else
        hold(&bench, (unsigned)count);
    bench_finish(&bench);
    return 0;
}
