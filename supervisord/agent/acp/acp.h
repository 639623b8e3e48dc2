/* acp.h: the driver for every agent that speaks the Agent Client Protocol: JSON-RPC, one message a
 * line, over the agent's standard input and output. Which agent it is says a struct agent_profile
 * in the options. docs/agents.md tells what the protocol lacks and how that is made up for. */
#ifndef AGENT_ACP_ACP_H
#define AGENT_ACP_ACP_H

#include "agent/agent.h"

extern const struct agent_driver acp_driver;

#endif
