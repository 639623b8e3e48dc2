#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/child.h"
#include "io/handles.h"
#include "sandbox/ask.h"
#include "sandbox/bwrap/bwrap.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_watch.h"
#include "sandbox/control.h"
#include "sandbox/facts.h"
#include "sandbox/none/none.h"
#include "sandbox/runtime.h"

#define START_TIMEOUT_MS 10000 /* when the options say 0 */
#define SETTLE_EVERY_MS 10
#define SETTLE_KILL_EVERY 5 /* rounds: looking through /proc takes milliseconds */
#define SETTLE_ROUNDS 500   /* then the failure is told although something may be left */
#define TOOL_GRACE_MS 2000  /* how long the tool may outlive its init */

/* What differs between the ways to make a sandbox: everything after the start goes through init. */
struct backend {
    const char *name;
    int (*launch)(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const struct sandbox_spec *spec, const struct runtime_fds *runtime,
                  void (*on_exit)(void *data, int code, int signal), void *data, struct error *err);
    int (*explain)(const char *stderr_text, int code, int signal, struct error *err);
    /* Whether it came out as this backend promises; nobody's wishes can take anything from it. */
    int (*verify)(const struct sandbox_facts *facts, struct error *err);
    /* The kernel ends everything with init; where it doesn't, whatever still holds the lock is
     * hunted down, and nothing that the kernel says counts as a layer. */
    bool isolates;
};

static const struct backend backends[] = {
    { "bwrap", bwrap_launch, bwrap_explain, bwrap_verify, true },
    { "none", none_launch, none_explain, none_verify, false },
};

enum state {
    STATE_STARTING, /* init has not answered yet, or not been verified */
    STATE_READY,
    STATE_SETTLING, /* the start failed; what there may be is killed */
    STATE_OVER,     /* on_ready has told a failure, or on_end was called */
};

struct sandbox {
    uv_loop_t *loop;
    const struct backend *backend; /* NULL: adopted */
    const struct backend *judge; /* by whose promises it is judged: as started, or as configured */
    struct sandbox_callbacks callbacks;
    char *id;
    char *runtime_dir;
    uint32_t host_uid; /* 0: adopted, whichever it has */
    uint32_t required; /* layers */
    uint32_t layers;   /* in force, once ready */
    uid_t found_uid;   /* the uid that it really has, once ready */
    uint32_t start_timeout_ms;
    enum state state;
    bool stopping; /* sandbox_stop was called */
    bool closing;
    bool init_gone;
    bool rest_gone; /* what could outlive init, where the kernel doesn't see to it */
    bool child_gone;
    unsigned rounds; /* of settling */
    struct error start_error;
    struct sandbox_end end;

    struct handles handles; /* timer, init_poll */
    uv_timer_t timer;       /* start timeout, then settling or the tool's grace */
    uv_poll_t init_poll;    /* on pidfd, once ready */
    bool has_init_poll;
    struct child *child;          /* the tool; NULL: adopted, or it was not there */
    struct control_link *control; /* NULL: the start failed before */
    int pidfd;                    /* of init; -1 before it answered */
    pid_t init_pid;
    struct cgroup *group;       /* NULL: none */
    struct cgroup_watch *watch; /* NULL: not ready yet, or no group */

    unsigned parts; /* handles, child, control and watch: those not yet closed */
    void (*closed)(void *data);
    void *closed_data;
};

static void settle(struct sandbox *sandbox, const struct error *err);

static void kill_pidfd(int pidfd)
{
    if (pidfd >= 0)
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0u);
}

static bool pidfd_ended(int pidfd)
{
    struct pollfd state = { .fd = pidfd, .events = POLLIN };

    return poll(&state, 1, 0) > 0;
}

static void start_timer(struct sandbox *sandbox, uv_timer_cb callback, uint64_t timeout_ms,
                        uint64_t repeat_ms)
{
    if (!sandbox->closing)
        BUG_ON(uv_timer_start(&sandbox->timer, callback, timeout_ms, repeat_ms) != 0);
}

/* The end
 * -----------------------------------------------------------------------------------------------------------
 */

