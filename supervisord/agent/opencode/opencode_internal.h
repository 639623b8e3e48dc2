/* opencode_internal.h: seen by all of the driver's files. opencode.c has its life,
 * opencode_process.c the server process, opencode_prompt.c a prompt while it is sent, runs and is
 * stopped, opencode_steer.c messages for it meanwhile, opencode_settle.c how it ends,
 * opencode_sync.c the event stream and the state by REST after a gap, opencode_resume.c an agent
 * that an earlier supervisor started. */
#ifndef AGENT_OPENCODE_INTERNAL_H
#define AGENT_OPENCODE_INTERNAL_H

#include "agent/opencode/opencode.h"
#include "agent/opencode/opencode_config.h"
#include "agent/opencode/opencode_events.h"
#include "agent/opencode/opencode_http.h"
#include "agent/opencode/opencode_verdict.h"
#include "common/buf.h"
#include "io/io.h"

#define LAST_LINES 8
#define PASSWORD_SIZE 65
#define LINE_MAX_BYTES 400

enum opencode_phase {
    OPENCODE_SPAWNING,  /* host's spawn */
    OPENCODE_LISTENING, /* for the line that says so; connecting earlier hangs */
    OPENCODE_CHECKING,  /* health, project */
    OPENCODE_STREAMING, /* for the event stream's greeting */
    OPENCODE_OPENING,   /* the conversation */
    OPENCODE_READY,
    OPENCODE_DEAD, /* could not be started, or its process is over */
};

enum opencode_prompt_state {
    PROMPT_NONE,
    PROMPT_WAITING, /* for the event stream, or for the clock */
    PROMPT_SENDING, /* the request runs */
    PROMPT_SENT,    /* accepted, not yet busy */
    PROMPT_RUNNING,
    PROMPT_SETTLING, /* idle, or so it seems: looking at status and messages */
};

enum opencode_health {
    HEALTH_GOOD,
    HEALTH_UNSTOPPED, /* it did not stop when asked; good again once it is idle */
    HEALTH_USED_UP,   /* stopped before its first answer had begun: no prompt works any more */
};

enum opencode_stop {
    STOP_NO,
    STOP_ASKED,  /* by agent_driver.abort */
    STOP_DOOMED, /* by us; prompt.doom says why */
};

struct opencode_prompt {
    enum opencode_prompt_state state;
    enum opencode_stop stop;
    struct opencode_failure doom;
    struct opencode_failure
        last_error; /* session.error: no verdict, but the reason when there is no answer */
    char message_id[OPENCODE_ID_SIZE];
    char *text;
    bool taken;
    bool unsent;     /* it may have died with the supervisor that was to send it */
    bool idle_last;  /* the last word of the events was "idle" */
    unsigned limit;  /* which of the message limits */
    unsigned looks;  /* how often the same doubtful state was seen */
    unsigned failed; /* looks in a row that got no answer */
    unsigned unknown_finishes;
    uint64_t progress_ms; /* loop time of the last event */
    uint64_t begun_ms;
};

enum opencode_steer_state {
    STEER_WAITING, /* to be sent */
    STEER_SENDING, /* the request runs */
    STEER_UNSURE,  /* it may have arrived: the agent is asked */
    STEER_SENT,    /* stored in the conversation; not shown to the model yet */
};

struct opencode_message {
    char id[OPENCODE_ID_SIZE];
    char *text;
    enum opencode_steer_state state;
    unsigned looks;
};

/* Messages for the prompt under way, until they are read. */
struct opencode_steers {
    struct opencode_message *list; /* oldest first */
    size_t count;
    struct opencode_exchange *request; /* one at a time: so they keep their order */
    uv_timer_t timer;
    unsigned looks; /* at messages that nobody reads */
    bool nudged;
};

/* What a callback of the host holds: it may come when the agent is gone. */
struct opencode_call {
    struct opencode *opencode; /* NULL once the agent doesn't want it any more */
};

