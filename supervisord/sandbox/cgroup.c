#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/cgroup_host.h"
#include "sandbox/layer.h"
#include "sandbox/spec.h"

#define NOTE_NAME "cgroup"
#define NOTE_MAX (64u << 10)
#define TOP_NAME "sandbox-mcp"
#define ROOM 32          /* processes that init may start beyond the limit */
#define KILL_ROUNDS 16   /* of a batch each: what forks meanwhile is in the next */
#define KILL_BATCH 64    /* descriptors open at a time */
#define REMOVE_ROUNDS 50 /* milliseconds: a killed process leaves its group a little later */

struct cgroup {
    struct cgroup_part parts[CGROUP_CONTROLLERS];
    int join_fds[CGROUP_CONTROLLERS]; /* of each part: version 1 "tasks", version 2 the folder; -1:
                                         found, not made */
    size_t part_count;
    uint64_t processes; /* the limit */
};

static struct cgroup *new_group(void)
{
    struct cgroup *group = NEW(struct cgroup);

    for (size_t i = 0; i < ARRAY_LEN(group->join_fds); i++)
        group->join_fds[i] = -1;
    return group;
}

void cgroup_free(struct cgroup *group)
{
    if (!group)
        return;
    for (size_t i = 0; i < group->part_count; i++) {
        free(group->parts[i].folder);
        fd_close(&group->join_fds[i]);
    }
    free(group);
}

static const struct cgroup_part *part_for(const struct cgroup *group, enum cgroup_tree controller)
{
    for (size_t i = 0; group && i < group->part_count; i++) {
        if (group->parts[i].controls & 1u << controller)
            return &group->parts[i];
    }
    return NULL;
}

/* The note in the runtime folder: which is the supervisor's alone, so it is believed.
 * -----------------------------------------------------------------------------------------------
 */

static int write_note(const struct cgroup *group, const char *runtime_dir, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/" NOTE_NAME, runtime_dir);
    AUTO_BUF struct buf text = BUF_INIT(NOTE_MAX);
    AUTO_CLOSE int fd = -1;

    buf_printf(&text, "%" PRIu64 "\n", group->processes);
    for (size_t i = 0; i < group->part_count; i++) {
        const struct cgroup_part *part = &group->parts[i];

        buf_printf(&text, "%d %u %s\n", part->unified ? 2 : 1, part->controls, part->folder);
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || text.failed)
        return error_set(err, ERR_SYSTEM, errno, "write %s", path);
    return fd_write_all(fd, text.data, text.len, err);
}

/* "VERSION CONTROLS FOLDER" */
static bool parse_part(char *line, struct cgroup_part *part)
{
    char *controls = strchr(line, ' ');
    char *folder = controls ? strchr(controls + 1, ' ') : NULL;
    uint64_t version;
    uint64_t bits;

    if (!folder)
        return false;
    *controls++ = '\0';
    *folder++ = '\0';
    if (!str_parse_u64(line, 2, &version) || !str_parse_u64(controls, CGROUP_ALL, &bits) ||
        folder[0] != '/')
        return false;
    *part = (struct cgroup_part){ mem_strdup(folder), version == 2, (unsigned)bits };
    return true;
}

struct cgroup *cgroup_find(const char *runtime_dir)
{
    AUTO_FREE char *text = cgroup_read(runtime_dir, NOTE_NAME);
    char *line = text;
    struct cgroup *group;
    char *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *end = '\0';
    group = new_group();
    if (!str_parse_u64(line, UINT64_MAX, &group->processes))
        group->processes = 0;
    for (line = end + 1; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (group->part_count < ARRAY_LEN(group->parts) &&
            parse_part(line, &group->parts[group->part_count]))
            group->part_count++;
    }
    return group;
}

/* Making --------------------------------------------------------------------------------------- */