static void note_tool(struct sandbox *sandbox, int code)
{
    const char *text = child_stderr(sandbox->child);
    size_t len = strlen(text);
    size_t skip = len > sizeof(sandbox->end.text) ? len - sizeof(sandbox->end.text) : 0;
    AUTO_BUF struct buf line = BUF_INIT(4096);

    while (len > skip && text[len - 1] == '\n')
        len--;
    str_append_escaped(&line, text + skip, len - skip, sizeof(sandbox->end.text));
    sandbox->end.exit_code = code;
    if (line.len)
        str_copy(sandbox->end.text, sizeof(sandbox->end.text), buf_text(&line));
}

/* Over when init's pidfd says that the whole pid namespace is empty, and the tool is reaped. */
static void check_end(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;

    if (sandbox->state != STATE_READY || sandbox->closing || !sandbox->init_gone ||
        !sandbox->rest_gone)
        return;
    if (sandbox->child && !sandbox->child_gone)
        return;
    sandbox->state = STATE_OVER;
    uv_timer_stop(&sandbox->timer);
    sandbox->end.kind = sandbox->stopping ? SANDBOX_END_STOPPED : SANDBOX_END_LOST;
    sandbox->end.out_of_memory =
        !sandbox->stopping && sandbox->watch && cgroup_watch_killed(sandbox->watch);
    error_set(&err, ERR_UNAVAILABLE, 0, "the sandbox has ended");
    control_link_cut(sandbox->control, &err);
    if (!sandbox->closing)
        sandbox->callbacks.on_end(sandbox->callbacks.data, &sandbox->end);
}

static void on_tool_too_slow(uv_timer_t *timer)
{
    const struct sandbox *sandbox = timer->data;

    child_kill_group(sandbox->child, SIGKILL);
}

static void on_rest_timer(uv_timer_t *timer)
{
    struct sandbox *sandbox = timer->data;

    if (runtime_lives(sandbox->runtime_dir) && ++sandbox->rounds <= SETTLE_ROUNDS) {
        runtime_kill(sandbox->runtime_dir);
        return;
    }
    uv_timer_stop(timer);
    sandbox->rest_gone = true;
    check_end(sandbox);
}

static void on_init_gone(uv_poll_t *handle, int status, int events)
{
    struct sandbox *sandbox = handle->data;

    (void)status;
    (void)events;
    uv_poll_stop(handle);
    sandbox->init_gone = true;
    sandbox->rest_gone = sandbox->judge->isolates;
    if (!sandbox->rest_gone)
        start_timer(sandbox, on_rest_timer, 0, SETTLE_EVERY_MS);
    else if (sandbox->child && !sandbox->child_gone)
        start_timer(sandbox, on_tool_too_slow, TOOL_GRACE_MS, 0);
    check_end(sandbox);
}

static void on_tool_exit(void *data, int code, int signal)
{
    struct sandbox *sandbox = data;
    struct error err = ERROR_INIT;

    sandbox->child_gone = true;
    note_tool(sandbox, code);
    if (sandbox->state == STATE_STARTING) {
        sandbox->backend->explain(child_stderr(sandbox->child), code, signal, &err);
        settle(sandbox, &err);
    }
    check_end(sandbox);
}

static void on_control_lost(void *data, const struct error *err)
{
    struct sandbox *sandbox = data;

    if (sandbox->state == STATE_READY) {
        /* Without its control socket a sandbox can't be used: if init did not die, it broke the
         * protocol. */
        if (sandbox->end.text[0] == '\0' && !sandbox->stopping)
            str_copy(sandbox->end.text, sizeof(sandbox->end.text), err->text);
        kill_pidfd(sandbox->pidfd);
    } else if (sandbox->state == STATE_STARTING && (!sandbox->child || sandbox->pidfd >= 0)) {
        settle(sandbox, err);
    } /* else the tool is about to end, and says why better than we could */
}

/* The start
 * ---------------------------------------------------------------------------------------------------------
 */

