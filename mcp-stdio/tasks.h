/* tasks.h: a run as a task of the protocol: the experimental tasks of 2025-11-25 and the extension
 * of 2026-07-28. A task's id is its run's. */
#ifndef MCP_STDIO_TASKS_H
#define MCP_STDIO_TASKS_H

#include "mcp-stdio/server.h"
#include "mcp-stdio/tools.h"

/* Legacy: the negotiated revision has tasks. */
bool tasks_negotiated(const struct request *request);
/* Modern: refuses a request whose client did not declare the extension, and returns -1. */
int tasks_refuse_undeclared(struct server *server, const struct request *request);
bool tasks_is_id(const char *text);

/* A call that is answered with a task. Takes over what TOOL_REQUEST holds. */
void tasks_start(struct server *server, const struct request *request, const struct tool *tool,
                 struct tool_request *tool_request);

void tasks_on_get(struct server *server, const struct request *request);    /* both eras */
void tasks_on_cancel(struct server *server, const struct request *request); /* both eras */
void tasks_on_result(struct server *server, const struct request *request); /* legacy */
void tasks_on_list(struct server *server, const struct request *request);   /* legacy */
void tasks_on_update(struct server *server, const struct request *request); /* modern */

#endif