/* Our two folders above the groups come and go with them, perhaps by another supervisor's hand. */
static int make_folders(const struct cgroup_part *base, const char *name, const char *id)
{
    AUTO_FREE char *top = mem_printf("%s/" TOP_NAME, base->folder);
    AUTO_FREE char *ours = mem_printf("%s/%s", top, name);
    AUTO_FREE char *folder = mem_printf("%s/%s", ours, id);
    int error = 0;

    for (int tries = 0; tries < 3; tries++) {
        if (mkdir(top, 0755) < 0 && errno != EEXIST)
            return errno;
        if (base->unified)
            cgroup_enable(top, base->controls);
        if (mkdir(ours, 0755) < 0 && errno != EEXIST && errno != ENOENT)
            return errno;
        if (base->unified)
            cgroup_enable(ours, base->controls);
        if (mkdir(folder, 0755) == 0 || errno == EEXIST)
            return 0;
        error = errno;
        if (error != ENOENT)
            return error;
    }
    return error;
}

static int write_number(const struct cgroup_part *part, const char *name, uint64_t value,
                        struct error *err)
{
    AUTO_FREE char *text = mem_printf("%" PRIu64, value);
    int error = cgroup_write(part->folder, name, text);

    if (error != 0)
        return error_set(err, ERR_SYSTEM, error, "set %s/%s to %s", part->folder, name, text);
    return 0;
}

static int limit_memory(const struct cgroup_part *part, uint64_t bytes, struct error *err)
{
    AUTO_FREE char *text = mem_printf("%" PRIu64, bytes);

    if (part->unified) {
        cgroup_write(part->folder, "memory.swap.max", "0"); /* missing without swap */
        return write_number(part, "memory.max", bytes, err);
    }
    if (write_number(part, "memory.limit_in_bytes", bytes, err) < 0)
        return -1;
    cgroup_write(part->folder, "memory.memsw.limit_in_bytes", text); /* missing without swap */
    return 0;
}

static int limit_cpu(const struct cgroup_part *part, uint32_t weight, struct error *err)
{
    uint64_t shares = (uint64_t)weight * 1024 / 100;

    if (part->unified)
        return write_number(part, "cpu.weight", weight, err);
    return write_number(part, "cpu.shares", shares < 2 ? 2 : shares, err);
}

static int set_limits(const struct cgroup *group, const struct sandbox_limits *limits,
                      struct error *err)
{
    const struct cgroup_part *memory = part_for(group, CGROUP_TREE_MEMORY);
    const struct cgroup_part *pids = part_for(group, CGROUP_TREE_PIDS);
    const struct cgroup_part *cpu = part_for(group, CGROUP_TREE_CPU);

    if (memory && limit_memory(memory, limits->memory_bytes, err) < 0)
        return -1;
    if (pids && write_number(pids, "pids.max", limits->processes, err) < 0)
        return -1;
    return cpu ? limit_cpu(cpu, limits->cpu_weight, err) : 0;
}

static unsigned wanted_controls(const struct sandbox_limits *limits)
{
    return (limits->memory_bytes ? 1u << CGROUP_TREE_MEMORY : 0) |
           (limits->processes ? 1u << CGROUP_TREE_PIDS : 0) |
           (limits->cpu_weight ? 1u << CGROUP_TREE_CPU : 0);
}

static void plan_parts(struct cgroup *group, const struct cgroup_host *host, const char *id,
                       unsigned wanted)
{
    for (size_t i = 0; i < host->part_count; i++) {
        const struct cgroup_part *base = &host->parts[i];

        if (base->controls & wanted)
            group->parts[group->part_count++] =
                (struct cgroup_part){ mem_printf("%s/" TOP_NAME "/%s/%s", base->folder, host->name,
                                                 id),
                                      base->unified, base->controls & wanted };
    }
}

/* Of version 1 "tasks" and not "cgroup.procs": the kernel moves a thread that moves itself without
 * the lock that holds off every fork of the machine, and whose first taker waits until all
 * processors have been seen idle: up to 25 ms, twice what bubblewrap takes. */
