/* msg_event.h: events of a run, as stored, listed and streamed:
 *   {"number":12,"time":1795962680696,"kind":"tool","text":"bash: sh tests/run.sh","data":{…}}
 * `number` rises by one per run without gaps and is the cursor. `text` is one readable line; `data`
 * holds what the kind adds. The daemon stores the object below `number`; nothing in it is trusted
 * for anything but showing. */
#ifndef PROTO_MSG_EVENT_H
#define PROTO_MSG_EVENT_H

#include "common/json.h"
#include "common/json_write.h"

enum event_kind {
    EVENT_KIND_STATE, /* data: status, phase */
    EVENT_KIND_LOG,   /* a line of a phase's output: clone, setup, agent; data: stream */
    EVENT_KIND_TEXT,  /* the agent said something */
    EVENT_KIND_REASONING,
    EVENT_KIND_TOOL,     /* a tool ended; data: tool, title, state (completed, error), output (cut),
                            exit */
    EVENT_KIND_TODO,     /* data: todos */
    EVENT_KIND_QUESTION, /* data: requestId, text, options */
    EVENT_KIND_PERMISSION,
    EVENT_KIND_RETRY, /* data: attempt, message, next */
    EVENT_KIND_USAGE,
    EVENT_KIND_REFUSED, /* the proxy refused a request; data: service, method, path, reason */
    EVENT_KIND_ERROR,
    EVENT_KIND_MESSAGE, /* what a client said to the agent while it worked, and later what became of
                           it; data: messageId, state (sent, read, unread) */
    EVENT_KIND_COUNT
};
extern const char *const event_kind_names[]; /* ends with NULL */

struct event_view {
    uint64_t number;
    uint64_t time;
    int kind;
    const char *text;
    const char *data; /* compact JSON object as text, or NULL */
};
void event_view_write(struct json_writer *writer, const struct event_view *view);

#endif
