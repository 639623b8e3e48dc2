/* envelope.h: what a JSON frame holds.
 *
 *   request  {"id":7,"method":"run.get","params":{…}}      client to daemon; ids are the
 * client's, 1..2^53, not in use reply    {"id":7,"result":{…}}  or
 * {"id":7,"error":{"code":"not_found","message":"…","argument":"runId"}} event {"id":7,"event":{…}}
 * for a request that subscribed; its reply came first end      {"id":7,"end":{…}}     the
 * subscription is over and the id is free again; "end" may be {} cancel   {"cancel":7} client to
 * daemon: no reply to 7 is wanted any more; ends a subscription without an "end"; unknown ids are
 * ignored. Cancelling never undoes what the method did. Unknown members are refused. No I/O. */
#ifndef PROTO_ENVELOPE_H
#define PROTO_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_write.h"

enum envelope_kind {
    ENVELOPE_REQUEST,
    ENVELOPE_REPLY,
    ENVELOPE_ERROR,
    ENVELOPE_EVENT,
    ENVELOPE_END,
    ENVELOPE_CANCEL,
};

struct envelope {
    enum envelope_kind kind;
    uint64_t id;
    const char *method;            /* request */
    const struct json_value *body; /* params, result, event or end; NULL when absent */
    struct error error;            /* ENVELOPE_ERROR */
};

/* Strings and values are borrowed from DOC. */
int envelope_read(const struct json_doc *doc, struct envelope *out, struct error *err);

/* A reply as envelope_append_reply wrote it, whose body is not read: its id, and the text of what
 * should be its body. False for everything else. */
bool envelope_peek_reply(const char *text, size_t len, uint64_t *id, const char **body,
                         size_t *body_len);

/* Each appends one whole frame to OUT. BODY is a compact JSON object as text; NULL means {}.
 * ERR_LIMIT when it is too large. */
int envelope_append_request(struct buf *out, uint64_t id, const char *method, const char *body,
                            struct error *err);
int envelope_append_reply(struct buf *out, uint64_t id, const char *body, struct error *err);
int envelope_append_error(struct buf *out, uint64_t id, const struct error *error,
                          struct error *err);
int envelope_append_event(struct buf *out, uint64_t id, const char *body, struct error *err);
int envelope_append_end(struct buf *out, uint64_t id, const char *body, struct error *err);
int envelope_append_cancel(struct buf *out, uint64_t id, struct error *err);

#endif
