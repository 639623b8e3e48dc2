/* opencode_events.h: OpenCode's event stream as neutral agent events, and as notes for the driver.
 * Pure: bytes in, callbacks out, from within the call. It follows one session and its descendants
 * (subagents run in sessions of their own). */
#ifndef AGENT_OPENCODE_EVENTS_H
#define AGENT_OPENCODE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent_event.h"
#include "common/json.h"

#define OPENCODE_ID_SIZE 64 /* of ids with their NUL; longer ones are ignored */

/* Letters, digits, _ and -, not too long: may stand in a path. NULL is not. */
bool opencode_id_usable(const char *id);

struct opencode_events;

/* What the driver's state machine needs; of our own session unless said otherwise. */
enum opencode_note_kind {
    OPENCODE_NOTE_CONNECTED, /* the server's greeting on a new stream */
    OPENCODE_NOTE_TAKEN,     /* our user message is stored */
    OPENCODE_NOTE_BUSY,
    OPENCODE_NOTE_RETRY, /* number: epoch ms of the next try */
    OPENCODE_NOTE_IDLE,
    OPENCODE_NOTE_CHILD_IDLE,
    OPENCODE_NOTE_ERROR,     /* error: {name, data} */
    OPENCODE_NOTE_ANSWERING, /* an answer exists: the model is being asked; text: the id of the
                                newest user message that it was shown; once per answer */
    OPENCODE_NOTE_FINISH,    /* a model call ended, text: its finish reason; once per message */
    OPENCODE_NOTE_LOST, /* events were skipped (a frame was too long, no JSON): look at the state by
                           REST */
};

struct opencode_note {
    enum opencode_note_kind kind;
    const char *text;
    uint64_t number;
    const struct json_value *error;
};

struct opencode_events_callbacks {
    void (*on_event)(void *data, const struct agent_event *event);
    void (*on_note)(void *data, const struct opencode_note *note);
    void *data;
};

struct opencode_events *opencode_events_new(const struct opencode_events_callbacks *callbacks);
void opencode_events_free(struct opencode_events *events);
/* No callback after this returns; may be called from within one. */
void opencode_events_stop(struct opencode_events *events);

/* The session to follow; forgets what was known of others. */
void opencode_events_follow(struct opencode_events *events, const char *session);
/* A prompt begins whose user message will have this id; the time is the agent's. */
void opencode_events_begin(struct opencode_events *events, const char *message_id,
                           uint64_t wall_ms);
/* A new connection: what was left of a frame is dropped. */
void opencode_events_reconnected(struct opencode_events *events);
void opencode_events_feed(struct opencode_events *events, const char *bytes, size_t len);

/* The state by REST, after a gap. Each tells only what the events have not told yet. */
void opencode_events_read_children(struct opencode_events *events,
                                   const struct json_value *sessions);
void opencode_events_read_messages(struct opencode_events *events,
                                   const struct json_value *messages);
void opencode_events_read_permissions(struct opencode_events *events,
                                      const struct json_value *requests);
void opencode_events_read_questions(struct opencode_events *events,
                                    const struct json_value *requests);

/* Is a descendant at work, by the answer of /session/status? */
bool opencode_events_child_busy(const struct opencode_events *events,
                                const struct json_value *statuses);
/* The INDEX-th descendant's id, NULL behind the last. */
const char *opencode_events_child(const struct opencode_events *events, size_t index);
/* Number of questions in an open request; 0: no question of that id is open. A permission request
 * counts 1. */
size_t opencode_events_open_request(const struct opencode_events *events, const char *request_id);
struct agent_usage opencode_events_usage(const struct opencode_events *events);

#endif
