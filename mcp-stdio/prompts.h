/* prompts.h: ready-made requests that a person picks in the client, which then go to the model. */
#ifndef MCP_STDIO_PROMPTS_H
#define MCP_STDIO_PROMPTS_H

#include "mcp-stdio/server.h"

/* True when there is a prompt NAME that takes ARGUMENT. */
bool prompts_take(const char *name, const char *argument);
bool prompts_exist(const char *name);

/* prompts/list and prompts/get of both eras. */
void prompts_on_list(struct server *server, const struct request *request);
void prompts_on_get(struct server *server, const struct request *request);

#endif
