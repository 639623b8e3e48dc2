/* opencode_reply.h: one HTTP/1.1 response, from bytes. Pure. Each exchange has a connection of its
 * own, so nothing can follow a response and framing is no question of security; what the peer sends
 * is only bounded. */
#ifndef AGENT_OPENCODE_REPLY_H
#define AGENT_OPENCODE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

enum opencode_reply_state {
    OPENCODE_REPLY_STATUS,
    OPENCODE_REPLY_HEADERS,
    OPENCODE_REPLY_LENGTH, /* body of a known length */
    OPENCODE_REPLY_TO_END, /* body until the connection ends */
    OPENCODE_REPLY_CHUNK,  /* a chunk's size */
    OPENCODE_REPLY_CHUNK_DATA,
    OPENCODE_REPLY_CHUNK_END,
    OPENCODE_REPLY_TRAILERS,
    OPENCODE_REPLY_DONE,
};

struct opencode_reply {
    enum opencode_reply_state state;
    int status;
    bool is_json;
    bool is_event_stream;
    bool chunked;
    bool has_length;
    uint64_t left; /* of the body or the chunk */
    unsigned lines;
    struct buf line;
};

void opencode_reply_init(struct opencode_reply *reply);
void opencode_reply_finish(struct opencode_reply *reply);
/* Appends what belongs to the body to BODY (which may fail by its maximum: the caller looks). Bytes
 * behind the end are dropped. */
int opencode_reply_feed(struct opencode_reply *reply, const char *bytes, size_t len,
                        struct buf *body, struct error *err);
/* The connection ended in order: 0 if the response is whole. */
int opencode_reply_end(struct opencode_reply *reply, struct error *err);
static inline bool opencode_reply_has_head(const struct opencode_reply *reply)
{
    return reply->state > OPENCODE_REPLY_HEADERS;
}

#endif
