#include "sandbox/bwrap/bwrap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/bwrap/bwrap_args.h"
#include "sandbox/bwrap/seccomp.h"
#include "sandbox/init/protocol.h"

#define FIRST_NUMBER 10

/* As root the tool runs under the session's uid, which has no way through root's private folders,
 * and the tool resolves even a descriptor's path. So, still as root, the child binds every source
 * into a folder of a mount namespace of its own. (A descriptor opened before would belong to the
 * old namespace, whose mounts can't be bound.) */
#define STAGE "/mnt"

struct stage {
    const char
        *sources[SANDBOX_MOUNTS_MAX + 1]; /* the spec's mounts in order, then init; borrowed */
    bool folder[SANDBOX_MOUNTS_MAX + 1];
    size_t count;
    char paths[SANDBOX_MOUNTS_MAX + 1][16];
};

/* The descriptors that the child gets, and those of them that are ours to close. */
struct handover {
    struct child_fd fds[CHILD_FDS_MAX];
    size_t count;
    int owned[CHILD_FDS_MAX];
    size_t owned_count;
    struct bwrap_numbers numbers;
    struct stage stage;
};

static int hand_over(struct handover *handover, int fd)
{
    int number = FIRST_NUMBER + (int)handover->owned_count;

    BUG_ON(handover->count == CHILD_FDS_MAX);
    handover->fds[handover->count++] = (struct child_fd){ fd, number };
    handover->owned[handover->owned_count++] = fd;
    return number;
}

static void handover_finish(struct handover *handover)
{
    for (size_t i = 0; i < handover->owned_count; i++)
        close(handover->owned[i]);
}

static int data_fd(const void *data, size_t len, struct error *err)
{
    AUTO_CLOSE int fd = memfd_create("file", MFD_CLOEXEC);

    if (fd < 0 || fd_write_all(fd, data, len, err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, ERR_SYSTEM, errno, "prepare a file of the sandbox");
    return fd_steal(&fd);
}

static int stage_add(struct stage *stage, const char *source, int fd, struct error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return error_set(err, ERR_SYSTEM, errno, "look at %s", source);
    snprintf(stage->paths[stage->count], sizeof(stage->paths[0]), STAGE "/%zu", stage->count);
    stage->folder[stage->count] = S_ISDIR(st.st_mode);
    stage->sources[stage->count++] = source;
    return 0;
}

/* In the child, between fork and exec: system calls only. */
static int stage_mounts(void *data)
{
    const struct stage *stage = data;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount("stage", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") < 0)
        return errno;
    for (size_t i = 0; i < stage->count; i++) {
        const char *path = stage->paths[i];

        if (stage->folder[i] ? mkdir(path, 0755) < 0 : mknod(path, S_IFREG | 0644, 0) < 0)
            return errno;
        if (mount(stage->sources[i], path, NULL, MS_BIND, NULL) < 0)
            return errno;
    }
    return 0;
}

static int open_mounts(struct handover *handover, const struct sandbox_spec *spec,
                       struct error *err)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct sandbox_mount *mount = &spec->mounts[i];
        int fd = open(mount->source,
                      O_PATH | O_CLOEXEC | (mount->access == SANDBOX_READ_WRITE ? O_NOFOLLOW : 0));

        if (fd < 0)
            return error_set(err, ERR_SYSTEM, errno, "open %s for the sandbox", mount->source);
        handover->numbers.mounts[i] = hand_over(handover, fd);
        if (stage_add(&handover->stage, mount->source, fd, err) < 0)
            return -1;
    }
    return 0;
}

static int open_files(struct handover *handover, const struct sandbox_spec *spec, struct error *err)
{
    int fd;

    for (size_t i = 0; i < spec->file_count; i++) {
        fd = data_fd(spec->files[i].data, spec->files[i].len, err);
        if (fd < 0)
            return -1;
        handover->numbers.files[i] = hand_over(handover, fd);
    }
    for (size_t i = 0; bwrap_default_files[i].target != NULL; i++) {
        if (!bwrap_default_wanted(spec, bwrap_default_files[i].target))
            continue;
        fd = data_fd(bwrap_default_files[i].text, strlen(bwrap_default_files[i].text), err);
        if (fd < 0)
            return -1;
        handover->numbers.defaults[i] = hand_over(handover, fd);
    }
    return 0;
}

