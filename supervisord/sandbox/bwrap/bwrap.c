#include "sandbox/bwrap/bwrap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/bwrap/bwrap_args.h"
#include "sandbox/bwrap/host_look.h"
#include "sandbox/bwrap/overlay.h"
#include "sandbox/bwrap/seccomp.h"
#include "sandbox/cgroup.h"
#include "sandbox/init/protocol.h"

/* The init and the spec's mounts. */
#define SOURCES_MAX (SANDBOX_MOUNTS_MAX + 1)

/* Bubblewrap looks its sources up by path, as the sandbox's own uid, also when they are given by
 * descriptor. For a supervisor that runs as root the session's folders lie below folders which that
 * uid can't enter. So the child, while it still is root, makes a mount namespace of its own and
 * hangs each source there at a path that everybody can walk. Overlays are mounted there as well,
 * also for a supervisor that is an ordinary user. */
struct staging {
    const char *base; /* covered by a fresh tmpfs in the child only; NULL: nothing is staged */
    bool as_root;
    size_t overlay_count;
    struct overlay overlays[SANDBOX_OVERLAYS_MAX];
    char *overlay_paths[SANDBOX_OVERLAYS_MAX];
    int report[2]; /* a pipe: the child's errno for each overlay that it could not mount; -1 */
    size_t count;
    int fds[SOURCES_MAX];
    bool folder[SOURCES_MAX];
    char *paths[SOURCES_MAX];
};

/* Present on every machine, and never the way to a program or a source. */
static const char *const staging_places[] = { "/sys", "/mnt", "/media", "/srv" };

struct launch {
    const struct cgroup *group; /* NULL: none */
    struct staging staging;
    struct bwrap_plan plan;
    struct bwrap_args args;
    struct child_fd fds[CHILD_FDS_MAX];
    size_t fd_count;
    int owned[CHILD_FDS_MAX]; /* closed at the end */
    size_t owned_count;
};

static void own(struct launch *launch, int fd)
{
    BUG_ON(launch->owned_count == ARRAY_LEN(launch->owned));
    launch->owned[launch->owned_count++] = fd;
}

static void pass(struct launch *launch, int fd, int number)
{
    BUG_ON(launch->fd_count == ARRAY_LEN(launch->fds));
    launch->fds[launch->fd_count++] = (struct child_fd){ fd, number };
}

static void launch_finish(struct launch *launch)
{
    for (size_t i = 0; i < launch->owned_count; i++)
        fd_close(&launch->owned[i]);
    for (size_t i = 0; i < launch->staging.count; i++)
        free(launch->staging.paths[i]);
    for (size_t i = 0; i < launch->staging.overlay_count; i++)
        free(launch->staging.overlay_paths[i]);
    for (size_t i = 0; i < ARRAY_LEN(launch->plan.sources); i++)
        free(launch->plan.sources[i]);
    free(launch->plan.init_source);
    bwrap_args_finish(&launch->args);
}

/* Staging, in the child
 * --------------------------------------------------------------------------------------------- */

static int make_place(const char *path, bool folder)
{
    int fd;

    if (folder)
        return mkdir(path, 0755);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    return fd < 0 ? -1 : close(fd);
}

static int clone_mounts(const struct staging *staging, int mounts[SOURCES_MAX])
{
    for (size_t i = 0; i < staging->count; i++) {
        mounts[i] = (int)syscall(SYS_open_tree, staging->fds[i], "",
                                 1u /* OPEN_TREE_CLONE */ | (unsigned)O_CLOEXEC | AT_EMPTY_PATH |
                                     AT_RECURSIVE);
        if (mounts[i] < 0)
            return -1;
    }
    return 0;
}

static int hang_sources(const struct staging *staging, const int mounts[SOURCES_MAX])
{
    for (size_t i = 0; i < staging->count; i++) {
        if (make_place(staging->paths[i], staging->folder[i]) < 0 ||
            syscall(SYS_move_mount, mounts[i], "", AT_FDCWD, staging->paths[i],
                    4u /* MOVE_MOUNT_F_EMPTY_PATH */) < 0)
            return errno;
    }
    return 0;
}

static int hang_overlays(const struct staging *staging)
{
    for (size_t i = 0; i < staging->overlay_count; i++) {
        int fallen_back;
        int error = overlay_mount(&staging->overlays[i], staging->overlay_paths[i], &fallen_back);

        if (error)
            return error;
        if (fallen_back && write(staging->report[1], &fallen_back, sizeof(fallen_back)) < 0)
            return errno;
    }
    return 0;
}

