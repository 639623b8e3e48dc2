/* run.h: runs and sessions: create, command, query, subscribe. The only part that knows several
 * mechanisms at once. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/agent.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/id.h"
#include "common/list.h"
#include "run/machine.h"
#include "run/run_state.h"
#include "sandbox/sandbox.h"
#include "store/store.h"
#include "proxy/proxy.h"

struct agent_profile;
struct runs; /* all runs and sessions: one object, made by the roof */

struct run_model_service {
    const char *name; /* service and provider name */
    const char *npm;
    const char *path;   /* behind /proxy/NAME: "/v1" */
    const char *secret; /* the credential it needs, for messages; "" none */
    const char *const *models;
    size_t model_count;
};

/* What the operator says about one repository. */
struct run_repository {
    const char *address; /* as a run names it; with a star at the end: all that begin so */
    const char *setup;   /* the set-up command, "" none */
    uint32_t setup_minutes;
    const char *filter;          /* as clone_filter, "" as for others */
    const char *model;           /* of runs that name none, "" as for others */
    const char *work_branch;     /* as work_branch, NULL as for others */
    const char *const *services; /* that its runs may use; NULL: all */
    size_t service_count;
    const char *const *egress; /* hosts that its runs may reach; NULL: as others */
    size_t egress_count;
    struct proxy_push push; /* what may be pushed to it */
};

/* Certificates that sandboxes trust (vault/trust.h): the folder of them, and the files that they
 * cover inside; NULL: none, and programs inside are not told of the proxy. Borrowed for the life of
 * the runs. */
struct run_trust {
    const char *folder;
    const char *system_file;
    const char *java_file;
    /* Variables with which tools inside find this machine's registries: the INDEXth, NULL behind
     * the last, good for the life of the runs. May be NULL. */
    const char *(*variable)(void *data, size_t index);
    void *variable_data;
    bool pending; /* the variables aren't known yet: runs_trust_found follows soon, for sure */
};

/* States that people are told of, as bits. */
enum run_notice { RUN_NOTICE_ENDED = 1, RUN_NOTICE_WAITING = 2 };

struct runs_options {
    const char *state_dir;
    const char *runtime_dir;
    const char *data_dir;
    const char *default_agent;
    const char *default_model;
    uint32_t default_timeout_minutes;
    uint32_t concurrent_runs;
    uint32_t max_queued_runs;
    uint32_t clone_minutes;   /* that it may be without progress */
    const char *clone_filter; /* git's, or "none" */
    uint32_t mirror_mib;      /* repositories of this size are mirrored; 0: none are */
    const char *work_branch;  /* template of the names of sessions' own branches, "" none */
    const char *git_name;     /* who commits in sandboxes */
    const char *git_email;
    uint32_t stall_minutes;
    uint32_t model_failures; /* in a row; 0: no limit. For messages and agents' own accounts: */
    uint64_t model_requests; /* the proxy has the limits too */
    uint64_t model_tokens;   /* the same, as the next */
    uint64_t model_microdollars;
    uint32_t model_retries;      /* by the proxy, for agents that don't */
    uint32_t model_head_seconds; /* what agents are told of the proxy's patience with a model */
    uint32_t model_silence_seconds;
    uint32_t model_retry_wait_seconds;
    uint32_t agent_start_seconds;
    enum agent_policy permissions;
    enum agent_policy questions;        /* ask or deny */
    uint32_t answer_seconds;            /* a request may wait so long for its answer */
    bool stop_unanswered;               /* then the run is stopped; else the request is refused */
    const char *agent_opencode;         /* configured path or "" */
    const struct agent_profile *agents; /* described by configuration; borrowed for the life of the
                                           object */
    size_t agent_count;
    const char *const *local_repositories;
    size_t local_repository_count;
    uint32_t host_uid_base;
    uint32_t host_uid_count;
    const struct run_repository *repositories;
    size_t repository_count;
    const char *const *setup_allow; /* commands that a repository's own file may ask for */
    size_t setup_allow_count;
    uint32_t setup_minutes;
    /* Asked once, before the first sandbox is made or taken up; NULL: there are none. */
    void (*find_trust)(void *data, struct run_trust *trust);
    void *find_trust_data;
    const char *const *environment; /* "NAME=value" for agents, set-up and exec */
    size_t environment_count;
    const char *const *folders; /* "HOST:INSIDE", read-only */
    size_t folder_count;
    const char *const *caches; /* "npm" or "npm=/path" */
    size_t cache_count;
    const char *home; /* of the user whose caches those are */
    struct sandbox_options sandbox;
    struct sandbox_limits limits;
    struct machine_limits machine;
    const char *machine_root;       /* put before /proc; NULL or "": the real one */
    uint32_t disk_mib;              /* of a session's files; 0: not watched */
    uint32_t retention_days;        /* sessions not used for longer go; 0: never */
    uint32_t retention_mirror_days; /* the same for mirrors */
    uint32_t retention_mib;         /* beyond it those used longest ago go; 0: never */
    uint32_t checkpoint_mib;        /* of a session's checkpoints; 0: there are none */
    uint32_t checkpoint_count;
    uint32_t checkpoint_seconds; /* between them while a run works; 0: only at its turns */
    uint32_t output_mib;         /* of a run's events; 0: not limited */
    const struct run_model_service *model_services;
    size_t model_service_count;
    const char *const *git_services; /* names of services whose target hosts git: "github" */
    const char *const *git_targets;  /* "https://github.com", same order */
    size_t git_service_count;
    uint32_t notices;              /* bits of enum run_notice */
    void (*on_notice)(void *data); /* one more run is due; NULL without notices */
    void *on_notice_data;
};