static int open_all(struct handover *handover, const struct sandbox_options *options,
                    const struct sandbox_spec *spec, int control_fd, int lock_fd, struct error *err)
{
    int fd;

    handover->fds[handover->count++] = (struct child_fd){ control_fd, INIT_FD_CONTROL };
    handover->fds[handover->count++] = (struct child_fd){ lock_fd, INIT_FD_LOCK };
    fd = seccomp_program_fd(err);
    if (fd < 0)
        return -1;
    handover->numbers.seccomp = hand_over(handover, fd);
    fd = open(options->init_path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", options->init_path);
    handover->numbers.init = hand_over(handover, fd);
    if (open_mounts(handover, spec, err) < 0 ||
        stage_add(&handover->stage, options->init_path, fd, err) < 0)
        return -1;
    return open_files(handover, spec, err);
}

int bwrap_start(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                const struct sandbox_spec *spec, int control_fd, int lock_fd,
                void (*on_exit)(void *data, int code, int signal), void *data, struct error *err)
{
    static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
    struct handover handover = { .count = 0 };
    struct bwrap_args args;
    bool staged = geteuid() == 0;
    int rc = open_all(&handover, options, spec, control_fd, lock_fd, err);

    if (rc == 0) {
        const struct stage *stage = &handover.stage;

        bwrap_args_build(&args, options->bwrap, spec, &handover.numbers,
                         staged ? stage->paths : NULL);
        struct child_options child = { .program = options->bwrap,
                                       .argv = (const char *const *)args.argv,
                                       .env = env,
                                       .fds = handover.fds,
                                       .fd_count = handover.count,
                                       .uid = spec->host_uid != geteuid() ? spec->host_uid : 0,
                                       .capture_stderr = 1,
                                       .before_drop = staged ? stage_mounts : NULL,
                                       .before_drop_data = &handover.stage };
        rc = child_start(out, loop, &child, on_exit, data, err);
        bwrap_args_finish(&args);
    }
    handover_finish(&handover);
    if (rc < 0 && err->code == ERR_NOT_FOUND)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "bubblewrap (%s) is not installed: apt install bubblewrap",
                         options->bwrap);
    return rc;
}

void bwrap_explain(const char *stderr_text, struct error *err)
{
    static const struct {
        const char *words;
        const char *meaning;
    } known[] = {
        { "No permissions to create", "user namespaces are forbidden here: sysctl "
                                      "kernel.unprivileged_userns_clone=1, or on Ubuntu "
                                      "sysctl kernel.apparmor_restrict_unprivileged_userns=0" },
        { "setting up uid map", "user namespaces are forbidden here: sysctl "
                                "kernel.apparmor_restrict_unprivileged_userns=0" },
        { "Creating new namespace failed",
          "the kernel allows no more namespaces: sysctl user.max_user_namespaces" },
        { "Unknown option --bind-fd",
          "this bubblewrap is too old: it needs --bind-fd (Debian 12's, or 0.10 and newer)" },
        { "Unknown option", "this bubblewrap is too old: 0.8 or newer is needed" },
    };
    AUTO_BUF struct buf words = BUF_INIT(2048);
    size_t len = strcspn(stderr_text, "\r\n");

    str_append_escaped(&words, stderr_text, len, 160);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strstr(stderr_text, known[i].words) != NULL) {
            error_set(err, ERR_UNAVAILABLE, 0, "%s (%s)", known[i].meaning, buf_text(&words));
            return;
        }
    }
    error_set(err, ERR_UNAVAILABLE, 0, "the sandbox could not be started: %s",
              words.len > 0 ? buf_text(&words) : "no reason was given");
}
