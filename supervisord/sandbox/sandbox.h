/* sandbox.h: live sandboxes. A backend makes one from a spec; inside runs our own process 1
 * (sandbox-init), and everything after the start goes through its control socket, the same for
 * every backend.
 *
 * Callbacks run from the loop, never from inside the call. An operation that returned 0 calls back
 * exactly once, also when the sandbox ends or is closed meanwhile (ERR_CANCELLED or
 * ERR_UNAVAILABLE). */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/error.h"
#include "sandbox/layer.h"
#include "sandbox/spec.h"

struct sandbox;
struct cgroup_host;

struct sandbox_options {
    const char *backend;       /* "bwrap", or "none" */
    bool allow_none;           /* else the backend none is refused */
    uint32_t required;         /* bits 1 << enum sandbox_layer: without one of them a sandbox is
                                  refused (ERR_DENIED, to on_ready) */
    const char *bwrap;         /* program name or path */
    const char *init_path;     /* sandbox-init, static */
    uint32_t start_timeout_ms; /* how long bubblewrap may take until init answers */
    const struct cgroup_host *cgroups; /* borrowed for the life of the sandbox; NULL: none */
};

enum sandbox_end_kind {
    SANDBOX_END_STOPPED, /* we asked for it */
    SANDBOX_END_LOST, /* init or the namespace died without being asked: killed, out of memory, … */
};

struct sandbox_end {
    enum sandbox_end_kind kind;
    bool out_of_memory; /* the kernel says it killed for memory in this sandbox */
    int exit_code;      /* of the sandbox tool, -1 unknown */
    char text[200];     /* what the tool said last on stderr, escaped */
};

enum sandbox_limit { SANDBOX_LIMIT_MEMORY, SANDBOX_LIMIT_PROCESSES };

struct sandbox_callbacks {
    /* READY with the sandbox up (ERR NULL), or it could not be started: ERR says why, with what to
     * install or enable in the text. After a failure the sandbox is over; call sandbox_close. Runs
     * once. */
    void (*on_ready)(void *data, const struct error *err);
    /* Once, after on_ready succeeded, when every process inside is gone. */
    void (*on_end)(void *data, const struct sandbox_end *end);
    /* May be NULL. The kernel held a limit: TIMES so far it killed a process for memory, or refused
     * to make one. Between ready and end; not more often than twice a second. */
    void (*on_limit)(void *data, enum sandbox_limit limit, uint64_t times);
    void *data;
};

/* Starts. SPEC and OPTIONS are borrowed during the call. Returns at once (no waiting for the tool).
 * ERR_DENIED when the host uid is 0. */
int sandbox_start(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const struct sandbox_spec *spec, const struct sandbox_callbacks *callbacks,
                  struct error *err);

/* Finds the sandbox that an earlier supervisor left in RUNTIME_DIR and connects to its init; the
 * callbacks are as above, on_ready means it lives and obeys. ERR_NOT_FOUND (returned, or given to
 * on_ready) when nothing lives there; one that lives and doesn't obey has been ended when on_ready
 * tells the failure. */
int sandbox_adopt(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const char *id, const char *runtime_dir,
                  const struct sandbox_callbacks *callbacks, struct error *err);

/* Ends every process inside: certain (kill of the pid namespace), then on_end. Safe to call twice
 * and in any state. */
void sandbox_stop(struct sandbox *sandbox);

/* Frees the handle; no callback runs after DONE. If the sandbox still lives it lives on (supervisor
 * shutdown) and can be adopted later. RUNTIME_DIR stays; sandbox_runtime_remove deletes it when the
 * sandbox has ended. */
void sandbox_close(struct sandbox *sandbox, void (*done)(void *data), void *data);

/* Blocking, for use before the loop runs and in tests: kills whatever lives in RUNTIME_DIR and
 * waits until it is gone (bounded by TIMEOUT_MS). 0 also when nothing was there. */
int sandbox_kill_leftover(const char *runtime_dir, int timeout_ms, struct error *err);
/* Removes the supervisor's own runtime folder of an ended sandbox. */
int sandbox_runtime_remove(const char *runtime_dir, struct error *err);

const char *sandbox_id(const struct sandbox *sandbox);
/* Host pid of init, for records and doctor; 0 before ready. */
int64_t sandbox_init_pid(const struct sandbox *sandbox);

