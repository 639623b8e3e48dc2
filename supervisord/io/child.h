/* child.h: a child process with exactly the descriptors it is given, optionally under another uid.
 */
#ifndef IO_CHILD_H
#define IO_CHILD_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/error.h"

struct child;

#define CHILD_FDS_MAX 128

struct child_fd {
    int fd;     /* ours, borrowed during the call; -1: /dev/null */
    int number; /* what it becomes in the child; 0, 1 and 2 default to /dev/null */
};

struct child_options {
    const char *program;     /* path, or a name looked up in our PATH */
    const char *const *argv; /* ends with NULL */
    const char *const *env;  /* ends with NULL; NULL: an empty environment */
    const struct child_fd *fds;
    size_t fd_count;
    /* Starts it in this control group, the open folder of one in the version 2 tree, before any of
     * its code runs; 0 or -1: in ours. */
    int cgroup_fd;
    uid_t uid; /* 0: keep ours; else setgroups(none), setresgid and setresuid to it before exec */
    /* The last 4 KiB are kept for child_stderr; fd 2 must not be in FDS then. */
    int capture_stderr; /* boolean */
    /* Runs in the child, still with our uid and all our descriptors; may be NULL. It may call only
     * what is safe between a fork and an exec (no allocation, no stdio). 0, or an errno that makes
     * the start fail. */
    int (*before_drop)(void *data);
    void *before_drop_data;
};

/* Starts it: all signals at default and unblocked, own session, no descriptor but those given.
 * Returns ERR_NOT_FOUND when the program isn't there, ERR_SYSTEM when exec failed otherwise (found
 * out before this returns). ON_EXIT runs once, with an exit code or a signal. */
int child_start(struct child **out, uv_loop_t *loop, const struct child_options *options,
                void (*on_exit)(void *data, int code, int signal), void *data, struct error *err);
pid_t child_pid(const struct child *child);
const char *child_stderr(const struct child *child); /* what was captured so far, "" if nothing */
/* To the process, or to it and all that is still in its group. Harmless after its end. */
void child_kill(struct child *child, int signal);
void child_kill_group(struct child *child, int signal);
/* Frees the handle; no callback runs afterwards but DONE. The process itself is left alone (it is
 * reaped if it ends while this process lives). */
void child_close(struct child *child, void (*done)(void *data), void *data);

#endif
