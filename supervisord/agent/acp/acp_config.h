/* acp_config.h: a profile with a run's values in it: what lies in the sandbox before the agent
 * starts. Pure. */
#ifndef AGENT_ACP_ACP_CONFIG_H
#define AGENT_ACP_ACP_CONFIG_H

#include "agent/agent.h"
#include "common/buf.h"

#define ACP_CONFIG_DIR "/run/agent-config/acp"
#define ACP_START_SCRIPT (ACP_CONFIG_DIR "/start")

/* Is the model one that the profile's agent can use with the providers there are? ERR_INVALID names
 * `model`. */
int acp_check_model(const struct agent_options *options, const char *model, struct error *err);
/* TEMPLATE with its {names} replaced. Braces around anything else stay. */
int acp_expand(struct buf *out, const struct agent_options *options, const char *template,
               struct error *err);
/* agent_driver.prepare: a script that sets the environment, lays the files in the home and becomes
 * the agent. The token is in it, so that only the sandbox's files have it, as for every driver. */
int acp_prepare(const struct agent_options *options, const char *program,
                const struct agent_files *files, struct error *err);
/* Variables of the start script, which need no token: NULL at the end, free with
 * agent_environment_free. */
char **acp_environment_new(const struct agent_options *options);

#endif
