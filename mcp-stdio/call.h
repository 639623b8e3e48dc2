/* call.h: conversations with the supervisor, each for a request of the client or in the background:
 * sending, replies, a followed run's events, deadlines, the loss of the connection, and questions
 * to the client meanwhile. What is asked and what becomes of the reply is the form's business. */
#ifndef MCP_STDIO_CALL_H
#define MCP_STDIO_CALL_H

#include "common/list.h"
#include "mcp-stdio/backend.h"
#include "mcp-stdio/server.h"

struct call;
struct calls;

/* How a call failed. */
enum call_fate {
    CALL_IMPOSSIBLE, /* it was not even begun */
    CALL_NOT_SENT,
    CALL_UNKNOWN, /* sent, and no reply came */
    CALL_REFUSED, /* the supervisor's reply is an error */
};

/* What kind of conversation it is. The functions may end their call with call_end, and touch
 * nothing of it then; they end no other. */
struct call_form {
    /* The supervisor is there: send the first request. */
    void (*begin)(struct call *call);
    void (*reply)(struct call *call, const struct json_value *reply);
    /* Comes before `reply`, when nobody has read the reply yet: true when its text alone
     * (call->reply_text) was enough, and the call has ended. May be NULL. */
    bool (*reply_text)(struct call *call);
    /* The last request failed, or none can be sent. */
    void (*fail)(struct call *call, const struct error *err, enum call_fate fate);
    /* An event of the followed run or session, or its stream's end (EVENT NULL: nothing is followed
     * any more). May be NULL. */
    void (*event)(struct call *call, const struct json_value *event);
    /* call->due_ms has come; the function sets the next. May be NULL. */
    void (*due)(struct call *call);
    /* The client's answer to call_question: RESULT is NULL when that was an error. May be NULL. */
    void (*client_answer)(struct call *call, const struct json_value *result);
    void (*free_state)(void *state);
    /* A supervisor is started for it when there is none. */
    bool starts_supervisor;
};

struct call {
    struct list link;
    struct calls *calls;
    const struct call_form *form;
    struct server_target target; /* its id is ours; NULL data: in the background */
    void *state;                 /* the form's */
    uint64_t due_ms;             /* UINT64_MAX: never */
    /* While `reply` is called: the reply's text, which may go out as it is; or nothing. */
    struct jsonrpc_slice reply_text;
    /* call.c's own: */
    bool begun;
    uint64_t request_id; /* the supervisor's; 0: none */
    uint64_t events_id;
    uint64_t sent_ms;
    uint64_t deadline_ms;
    uint64_t question; /* to the client; 0: none */
};

struct calls *calls_new(struct server *server, const struct clock *clock,
                        const struct backend_options *options);
void calls_free(struct calls *calls); /* calls in flight end without an answer */

/* Begins a conversation for TARGET (copied; NULL: in the background). Takes over STATE. Returns the
 * call, or NULL when it has ended already. */
struct call *calls_start(struct calls *calls, const struct server_target *target,
                         const struct call_form *form, void *state);
/* The client wants no answer to ID any more. The run itself is never touched. */
void calls_cancel(struct calls *calls, struct jsonrpc_slice id);
/* A response of the client to a question of ours. RESULT may be NULL. */
void calls_response(struct calls *calls, struct jsonrpc_slice id, const struct json_value *result);

bool calls_busy(const struct calls *calls);
bool calls_poll(const struct calls *calls, struct pollfd *entry);
void calls_supervisor_ready(struct calls *calls);
uint64_t calls_deadline_ms(const struct calls *calls);
void calls_tick(struct calls *calls);

/* For forms ------------------------------------------------------------------------------------ */

/* Ends the call: what the supervisor still owes is cancelled, and a question taken back. */
void call_end(struct call *call);
struct server *call_server(const struct call *call);
uint64_t call_now_ms(const struct call *call);
/* Sends a request, whose reply may take WAIT_MS beside what the method takes itself. */
void call_ask(struct call *call, enum method method, const char *body, uint64_t wait_ms);
/* The same with {"runId":RUN_ID}. */
void call_ask_run(struct call *call, enum method method, const char *run_id);
/* Follows a run's events behind CURSOR. */
void call_follow(struct call *call, const char *run_id, uint64_t cursor);
/* Follows a session: an event for each change of it or of one of its runs. */
void call_follow_session(struct call *call, const char *session_id);
/* Begins anew, when the supervisor can be reached; a background call does so after a failure. */
void call_again(struct call *call);
/* A request to the client, begun: the caller writes the members of params. */
void call_question_begin(struct call *call, struct json_writer *writer, const char *method);
void call_question_end(struct call *call, struct json_writer *writer);
/* The client need not answer any more. */
void call_question_drop(struct call *call, const char *reason);

#endif
