/* opencode_config.h: what OpenCode finds in the sandbox: program, configuration, environment. Pure.
 */
#ifndef AGENT_OPENCODE_CONFIG_H
#define AGENT_OPENCODE_CONFIG_H

#include "agent/agent.h"
#include "common/buf.h"

#define OPENCODE_PROGRAM "/opt/opencode"
#define OPENCODE_CONFIG_HOME "/run/agent-config"
/* Of its environment, wherever it runs. A repository's opencode.json, .opencode/ and AGENTS.md are
 * code that would run at start-up and could move the base URL. */
#define OPENCODE_SWITCHES                                                                          \
    "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_MODELS_FETCH=1",                        \
        "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",                        \
        "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"
#define OPENCODE_CONFIG_DIR OPENCODE_CONFIG_HOME "/opencode"
#define OPENCODE_MANAGED_DIR "/etc/opencode"
#define OPENCODE_HOST "127.0.0.1"
#define OPENCODE_PORT 4096

/* "provider/model" taken apart; PROVIDER and *MODEL are borrowed from TEXT. */
struct opencode_model {
    char provider[64];
    const char *name;
};
int opencode_model_parse(struct opencode_model *model, const char *text, struct error *err);

/* The functions of struct agent_driver. */
int opencode_prepare(const struct agent_options *options, const char *program,
                     const struct agent_files *files, struct error *err);
int opencode_check_model(const struct agent_options *options, const char *model, struct error *err);

/* opencode.json on one line. */
int opencode_config_write(struct buf *out, const struct agent_options *options, struct error *err);
/* The whole environment of `opencode serve`: heap strings, NULL at the end. */
char **opencode_environment_new(const struct agent_options *options, const char *password);

#endif