static void on_settled(struct sandbox *sandbox)
{
    sandbox->state = STATE_OVER;
    uv_timer_stop(&sandbox->timer);
    sandbox->callbacks.on_ready(sandbox->callbacks.data, &sandbox->start_error);
}

/* Kills whatever the start has made, however far it came. */
static void kill_all(struct sandbox *sandbox)
{
    if (sandbox->child)
        child_kill_group(sandbox->child, SIGKILL);
    kill_pidfd(sandbox->pidfd);
    if (sandbox->group)
        cgroup_kill(sandbox->group);
    runtime_kill(sandbox->runtime_dir);
}

static bool all_gone(const struct sandbox *sandbox)
{
    return (!sandbox->child || sandbox->child_gone) &&
           (sandbox->pidfd < 0 || pidfd_ended(sandbox->pidfd)) &&
           !runtime_lives(sandbox->runtime_dir);
}

static void on_settle_timer(uv_timer_t *timer)
{
    struct sandbox *sandbox = timer->data;

    if (all_gone(sandbox) || ++sandbox->rounds > SETTLE_ROUNDS)
        on_settled(sandbox);
    else if (sandbox->rounds % SETTLE_KILL_EVERY == 0)
        kill_all(sandbox); /* what was just being started then may be there now */
}

/* The start failed: the error is told when nothing is left. */
static void settle(struct sandbox *sandbox, const struct error *err)
{
    if (sandbox->state != STATE_STARTING || sandbox->closing)
        return;
    sandbox->state = STATE_SETTLING;
    sandbox->start_error = *err;
    kill_all(sandbox);
    start_timer(sandbox, on_settle_timer, 0, SETTLE_EVERY_MS);
}

static void on_start_timeout(uv_timer_t *timer)
{
    struct sandbox *sandbox = timer->data;
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf said = BUF_INIT(1024);

    if (sandbox->child)
        str_append_escaped(&said, child_stderr(sandbox->child),
                           strlen(child_stderr(sandbox->child)), 150);
    error_set(&err, ERR_TIMEOUT, 0, "the sandbox did not start within %u ms%s%s",
              sandbox->start_timeout_ms, said.len ? ": " : "", buf_text(&said));
    settle(sandbox, &err);
}

static int refuse_missing(uint32_t missing, struct error *err)
{
    AUTO_BUF struct buf names = BUF_INIT(1024);

    sandbox_layers_print(missing, &names);
    return error_set(err, ERR_DENIED, 0,
                     "the sandbox would be without %s, which sandbox.require demands; let this "
                     "machine provide it, or demand less",
                     buf_text(&names));
}

/* What the kernel says about init must be what was asked for; a sandbox that came out weaker is not
 * used. */
static int verify(struct sandbox *sandbox, uint32_t landlock, struct error *err)
{
    struct sandbox_facts facts;

    if (facts_read(sandbox->init_pid, &facts, err) < 0)
        return -1;
    if (pidfd_ended(sandbox->pidfd))
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox's first process has ended");
    if (facts.uid == 0 || !facts.one_uid || (sandbox->host_uid && facts.uid != sandbox->host_uid))
        return error_set(err, ERR_DENIED, 0, "the sandbox runs with uid %u on the host",
                         (unsigned)facts.uid);
    if (sandbox->judge->verify(&facts, err) < 0)
        return -1;
    sandbox->found_uid = facts.uid;
    sandbox->layers = sandbox->judge->isolates ? facts_layers(&facts, geteuid(), landlock) : 0;
    if (sandbox->group)
        sandbox->layers |= cgroup_layers(sandbox->group);
    if (sandbox->required & ~sandbox->layers)
        return refuse_missing(sandbox->required & ~sandbox->layers, err);
    return 0;
}

static void on_hit(void *data, enum cgroup_hit hit, uint64_t times)
{
    const struct sandbox *sandbox = data;

    if (sandbox->state == STATE_READY && !sandbox->closing && sandbox->callbacks.on_limit)
        sandbox->callbacks.on_limit(
            sandbox->callbacks.data,
            hit == CGROUP_HIT_MEMORY ? SANDBOX_LIMIT_MEMORY : SANDBOX_LIMIT_PROCESSES, times);
}

