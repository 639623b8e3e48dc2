/* chore.h: one command in a short sandbox of its own, for what has to be done with a session's
 * files while or after an agent works: nothing of the agent's runs there, and it sees only the
 * folders it is given. */
#ifndef RUN_CHORE_H
#define RUN_CHORE_H

#include "run/command.h"
#include "workspace/workspace.h"

struct chore;
struct runs;

#define CHORE_MOUNTS_MAX 4

struct chore_mount {
    const char *source; /* NULL ends the list */
    const char *target;
    enum sandbox_access access;
};

struct chore_options {
    const char *name; /* of its sandbox: a session's id and what is done */
    uint32_t host_uid;
    struct chore_mount mounts[CHORE_MOUNTS_MAX + 1];
    struct git_command *command; /* taken over, also on failure */
    uint64_t timeout_ms;
    /* Once, when the sandbox is gone; RESULT as of a command, or ERR says why there is none. */
    void (*on_done)(void *data, const struct command_result *result, const struct error *err);
    void *data;
};

/* Everything in OPTIONS is borrowed for the call. */
int chore_start(struct chore **out, struct runs *runs, const struct chore_options *options,
                struct error *err);
/* Ends it soon: on_done runs with ERR_CANCELLED. */
void chore_cancel(struct chore *chore);
/* All of them, for shutdown. */
void chores_cancel(struct runs *runs);

#endif
