/* output.h: the real standard output, taken away from everyone else at start, and written without
 * ever waiting where the system allows that. */
#ifndef MCP_STDIO_OUTPUT_H
#define MCP_STDIO_OUTPUT_H

#include "common/buf.h"
#include "common/error.h"

struct output {
    int fd;
    enum { OUTPUT_SOCKET, OUTPUT_PIPE, OUTPUT_WAITING } kind;
};

/* From here on descriptor 1 is standard error, for libraries and children that print. */
int output_take(struct output *output, struct error *err);
/* Writes and consumes what BUF holds, as far as that goes now. -1: nobody reads any more. */
int output_flush(struct output *output, struct buf *buf, struct error *err);

#endif
