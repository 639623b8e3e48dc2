/* memo.h: what the newest replies of the supervisor came to. Models look at the same run again and
 * again; the same bytes of a reply need not be read and put into words each time. Bounded. */
#ifndef MCP_STDIO_MEMO_H
#define MCP_STDIO_MEMO_H

#include <stddef.h>

#include "mcp-stdio/jsonrpc.h"

struct memo;
struct tool;

/* Everything that decides what a reply comes to. */
struct memo_key {
    const struct tool *tool;
    size_t text_max;
    struct jsonrpc_slice reply; /* its text; borrowed during a call */
};

struct memo *memo_new(void);
void memo_free(struct memo *memo); /* NULL is fine */

/* The members of the result that were kept for KEY, borrowed until the next memo_keep; nothing when
 * there are none. */
struct jsonrpc_slice memo_find(const struct memo *memo, const struct memo_key *key);
/* Keeps copies of both, in place of the oldest; not when they are large. */
void memo_keep(struct memo *memo, const struct memo_key *key, struct jsonrpc_slice members);

#endif
