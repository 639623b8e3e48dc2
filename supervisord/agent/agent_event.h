/* agent_event.h: what an agent tells, without naming the agent. Strings are borrowed during the
 * callback. */
#ifndef AGENT_AGENT_EVENT_H
#define AGENT_AGENT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

enum agent_event_kind {
    AGENT_EVENT_ALIVE, /* anything that shows progress but is not worth storing (text deltas):
                          resets the watchdog */
    AGENT_EVENT_TEXT,  /* text: a whole piece of what the agent said */
    AGENT_EVENT_REASONING,
    AGENT_EVENT_TOOL,       /* a tool call ended: text "bash: sh tests/run.sh", data */
    AGENT_EVENT_TOOL_START, /* a tool call began; shown as the current step, not stored */
    AGENT_EVENT_TODO,
    AGENT_EVENT_PERMISSION, /* it waits for an answer: request_id, text, data {"options":[…]} */
    AGENT_EVENT_QUESTION,
    AGENT_EVENT_ANSWERED, /* request_id was answered or rejected, by whomever */
    AGENT_EVENT_RETRY,    /* it will ask its model again: text, data {"attempt","message","next"} */
    AGENT_EVENT_RUNNING,  /* it goes on after a retry */
    AGENT_EVENT_TITLE,    /* text: a title for the conversation */
    AGENT_EVENT_USAGE,    /* usage: totals for this prompt so far */
    AGENT_EVENT_LOG,      /* a line of the agent's own output */
};

struct agent_usage {
    uint64_t input_tokens;
    uint64_t output_tokens;
    uint64_t cache_read_tokens;
    uint64_t cache_write_tokens;
    uint64_t cost_microdollars;
};

struct agent_event {
    enum agent_event_kind kind;
    const char *text;
    const char *data;       /* compact JSON object, or NULL */
    const char *request_id; /* or NULL */
    const char *key; /* of what is told once and for all: the agent's own name for it, the same
                        when it is told again after a resume; NULL: none */
    struct agent_usage usage;
};

/* How a prompt ended. */
enum agent_end_kind {
    AGENT_END_DONE,       /* a whole answer; finish_reason "stop" */
    AGENT_END_INCOMPLETE, /* an answer that was cut ("length"), empty, or stopped by a rejected
                             request */
    AGENT_END_FAILED,     /* error_code says why */
    AGENT_END_ABORTED,    /* we asked it to stop */
};

struct agent_end {
    enum agent_end_kind kind;
    const char *output;        /* the last answer's whole text; "" if none */
    const char *finish_reason; /* the model's: "stop", "length", …; "" unknown */
    const char *error_code;    /* model_auth, model_unknown, model_rate_limited, model_overloaded,
                                  model_error, context_overflow,    content_refused, agent_crashed,
                                  agent_stalled, …; "" unless FAILED */
    const char *message;       /* the provider's own words; "" */
    const char *hint;          /* what a person can do; "" */
    bool retryable;
    struct agent_usage usage;
    bool usage_known;
};

#endif
