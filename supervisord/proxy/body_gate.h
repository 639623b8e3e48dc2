/* body_gate.h: judges a request by the first part of its body, which is held back meanwhile:
 * nothing of the request goes upstream, and no credential is looked up, before the gate is open. A
 * refused body is read to its end and dropped, so that a client that only listens when it has sent
 * all hears the answer. Kinds are rows: git_push.c, graphql.c. */
#ifndef PROXY_BODY_GATE_H
#define PROXY_BODY_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

/* How much of a refused body is read. */
#define BODY_GATE_DRAIN_MAX (2ull << 30)

struct body_gate;

enum body_gate_state {
    BODY_GATE_READING,
    BODY_GATE_OPEN, /* what is held goes upstream, then the rest as it comes */
    BODY_GATE_SHUT,
};

struct body_refusal {
    const char *reason; /* for the audit */
    const char *message;
    int status;
    const char *type; /* media type of BODY; NULL: the proxy's own JSON error */
    struct buf body;
};

struct body_gate_kind {
    size_t held_max; /* more than this without a verdict is refused */
    const char *too_large;
    /* Looks at what is held; ENDED: that is all. SHUT after body_gate_refuse. */
    enum body_gate_state (*look)(struct body_gate *gate, bool ended);
    /* The answer's body when its status is 200, in pieces. NULL: of no interest. */
    void (*on_answer)(struct body_gate *gate, const char *data, size_t len);
    void (*free)(struct body_gate *gate);
};

/* The first member of each kind. */
struct body_gate {
    const struct body_gate_kind *kind;
    enum body_gate_state state;
    struct buf held;
    size_t sent; /* of what is held, once it is open */
    bool ended;  /* the body */
    struct body_refusal refusal;
    uint64_t drained;
    bool reads_answer;
};

void body_gate_init(struct body_gate *gate, const struct body_gate_kind *kind);
/* Also NULL. */
void body_gate_free(struct body_gate *gate);
enum body_gate_state body_gate_refuse(struct body_gate *gate, int status, const char *reason,
                                      const char *message);
/* The next piece of the body while the gate isn't open. */
enum body_gate_state body_gate_feed(struct body_gate *gate, const char *data, size_t len);
/* Refuses a body whose verdict isn't known yet, as too large. */
void body_gate_shut(struct body_gate *gate, const char *message);
/* The body is over. Never READING. */
enum body_gate_state body_gate_end(struct body_gate *gate);
/* Too much of a refused body: its connection isn't worth it any more. */
bool body_gate_overrun(const struct body_gate *gate);

#endif
