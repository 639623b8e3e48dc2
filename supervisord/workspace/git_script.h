/* git_script.h: short shell scripts around git, for the workspace part's own files. Pure. */
#ifndef WORKSPACE_GIT_SCRIPT_H
#define WORKSPACE_GIT_SCRIPT_H

#include "workspace/workspace.h"

/* The repository's own settings and hooks are the agent's: those that run programs, or change what
 * is sent, are switched off. What is left can but spoil the outcome, which is looked at. */
#define GIT_SCRIPT_FUNCTION                                                                        \
    "g() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.quotePath=true "        \
    "-c gc.auto=0 -c maintenance.auto=false -c diff.external= -c log.showSignature=false "         \
    "-c commit.gpgSign=false -c push.gpgSign=false -c push.pushOption= -c push.followTags=false "  \
    "-c submodule.recurse=false -c protocol.ext.allow=never -c credential.helper= \"$@\"; }; "

/* COMMAND runs SCRIPT, with ARGS, which end with NULL, as $1 and so on. */
void git_script(struct git_command *command, const char *script, const char *const *args);

#endif