/* STORE, PROXY and CLOCK are borrowed for the life of the object. */
int runs_start(struct runs **out, uv_loop_t *loop, struct store *store, struct proxy *proxy,
               const struct clock *clock, const struct runs_options *options, struct error *err);
/* Sandboxes that live are left alone for the next supervisor. */
void runs_close(struct runs *runs, void (*done)(void *data), void *data);

/* The roof passes these on from the proxy's callbacks. */
void runs_proxy_decision(struct runs *runs, const struct proxy_decision *decision);
void runs_proxy_traffic(struct runs *runs, const char *run_id);
void runs_proxy_model(struct runs *runs, const struct proxy_model_news *news);
void runs_proxy_pushed(struct runs *runs, const char *run_id, const char *pushed);

/* Commands. Synchronous: when they return 0 the change is on disk.
 * ------------------------------------------------ */

struct run_request {
    const char *task;
    const char *repository; /* "" none */
    const char *branch;
    const char *session_id; /* "" new */
    const char *model;      /* "" that of the session's newest run, or the default */
    const char *title;
    const char *agent; /* like model */
    uint32_t timeout_minutes;
    const char *idempotency_key;
    bool local_caller; /* a person at the CLI: any local folder they name is allowed */
};
/* RUN is filled with a copy. ERR_INVALID names the argument as on the wire (repository, branch,
 * sessionId, …). An idempotency key seen before with the same request gives that run again; with
 * another one ERR_CONFLICT. */
int run_create(struct runs *runs, const struct run_request *request, struct run_record *run,
               struct error *err);

/* By value those of the socket's protocol. */
enum run_send_mode {
    RUN_SEND_AUTO,  /* into the session's run that is at work, if its agent can read it there and no
                       other run waits; else a run of its own */
    RUN_SEND_STEER, /* into the run that is at work, or ERR_CONFLICT */
    RUN_SEND_QUEUE, /* a run of its own, behind those that have not ended */
};

enum run_send_action {
    RUN_SENT_STEERED, /* RUN is the one at work */
    RUN_SENT_QUEUED,
    RUN_SENT_FOLLOW_UP, /* RUN is a new one, and the session was idle */
};

struct run_message {
    const char *text;
    const struct id *session;
    enum run_send_mode mode;
    const char *idempotency_key; /* "" none */
    bool local_caller;
};
/* What a client says to a session's agent. A run of its own has the agent, model and time limit of
 * the session's newest run. An idempotency key seen before with the same message, session and mode
 * gives what that one became, and nothing is said again; with anything else ERR_CONFLICT. */
int run_send(struct runs *runs, const struct run_message *message, enum run_send_action *action,
             struct run_record *run, struct error *err);
/* Asks for the end; the final state comes later. Ended runs are left as they are (0). */
int run_cancel(struct runs *runs, const struct id *id, struct error *err);
int run_answer(struct runs *runs, const struct id *id, const char *request_id, const char *answer,
               struct error *err);
/* Sessions. ERR_CONFLICT while something else is done with it that doesn't go together.
 * ------------------------------------------------ */

typedef void (*session_cb)(void *data, const struct error *err);

/* ERR_CONFLICT while a run of it lives. Removes workspace, home, checkpoints and records. DONE
 * later with the outcome. */
int session_delete(struct runs *runs, const struct id *id, session_cb done, void *data,
                   struct error *err);
