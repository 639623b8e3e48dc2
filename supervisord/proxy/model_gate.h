/* model_gate.h: holds a model's request: where tokens or money are limited, until it is known how
 * much it may use; and where it may have to be sent again, if it is small. */
#ifndef PROXY_MODEL_GATE_H
#define PROXY_MODEL_GATE_H

#include "http/http.h"
#include "proxy/body_gate.h"
#include "proxy/model_request.h"

/* Larger ones are not kept for another time. */
#define MODEL_GATE_KEPT (1u << 20)

/* PATH is below the service. */
struct body_gate *model_gate_new(const struct http_request *request, const char *path);
/* The same for what only may have to be sent again: whatever it is, it passes. */
struct body_gate *model_gate_new_keeping(void);
/* Of a gate of this kind that is open, or was. */
const struct model_request *model_gate_request(struct body_gate *gate);
/* Bytes of the whole body. */
size_t model_gate_size(struct body_gate *gate);
/* All of it is held, and little enough to be kept. */
bool model_gate_keeps(struct body_gate *gate);

#endif
