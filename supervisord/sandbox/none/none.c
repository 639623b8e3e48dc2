#include "sandbox/none/none.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/cgroup.h"
#include "sandbox/init/protocol.h"

static int check_spec(const struct sandbox_spec *spec, struct error *err)
{
    if (spec->file_count || spec->frozen_dir_count || spec->overlay_count)
        return error_set(err, ERR_INVALID, 0,
                         "the sandbox backend none can't show files that are nowhere; use bwrap");
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct sandbox_mount *mount = &spec->mounts[i];

        if (!str_equal(mount->source, mount->target))
            return error_set(err, ERR_INVALID, 0,
                             "the sandbox backend none can't show %s at %s; use bwrap",
                             mount->source, mount->target);
        if (mount->access == SANDBOX_READ_ONLY)
            return error_set(err, ERR_INVALID, 0,
                             "the sandbox backend none can't protect %s from being written to; "
                             "use bwrap",
                             mount->source);
    }
    return 0;
}

static int join_group(void *data)
{
    return cgroup_join(data);
}

int none_launch(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                const struct sandbox_spec *spec, const struct runtime_fds *runtime,
                void (*on_exit)(void *data, int code, int signal), void *data, struct error *err)
{
    AUTO_FREE char *processes = mem_printf("%" PRIu32, spec->limits.processes);
    AUTO_FREE char *open_files = mem_printf("%" PRIu32, spec->limits.open_files);
    AUTO_FREE char *file_size = mem_printf("%" PRIu64, spec->limits.file_size_bytes);
    const char *const argv[] = {
        "sandbox-init", INIT_PLAIN, processes, open_files, file_size, NULL
    };
    const struct child_fd fds[] = { { runtime->listener, INIT_FD_CONTROL },
                                    { runtime->lock, INIT_FD_LOCK } };
    const struct child_options child = {
        .program = options->init_path,
        .argv = argv,
        .fds = fds,
        .fd_count = ARRAY_LEN(fds),
        .cgroup_fd = cgroup_birthplace(runtime->group),
        .uid = geteuid() == 0 ? spec->host_uid : 0,
        .capture_stderr = true,
        .before_drop = runtime->group ? join_group : NULL,
        .before_drop_data = (void *)(uintptr_t)runtime->group,
    };

    if (check_spec(spec, err) < 0)
        return -1;
    if (child_start(out, loop, &child, on_exit, data, err) < 0)
        return error_wrap(err, "sandbox-init");
    log_warn(spec->id ? spec->id : "sandbox",
             "started without any isolation: the sandbox backend is none");
    return 0;
}

int none_explain(const char *stderr_text, int code, int signal, struct error *err)
{
    AUTO_BUF struct buf said = BUF_INIT(1024);

    str_append_escaped(&said, stderr_text, strlen(stderr_text), 160);
    if (signal)
        return error_set(err, ERR_UNAVAILABLE, 0, "sandbox-init was ended by signal %d", signal);
    return error_set(err, ERR_UNAVAILABLE, 0, "sandbox-init ended with code %d and said: %s", code,
                     said.len ? buf_text(&said) : "nothing");
}

int none_verify(const struct sandbox_facts *facts, struct error *err)
{
    (void)facts;
    (void)err;
    return 0;
}
