/* opencode_verdict.h: how a prompt ended, read from the session's message list; and OpenCode's
 * errors as our codes. Pure. */
#ifndef AGENT_OPENCODE_VERDICT_H
#define AGENT_OPENCODE_VERDICT_H

#include <stdbool.h>

#include "agent/agent_event.h"
#include "common/buf.h"
#include "common/json.h"

struct opencode_failure {
    const char *code; /* static; "" for none */
    const char *hint; /* static */
    bool retryable;
    bool aborted;      /* OpenCode says that someone stopped it */
    char message[512]; /* the provider's own words, one line */
};

/* ERROR is {name, data:{message, statusCode, …}} as in session.error and in an assistant message;
 * NULL leaves no failure. */
void opencode_failure_read(struct opencode_failure *failure, const struct json_value *error);
/* A failure of our own finding. CODE is one of common/failure.c, which gives hint and retryable.
 */
void opencode_failure_set(struct opencode_failure *failure, const char *code, const char *message);

enum opencode_verdict_kind {
    OPENCODE_VERDICT_MISSING, /* the list has neither our message nor an answer to it: it begins
                                 later, or the prompt got lost */
    OPENCODE_VERDICT_SILENT,  /* our message stands there without an answer */
    OPENCODE_VERDICT_OPEN,    /* the newest answer is not complete */
    OPENCODE_VERDICT_ENDED,
};

struct opencode_verdict {
    enum opencode_verdict_kind kind;
    bool tool_running; /* the newest answer has a tool call that is not over */
    enum agent_end_kind end;
    char finish[32];
    struct opencode_failure failure; /* for AGENT_END_FAILED */
    struct buf output;               /* whole text of the newest answer */
};

void opencode_verdict_init(struct opencode_verdict *verdict);
void opencode_verdict_finish(struct opencode_verdict *verdict);
/* MESSAGES is the answer of /session/ID/message, oldest first. An answer counts when its parentID
 * is PROMPT_ID or when it stands behind that message: after a compaction OpenCode goes on under a
 * user message of its own making. */
void opencode_verdict_read(struct opencode_verdict *verdict, const struct json_value *messages,
                           const char *prompt_id);

#endif
