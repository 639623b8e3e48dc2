/* checkpoint.h: the commands that keep a session's files and bring them back. They run in a sandbox
 * of their own, in which nothing of the agent's runs: to keep them it sees the workspace and the
 * home read-only, and no configuration, hook or filter of any repository is read.
 *
 * A checkpoint is a folder NUMBER of CHECKPOINT_FOLDER: `list`, every name with its type, mode,
 * size and times; `files`, a tar archive of what differs from the parent's list; `state`, one of
 * the databases in the home, whole. A checkpoint without a parent holds all of its files, so it
 * begins a chain: to bring one back all of its chain up to it is unpacked in order.
 *
 * Left out are what the repositories' ignore rules name, files above 256 MiB, and the home's
 * .cache. Pure: no I/O. */
#ifndef WORKSPACE_CHECKPOINT_H
#define WORKSPACE_CHECKPOINT_H

#include "workspace/workspace.h"

#define CHECKPOINT_FOLDER "/checkpoints" /* inside */

struct checkpoint_make {
    uint32_t number;
    uint32_t parent;  /* 0: none */
    const char *keep; /* numbers of those that stay, "3 4 5": all other folders go */
    uint64_t max_bytes;
};
void checkpoint_make_command(struct git_command *command, const struct checkpoint_make *make);

struct checkpoint_made {
    bool same; /* nothing differs from the parent: none was made */
    uint64_t bytes;
    uint64_t entries;
    uint64_t large;      /* files left out for their size */
    uint64_t unreadable; /* what could not be read */
    bool torn;           /* a database was being written all the time: it may lack the last words */
};
/* From what the command printed; ERR_SYSTEM when that isn't whole. */
int checkpoint_made_parse(const struct buf *output, struct checkpoint_made *made,
                          struct error *err);

/* Makes workspace and home what they were; CHAIN is "3 4 5", oldest first. What was left out stays
 * as it is now. Safe to repeat, also after half of it was done. */
void checkpoint_restore_command(struct git_command *command, const char *chain);
/* Empties the folders that are mounted at FOLDERS ("/a /b"). */
void checkpoint_clear_command(struct git_command *command, const char *folders);

#endif