static int open_to_join(const struct cgroup_part *part, struct error *err)
{
    AUTO_FREE char *tasks = mem_printf("%s/tasks", part->folder);
    const char *path = part->unified ? part->folder : tasks;
    int fd =
        open(path, (part->unified ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 ? error_set(err, ERR_SYSTEM, errno, "open %s", path) : fd;
}

static int make_parts(struct cgroup *group, const struct cgroup_host *host, const char *id,
                      unsigned wanted, struct error *err)
{
    for (size_t i = 0, at = 0; i < host->part_count; i++) {
        struct cgroup_part *part = &group->parts[at];
        int error;

        if ((host->parts[i].controls & wanted) == 0)
            continue;
        error = make_folders(&host->parts[i], host->name, id);
        if (error != 0)
            return error_set(err, ERR_SYSTEM, error, "make control group %s", part->folder);
        group->join_fds[at] = open_to_join(part, err);
        if (group->join_fds[at] < 0)
            return -1;
        at++;
    }
    return 0;
}

int cgroup_make(struct cgroup **out, const struct cgroup_host *host, const char *id,
                const char *runtime_dir, const struct sandbox_limits *limits, struct error *err)
{
    unsigned wanted = wanted_controls(limits);
    struct cgroup *group = new_group();
    struct error ignored = ERROR_INIT;

    BUG_ON(strchr(id, '/') || id[0] == '.' || id[0] == '\0');
    *out = NULL;
    if (host)
        plan_parts(group, host, id, wanted);
    group->processes = limits->processes;
    if (group->part_count == 0) {
        cgroup_free(group);
        return cgroup_remove(runtime_dir, err); /* of an earlier one in this folder */
    }
    /* First the note: no group is ever without one. */
    if (cgroup_remove(runtime_dir, err) < 0 || write_note(group, runtime_dir, err) < 0) {
        cgroup_free(group);
        return -1;
    }
    cgroup_kill(group);
    if (make_parts(group, host, id, wanted, err) < 0 || set_limits(group, limits, err) < 0) {
        cgroup_free(group);
        cgroup_remove(runtime_dir, &ignored);
        return error_wrap(err, "limits of the sandbox");
    }
    *out = group;
    return 0;
}

int cgroup_join(const struct cgroup *group)
{
    for (size_t i = 0; i < group->part_count; i++) {
        if (!group->parts[i].unified && write(group->join_fds[i], "0", 1) < 0)
            return errno;
    }
    return 0;
}

int cgroup_birthplace(const struct cgroup *group)
{
    for (size_t i = 0; group && i < group->part_count; i++) {
        if (group->parts[i].unified)
            return group->join_fds[i];
    }
    return -1;
}

/* In force ------------------------------------------------------------------------------------- */

uint32_t cgroup_layers(const struct cgroup *group)
{
    static const enum sandbox_layer layers[CGROUP_CONTROLLERS] = {
        [CGROUP_TREE_MEMORY] = SANDBOX_LAYER_MEMORY_LIMIT,
        [CGROUP_TREE_PIDS] = SANDBOX_LAYER_PROCESS_LIMIT,
        [CGROUP_TREE_CPU] = SANDBOX_LAYER_CPU_WEIGHT,
    };
    uint32_t found = 0;

    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (part_for(group, (enum cgroup_tree)i))
            found |= UINT32_C(1) << layers[i];
    }
    return found;
}

static const struct cgroup_part *hit_part(const struct cgroup *group, enum cgroup_hit hit)
{
    return part_for(group, hit == CGROUP_HIT_MEMORY ? CGROUP_TREE_MEMORY : CGROUP_TREE_PIDS);
}

static const char *hit_file(const struct cgroup_part *part, enum cgroup_hit hit)
{
    if (hit == CGROUP_HIT_PROCESSES)
        return "pids.events";
    return part->unified ? "memory.events" : "memory.oom_control";
}

uint64_t cgroup_hits(const struct cgroup *group, enum cgroup_hit hit)
{
    const struct cgroup_part *part = hit_part(group, hit);
    AUTO_FREE char *text = part ? cgroup_read(part->folder, hit_file(part, hit)) : NULL;

    return text ? cgroup_count_in(text, hit == CGROUP_HIT_MEMORY ? "oom_kill" : "max") : 0;
}

char *cgroup_events_file(const struct cgroup *group, enum cgroup_hit hit)
{
    const struct cgroup_part *part = hit_part(group, hit);

    return part ? mem_printf("%s/%s", part->folder, hit_file(part, hit)) : NULL;
}

bool cgroup_events_by_eventfd(const struct cgroup *group, enum cgroup_hit hit)
{
    const struct cgroup_part *part = hit_part(group, hit);

    return part && hit == CGROUP_HIT_MEMORY && !part->unified;
}

void cgroup_leave_room(const struct cgroup *group)
{
    const struct cgroup_part *part = part_for(group, CGROUP_TREE_PIDS);
    struct error ignored = ERROR_INIT;

    if (part && group->processes)
        write_number(part, "pids.max", group->processes + ROOM, &ignored);
}

/* Ending --------------------------------------------------------------------------------------- */

static bool is_listed(const char *text, uint64_t pid)
{
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        if (strtoull(at, NULL, 10) == pid)
            return true;
    }
    return false;
}