static void watch_limits(struct sandbox *sandbox)
{
    if (!sandbox->group)
        return;
    cgroup_watch_start(&sandbox->watch, sandbox->loop, sandbox->group, on_hit, sandbox);
    sandbox->parts++;
}

static void become_ready(struct sandbox *sandbox)
{
    BUG_ON(uv_poll_init(sandbox->loop, &sandbox->init_poll, sandbox->pidfd) != 0);
    handles_add(&sandbox->handles, (uv_handle_t *)&sandbox->init_poll, sandbox);
    sandbox->has_init_poll = true;
    BUG_ON(uv_poll_start(&sandbox->init_poll, UV_READABLE, on_init_gone) != 0);
    uv_timer_stop(&sandbox->timer);
    sandbox->state = STATE_READY;
    watch_limits(sandbox);
    sandbox->callbacks.on_ready(sandbox->callbacks.data, NULL);
}

static void on_second_hello(void *data, struct control_answer *answer, const struct error *err)
{
    struct sandbox *sandbox = data;
    struct error local = ERROR_INIT;

    if (sandbox->state != STATE_STARTING || sandbox->closing)
        return;
    if (!err && answer->sender != sandbox->init_pid)
        err = (error_set(&local, ERR_UNAVAILABLE, 0, "another process answers for the sandbox"),
               &local);
    if (!err && verify(sandbox, answer->reply.landlock, &local) < 0)
        err = &local;
    if (err)
        settle(sandbox, err);
    else
        become_ready(sandbox);
}

static int greet(struct sandbox *sandbox, control_done_cb done, struct error *err)
{
    struct init_request request = { .verb = INIT_HELLO };

    return control_link_ask(sandbox->control, &request, NULL, 0, done, sandbox, err);
}

/* The kernel names the sender. A pidfd opened for that pid is init's, not a successor's, if init
 * still answers under the same pid afterwards: so it is asked once more. */
static void on_first_hello(void *data, struct control_answer *answer, const struct error *err)
{
    struct sandbox *sandbox = data;
    struct error local = ERROR_INIT;

    if (sandbox->state != STATE_STARTING || sandbox->closing)
        return;
    if (err) {
        if (answer || !sandbox->child) /* else on_control_lost decides */
            settle(sandbox, err);
        return;
    }
    sandbox->init_pid = answer->sender;
    sandbox->pidfd = answer->sender > 0 ? (int)syscall(SYS_pidfd_open, answer->sender, 0) : -1;
    if (sandbox->pidfd < 0) {
        error_set(&local, ERR_UNAVAILABLE, 0, "the sandbox's first process can't be watched");
        settle(sandbox, &local);
    } else if (greet(sandbox, on_second_hello, &local) < 0) {
        settle(sandbox, &local);
    }
}

/* Begins to talk over CONTROL_FD, which is taken; a failure is told later. */
static void begin(struct sandbox *sandbox, int control_fd)
{
    struct control_callbacks callbacks = { on_control_lost, sandbox };
    struct error err = ERROR_INIT;

    start_timer(sandbox, on_start_timeout, sandbox->start_timeout_ms, 0);
    if (control_link_start(&sandbox->control, sandbox->loop, control_fd, &callbacks, &err) < 0) {
        settle(sandbox, &err);
        return;
    }
    sandbox->parts++;
    if (greet(sandbox, on_first_hello, &err) < 0)
        settle(sandbox, &err);
}

static const struct backend *find_backend(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
        if (str_equal(backends[i].name, name))
            return &backends[i];
    }
    return NULL;
}

/* ERR_DENIED for a backend that isolates nothing and that nobody has asked for in so many words. */
static int choose_backend(const struct backend **out, const struct sandbox_options *options,
                          struct error *err)
{
    *out = find_backend(options->backend);
    if (!*out)
        return error_set(err, ERR_INVALID, 0, "there is no sandbox backend %s",
                         options->backend ? options->backend : "");
    if (!(*out)->isolates && !options->allow_none)
        return error_set(err, ERR_DENIED, 0,
                         "the sandbox backend %s isolates nothing; set sandbox.allowNone if "
                         "that is what you want",
                         (*out)->name);
    return 0;
}

