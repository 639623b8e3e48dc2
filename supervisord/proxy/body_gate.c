#include "proxy/body_gate.h"

#include "common/mem.h"

/* One read of the client more than may be held. */
#define READ_MAX (64u << 10)

void body_gate_init(struct body_gate *gate, const struct body_gate_kind *kind)
{
    gate->kind = kind;
    gate->state = BODY_GATE_READING;
    buf_init(&gate->held, kind->held_max + READ_MAX);
    buf_init(&gate->refusal.body, 8u << 20);
}

void body_gate_free(struct body_gate *gate)
{
    if (gate == NULL)
        return;
    buf_finish(&gate->held);
    buf_finish(&gate->refusal.body);
    gate->kind->free(gate);
}

enum body_gate_state body_gate_refuse(struct body_gate *gate, int status, const char *reason,
                                      const char *message)
{
    gate->refusal.status = status;
    gate->refusal.reason = reason;
    gate->refusal.message = message;
    return BODY_GATE_SHUT;
}

void body_gate_shut(struct body_gate *gate, const char *message)
{
    gate->state = body_gate_refuse(gate, 413, gate->kind->too_large, message);
    buf_finish(&gate->held);
}

static enum body_gate_state look(struct body_gate *gate, bool ended)
{
    gate->state = gate->kind->look(gate, ended);
    if (gate->state == BODY_GATE_READING && (ended || gate->held.len > gate->kind->held_max))
        gate->state = body_gate_refuse(gate, 413, gate->kind->too_large,
                                       "what has to be judged before the request may go on is too "
                                       "large");
    if (gate->state == BODY_GATE_SHUT)
        buf_finish(&gate->held);
    return gate->state;
}

enum body_gate_state body_gate_feed(struct body_gate *gate, const char *data, size_t len)
{
    BUG_ON(gate->state == BODY_GATE_OPEN);
    if (gate->state == BODY_GATE_SHUT) {
        gate->drained += len;
        return BODY_GATE_SHUT;
    }
    buf_append(&gate->held, data, len);
    if (gate->held.failed) {
        body_gate_shut(gate, "the start of the body is too large to be judged");
        return BODY_GATE_SHUT;
    }
    return look(gate, false);
}

enum body_gate_state body_gate_end(struct body_gate *gate)
{
    return gate->state == BODY_GATE_READING ? look(gate, true) : gate->state;
}

bool body_gate_overrun(const struct body_gate *gate)
{
    return gate->drained > BODY_GATE_DRAIN_MAX;
}
