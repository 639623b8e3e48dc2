/* runtime.h: the folder on the host that belongs to one sandbox: the control socket, a lock that
 * says whether it lives, and what the sandbox tool writes about itself. Only the supervisor's uid
 * can enter it. */
#ifndef SANDBOX_RUNTIME_H
#define SANDBOX_RUNTIME_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

struct cgroup;

struct runtime_fds {
    int lock;                   /* locked; whoever inherits it keeps the lock */
    int status;                 /* for the tool's status lines, at its end */
    int listener;               /* the control socket */
    const struct cgroup *group; /* which the tool joins before it starts, borrowed; NULL: none */
};

/* Prepares the folder for a new sandbox. ERR_CONFLICT when one lives there. On failure none is
 * open. */
int runtime_open(const char *dir, struct runtime_fds *fds, struct error *err);
void runtime_close(struct runtime_fds *fds);

/* A connection to init's control socket, blocking; -1 with ERR_NOT_FOUND when nothing lives there.
 */
int runtime_connect(const char *dir, struct error *err);
/* False also when there is no such folder. */
bool runtime_lives(const char *dir);
/* Sends SIGKILL to whatever holds the lock and to the init that the tool has written down. To be
 * repeated until runtime_lives says false. Reads /proc, so it is for failures only. */
void runtime_kill(const char *dir);

#endif
