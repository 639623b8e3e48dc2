/* session.h: one call of sandboxctl: its arguments, its connection, what it prints and how it ends.
 */
#ifndef CTL_SESSION_H
#define CTL_SESSION_H

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"
#include "common/paths.h"
#include "ctl/args.h"
#include "proto/client.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_SUPERVISOR = 3,
    EXIT_NOT_FOUND = 4,
    EXIT_REFUSED = 5,
    EXIT_CODE_COUNT
};
extern const char *const exit_code_words[EXIT_CODE_COUNT];
int exit_code_of(enum error_code code);

struct session {
    struct paths paths;
    struct args args;
    struct client *client; /* NULL until session_connect */
    bool json;
    bool api_words;    /* errors keep the interface's own names */
    bool out_terminal; /* stdout */
    bool err_terminal; /* stderr */
};

enum session_start { SESSION_START, SESSION_DONT_START };

#define SESSION_CALL_MS 60000

int session_connect(struct session *session, enum session_start start, struct error *err);
void session_disconnect(struct session *session);

/* One request and its reply; MESSAGE is finished by the caller. BODY may be NULL. */
int session_call(struct session *session, const char *method, const struct buf *body,
                 struct client_message *message, struct error *err);
/* A request whose reply is followed by events: EACH gets every one, until the stream's end. */
int session_stream(struct session *session, const char *method, const struct buf *body,
                   void (*each)(struct session *session, const struct json_value *event),
                   struct error *err);

/* Prints the error (to stderr, and as JSON to stdout with --json) and returns the exit code that
 * goes with it. */
int session_fail(const struct session *session, const struct error *failed);
/* Prints to stdout and empties the buffer. */
void session_print(struct buf *text);
void session_print_json(const struct json_value *value);

#endif
