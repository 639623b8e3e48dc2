/* acp_rpc.h: bytes of an agent's standard output to JSON-RPC messages, and messages to lines.
 * Bounded, no I/O. */
#ifndef AGENT_ACP_ACP_RPC_H
#define AGENT_ACP_ACP_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"

#define ACP_LINE_MAX (4u << 20) /* a whole file may come as a diff */

enum acp_message_kind { ACP_REQUEST, ACP_NOTIFICATION, ACP_RESULT, ACP_ERROR };

/* Values are borrowed during the callback. */
struct acp_message {
    enum acp_message_kind kind;
    const char *method;          /* of requests and notifications */
    const struct json_value *id; /* of requests, to be sent back as it is */
    uint64_t number;             /* of answers: the id of our request; 0 when it is none of ours */
    const struct json_value *body; /* params, result or error; may be NULL */
};

struct acp_rpc_callbacks {
    void (*on_message)(void *data, const struct acp_message *message);
    /* A line that is no message: programs print things. Raw bytes. */
    void (*on_junk)(void *data, const char *line, size_t len);
    void *data;
};

struct acp_rpc {
    struct acp_rpc_callbacks callbacks;
    struct buf line;
    bool skipping; /* the rest of a line that is too long */
    bool torn;     /* the first line may have lost its beginning to an earlier reader */
    bool stopped;
};

/* Caller's storage. TORN: the first line is thrown away unless it is a whole message. */
void acp_rpc_init(struct acp_rpc *rpc, const struct acp_rpc_callbacks *callbacks);
void acp_rpc_finish(struct acp_rpc *rpc);
void acp_rpc_feed(struct acp_rpc *rpc, const char *bytes, size_t len);
/* The stream ended: what stands there without a line break is a line too. */
void acp_rpc_end(struct acp_rpc *rpc);
/* From inside a callback: nothing more is told. */
void acp_rpc_stop(struct acp_rpc *rpc);

/* Lines. Between begin and end the caller writes the value of params or result. */
void acp_request_begin(struct json_writer *writer, struct buf *out, uint64_t number,
                       const char *method);
void acp_notification_begin(struct json_writer *writer, struct buf *out, const char *method);
void acp_result_begin(struct json_writer *writer, struct buf *out, const char *id_json);
void acp_line_end(struct json_writer *writer, struct buf *out);
void acp_error_line(struct buf *out, const char *id_json, int code, const char *message);

#endif
