/* relay.h: bytes between a client's connection and a host, both ways with back-pressure: a tunnel
 * that nobody looks into, or what follows a WebSocket's upgrade. */
#ifndef PROXY_RELAY_H
#define PROXY_RELAY_H

#include "http/http.h"
#include "io/tls.h"
#include "proxy/addr_check.h"
#include "proxy/host.h"
#include "proxy/inject.h"
#include "proxy/parent.h"
#include "proxy/upstream.h"

struct relay;

struct relay_callbacks {
    /* Connected, before a byte goes on. Of a tunnel: answer with http_conn_begin_tunnel. */
    void (*on_open)(void *data);
    /* The upgrade's answer, judged. True: it was taken and http_conn_begin_tunnel was called.
     * False: the relay is over and cancelled by itself. */
    bool (*on_answer)(void *data, const struct http_response_head *head);
    /* A byte went either way. */
    void (*on_traffic)(void *data, size_t up, size_t down);
    /* Once, unless relay_cancel was called: OK when both sides ended in order. */
    void (*on_end)(void *data, enum upstream_end end);
    void *data;
};

struct relay_options {
    const struct host *host;
    struct addr_exception exception;
    const struct parent *parent; /* borrowed */
    struct tls_context *tls;     /* NULL: in the clear */
    struct buf *upgrade; /* the request's head to send first; taken and wiped. NULL: a tunnel */
    struct inject_veil *veil; /* hides what the upstream gives back; borrowed, may be NULL */
    uint64_t connect_timeout_ms;
    uint64_t idle_timeout_ms; /* no byte either way */
};

/* HTTP is the client's connection, and must live until the end or relay_cancel. */
int relay_start(struct relay **out, uv_loop_t *loop, struct http_conn *http,
                const struct relay_options *options, const struct relay_callbacks *callbacks,
                struct error *err);
/* What the client's connection tells. Before the tunnel is open these do nothing. */
void relay_on_body(struct relay *relay, const char *bytes, size_t len);
void relay_on_body_end(struct relay *relay);
void relay_on_drain(struct relay *relay);
/* Cuts the upstream at once; no callback follows. */
void relay_cancel(struct relay *relay);

#endif
