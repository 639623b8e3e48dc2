/* opencode_part.h: one part of a message, one permission request, one question as text and data of
 * a neutral event. Pure. */
#ifndef AGENT_OPENCODE_PART_H
#define AGENT_OPENCODE_PART_H

#include <stdbool.h>

#include "agent/agent_event.h"
#include "common/buf.h"
#include "common/json.h"

#define OPENCODE_PART_TEXT_MAX (64u * 1024)
#define OPENCODE_PART_DATA_MAX (64u * 1024)

/* Fills TEXT and DATA (empty on entry) and says which event the part is worth; AGENT_EVENT_ALIVE
 * for none. CHILD: of a subagent. */
enum agent_event_kind opencode_part_read(const struct json_value *part, bool child,
                                         struct buf *text, struct buf *data);
void opencode_permission_read(const struct json_value *request, struct buf *text, struct buf *data);
void opencode_question_read(const struct json_value *request, struct buf *text, struct buf *data);

#endif