/* A descriptor is taken of each process before the list is read again: what is killed is what is
 * still in the group, whoever has got a pid meanwhile. */
static size_t kill_batch(const char *folder)
{
    AUTO_FREE char *before = cgroup_read(folder, "cgroup.procs");
    AUTO_FREE char *after = NULL;
    int pidfds[KILL_BATCH];
    uint64_t pids[KILL_BATCH];
    size_t count = 0;

    for (const char *at = before; *at && count < ARRAY_LEN(pids);
         at += strcspn(at, "\n"), at += *at == '\n') {
        uint64_t pid = strtoull(at, NULL, 10);

        pidfds[count] = pid > 0 && pid <= INT32_MAX && (pid_t)pid != getpid()
                            ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0)
                            : -1;
        if (pidfds[count] >= 0)
            pids[count++] = pid;
    }
    after = cgroup_read(folder, "cgroup.procs");
    for (size_t i = 0; i < count; i++) {
        if (is_listed(after, pids[i]))
            syscall(SYS_pidfd_send_signal, pidfds[i], SIGKILL, NULL, 0u);
        close(pidfds[i]);
    }
    return count;
}

void cgroup_kill(const struct cgroup *group)
{
    for (size_t i = 0; i < group->part_count; i++) {
        const struct cgroup_part *part = &group->parts[i];

        if (part->unified && cgroup_write(part->folder, "cgroup.kill", "1") == 0)
            continue;
        for (int round = 0; round < KILL_ROUNDS && kill_batch(part->folder) > 0; round++)
            ;
    }
}

bool cgroup_kill_at_once(const struct cgroup *group)
{
    for (size_t i = 0; i < group->part_count; i++) {
        const struct cgroup_part *part = &group->parts[i];

        if (part->unified && cgroup_write(part->folder, "cgroup.kill", "1") == 0)
            return true;
    }
    return false;
}

void cgroup_kill_leftover(const char *runtime_dir)
{
    struct cgroup *group = cgroup_find(runtime_dir);

    if (group)
        cgroup_kill(group);
    cgroup_free(group);
}

/* The folder above a group's, and the one above that, if nobody is in them. */
static void remove_parents(const char *folder)
{
    AUTO_FREE char *path = mem_strdup(folder);

    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(path, '/');

        if (!slash)
            return;
        *slash = '\0';
        if (rmdir(path) < 0)
            return;
    }
}

static int remove_folder(const struct cgroup *group, const char *folder, struct error *err)
{
    for (int round = 0; rmdir(folder) < 0 && errno != ENOENT; round++) {
        if (errno != EBUSY || round == REMOVE_ROUNDS)
            return error_set(err, ERR_SYSTEM, errno, "remove control group %s", folder);
        cgroup_kill(group);
        poll(NULL, 0, 1);
    }
    remove_parents(folder);
    return 0;
}

int cgroup_remove(const char *runtime_dir, struct error *err)
{
    AUTO_FREE char *note = mem_printf("%s/" NOTE_NAME, runtime_dir);
    struct cgroup *group = cgroup_find(runtime_dir);
    int rc = 0;

    for (size_t i = 0; group && i < group->part_count && rc == 0; i++)
        rc = remove_folder(group, group->parts[i].folder, err);
    cgroup_free(group);
    if (rc == 0 && unlink(note) < 0 && errno != ENOENT)
        return error_set(err, ERR_SYSTEM, errno, "remove %s", note);
    return rc;
}
