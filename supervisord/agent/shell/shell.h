/* shell.h: a driver whose prompt is a shell command; for tests and for looking around in a sandbox.
 */
#ifndef AGENT_SHELL_H
#define AGENT_SHELL_H

#include "agent/agent.h"

extern const struct agent_driver shell_driver;

#endif