/* A listening TCP socket on 127.0.0.1:PORT inside (made once, handed out again to later callers),
 * or a socket connected to 127.0.0.1:PORT inside. FD is the callback's to own; -1 with ERR on
 * failure. Non-blocking, close-on-exec. */
typedef void (*sandbox_fd_cb)(void *data, int fd, const struct error *err);
int sandbox_listen(struct sandbox *sandbox, uint16_t port, sandbox_fd_cb done, void *data,
                   struct error *err);
int sandbox_connect(struct sandbox *sandbox, uint16_t port, sandbox_fd_cb done, void *data,
                    struct error *err);

/* Programs inside.
 * ---------------------------------------------------------------------------------------------- */

enum sandbox_stdin { SANDBOX_STDIN_NULL, SANDBOX_STDIN_PIPE };

struct sandbox_command {
    const char *const *argv; /* argv[0] is looked up in the PATH of ENV; ends with NULL */
    const char *const *env;  /* "NAME=value", the whole environment; ends with NULL */
    const char *cwd;         /* absolute, inside */
    enum sandbox_stdin stdin_mode;
};

/* The process's streams on our side (non-blocking; -1 where there is none); the callback owns them.
 * init holds copies, so that our death breaks nothing; therefore closing stdin_fd alone does not
 * end the process's input: see sandbox_end_input. ID names the process in later calls and survives
 * a restart of the supervisor. ERR: it could not be started (no such program, no folder, limit). */
struct sandbox_process {
    uint32_t id;
    int stdin_fd;
    int stdout_fd;
    int stderr_fd;
};
typedef void (*sandbox_spawn_cb)(void *data, const struct sandbox_process *process,
                                 const struct error *err);
/* The command is borrowed during the call; argv and env together at most 128 KiB. */
int sandbox_spawn(struct sandbox *sandbox, const struct sandbox_command *command,
                  sandbox_spawn_cb done, void *data, struct error *err);

struct sandbox_exit {
    int code;   /* exit status, or -1 */
    int signal; /* the signal that ended it, or 0 */
};
/* Calls back when the process with this id has ended (or had already); init keeps the status until
 * sandbox_forget, so that it can be asked for again after a restart. ERR: the sandbox ended first,
 * or the id is unknown. */
typedef void (*sandbox_exit_cb)(void *data, const struct sandbox_exit *status,
                                const struct error *err);
int sandbox_wait(struct sandbox *sandbox, uint32_t process_id, sandbox_exit_cb done, void *data,
                 struct error *err);
/* Nobody will ask for this ended process any more. A process that still runs is not forgotten. */
void sandbox_forget(struct sandbox *sandbox, uint32_t process_id);
/* Ends every program inside (SIGKILL) but not the sandbox; DONE when init has done it. */
typedef void (*sandbox_done_cb)(void *data, const struct error *err);
int sandbox_kill_programs(struct sandbox *sandbox, sandbox_done_cb done, void *data,
                          struct error *err);
/* Signal to the process group of a process started here. No answer; unknown ids are ignored. */
void sandbox_signal(struct sandbox *sandbox, uint32_t process_id, int signal);
/* IN_MS from now init ends everything inside, whether or not a supervisor lives then; 0: no
 * deadline any more. Each call replaces the one before. No answer. */
void sandbox_set_deadline(struct sandbox *sandbox, uint64_t in_ms);
/* Lets the process read the end of its input once our copies of stdin_fd are closed too. */
void sandbox_end_input(struct sandbox *sandbox, uint32_t process_id);
/* After sandbox_adopt: the streams of a running process again (init holds the far ends open
 * meanwhile, so it never sees a broken pipe). */
int sandbox_attach(struct sandbox *sandbox, uint32_t process_id, sandbox_spawn_cb done, void *data,
                   struct error *err);

/* How often the kernel has held the limit until now, looked up at once; 0 where it doesn't count.
 */
uint64_t sandbox_limit_times(const struct sandbox *sandbox, enum sandbox_limit limit);

/* Bits 1 << enum sandbox_layer: what is really in force, looked up when it became ready; 0 before.
 */
uint32_t sandbox_layers(const struct sandbox *sandbox);
/* The same in words: "user, pid, net, … namespaces; seccomp; uid 100001; memory
 * by cgroup v1 …". */
void sandbox_describe(const struct sandbox *sandbox, struct buf *out);

#endif
