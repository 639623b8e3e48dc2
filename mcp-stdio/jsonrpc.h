/* jsonrpc.h: the client's bytes to lines, lines to JSON-RPC 2.0 messages, and the frame of what
 * goes back. No I/O.
 *
 * Ids and progress tokens are kept as the text that the client wrote and echoed byte for byte: 1,
 * "1" and 1.0 stay what they are, and no number passes through a double. */
#ifndef MCP_STDIO_JSONRPC_H
#define MCP_STDIO_JSONRPC_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"

#define JSONRPC_LINE_MAX (16u << 20) /* bytes of one line from the client */

#define JSONRPC_INVALID_REQUEST (-32600)
#define JSONRPC_METHOD_NOT_FOUND (-32601)
#define JSONRPC_INVALID_PARAMS (-32602)
#define JSONRPC_INTERNAL_ERROR (-32603)

struct jsonrpc_slice {
    const char *data; /* borrowed; NULL: nothing */
    size_t len;
};

/* Lines ---------------------------------------------------------------------------------------- */

struct jsonrpc_lines {
    struct buf in;
    size_t at;       /* what is in front of it has been handed out */
    size_t scanned;  /* no line end between at and here */
    bool discarding; /* in the middle of a line that is too long */
};

void jsonrpc_lines_init(struct jsonrpc_lines *lines);
void jsonrpc_lines_finish(struct jsonrpc_lines *lines);
/* Room for LEN bytes to read into; jsonrpc_lines_commit adds what was read. */
char *jsonrpc_lines_reserve(struct jsonrpc_lines *lines, size_t len);
void jsonrpc_lines_commit(struct jsonrpc_lines *lines, size_t len);
/* The next whole line without its end, borrowed until the next call; blank lines are passed over.
 */
bool jsonrpc_lines_next(struct jsonrpc_lines *lines, struct jsonrpc_slice *line);

/* Messages ------------------------------------------------------------------------------------- */

enum jsonrpc_verdict {
    JSONRPC_REQUEST,
    JSONRPC_NOTIFICATION,
    JSONRPC_RESPONSE,
    JSONRPC_BATCH,   /* an array: `text` and the document are filled */
    JSONRPC_REFUSED, /* no message, but `id` can be answered with JSONRPC_INVALID_REQUEST */
    JSONRPC_SILENT,  /* no message, and nobody to tell */
};

struct jsonrpc_message {
    struct json_doc *doc;
    char *repaired;            /* the text, when it had to be repaired */
    struct jsonrpc_slice text; /* of the whole message */
    struct jsonrpc_slice id;   /* as the client wrote it */
    const char *method;
    const struct json_value *params; /* NULL when absent; may be of any kind */
};

/* Reads LINE, to which MESSAGE keeps pointing. Models and tools do write half surrogate pairs, NUL
 * escapes and bytes that are no UTF-8: those are replaced before the line is given up. MESSAGE is
 * released with jsonrpc_finish, whatever the verdict; *WHY says what was wrong. */
enum jsonrpc_verdict jsonrpc_read(struct jsonrpc_message *message, struct jsonrpc_slice line,
                                  struct error *why);
void jsonrpc_finish(struct jsonrpc_message *message);

/* The text of member NAME of VALUE, whose own text is OBJECT; nothing when there is no such member.
 */
struct jsonrpc_slice jsonrpc_member_text(struct jsonrpc_slice object,
                                         const struct json_value *value, const char *name);
/* Walks the elements of an array's text: *AT starts at 0. False at the end. */
bool jsonrpc_next_element(struct jsonrpc_slice array, size_t *at, struct jsonrpc_slice *element);
/* A string or a whole number. */
bool jsonrpc_is_id(const struct json_value *value);
bool jsonrpc_slice_equal(struct jsonrpc_slice a, struct jsonrpc_slice b);

/* Writing -------------------------------------------------------------------------------------- */

/* {"jsonrpc":"2.0","id":ID and no closing brace. */
void jsonrpc_write_head(struct json_writer *writer, struct jsonrpc_slice id);
/* A whole error response; DATA is compact JSON or NULL. */
void jsonrpc_write_error(struct json_writer *writer, struct jsonrpc_slice id, int code,
                         const char *message, const char *data);
/* {"jsonrpc":"2.0","method":METHOD,"params":{ and no closing braces. */
void jsonrpc_write_notification(struct json_writer *writer, const char *method);
/* The same for a request, whose ID is compact JSON. */
void jsonrpc_write_request(struct json_writer *writer, struct jsonrpc_slice id, const char *method);

#endif
