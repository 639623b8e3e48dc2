/* msg_run.h: runs on the socket. These shapes are also the MCP tools' arguments and structured
 * content and sandboxctl's
 * --json, so that every face of the product tells the same story. Members are spelled as on the
 * wire. Times are unix milliseconds. */
#ifndef PROTO_MSG_RUN_H
#define PROTO_MSG_RUN_H

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"

#define RUN_TASK_MAX 50000 /* code points */

/* What users see; supervisord's finer states map onto these. */
enum run_status {
    RUN_STATUS_QUEUED,
    RUN_STATUS_STARTED,
    RUN_STATUS_RUNNING,
    RUN_STATUS_WAITING,
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    RUN_STATUS_CANCELLED,
    RUN_STATUS_INTERRUPTED,
    RUN_STATUS_COUNT
};
extern const char *const run_status_names[]; /* ends with NULL */
bool run_status_ended(enum run_status status);

/* run.create and opencode_run_task. */
struct run_create_params {
    const char *task;
    const char *repository;
    const char *branch;
    const char *sessionId;
    const char *model;
    const char *title;
    const char *agent;
    uint32_t timeoutMinutes; /* 0: the default */
    const char *idempotencyKey;
};
extern const struct json_field run_create_fields[];

struct run_create_result {
    const char *action; /* run.send: one of run_message_action_names; NULL elsewhere */
    const char *runId;
    const char *sessionId;
    int status;
    const char *webUiUrl;
    const char
        *message; /* one sentence for a person or a model: what happens now and what to call next */
};
void run_create_result_write(struct json_writer *writer, const struct run_create_result *result);
extern const struct json_field run_create_result_fields[];

/* run.get and opencode_get_result. */
struct run_get_params {
    const char *runId;
    uint32_t waitSeconds; /* wait at most so long for the run's end or for a question; the tool
                             clamps to 45 */
};
extern const struct json_field run_get_fields[];

struct run_error_view {
    const char *code;
    const char *phase;
    const char *message;
    const char *hint;
    bool retryable;
    uint64_t
        retryAt; /* unix ms: the model's provider wants to be left alone until then; 0: no word */
};

struct run_evidence_view {
    const char *branch;
    const char *baseCommit;
    const char *headCommit;
    uint64_t commits;
    uint64_t filesChanged;
    uint64_t insertions;
    uint64_t deletions;
    uint64_t untracked;
    uint64_t binaryFiles;
    uint64_t renames;
    uint64_t submodules;      /* whose commit changed */
    const char *remoteState;  /* once something was pushed: "same", "other", "absent", "unknown" */
    const char *remoteCommit; /* what the remote has of the branch */
    const char *warnings;     /* what is not as it should be, one a line */
    uint64_t refusedRequests; /* proxy decisions against this run */
    const char *finishReason; /* the model's */
    const char *leftRunning;  /* programs that the agent left behind, one command a line */
    bool diffTruncated;
    bool known; /* false: nothing could be established (no sandbox came up, or no repository) */
};

struct run_usage_view {
    uint64_t inputTokens;
    uint64_t outputTokens;
    uint64_t cacheReadTokens;
    uint64_t cacheWriteTokens;
    uint64_t requests;       /* that the proxy passed on */
    uint64_t failedRequests; /* model requests that failed */
    double costUsd;
    /* By the proxy's count, where it is limited: */
    uint64_t countedTokens;
    uint64_t tokenLimit; /* 0: none */
    double countedUsd;
    double limitUsd; /* 0: none */
};

/* A run as a whole; NULL strings are left out. Writers leave out what does not apply to the status.
 */
