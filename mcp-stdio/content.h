/* content.h: what a tool call returns to the model: readable text, and the same facts as structured
 * content, since half of the clients show only the one and half only the other. */
#ifndef MCP_STDIO_CONTENT_H
#define MCP_STDIO_CONTENT_H

#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/json_write.h"

#define CONTENT_TEXT_MAX 8000u /* bytes: what every client shows uncut */

/* Members of a result: content, structuredContent, isError. STRUCTURED is JSON in one line. */
void content_write(struct json_writer *writer, const struct buf *text, const char *structured,
                   size_t len);
/* The same for a call that failed, in words that a model can act on. No structured content: clients
 * hold that against the tool's output schema. */
void content_write_error(struct json_writer *writer, const char *text);

/* Cuts TEXT to MAX bytes, with a mark that says so. */
void content_cut(struct buf *text, size_t max);
/* Appends at most MAX bytes of DATA; a cut is marked and says how much there was. */
void content_append_cut(struct buf *text, const char *data, size_t max);

#endif