static int check_uid(const struct sandbox_spec *spec, struct error *err)
{
    if (spec->host_uid == 0)
        return error_set(err, ERR_DENIED, 0, "a sandbox never runs with uid 0 on the host");
    if (geteuid() != 0 && spec->host_uid != geteuid())
        return error_set(err, ERR_DENIED, 0, "only root can run a sandbox under another uid (%u)",
                         spec->host_uid);
    return 0;
}

static void sandbox_free(struct sandbox *sandbox)
{
    cgroup_free(sandbox->group);
    fd_close(&sandbox->pidfd);
    free(sandbox->id);
    free(sandbox->runtime_dir);
    free(sandbox);
}

static void on_part_closed(void *data)
{
    struct sandbox *sandbox = data;
    void (*closed)(void *) = sandbox->closed;
    void *closed_data = sandbox->closed_data;

    if (--sandbox->parts > 0)
        return;
    sandbox_free(sandbox);
    if (closed)
        closed(closed_data);
}

static struct sandbox *new_sandbox(uv_loop_t *loop, const struct sandbox_options *options,
                                   const char *id, const char *runtime_dir,
                                   const struct sandbox_callbacks *callbacks)
{
    struct sandbox *sandbox = NEW(struct sandbox);

    sandbox->loop = loop;
    sandbox->callbacks = *callbacks;
    sandbox->id = mem_strdup(id ? id : "sandbox");
    sandbox->runtime_dir = mem_strdup(runtime_dir);
    sandbox->start_timeout_ms =
        options->start_timeout_ms ? options->start_timeout_ms : START_TIMEOUT_MS;
    sandbox->required = options->required;
    sandbox->pidfd = -1;
    sandbox->end.exit_code = -1;
    return sandbox;
}

/* Only when nothing can fail any more but by callback. */
static void open_handles(struct sandbox *sandbox)
{
    handles_init(&sandbox->handles, on_part_closed, sandbox);
    sandbox->parts = 1;
    BUG_ON(uv_timer_init(sandbox->loop, &sandbox->timer) != 0);
    handles_add(&sandbox->handles, (uv_handle_t *)&sandbox->timer, sandbox);
}

int sandbox_start(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const struct sandbox_spec *spec, const struct sandbox_callbacks *callbacks,
                  struct error *err)
{
    const struct backend *backend;
    struct error launch_error = ERROR_INIT;
    struct runtime_fds runtime;
    struct sandbox *sandbox;
    int control_fd;

    if (choose_backend(&backend, options, err) < 0 || check_uid(spec, err) < 0 ||
        runtime_open(spec->runtime_dir, &runtime, err) < 0)
        return -1;
    control_fd = runtime_connect(spec->runtime_dir, err); /* answered once init accepts */
    if (control_fd < 0) {
        runtime_close(&runtime);
        return -1;
    }
    sandbox = new_sandbox(loop, options, spec->id, spec->runtime_dir, callbacks);
    sandbox->backend = backend;
    sandbox->judge = backend;
    sandbox->host_uid = spec->host_uid;
    if (cgroup_make(&sandbox->group, options->cgroups, spec->id ? spec->id : "sandbox",
                    spec->runtime_dir, &spec->limits, &launch_error) == 0) {
        runtime.group = sandbox->group;
        backend->launch(&sandbox->child, loop, options, spec, &runtime, on_tool_exit, sandbox,
                        &launch_error);
    }
    runtime_close(&runtime); /* the child holds the lock and the listener now */
    if (launch_error.code != ERR_NONE && launch_error.code != ERR_UNAVAILABLE) {
        *err = launch_error;
        close(control_fd);
        cgroup_remove(spec->runtime_dir, &launch_error);
        sandbox_free(sandbox);
        return -1;
    }
    open_handles(sandbox);
    sandbox->parts += sandbox->child != NULL;
    if (launch_error.code != ERR_NONE) {
        close(control_fd);
        settle(sandbox, &launch_error);
    } else {
        begin(sandbox, control_fd);
    }
    *out = sandbox;
    return 0;
}

