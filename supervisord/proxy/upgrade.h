/* upgrade.h: the two heads of a WebSocket's handshake. Pure. */
#ifndef PROXY_UPGRADE_H
#define PROXY_UPGRADE_H

#include "http/http.h"
#include "proxy/services.h"

#define UPGRADE_HEAD_MAX (HTTP_HEAD_MAX + (64u << 10))

/* The head that goes upstream: PATH canonical with its query, LINES from inject_headers. Without
 * the extensions that the client offers, since compressed frames can't be looked at. */
void upgrade_write(struct buf *out, const struct service *service, const char *path,
                   const struct http_request *request, const struct buf *lines);
/* The service agreed to just what REQUEST asked for. */
bool upgrade_accepted(const struct http_request *request, const struct http_response_head *head);
/* What the client is answered. */
void upgrade_answer(const struct http_response_head *head, struct http_headers *out);

#endif
