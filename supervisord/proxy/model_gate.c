#include "proxy/model_gate.h"

#include <strings.h>

#include "common/mem.h"

/* As much as providers take. */
#define BODY_MAX (32u << 20)

struct model_gate {
    struct body_gate gate; /* first */
    struct model_request request;
    size_t size;
    bool whole; /* it was held to its end */
    char *path; /* NULL: nothing is limited */
};

static enum body_gate_state refuse(struct body_gate *gate)
{
    return body_gate_refuse(gate, 400, "model_request_unclear",
                            "what this request may use can't be told from its body, and the run's "
                            "tokens or money are limited");
}

static enum body_gate_state look(struct body_gate *gate, bool ended)
{
    struct model_gate *model = CONTAINER_OF(gate, struct model_gate, gate);

    if (!ended && model->path == NULL && gate->held.len > MODEL_GATE_KEPT)
        return BODY_GATE_OPEN;
    if (!ended)
        return BODY_GATE_READING;
    model->size = gate->held.len;
    model->whole = true;
    if (model->path == NULL)
        return BODY_GATE_OPEN;
    return model_request_read(model->path, gate->held.data, gate->held.len, &model->request)
               ? BODY_GATE_OPEN
               : refuse(gate);
}

static void gate_free(struct body_gate *gate)
{
    struct model_gate *model = CONTAINER_OF(gate, struct model_gate, gate);

    free(model->path);
    free(model);
}

static const struct body_gate_kind model_kind = {
    .held_max = BODY_MAX,
    .too_large = "model_request_unclear",
    .look = look,
    .free = gate_free,
};

struct body_gate *model_gate_new(const struct http_request *request, const char *path)
{
    struct model_gate *model = NEW(struct model_gate);
    const char *encoding = http_headers_get(&request->headers, "content-encoding");

    body_gate_init(&model->gate, &model_kind);
    model->path = mem_strdup(path);
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
        model->gate.state = refuse(&model->gate);
    return &model->gate;
}

struct body_gate *model_gate_new_keeping(void)
{
    struct model_gate *model = NEW(struct model_gate);

    body_gate_init(&model->gate, &model_kind);
    return &model->gate;
}

bool model_gate_keeps(struct body_gate *gate)
{
    const struct model_gate *model = CONTAINER_OF(gate, struct model_gate, gate);

    return gate->kind == &model_kind && gate->state == BODY_GATE_OPEN && model->whole &&
           model->size <= MODEL_GATE_KEPT;
}

const struct model_request *model_gate_request(struct body_gate *gate)
{
    return &CONTAINER_OF(gate, struct model_gate, gate)->request;
}

size_t model_gate_size(struct body_gate *gate)
{
    return CONTAINER_OF(gate, struct model_gate, gate)->size;
}
