/* acp.h: the driver for every agent that speaks the Agent Client Protocol: JSON-RPC, one message a
 * line, over the agent's standard input and output. Which agent it is says a struct agent_profile
 * in the options. docs/agents.md tells what the protocol lacks and how that is made up for. */
#ifndef AGENT_ACP_ACP_H
#define AGENT_ACP_ACP_H

#include "agent/agent.h"

extern const struct agent_driver acp_driver;

/* All in milliseconds. */
struct acp_timing {
    uint64_t start_ms;
    uint64_t quiet_ms;  /* without a word of history: it has all been told */
    uint64_t settle_ms; /* from a prompt's answer to the agent's close */
    uint64_t stop_ms;   /* after session/cancel */
    uint64_t drain_ms;  /* for the last output of a process that has ended */
    uint64_t mute_ms;   /* for the end of a process that has closed its output */
};

/* For tests, right after start or resume. */
void acp_set_timing(struct agent *agent, const struct acp_timing *timing);

#endif
