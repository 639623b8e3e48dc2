/* model_gate.h: the judge of a model's request where tokens or money are limited: the request is
 * held until it is known how much it may use. */
#ifndef PROXY_MODEL_GATE_H
#define PROXY_MODEL_GATE_H

#include "http/http.h"
#include "proxy/body_gate.h"
#include "proxy/model_request.h"

/* PATH is below the service. */
struct body_gate *model_gate_new(const struct http_request *request, const char *path);
/* Of a gate of this kind that is open, or was. */
const struct model_request *model_gate_request(struct body_gate *gate);
/* Bytes of the whole body. */
size_t model_gate_size(struct body_gate *gate);

#endif
