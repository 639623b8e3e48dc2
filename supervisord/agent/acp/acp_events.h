/* acp_events.h: what an agent tells during a prompt (session/update) as agent events. Pure. */
#ifndef AGENT_ACP_ACP_EVENTS_H
#define AGENT_ACP_ACP_EVENTS_H

#include <stdbool.h>

#include "agent/agent_event.h"
#include "common/buf.h"
#include "common/json.h"

#define ACP_TOOLS_MAX 64

struct acp_events_callbacks {
    void (*on_event)(void *data, const struct agent_event *event);
    void *data;
};

struct acp_events;

struct acp_events *acp_events_new(const struct acp_events_callbacks *callbacks);
void acp_events_free(struct acp_events *events);

/* A prompt begins. Until then, and after the end, updates are what was said earlier and not told.
 * OUTPUT is the end of what is known of it already, "" nothing. */
void acp_events_begin(struct acp_events *events, const char *output);
/* The prompt is over: tells what is still held, then the updates count no more. */
void acp_events_end(struct acp_events *events);
/* UPDATE is params.update. True when it shows that the agent is at work on the prompt. */
bool acp_events_update(struct acp_events *events, const struct json_value *update);
/* The last whole text of the prompt, "" none. Borrowed. */
const char *acp_events_output(const struct acp_events *events);
/* What the agent says its conversation has cost since the prompt began. False: it didn't, or where
 * that began is not known. */
bool acp_events_cost(const struct acp_events *events, uint64_t *microdollars);
/* The conversation was begun by another process, whose costs may be counted in. */
void acp_events_continued(struct acp_events *events);

/* From inside a callback: nothing more is told. */
void acp_events_stop(struct acp_events *events);

#endif