/* What was mounted there goes first, if anything was: bubblewrap reads the list of all mounts after
 * each that it makes, and a host has a dozen below /sys. */
static int cover_base(const struct staging *staging)
{
    if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return errno;
    umount2(staging->base, MNT_DETACH);
    if (mount("tmpfs", staging->base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=256k") < 0)
        return errno;
    return 0;
}

/* Where namespaces can't be had bubblewrap finds nothing at the overlays' places, and leaves it at
 * the lower folders. */
static int stage_as_user(const struct staging *staging)
{
    int error = overlay_try_namespaces(staging->base);

    if (error) {
        for (size_t i = 0; i < staging->overlay_count; i++) {
            if (write(staging->report[1], &error, sizeof(error)) < 0)
                return errno;
        }
        return 0;
    }
    error = overlay_enter_namespaces();
    if (!error)
        error = cover_base(staging);
    return error ? error : hang_overlays(staging);
}

/* Between fork and exec. A mount can be cloned only in the namespace that it is in, so all are
 * before we leave ours. */
static int stage(const struct staging *staging)
{
    int mounts[SOURCES_MAX];
    int error;

    if (!staging->as_root)
        return stage_as_user(staging);
    if (clone_mounts(staging, mounts) < 0 || unshare(CLONE_NEWNS) < 0)
        return errno;
    error = cover_base(staging);
    if (!error)
        error = hang_sources(staging, mounts);
    return error ? error : hang_overlays(staging);
}

/* Before bubblewrap exists, so that nothing of the sandbox is ever outside its limits. */
static int enter(void *data)
{
    const struct launch *launch = data;
    int error = launch->group ? cgroup_join(launch->group) : 0;

    if (error != 0 || !launch->staging.base)
        return error;
    return stage(&launch->staging);
}

/* Preparing
 * ---------------------------------------------------------------------------------------------------------
 */

static int choose_staging(struct staging *staging, const struct sandbox_spec *spec,
                          struct error *err)
{
    struct stat info;

    staging->as_root = geteuid() == 0;
    if (!staging->as_root && spec->overlay_count == 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(staging_places) && !staging->base; i++) {
        if (lstat(staging_places[i], &info) == 0 && S_ISDIR(info.st_mode))
            staging->base = staging_places[i];
    }
    if (!staging->base)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "none of /sys, /mnt, /media, /srv exists to prepare a sandbox in");
    return 0;
}

/* Opens PATH and returns the path at which bubblewrap will find it, on the heap; NULL on failure. A
 * folder that the agent may write is the session's own and never a link. */
static char *add_source(struct launch *launch, const char *path, enum sandbox_access access,
                        struct error *err)
{
    struct staging *staging = &launch->staging;
    int fd = open(path, O_PATH | O_CLOEXEC | (access == SANDBOX_READ_WRITE ? O_NOFOLLOW : 0));
    size_t at = staging->count;
    struct stat info;

    if (fd < 0) {
        error_set(err, ERR_SYSTEM, errno, "open %s for the sandbox", path);
        return NULL;
    }
    own(launch, fd);
    if (fstat(fd, &info) < 0 || (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))) {
        error_set(err, ERR_INVALID, 0, "%s is neither a folder nor a file", path);
        return NULL;
    }
    staging->fds[at] = fd;
    staging->folder[at] = S_ISDIR(info.st_mode);
    staging->count++;
    if (staging->as_root) {
        staging->paths[at] = mem_printf("%s/%zu", staging->base, at);
        return mem_strdup(staging->paths[at]);
    }
    pass(launch, fd, BWRAP_FD_SOURCES + (int)at);
    return mem_printf("/proc/self/fd/%d", BWRAP_FD_SOURCES + (int)at);
}

static int add_sources(struct launch *launch, const struct sandbox_options *options,
                       const struct sandbox_spec *spec, struct error *err)
{
    launch->plan.init_source = add_source(launch, options->init_path, SANDBOX_READ_ONLY, err);
    if (!launch->plan.init_source)
        return -1;
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct sandbox_mount *mount = &spec->mounts[i];

        launch->plan.sources[i] = add_source(launch, mount->source, mount->access, err);
        if (!launch->plan.sources[i])
            return -1;
    }
    return 0;
}

