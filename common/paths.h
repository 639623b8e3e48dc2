/* paths.h: where things are. Several MCP clients start their servers with little more than HOME,
 * and two places would mean two supervisors: so the socket is derived from the state folder only,
 * and HOME falls back to the password file. */
#ifndef COMMON_PATHS_H
#define COMMON_PATHS_H

#include "error.h"

struct paths {
    char *home;
    char *config_file; /* SANDBOX_MCP_CONFIG, else $XDG_CONFIG_HOME/sandbox-mcp/config.json, else
                          ~/.config/… */
    char *state;       /* SANDBOX_MCP_STATE, else $XDG_STATE_HOME/sandbox-mcp, else
                          ~/.local/state/sandbox-mcp */
    char *runtime;     /* SANDBOX_MCP_RUNTIME, else state/run */
    char *socket;      /* runtime/supervisor.sock */
    char *data;        /* SANDBOX_MCP_DATA, else $XDG_DATA_HOME/sandbox-mcp, else
                          ~/.local/share/sandbox-mcp: agents */
};

/* All absolute; relative values in the environment are refused. Strings are freed by paths_finish.
 */
int paths_init(struct paths *paths, struct error *err);
void paths_finish(struct paths *paths);

/* Makes PATH and its parents with mode 0700 (only those that are missing); an existing last folder
 * must belong to this user and not be writable for others. */
int paths_make_private(const char *path, struct error *err);

#endif
