/* elicit.h: what an agent asks, as a form that a client shows its user, and the user's answer as
 * the agent wants it. Pure. */
#ifndef MCP_STDIO_ELICIT_H
#define MCP_STDIO_ELICIT_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"

/* VIEW is a run that waits for an answer which a form can give. */
bool elicit_wanted(const struct json_value *view);
/* Members of the params of elicitation/create for what VIEW asks, as of REVISION. */
void elicit_write(struct json_writer *writer, const struct json_value *view, const char *revision);
/* {"method":"elicitation/create","params":{…}} as a member of inputRequests, named by the agent's
 * request. */
void elicit_write_input(struct json_writer *writer, const struct json_value *view,
                        const char *revision);

/* Appends what the user answered in RESULT, one line for each question. False when the user did not
 * answer. */
bool elicit_read(const struct json_value *result, struct buf *answer);

#endif
