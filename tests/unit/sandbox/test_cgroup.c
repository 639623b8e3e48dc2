#include "sandbox/cgroup.h"

#include "sandbox/cgroup_host.h"
#include "sandbox/cgroup_watch.h"
#include "unit/sandbox/rig.h"

/* A version 2 tree of plain files
 * ------------------------------------------------------------------------------------------- */

static void put(const char *folder, const char *name, const char *text)
{
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* What FOLDER/NAME holds; borrowed until the test ends. */
static const char *get(const char *folder, const char *name)
{
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    struct error err = ERROR_INIT;
    char *text = NULL;

    if (fd_read_file(path, 1 << 20, &text, NULL, &err) < 0)
        CHECK_STR(err.text, "");
    test_defer(free, text);
    return text;
}

static char *make(const char *above, const char *name, const char *controllers)
{
    char *path = mem_printf("%s/%s", above, name);

    CHECK_EQ(mkdir(path, 0700), 0);
    put(path, "cgroup.controllers", controllers);
    put(path, "cgroup.subtree_control", controllers);
    put(path, "cgroup.procs", "");
    test_defer(free, path);
    return path;
}

struct fake {
    const char *root;
    const char *own;
    const char *group; /* of the sandbox run_1 */
    const char *runtime;
};

static struct fake fake_tree(void)
{
    static const char *const files[] = { "memory.max", "memory.swap.max", "memory.events",
                                         "pids.max",   "pids.events",     "cpu.weight",
                                         "cgroup.kill" };
    struct fake fake = { .root = tmp_dir(), .runtime = tmp_subdir("runtime") };
    const char *proc = (tmp_subdir("proc"), tmp_subdir("proc/self"));
    char *above;

    put(proc, "mountinfo", "1 0 0:29 / /tree rw - cgroup2 cgroup2 rw\n");
    put(proc, "cgroup", "0::/mine\n");
    tmp_subdir("tree");
    fake.own = make(fake.root, "tree/mine", "cpu memory pids");
    above = make(fake.own, "sandbox-mcp", "cpu memory pids");
    struct cgroup_host *host = cgroup_host_find(fake.root, "/runtime");
    char *folder = make(above, host->name, "cpu memory pids");

    cgroup_host_free(host);
    AUTO_FREE char *path = mem_printf("%s/run_1", folder);
    mkdir(path, 0700);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put(path, files[i], "");
    put(path, "cgroup.procs", "");
    char *kept = mem_strdup(path);
    test_defer(free, kept);
    fake.group = kept;
    return fake;
}

TEST(limits_are_written_into_a_version_2_group)
{
    struct fake fake = fake_tree();
    struct cgroup_host *host = cgroup_host_find(fake.root, "/runtime");
    struct sandbox_limits limits = { .memory_bytes = 64 << 20, .processes = 50, .cpu_weight = 20 };
    AUTO_BUF struct buf text = BUF_INIT(400);
    struct error err = ERROR_INIT;
    struct cgroup *group;
    struct stat born;
    struct stat info;

    cgroup_host_describe(host, &text);
    CHECK_STR(buf_text(&text), "memory by cgroup v2, processes by cgroup v2, cpu by cgroup v2");
    if (cgroup_make(&group, host, "run_1", fake.runtime, &limits, &err) < 0)
        CHECK_STR(err.text, "");
    CHECK_STR(get(fake.group, "memory.max"), "67108864");
    CHECK_STR(get(fake.group, "memory.swap.max"), "0");
    CHECK_STR(get(fake.group, "pids.max"), "50");
    CHECK_STR(get(fake.group, "cpu.weight"), "20");
    CHECK_EQ(cgroup_layers(group), 1u << SANDBOX_LAYER_MEMORY_LIMIT |
                                       1u << SANDBOX_LAYER_PROCESS_LIMIT |
                                       1u << SANDBOX_LAYER_CPU_WEIGHT);
    CHECK_EQ(cgroup_join(group), 0); /* there is no version 1 tree to move in */
    CHECK_STR(get(fake.group, "cgroup.procs"), "");
    CHECK_EQ(fstat(cgroup_birthplace(group), &born), 0);
    CHECK_EQ(stat(fake.group, &info), 0);
    CHECK_EQ(born.st_ino, info.st_ino);
    cgroup_leave_room(group);
    CHECK_STR(get(fake.group, "pids.max"), "82");
    put(fake.group, "memory.events", "low 0\noom 4\noom_kill 3\n");
    CHECK_EQ(cgroup_hits(group, CGROUP_HIT_MEMORY), 3);
    cgroup_free(group);
    group = cgroup_find(fake.runtime); /* as the next supervisor does */
    CHECK_EQ(cgroup_hits(group, CGROUP_HIT_MEMORY), 3);
    cgroup_kill(group);
    CHECK_HAS(get(fake.group, "cgroup.kill"), "1");
    CHECK(cgroup_kill_at_once(group));
    cgroup_free(group);
    cgroup_host_free(host);
}

struct heard {
    uint64_t times[CGROUP_HIT_COUNT];
    unsigned calls;
    bool closed;
};

static void on_hit(void *data, enum cgroup_hit hit, uint64_t times)
{
    struct heard *heard = data;

    heard->times[hit] = times;
    heard->calls++;
}

static void on_closed(void *data)
{
    struct heard *heard = data;

    heard->closed = true;
}

TEST(a_change_of_the_counts_is_heard_and_not_too_often)
{
    struct fake fake = fake_tree();
    struct cgroup_host *host = cgroup_host_find(fake.root, "/runtime");
    struct sandbox_limits limits = { .memory_bytes = 64 << 20, .processes = 50 };
    struct heard heard = { 0 };
    struct error err = ERROR_INIT;
    struct cgroup_watch *watch;
    struct cgroup *group;
    uv_loop_t loop;

    uv_loop_init(&loop);
    CHECK_EQ(cgroup_make(&group, host, "run_1", fake.runtime, &limits, &err), 0);
    cgroup_watch_start(&watch, &loop, group, on_hit, &heard);
    for (int i = 1; i <= 100; i++) {
        AUTO_FREE char *text = mem_printf("oom_kill %d\n", i);

        put(fake.group, "memory.events", text);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    put(fake.group, "pids.events", "max 5\n");
    while (heard.times[CGROUP_HIT_MEMORY] < 100 || heard.times[CGROUP_HIT_PROCESSES] < 5)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK(heard.calls <= 6);
    CHECK(cgroup_watch_killed(watch));
    CHECK_STR(get(fake.group, "pids.max"), "82");
    cgroup_watch_close(watch, on_closed, &heard);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(heard.closed);
    CHECK_EQ(uv_loop_close(&loop), 0);
    cgroup_free(group);
    cgroup_host_free(host);
}

TEST(a_machine_without_groups_says_so_and_makes_none)
{
    const char *root = tmp_dir();
    struct cgroup_host *host = cgroup_host_find(root, "/runtime");
    struct sandbox_limits limits = { .memory_bytes = 1 << 20 };
    AUTO_BUF struct buf text = BUF_INIT(400);
    struct error err = ERROR_INIT;
    struct cgroup *group;

    cgroup_host_describe(host, &text);
    CHECK_HAS(buf_text(&text), "no control groups");
    CHECK_EQ(cgroup_make(&group, host, "run_1", tmp_subdir("runtime"), &limits, &err), 0);
    CHECK(group == NULL);
    CHECK_EQ(cgroup_layers(group), 0);
    cgroup_host_free(host);
}

/* Real groups
 * ---------------------------------------------------------------------------------------------- */

struct limit_rig {
    struct rig rig;
    struct cgroup_host *host;
    uint64_t times[2];
};

static void on_limit(void *data, enum sandbox_limit limit, uint64_t times)
{
    struct limit_rig *one = CONTAINER_OF((struct rig *)data, struct limit_rig, rig);

    one->times[limit] = times;
}

static void start(struct limit_rig *one, uint64_t memory, uint32_t processes)
{
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;

    memset(one, 0, sizeof(*one));
    rig_init(&one->rig);
    one->host = cgroup_host_find("", one->rig.runtime_dir);
    one->rig.options.cgroups = one->host;
    one->rig.spec.limits.memory_bytes = memory;
    one->rig.spec.limits.processes = processes;
    one->rig.spec.limits.cpu_weight = 50;
    callbacks = rig_callbacks(&one->rig);
    callbacks.on_limit = on_limit;
    if (sandbox_start(&one->rig.sandbox, &one->rig.loop, &one->rig.options, &one->rig.spec,
                      &callbacks, &err) < 0)
        CHECK_STR(err.text, "");
    RIG_UNTIL(&one->rig, one->rig.told_ready);
    CHECK_STR(one->rig.error.text, "");
    if ((sandbox_layers(one->rig.sandbox) & 1u << SANDBOX_LAYER_MEMORY_LIMIT) == 0) {
        rig_stop(&one->rig);
        cgroup_host_free(one->host);
        test_skip("no control groups for us here");
    }
}

/* Where the note says that the group is. */
static char *group_folder(const struct limit_rig *one)
{
    const char *note = get(one->rig.runtime_dir, "cgroup");
    const char *path = strchr(note, '/');

    CHECK(path != NULL);
    return mem_strndup(path, strcspn(path, "\n"));
}

static void stop(struct limit_rig *one)
{
    AUTO_FREE char *folder = group_folder(one);
    AUTO_FREE char *runtime = mem_strdup(one->rig.runtime_dir);
    struct error err = ERROR_INIT;

    CHECK_EQ(access(folder, F_OK), 0);
    rig_stop(&one->rig);
    if (sandbox_runtime_remove(runtime, &err) < 0)
        CHECK_STR(err.text, "");
    CHECK(access(folder, F_OK) < 0);
    *strrchr(folder, '/') = '\0';
    CHECK(access(folder, F_OK) < 0);
    cgroup_host_free(one->host);
    CHECK(rig_nothing_left());
}

TEST(a_memory_bomb_is_killed_and_init_lives)
{
    AUTO_BUF struct buf out = BUF_INIT(65536);
    struct limit_rig one;

    start(&one, 64 << 20, 100);
    CHECK(rig_shell(&one.rig,
                    "head -c 500m /dev/zero | tail -c 400m >/dev/null; exit ${PIPESTATUS[1]}",
                    &out) == 137);
    RIG_UNTIL(&one.rig, one.times[SANDBOX_LIMIT_MEMORY] > 0);
    CHECK_EQ(one.times[SANDBOX_LIMIT_PROCESSES], 0);
    CHECK(rig_shell(&one.rig, "dd if=/dev/zero of=/dev/shm/x bs=1M count=200 2>&1", &out) != 0);
    RIG_UNTIL(&one.rig, one.times[SANDBOX_LIMIT_MEMORY] > 1);
    CHECK_EQ(rig_shell(&one.rig, "rm /dev/shm/x; echo alive", &out), 0);
    CHECK_HAS(buf_text(&out), "alive");
    stop(&one);
}

TEST(a_fork_bomb_is_held_and_others_can_still_be_started)
{
    struct rig_process bomb;
    struct limit_rig one;

    start(&one, 256 << 20, 40);
    rig_shell_start(&one.rig, &bomb, "for i in $(seq 200); do sleep 100 & done 2>/dev/null; wait");
    while (sandbox_limit_times(one.rig.sandbox, SANDBOX_LIMIT_PROCESSES) == 0)
        uv_run(&one.rig.loop, UV_RUN_NOWAIT);
    CHECK(rig_leftovers() <= 42);
    rig_spawn(&one.rig, &(struct rig_process){ 0 }, (const char *const[]){ "true", NULL }, "/",
              SANDBOX_STDIN_NULL);
    rig_close_streams(&bomb);
    stop(&one);
}

TEST(the_next_supervisor_finds_the_group_and_its_counts)
{
    AUTO_BUF struct buf out = BUF_INIT(65536);
    struct sandbox_callbacks callbacks;
    struct error err = ERROR_INIT;
    struct limit_rig one;

    start(&one, 64 << 20, 100);
    rig_shell(&one.rig, "head -c 500m /dev/zero | tail -c 400m >/dev/null", &out);
    RIG_UNTIL(&one.rig, one.times[SANDBOX_LIMIT_MEMORY] > 0);
    sandbox_close(one.rig.sandbox, rig_on_closed, &one.rig);
    RIG_UNTIL(&one.rig, one.rig.closed);
    one.rig.closed = one.rig.told_ready = false;
    one.times[SANDBOX_LIMIT_MEMORY] = 0;
    callbacks = rig_callbacks(&one.rig);
    callbacks.on_limit = on_limit;
    CHECK_EQ(sandbox_adopt(&one.rig.sandbox, &one.rig.loop, &one.rig.options, "test",
                           one.rig.runtime_dir, &callbacks, &err),
             0);
    RIG_UNTIL(&one.rig, one.rig.told_ready);
    RIG_UNTIL(&one.rig, one.times[SANDBOX_LIMIT_MEMORY] > 0);
    CHECK(sandbox_layers(one.rig.sandbox) & 1u << SANDBOX_LAYER_MEMORY_LIMIT);
    stop(&one);
}

TEST(a_leftover_is_killed_with_its_group)
{
    struct error err = ERROR_INIT;
    struct limit_rig one;
    AUTO_FREE char *folder = NULL;

    start(&one, 64 << 20, 100);
    folder = group_folder(&one);
    CHECK_EQ(sandbox_kill_leftover(one.rig.runtime_dir, 5000, &err), 0);
    CHECK(access(folder, F_OK) < 0);
    RIG_UNTIL(&one.rig, one.rig.ended);
    CHECK_EQ(one.rig.end.kind, SANDBOX_END_LOST);
    CHECK(!one.rig.end.out_of_memory);
    rig_close(&one.rig);
    cgroup_host_free(one.host);
}

TEST(a_start_that_fails_leaves_no_group)
{
    struct error err = ERROR_INIT;
    AUTO_FREE char *folder = NULL;
    AUTO_FREE char *runtime = NULL;
    struct limit_rig one = { 0 };

    rig_init(&one.rig);
    one.host = cgroup_host_find("", one.rig.runtime_dir);
    one.rig.options.cgroups = one.host;
    one.rig.options.bwrap = "false";
    one.rig.spec.limits.memory_bytes = 64 << 20;
    rig_try(&one.rig);
    CHECK(one.rig.error.code != ERR_NONE);
    if (one.host->part_count > 0)
        folder = group_folder(&one);
    runtime = mem_strdup(one.rig.runtime_dir);
    rig_close(&one.rig);
    CHECK_EQ(sandbox_runtime_remove(runtime, &err), 0);
    CHECK(!folder || access(folder, F_OK) < 0);
    cgroup_host_free(one.host);
}
