/* bwrap_args.h: a sandbox's description as bubblewrap's argument list. Pure: descriptors are
 * numbers that someone else opened. */
#ifndef SANDBOX_BWRAP_ARGS_H
#define SANDBOX_BWRAP_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/spec.h"

#define BWRAP_ARGS_MAX 512

/* Descriptor numbers in the child, by position in the spec. */
struct bwrap_numbers {
    int mounts[SANDBOX_MOUNTS_MAX];
    int files[SANDBOX_FILES_MAX];
    int defaults[16]; /* of bwrap_default_files */
    int init;         /* sandbox-init itself */
    int seccomp;
};

struct bwrap_default_file {
    const char *target;
    const char *text;
};
/* passwd, group, hosts and their like; ends with a NULL target. A file of the spec with the same
 * target takes its place. */
extern const struct bwrap_default_file bwrap_default_files[];
bool bwrap_default_wanted(const struct sandbox_spec *spec, const char *target);

struct bwrap_args {
    char *argv[BWRAP_ARGS_MAX]; /* heap strings, ends with NULL */
    size_t argc;
};

/* STAGED NULL: sources are bound by descriptor. Else by these paths: the spec's mounts in order,
 * then init. */
void bwrap_args_build(struct bwrap_args *args, const char *program, const struct sandbox_spec *spec,
                      const struct bwrap_numbers *numbers, const char (*staged)[16]);
void bwrap_args_finish(struct bwrap_args *args);

#endif
