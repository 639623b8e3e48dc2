/* graphql.h: the gate of a GraphQL request where rules of the configuration let it through at all:
 * it may ask, but not change. */
#ifndef PROXY_GRAPHQL_H
#define PROXY_GRAPHQL_H

#include <stdbool.h>
#include <stddef.h>

#include "http/http.h"
#include "proxy/body_gate.h"

/* True when the document TEXT holds queries and fragments only. What can't be read holds more. */
bool graphql_only_asks(const char *text, size_t len);

struct body_gate *graphql_gate_new(const struct http_request *request);

#endif
