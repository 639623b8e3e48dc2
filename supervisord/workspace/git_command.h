/* git_command.h: how the argument lists of workspace.h are put together. Only files of workspace/
 * include it. */
#ifndef WORKSPACE_GIT_COMMAND_H
#define WORKSPACE_GIT_COMMAND_H

#include "workspace/workspace.h"

/* An empty list. */
void git_command_init(struct git_command *command);
/* Copies of the strings up to a NULL are appended; the list always ends with NULL. */
void git_command_add(struct git_command *command, ...);
/* git in FOLDER with what a hostile repository could make it run switched off. It runs inside the
 * sandbox in any case; this keeps the evidence from depending on the agent's settings. */
void git_command_add_git(struct git_command *command, const char *folder);
/* An empty list, then the same. */
void git_command_begin(struct git_command *command, const char *folder);
/* sh with SCRIPT, then its arguments up to a NULL: $1 is the first. */
void git_command_script(struct git_command *command, const char *script, ...);

#endif
