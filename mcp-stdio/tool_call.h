/* tool_call.h: a tool's call from the request to its result: the supervisor's reply as content,
 * progress while it waits, and the user's answer to what the run asks meanwhile. */
#ifndef MCP_STDIO_TOOL_CALL_H
#define MCP_STDIO_TOOL_CALL_H

#include "mcp-stdio/call.h"
#include "mcp-stdio/tools.h"

/* Takes over what TOOL_REQUEST holds. */
void tool_call_start(struct server *server, const struct request *request, const struct tool *tool,
                     struct tool_request *tool_request);

/* Members of the result of TOOL for REPLY, its text at most TEXT_MAX bytes. REPLY_TEXT is the same
 * as JSON in one line, or nothing. */
void tool_call_write_result(struct json_writer *writer, const struct tool *tool,
                            const struct json_value *reply, struct jsonrpc_slice reply_text,
                            size_t text_max);
/* What a model should know and do when TOOL's call failed. */
void tool_call_explain(struct buf *out, const struct tool *tool, const struct error *err,
                       enum call_fate fate);

#endif