struct run_view {
    const char *runId;
    const char *sessionId;
    int status;
    const char *phase; /* queue, sandbox, clone, setup, agent, prompt, work, collect, stop */
    const char *task;
    const char *title;
    const char *agent;
    const char *model;
    const char *repository;
    const char *branch;
    uint64_t createdAt;
    uint64_t startedAt;
    uint64_t completedAt;
    uint64_t deadlineAt;
    uint64_t waitingSince; /* waiting: when it asked what it asks now; 0 unknown */
    const char *webUiUrl;
    const char *message; /* one sentence that says where it stands and what to do next */
    const char *
        request; /* waiting: {"requestId","kind","text","options"?} as compact JSON text, or NULL */
    const char *retrying; /* while a failed model is tried again: {"failures","status"?,"message",
                             "nextAt"?} as compact JSON text, or NULL */
    const char *verdict;  /* ended: changed, no_change, incomplete, unknown */
    const char *output;   /* ended: the agent's last answer */
    struct run_error_view error;       /* code NULL: none */
    struct run_evidence_view evidence; /* written when ended */
    struct run_usage_view usage;
    const struct json_value *steps; /* unused by writers; see run_view_write */
    const char *isolation;          /* the layers that hold its sandbox: "seccomp, landlock, …" */
    uint64_t cursor;                /* number of the newest event: pass as `after` to run.events */
};

/* STEPS: the newest steps as event JSON objects, newest first, each compact text; may be NULL with
 * COUNT 0. Writes result {success, output, error?}, verdict and evidence only when the run has
 * ended. */
void run_view_write(struct json_writer *writer, const struct run_view *view,
                    const char *const *steps, size_t step_count);

/* run.list and opencode_list_runs. `before` is unix milliseconds, or the cursor of the last answer.
 */
struct run_list_params {
    const char *sessionId;
    int status; /* RUN_STATUS_COUNT: any */
    uint32_t limit;
    const char *before; /* digits: milliseconds; "run_…": a cursor */
};
extern const struct json_field run_list_fields[];
/* A list is {"runs":[…],"hasMore":bool,"cursor":"run_…"}: each element holds runId, sessionId,
 * status, phase, title, task (first 200 characters), repository, createdAt, startedAt, completedAt,
 * success (when ended), verdict, webUiUrl. */
void run_list_item_write(struct json_writer *writer, const struct run_view *view);

struct run_id_params {
    const char *runId;
};
extern const struct json_field run_id_fields[]; /* run.cancel; its result is a run view */

struct run_events_params {
    const char *runId;
    uint64_t after; /* events with a greater number only; 0: from the start */
    uint32_t limit; /* 1..1000 */
    bool follow;    /* stay subscribed: events until the run has ended, then "end" */
};
extern const struct json_field run_events_fields[];
/* Result: {"events":[EVENT…],"cursor":N,"hasMore":bool}; EVENT in msg_event.h. */

struct run_diff_params {
    const char *runId;
    const char *sessionId; /* one of the two: a session means all since its beginning */
    const char *path;      /* only files at or below it */
    uint32_t maxBytes;
};
extern const struct json_field run_diff_fields[];
/* Result:
 * {"runId","sessionId","baseCommit","headCommit","files":[{"path","insertions","deletions","status"}],"diff":"…","truncated":bool}.
 */

struct run_exec_params {
    const char *runId;
    const struct json_value *argv; /* array of 1..256 strings */
};
extern const struct json_field run_exec_fields[];
/* Reply {"started":true}; events {"stream":"stdout|stderr","data":"…"}; end {"exitCode":N} or
 * {"signal":N}. */

/* run.send (a message to a session or run) and run.answer. The result of run.send is that of
 * run.create, with what was made of the message. */
/* How a message reaches the session's agent. */
enum run_message_mode {
    RUN_MESSAGE_AUTO,
    RUN_MESSAGE_STEER,
    RUN_MESSAGE_QUEUE,
    RUN_MESSAGE_MODE_COUNT
};
extern const char *const run_message_mode_names[]; /* ends with NULL */

/* What became of it. */
enum run_message_action {
    RUN_MESSAGE_STEERED,
    RUN_MESSAGE_QUEUED,
    RUN_MESSAGE_FOLLOW_UP,
    RUN_MESSAGE_ACTION_COUNT
};
extern const char *const run_message_action_names[]; /* ends with NULL */

struct run_send_params {
    const char *runId;
    const char *sessionId;
    const char *message;
    int mode; /* enum run_message_mode */
    const char *idempotencyKey;
};
extern const struct json_field run_send_fields[];
struct run_answer_params {
    const char *runId;
    const char *requestId;
    const char *answer;
};
extern const struct json_field run_answer_fields[];

#endif
