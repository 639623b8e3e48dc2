/* progress.h: a run's events as progress notifications for the call that waits for it. Pure: events
 * and time in, lines out. A change is told within a second, and every five seconds there is a line
 * in any case. */
#ifndef MCP_STDIO_PROGRESS_H
#define MCP_STDIO_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "common/json_write.h"
#include "mcp-stdio/jsonrpc.h"

struct progress {
    char *token; /* as the client wrote it; NULL: no progress is wanted */
    size_t token_len;
    uint64_t count; /* lines so far: rises with each, as the protocol asks */
    uint64_t begun_ms;
    uint64_t last_ms; /* of the last line; 0: none yet */
    uint64_t due_ms;  /* of the next line; UINT64_MAX before progress_begin */
    char status[16];
    char phase[16];
    char step[200];
};

/* TOKEN is copied; with no token all the rest does nothing. */
void progress_init(struct progress *progress, struct jsonrpc_slice token);
void progress_finish(struct progress *progress);
static inline bool progress_wanted(const struct progress *progress)
{
    return progress->token != NULL;
}

/* The wait begins: VIEW is the run as it stands. */
void progress_begin(struct progress *progress, const struct json_value *view, uint64_t now_ms);
/* One event of the run. */
void progress_event(struct progress *progress, const struct json_value *event, uint64_t now_ms);
/* Members of the params of the notification that is due. */
void progress_write(struct progress *progress, struct json_writer *writer, uint64_t now_ms);

#endif
