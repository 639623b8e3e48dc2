/* complete.h: completion of the arguments of prompts and resource templates: ids of runs and
 * sessions, and repositories that were worked on. */
#ifndef MCP_STDIO_COMPLETE_H
#define MCP_STDIO_COMPLETE_H

#include "mcp-stdio/server.h"

/* completion/complete of both eras. */
void complete_on_request(struct server *server, const struct request *request);

#endif