struct opencode_output {
    struct opencode *opencode;
    struct stream *stream;
    struct buf line;
};

struct opencode {
    struct agent agent; /* first */
    uv_loop_t *loop;
    struct agent_host host;
    struct agent_callbacks callbacks;
    struct opencode_timing timing;
    const struct clock *clock;
    char *id;
    char *model_text;
    struct opencode_model model; /* its name is borrowed from model_text */
    char *directory;
    char *title;
    char conversation[OPENCODE_ID_SIZE];
    bool continued;
    char **environment;
    enum opencode_phase phase;
    bool resumed;    /* the process was started by an earlier supervisor */
    bool resuming;   /* what happened meanwhile is still being read */
    bool too_long;   /* the whole list of messages */
    struct buf held; /* of the event stream, until that is read */

    struct opencode_call *spawn_call;
    struct opencode_call *wait_call;
    struct opencode_output outputs[2];
    char last_lines[LAST_LINES][LINE_MAX_BYTES + 8];
    unsigned line_count;
    uint64_t line_window_ms;
    unsigned lines_in_window;
    unsigned lines_left_out;
    char exit_text[160]; /* how the process ended; "" while it lives */

    struct opencode_http *http;
    struct opencode_events *events;
    struct opencode_exchange *stream;
    struct opencode_exchange *request; /* of start, prompt and verdict: one at a time */
    struct opencode_exchange *abort_request;
    struct opencode_exchange *sync_request;
    unsigned sync_step;
    bool stream_live;
    uint64_t stream_lost_ms;
    unsigned reconnects;

    struct opencode_prompt prompt;
    struct opencode_steers steers;
    uint64_t last_id_ms; /* time in the last message id that we made */
    uint64_t
        newest_created_ms; /* time of the conversation's newest message, by the agent's clock */
    bool warm;             /* an answer has begun in this process: it can be stopped without harm */
    enum opencode_health health;

    struct handles handles;
    uv_timer_t start_timer;
    uv_timer_t stream_timer;
    uv_timer_t step_timer;
    uv_timer_t abort_timer;
    uv_timer_t warm_timer;
    uv_timer_t quiet_timer;
    uv_timer_t drain_timer;
    bool closing;
    unsigned pending_closes;
    void (*done)(void *data);
    void *done_data;
};

static inline struct opencode *opencode_of(struct agent *agent)
{
    return (struct opencode *)agent;
}

/* opencode.c */
/* Everything but the process. OPTIONS are copied. */
int opencode_new(struct opencode **out, uv_loop_t *loop, const struct agent_host *host,
                 const struct agent_options *options, const struct agent_callbacks *callbacks,
                 const struct opencode_timing *timing, struct error *err);
