/* spec.h: one sandbox, described without naming the tool that makes it. Pure data. */
#ifndef SANDBOX_SPEC_H
#define SANDBOX_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define SANDBOX_WORKSPACE "/workspace"
#define SANDBOX_HOME "/home/agent"
#define SANDBOX_MOUNTS_MAX 32
#define SANDBOX_FILES_MAX 32
#define SANDBOX_OVERLAYS_MAX 8

enum sandbox_access { SANDBOX_READ_ONLY, SANDBOX_READ_WRITE };

/* A folder or file of the host that is seen inside. It is opened by the supervisor (O_PATH |
 * O_NOFOLLOW for session folders) and bound by descriptor, so the sandbox's own uid needs no way
 * through the folders above it. */
struct sandbox_mount {
    char *source; /* absolute, on the host */
    char *target; /* absolute, inside */
    enum sandbox_access access;
};

/* A read-only file made from bytes: /etc/passwd, an agent's configuration. */
struct sandbox_file {
    char *target;
    char *data;
    size_t len;
    uint32_t mode;
};

/* A folder whose lower part is shared and never changes, while what is written goes to a folder of
 * the session's own. UPPER and WORK belong to the sandbox's uid and lie on one file system. */
struct sandbox_overlay {
    char *lower;
    char *upper;
    char *work;
    char *target;
};

struct sandbox_limits {
    uint64_t memory_bytes;
    uint32_t processes;
    uint32_t cpu_weight; /* 1 to 10000; 0: as everybody (100) */
    uint32_t open_files;
    uint64_t file_size_bytes; /* 0: none */
    uint64_t tmp_bytes;       /* size of /tmp */
};

struct sandbox_spec {
    char *id;          /* the session's id: prefix of log lines */
    char *runtime_dir; /* a 0700 folder of the supervisor's for this sandbox: control socket,
                          status, lock */
    uint32_t host_uid; /* the uid (and gid) it runs under on the host; never 0. Equal to our own
                          when we are not root */
    char *hostname;
    struct sandbox_mount mounts[SANDBOX_MOUNTS_MAX];
    size_t mount_count;
    struct sandbox_overlay overlays[SANDBOX_OVERLAYS_MAX];
    size_t overlay_count;
    struct sandbox_file files[SANDBOX_FILES_MAX];
    size_t file_count;
    char *frozen_dirs[8]; /* folders made on fresh tmpfs, filled from files[], then made read-only
                             as a whole; ".": none */
    size_t frozen_dir_count;
    struct sandbox_limits limits;
};

/* Caller's storage; strings are copied. The add functions BUG() when a table is full (the callers
 * are ours). */
void sandbox_spec_init(struct sandbox_spec *spec);
void sandbox_spec_finish(struct sandbox_spec *spec);
void sandbox_spec_add_mount(struct sandbox_spec *spec, const char *source, const char *target,
                            enum sandbox_access access);
void sandbox_spec_add_overlay(struct sandbox_spec *spec, const char *lower, const char *upper,
                              const char *work, const char *target);
void sandbox_spec_add_file(struct sandbox_spec *spec, const char *target, const void *data,
                           size_t len, uint32_t mode);
void sandbox_spec_add_frozen_dir(struct sandbox_spec *spec, const char *target);

#endif
