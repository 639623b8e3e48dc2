/* acp_internal.h: seen by all of the driver's files. acp.c has its life, acp_process.c the agent's
 * process and its streams, acp_open.c the way from its start to a conversation, acp_prompt.c a
 * prompt and what is asked during it. */
#ifndef AGENT_ACP_ACP_INTERNAL_H
#define AGENT_ACP_ACP_INTERNAL_H

#include "agent/acp/acp.h"
#include "agent/acp/acp_config.h"
#include "agent/acp/acp_events.h"
#include "agent/acp/acp_permission.h"
#include "agent/acp/acp_rpc.h"
#include "agent/acp/acp_verdict.h"
#include "io/io.h"

#define ACP_LAST_LINES 8
#define ACP_LINE_SHOWN 400
#define ACP_CONVERSATION_SIZE 160
#define ACP_PERMISSIONS_MAX 16

/* Numbers of our requests; prompts count on from the last. */
enum {
    ACP_CALL_INITIALIZE = 1,
    ACP_CALL_OPEN,
    ACP_CALL_MODE,
    ACP_CALL_MODEL,
    ACP_CALL_PROMPTS = 100,
};

enum acp_phase {
    ACP_SPAWNING,     /* host's spawn or attach */
    ACP_INITIALIZING, /* what the agent can do */
    ACP_OPENING,      /* the conversation */
    ACP_TUNING,       /* its mode and model */
    ACP_QUIET,        /* the conversation's history is being told again */
    ACP_READY,
    ACP_DEAD, /* could not be started, its process is over, or it did not stop when asked */
};

/* What a callback of the host holds: it may come when the agent is gone. */
struct acp_call {
    struct acp *acp; /* NULL once the agent doesn't want it any more */
};

struct acp_prompt {
    bool active;
    uint64_t number; /* the request's id */
    bool taken;
    bool stop_asked;
};

struct acp {
    struct agent agent; /* first */
    uv_loop_t *loop;
    struct agent_host host;
    struct agent_callbacks callbacks;
    const struct agent_profile *profile;
    struct acp_timing timing;
    char *id;
    char *directory;
    char *set_model; /* expanded; "" none */
    char **environment;
    char conversation[ACP_CONVERSATION_SIZE];
    enum acp_phase phase;
    bool resumed; /* the process was started by an earlier supervisor */
    bool resync;  /* what was written last may be half a line */
    bool can_load;
    bool can_resume;
    bool continuing; /* the conversation of an earlier process is being opened */
    bool replays;    /* and its history comes with it */

    struct acp_call *spawn_call;
    struct acp_call *wait_call;
    struct stream *input;
    struct stream *output;
    struct stream *errors;
    struct acp_rpc rpc;
    struct buf error_line;
    char last_lines[ACP_LAST_LINES][ACP_LINE_SHOWN + 8];
    unsigned line_count;
    uint64_t line_window_ms;
    unsigned lines_in_window;
    unsigned lines_left_out;
    char exit_text[160]; /* how the process ended; "" while it lives */

    struct acp_events *events;
    struct acp_prompt prompt;
    struct agent_end end; /* of the prompt; its strings are static, ours or the failure's */
    struct opencode_failure failure;
    uint64_t next_number;
    uint64_t settled_ms; /* loop time from which on the agent may be closed */
    struct acp_permission *permissions[ACP_PERMISSIONS_MAX]; /* open, the oldest first */
    size_t permission_count;
    unsigned permission_number;

    uv_timer_t timer;        /* start, quiet, settle */
    uv_timer_t stop_timer;   /* after session/cancel */
    uv_timer_t drain_timer;  /* after the process's end */
    uv_timer_t answer_timer; /* tells that a request was answered */
    struct handles handles;
    bool closing;
    unsigned pending_closes;
    void (*done)(void *data);
    void *done_data;
};

/* acp.c */
void acp_closed_one(void *data);
/* Once, until ready: the phase is DEAD afterwards. */
void acp_start_failed(struct acp *acp, const char *code, const struct error *err);
void acp_ready(struct acp *acp);
void acp_log(struct acp *acp, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* acp_process.c */
int acp_process_start(struct acp *acp, struct error *err);
int acp_process_attach(struct acp *acp, uint32_t process_id, struct error *err);
void acp_process_close(struct acp *acp);
/* LINE is one made by acp_rpc.h. */
void acp_send(struct acp *acp, const struct buf *line);
void acp_last_lines(const struct acp *acp, struct buf *out);

/* acp_open.c */
void acp_open_begin(struct acp *acp);
void acp_open_answer(struct acp *acp, const struct acp_message *message);
/* A piece of history arrived. */
void acp_open_history(struct acp *acp);

/* acp_prompt.c */
void acp_prompt_message(struct acp *acp, const struct acp_message *message);
/* The process is over, or can't be talked with any more. */
void acp_prompt_crashed(struct acp *acp);
void acp_prompt_forget(struct acp *acp);
int acp_prompt_send(struct acp *acp, const char *text, struct error *err);
int acp_prompt_answer(struct acp *acp, const char *request_id, const char *answer,
                      struct error *err);
void acp_prompt_abort(struct acp *acp);

#endif