void opencode_discard(struct opencode *opencode);
void opencode_begin_start(struct opencode *opencode);
void opencode_start_failed(struct opencode *opencode, const char *code, const struct error *err);
void opencode_on_listening(struct opencode *opencode);
void opencode_on_streaming(struct opencode *opencode);
void opencode_log_event(struct opencode *opencode, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void opencode_closed_one(void *opencode);
/* GET or POST of PATH into *SLOT. On failure to begin DONE runs with it at once. */
void opencode_ask(struct opencode *opencode, struct opencode_exchange **slot, const char *method,
                  const char *path, const char *body, opencode_response_cb done);
void opencode_drop(struct opencode_exchange **slot);
/* Turns a status that isn't 200 or 204 into an error with the server's words. */
int opencode_expect_ok(const struct opencode_response *response, const char *what,
                       struct error *err);

/* opencode_process.c */
int opencode_process_start(struct opencode *opencode, struct error *err);
int opencode_process_attach(struct opencode *opencode, uint32_t process_id, struct error *err);
void opencode_process_close(struct opencode *opencode);
/* The process's last lines, for an error's text. */
void opencode_last_lines(const struct opencode *opencode, struct buf *out);

/* opencode_sync.c */
int opencode_stream_open(struct opencode *opencode, struct error *err);
void opencode_stream_reopen(struct opencode *opencode);
void opencode_on_stream_timer(uv_timer_t *timer);
void opencode_sync_later(struct opencode *opencode);

/* opencode_resume.c */
int opencode_resume(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                    const struct agent_options *options, const struct agent_resume *resume,
                    const struct agent_callbacks *callbacks, struct error *err);
/* The process's streams are there again. */
void opencode_resume_attached(struct opencode *opencode);
/* The conversation is open again. */
void opencode_resume_opened(struct opencode *opencode);
/* True when BYTES of the event stream are kept for later: what happened before is told first. */
bool opencode_resume_hold(struct opencode *opencode, const char *bytes, size_t len);
/* What happened meanwhile has been told. */
void opencode_resume_caught_up(struct opencode *opencode);

/* opencode_prompt.c */
/* Follows the prompt that stands in opencode->prompt. */
void opencode_prompt_follow(struct opencode *opencode);
void opencode_prompt_send_again(struct opencode *opencode);
int opencode_prompt(struct agent *agent, const char *text, struct error *err);
void opencode_abort(struct agent *agent);
void opencode_on_note(void *data, const struct opencode_note *note);
void opencode_on_event(void *data, const struct agent_event *event);
void opencode_prompt_stream_live(struct opencode *opencode);
void opencode_prompt_synced(struct opencode *opencode);
void opencode_on_step(uv_timer_t *timer);
/* Asks it to stop; again when it has not. */
void opencode_post_abort(struct opencode *opencode);

/* A message id that is greater than the last one. */
void opencode_make_message_id(struct opencode *opencode, char to[OPENCODE_ID_SIZE]);
/* The body of a prompt's request; TEXT NULL: without any part. -1: it is too long. */
int opencode_write_prompt(struct opencode *opencode, const char *id, const char *text,
                          struct buf *body);

/* opencode_steer.c */
int opencode_steer_id(struct agent *agent, char id[AGENT_MESSAGE_ID_SIZE], struct error *err);
void opencode_steer(struct agent *agent, const struct agent_message *message);
/* Messages that an earlier supervisor may have sent; they are looked for once the state is known.
 */
void opencode_steer_resume(struct opencode *opencode, const struct agent_resume *resume);
/* Sends what waits. */
void opencode_steer_go_on(struct opencode *opencode);
/* An answer is being made that knows all messages up to the one of this id. */
void opencode_steer_answering(struct opencode *opencode, const char *message_id);
/* The prompt has its answer, but there are messages that were not read yet: True when it goes on
 * for them, and will be looked at again. */
bool opencode_steer_holds(struct opencode *opencode);
/* What is left is not read any more. */
void opencode_steer_end(struct opencode *opencode, const char *why);
void opencode_steer_forget(struct opencode *opencode);

/* opencode_settle.c */
struct agent_end opencode_empty_end(enum agent_end_kind kind);
/* Fills in the usage, forgets the prompt and tells on_end. */
void opencode_end_prompt(struct opencode *opencode, struct agent_end *end);
/* Ends as FAILURE says, unless we asked it to stop: then that is why. */
void opencode_end_failed(struct opencode *opencode, const struct opencode_failure *failure,
                         const char *output, const char *finish);
void opencode_prompt_fail(struct opencode *opencode, const char *code, const char *message);
void opencode_prompt_crashed(struct opencode *opencode);
void opencode_prompt_forget(struct opencode *opencode);
/* Looks at status and messages now, or after WAIT_MS. */
void opencode_ask_status(struct opencode *opencode);
void opencode_look_after(struct opencode *opencode, uint64_t wait_ms);
/* It was not idle after all. */
void opencode_go_on_running(struct opencode *opencode);

#endif