int sandbox_adopt(struct sandbox **out, uv_loop_t *loop, const struct sandbox_options *options,
                  const char *id, const char *runtime_dir,
                  const struct sandbox_callbacks *callbacks, struct error *err)
{
    const struct backend *judge = &backends[0]; /* how it was made nobody knows any more */
    struct error refused = ERROR_INIT;
    int control_fd = runtime_connect(runtime_dir, err);
    struct sandbox *sandbox;

    if (control_fd < 0)
        return -1;
    if (options->backend && choose_backend(&judge, options, &refused) < 0)
        judge = &backends[0];
    sandbox = new_sandbox(loop, options, id, runtime_dir, callbacks);
    sandbox->judge = judge;
    sandbox->group = cgroup_find(runtime_dir);
    open_handles(sandbox);
    begin(sandbox, control_fd);
    *out = sandbox;
    return 0;
}

void sandbox_stop(struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;

    sandbox->stopping = true;
    if (sandbox->state == STATE_STARTING) {
        error_set(&err, ERR_CANCELLED, 0, "the sandbox was stopped while it started");
        settle(sandbox, &err);
    } else if (sandbox->state == STATE_READY) {
        kill_pidfd(sandbox->pidfd);
        if (sandbox->group)
            cgroup_kill_at_once(sandbox->group);
    }
}

void sandbox_close(struct sandbox *sandbox, void (*done)(void *data), void *data)
{
    uv_handle_t *list[] = {
        (uv_handle_t *)&sandbox->timer,
        sandbox->has_init_poll ? (uv_handle_t *)&sandbox->init_poll : NULL,
    };

    if (sandbox->closing)
        return;
    /* A sandbox that never was ready is known to nobody and must not stay; one that was being
     * adopted can be again. */
    if (sandbox->backend && (sandbox->state == STATE_STARTING || sandbox->state == STATE_SETTLING))
        kill_all(sandbox);
    sandbox->closing = true;
    sandbox->closed = done;
    sandbox->closed_data = data;
    if (sandbox->watch)
        cgroup_watch_close(sandbox->watch, on_part_closed, sandbox);
    if (sandbox->control)
        control_link_close(sandbox->control, on_part_closed, sandbox);
    if (sandbox->child)
        child_close(sandbox->child, on_part_closed, sandbox);
    handles_close_all(&sandbox->handles, sandbox->loop, list, ARRAY_LEN(list));
}

struct control_link *sandbox_control(const struct sandbox *sandbox)
{
    return sandbox->state == STATE_READY && !sandbox->closing ? sandbox->control : NULL;
}

const char *sandbox_id(const struct sandbox *sandbox)
{
    return sandbox->id;
}

int64_t sandbox_init_pid(const struct sandbox *sandbox)
{
    return sandbox->state == STATE_READY ? sandbox->init_pid : 0;
}

/* What is in force
 * --------------------------------------------------------------------------------------------------
 */

uint64_t sandbox_limit_times(const struct sandbox *sandbox, enum sandbox_limit limit)
{
    if (!sandbox->watch || sandbox->closing)
        return 0;
    return cgroup_watch_look(sandbox->watch, limit == SANDBOX_LIMIT_MEMORY ? CGROUP_HIT_MEMORY
                                                                           : CGROUP_HIT_PROCESSES);
}

uint32_t sandbox_layers(const struct sandbox *sandbox)
{
    return sandbox->state == STATE_READY ? sandbox->layers : 0;
}

void sandbox_describe(const struct sandbox *sandbox, struct buf *out)
{
    if (sandbox->state != STATE_READY) {
        buf_append_str(out, "not running");
        return;
    }
    if (sandbox->layers)
        sandbox_layers_print(sandbox->layers, out);
    else
        buf_append_str(out, "nothing is isolated");
    buf_printf(out, "; uid %u on the host; open files and file size by rlimit",
               (unsigned)sandbox->found_uid);
}
