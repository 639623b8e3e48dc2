/* acp_verdict.h: the answer to a prompt as its end, and an agent's errors as our codes. Pure. */
#ifndef AGENT_ACP_ACP_VERDICT_H
#define AGENT_ACP_ACP_VERDICT_H

#include "agent/agent_event.h"
#include "agent/opencode/opencode_verdict.h"
#include "common/json.h"

/* ERROR is a JSON-RPC error object; NULL: an error without words. */
void acp_failure_read(struct opencode_failure *failure, const struct json_value *error);

/* Fills END's kind, finish_reason (static), failure members (borrowed from FAILURE) and usage from
 * the result of session/prompt. OUTPUT ("" none) decides whether the answer is a whole one. */
void acp_result_read(struct agent_end *end, struct opencode_failure *failure,
                     const struct json_value *result, const char *output);
/* The same from an error. */
void acp_error_read(struct agent_end *end, struct opencode_failure *failure,
                    const struct json_value *error);

#endif
