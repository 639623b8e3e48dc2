/* outgoing.h: commands that print what a workspace holds, for use in a sandbox in which it can't be
 * written. Pure. */
#ifndef WORKSPACE_OUTGOING_H
#define WORKSPACE_OUTGOING_H

#include "workspace/workspace.h"

/* A command's exit codes. */
enum outgoing_exit {
    OUTGOING_NOT_THERE = 3,
    OUTGOING_NO_FILE = 4,
    OUTGOING_NOTHING_NEW = 6,
};

/* A name below a folder: relative, no empty, "." or ".." part, at most 4096 bytes. Errors name the
 * argument `path`. */
int outgoing_check_path(const char *path, struct error *err);

/* PATH is relative; "" means the folder itself. */
void outgoing_list(struct git_command *command, const char *folder, const char *path);
void outgoing_file(struct git_command *command, const char *folder, const char *path);
void outgoing_tar(struct git_command *command, const char *folder, const char *path);
/* HEAD with what it reaches, but not what the commits of HAVE reach: names with a space between. */
void outgoing_bundle(struct git_command *command, const char *folder, const char *have);
/* From BASE to the files, with those that are not tracked; nothing is written into the repository.
 * RENAMES: git's option for them. */
void outgoing_patch(struct git_command *command, const char *folder, const char *base,
                    const char *path, const char *renames);

#endif
