/* opencode_locate.h: finds OpenCode's program on the host. */
#ifndef AGENT_OPENCODE_LOCATE_H
#define AGENT_OPENCODE_LOCATE_H

#include "common/error.h"

/* As in struct agent_driver: the real file of an ELF program. Npm may leave a script in its place,
 * which needs node; the program is then in a package beside it. */
int opencode_locate(const char *configured, const char *data_dir, char **path, struct error *err);

#endif