static int add_overlays(struct launch *launch, const struct sandbox_spec *spec, struct error *err)
{
    struct staging *staging = &launch->staging;

    if (spec->overlay_count == 0)
        return 0;
    if (pipe2(staging->report, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a pipe");
    own(launch, staging->report[0]);
    own(launch, staging->report[1]);
    for (size_t i = 0; i < spec->overlay_count; i++) {
        if (overlay_prepare(&staging->overlays[i], &spec->overlays[i], spec->host_uid, err) < 0)
            return -1;
        staging->overlay_paths[i] = mem_printf("%s/overlay-%zu", staging->base, i);
        staging->overlay_count++;
        launch->plan.overlays[i] = staging->overlay_paths[i];
        launch->plan.lowers[i] = staging->as_root ? NULL : spec->overlays[i].lower;
    }
    return 0;
}

/* What the child could not mount; it has exec'ed by now. */
static void report_overlays(const struct launch *launch, const char *id)
{
    int error;
    size_t count = 0;

    if (launch->staging.overlay_count == 0)
        return;
    while (read(launch->staging.report[0], &error, sizeof(error)) == sizeof(error))
        count++;
    if (count > 0)
        log_warn(id, "%zu of %zu caches can only be read, for overlays can't be mounted: %s", count,
                 launch->staging.overlay_count, strerror(error));
}

static int add_file(struct launch *launch, const struct bwrap_file *file, int number,
                    struct error *err)
{
    AUTO_CLOSE int fd = memfd_create("file", MFD_CLOEXEC);

    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "make %s", file->target);
    if (fd_write_all(fd, file->data, file->len, err) < 0)
        return error_wrap(err, "%s", file->target);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, ERR_SYSTEM, errno, "rewind %s", file->target);
    pass(launch, fd, number);
    own(launch, fd_steal(&fd));
    return 0;
}

static int add_files(struct launch *launch, const struct sandbox_spec *spec, struct error *err)
{
    struct bwrap_file files[BWRAP_FILES_MAX];
    size_t count = bwrap_files(spec, files);

    for (size_t i = 0; i < count; i++) {
        if (add_file(launch, &files[i], BWRAP_FD_FILES + (int)i, err) < 0)
            return -1;
    }
    return 0;
}

static int prepare(struct launch *launch, const struct sandbox_options *options,
                   const struct sandbox_spec *spec, const struct runtime_fds *runtime,
                   struct error *err)
{
    int filter;

    launch->group = runtime->group;
    bwrap_look_at_host(&launch->plan);
    if (choose_staging(&launch->staging, spec, err) < 0 ||
        add_sources(launch, options, spec, err) < 0 || add_overlays(launch, spec, err) < 0 ||
        add_files(launch, spec, err) < 0)
        return -1;
    filter = seccomp_make_file(err);
    if (filter < 0)
        return -1;
    own(launch, filter);
    pass(launch, filter, BWRAP_FD_SECCOMP);
    pass(launch, runtime->listener, INIT_FD_CONTROL);
    pass(launch, runtime->lock, INIT_FD_LOCK);
    pass(launch, runtime->status, BWRAP_FD_STATUS);
    return bwrap_args_make(&launch->args, spec, &launch->plan, err);
}

static int start(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                 const struct sandbox_spec *spec, struct launch *launch,
                 void (*on_exit)(void *data, int code, int signal), void *data, struct error *err)
{
    struct child_options child = {
        .program = options->bwrap,
        .argv = (const char *const *)launch->args.argv,
        .fds = launch->fds,
        .fd_count = launch->fd_count,
        .cgroup_fd = cgroup_birthplace(launch->group),
        .uid = geteuid() == 0 ? spec->host_uid : 0,
        .capture_stderr = true,
        .before_drop = enter,
        .before_drop_data = launch,
    };

    if (child_start(out, loop, &child, on_exit, data, err) == 0) {
        report_overlays(launch, spec->id ? spec->id : "sandbox");
        return 0;
    }
    if (err->code == ERR_NOT_FOUND)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "bubblewrap (bwrap) is not installed: apt install bubblewrap");
    return error_wrap(err, "bubblewrap");
}

int bwrap_launch(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                 const struct sandbox_spec *spec, const struct runtime_fds *runtime,
                 void (*on_exit)(void *data, int code, int signal), void *data, struct error *err)
{
    struct launch *launch = NEW(struct launch);
    int rc = prepare(launch, options, spec, runtime, err);

    if (rc == 0)
        rc = start(out, loop, options, spec, launch, on_exit, data, err);
    launch_finish(launch);
    free(launch);
    return rc;
}