int session_rename(struct runs *runs, const struct id *id, const char *title, struct error *err);
/* A session on hold is left alone by retention. */
enum session_hold { SESSION_RELEASED, SESSION_HELD };
int session_hold(struct runs *runs, const struct id *id, enum session_hold hold, struct error *err);

/* By value those of the socket's protocol. */
enum checkpoint_reason {
    CHECKPOINT_START,  /* before a run's agent began */
    CHECKPOINT_TURN,   /* a run's end */
    CHECKPOINT_PERIOD, /* while it worked */
    CHECKPOINT_SAFETY, /* before the session was taken back to another one */
    CHECKPOINT_ASKED,
};
/* DONE with the number of the newest one: an older one when nothing has changed since. */
int session_checkpoint(struct runs *runs, const struct id *id,
                       void (*done)(void *data, uint32_t number, const struct error *err),
                       void *data, struct error *err);
/* Files and conversation become what they were; one of now is made first. ERR_CONFLICT while a run
 * lives. When it ends half-way the session takes no run until it is repeated. */
int session_restore(struct runs *runs, const struct id *id, uint32_t number, session_cb done,
                    void *data, struct error *err);
/* A new session with files and conversation of checkpoint NUMBER, or (0) of now. TITLE "": the
 * other's. */
int session_fork(struct runs *runs, const struct id *id, uint32_t number, const char *title,
                 void (*done)(void *data, const struct id *session, const struct error *err),
                 void *data, struct error *err);
/* Disk use, counted now: DONE later. */
struct session_usage {
    uint64_t file_bytes;
    uint64_t checkpoint_bytes;
};
int session_count(struct runs *runs, const struct id *id,
                  void (*done)(void *data, const struct session_usage *usage,
                               const struct error *err),
                  void *data, struct error *err);
/* "working", "idle", or what is being done with it: "being deleted". */
const char *session_state(struct runs *runs, const struct session_record *session);

/* A session in one file, for another machine. PLACE is taken over, also on failure. One at a time:
 * ERR_CONFLICT. */
struct backup_place;
int session_backup(struct runs *runs, const struct id *id, struct backup_place *place,
                   session_cb done, void *data, struct error *err);
/* The session that the file holds, under its own id: ERR_CONFLICT when that is there. */
int session_bring_back(struct runs *runs, struct backup_place *place,
                       void (*done)(void *data, const struct id *session, const struct error *err),
                       void *data, struct error *err);

bool runs_backup_at_work(const struct runs *runs);

/* What is, or would be, deleted by age and disk use, those used longest ago first. */
struct retained {
    struct id id;
    bool mirror; /* no session, but the mirror of the repository in TITLE, "" if it isn't whole */
    char *title;
    uint64_t used_ms;
    uint64_t bytes;
    bool by_age; /* else for disk */
    bool removed;
};
enum retention_mode { RETENTION_LOOK, RETENTION_REMOVE };
typedef void (*retention_cb)(void *data, const struct retained *const *sessions, size_t count);
/* DONE later. Sessions at work or on hold stay. One at a time: ERR_CONFLICT. */
int retention_run(struct runs *runs, enum retention_mode mode, retention_cb done, void *data,
                  struct error *err);

/* A command in a live run's sandbox, as the agent's user. Callbacks from the loop; on_exit last. */
struct run_exec;
struct run_exec_callbacks {
    void (*on_output)(void *data, bool is_stderr, const char *bytes, size_t len);
    void (*on_exit)(void *data, int code, int signal, const struct error *err);
    void *data;
};
int run_exec_start(struct run_exec **out, struct runs *runs, const struct id *id,
                   const char *const *argv, const struct run_exec_callbacks *callbacks,
                   struct error *err);
void run_exec_cancel(struct run_exec *exec); /* kills it; on_exit does not run */

/* The agent's own pages: a server of its in the sandbox of a session's live run. What it answers is
 * the sandbox's word, not ours. */
struct run_pages;
struct run_pages_callbacks {
    /* Once, unless it is released or cut first. FD is connected and the callee's, -1 with ERR.
     * AUTHORIZATION is the value of the header that the agent wants, borrowed during the call:
     * nobody but it may learn that. */
    void (*on_connected)(void *data, int fd, const char *authorization, const struct error *err);
    /* Last: the run ends, and so does what was connected. */
    void (*on_cut)(void *data);
    void *data;
};
/* The address of the conversation's page on that server, appended to PATH. ERR_CONFLICT: no agent
 * with pages is at work in the session now. */
int run_pages_path(struct runs *runs, const struct id *session, struct buf *path,
                   struct error *err);
