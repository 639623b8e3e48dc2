/* call.h: tool calls in flight: from the request to the supervisor's reply, a deadline, or the
 * client's cancel; and open subscriptions, which only a cancel ends. */
#ifndef MCP_STDIO_CALL_H
#define MCP_STDIO_CALL_H

#include "mcp-stdio/backend.h"
#include "mcp-stdio/server.h"
#include "mcp-stdio/tools.h"

struct calls;

struct calls *calls_new(struct server *server, const struct clock *clock,
                        const struct backend_options *options);
void calls_free(struct calls *calls); /* calls in flight end without an answer */

/* Sends what TOOL_REQUEST holds to the supervisor and answers TARGET when that replied. Takes over
 * TOOL_REQUEST's memory. PROGRESS_TOKEN as the client wrote it, or nothing. */
void calls_start(struct calls *calls, const struct server_target *target, const struct tool *tool,
                 struct tool_request *tool_request, struct jsonrpc_slice progress_token);
/* Keeps TARGET open until it is cancelled. -1 when too many are. */
int calls_keep_open(struct calls *calls, const struct server_target *target);
/* The client wants no answer to ID any more. The run itself is never touched. */
void calls_cancel(struct calls *calls, struct jsonrpc_slice id);

bool calls_busy(const struct calls *calls);
bool calls_poll(const struct calls *calls, struct pollfd *entry);
void calls_supervisor_ready(struct calls *calls);
uint64_t calls_deadline_ms(const struct calls *calls);
void calls_tick(struct calls *calls);

#endif