/* A new connection to it. */
int run_pages_connect(struct run_pages **out, struct runs *runs, const struct id *session,
                      const struct run_pages_callbacks *callbacks, struct error *err);
void run_pages_release(struct run_pages *pages); /* no callback follows */

/* Queries. Records are copies from the store, with what is only in memory merged in.
 * ------------------------------ */

int run_load(struct runs *runs, const struct id *id, struct run_record *run, struct error *err);
/* The user's status and phase of a record; texts for views. */
int run_status_of(const struct run_record *run); /* enum run_status of proto, by value */
const char *run_phase_of(const struct run_record *run);
bool run_ended(const struct run_record *run);
/* "bash: sh tests/run.sh", or NULL: what the agent does at this moment. Borrowed until the loop
 * turns. */
const char *run_current_step(struct runs *runs, const struct id *id);
/* The open permission request or question while waiting: JSON object text
 * {"requestId","kind","text","askedAt","answerBy","options"?}, or NULL. Borrowed. */
const char *run_open_request(struct runs *runs, const struct id *id);
/* When that was asked, wall clock; 0: nothing is. */
uint64_t run_waiting_since_ms(struct runs *runs, const struct id *id);

/* While a model that failed is tried again: JSON object text {"failures","status"?,"message",
 * "nextAt"?}, or NULL. Borrowed. */
const char *run_retrying(struct runs *runs, const struct id *id);

/* Runs that people are yet to be told of, oldest first, also from before this supervisor: at most
 * SIZE ids. The record's notice_due is the number of the event that made it so. */
int runs_notices_due(struct runs *runs, struct id *due, size_t size, size_t *count,
                     struct error *err);
/* They were told, or it was given up. NUMBER is that notice_due: a newer one stays due. */
int runs_notice_told(struct runs *runs, const struct id *id, uint64_t number, struct error *err);

/* Subscriptions: ON_EVENT for each event after AFTER, first those stored, then as they come;
 * ON_ENDED once when the run's state is final and all events were delivered. Callbacks only from
 * the loop, never from inside run_subscribe. A subscriber that is slow may pause. */
struct run_subscription;
struct run_subscriber {
    void (*on_event)(void *data, const struct event_record *event);
    void (*on_ended)(void *data, const struct run_record *run);
    void *data;
};
int run_subscribe(struct run_subscription **out, struct runs *runs, const struct id *id,
                  uint64_t after, const struct run_subscriber *subscriber, struct error *err);
void run_subscription_pause(struct run_subscription *subscription);
void run_subscription_resume(struct run_subscription *subscription);
void run_unsubscribe(struct run_subscription *subscription); /* NULL is fine */

/* Who looks at all runs: CHANGED is called when a run's record, its events, what it does or what it
 * asks may have changed; RUN is NULL when SESSION itself was changed or deleted. It is called in
 * the midst of changes, so it takes notes and looks later. The watcher is the caller's own memory.
 */
struct runs_watcher {
    struct list link; /* runs::watchers */
    void (*changed)(void *data, const struct id *session, const struct id *run);
    void *data;
};
void runs_watch(struct runs *runs, struct runs_watcher *watcher);
void runs_unwatch(struct runs_watcher *watcher);

/* Starts a sandbox with nothing in it and ends it: what this machine gives. LAYERS are bits 1 <<
 * enum sandbox_layer; ERR says why there is none. One at a time: ERR_CONFLICT. */
typedef void (*runs_trial_cb)(void *data, uint32_t layers, const struct error *err);
int runs_try_sandbox(struct runs *runs, runs_trial_cb done, void *data, struct error *err);

/* Each agent that a run may name, and whether it is on this machine. Looked up now; borrowed for
 * the call. */
struct runs_agent {
    const char *name;
    const char *program; /* on the host; NULL: it needs none, has not one alone, or isn't there */
    const char *problem; /* why it can't be started, and how it is installed; NULL: it can */
    const char *install; /* the command alone; NULL: unknown */
    bool is_default;
};
void runs_each_agent(const struct runs *runs,
                     void (*each)(void *data, const struct runs_agent *agent), void *data);
/* Which limits control groups give here, or why none; "" when they were not looked for. */
void runs_describe_limits(const struct runs *runs, struct buf *out);

/* Numbers for system.status. */
/* What was pending of run_trust is known, or it is no use waiting for it. */
void runs_trust_found(struct runs *runs);
size_t runs_live(const struct runs *runs);
/* What each run may use of its models; 0: there is no limit. */
void runs_model_limits(const struct runs *runs, uint64_t *tokens, uint64_t *microdollars);

#endif
