/* upstream.h: one exchange with an upstream over HTTP/1.1, both directions with back-pressure.
 * Services are asked over connections of our own (origin.h), other hosts through libcurl. */
#ifndef PROXY_UPSTREAM_H
#define PROXY_UPSTREAM_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http.h"
#include "io/curl_loop.h"
#include "proxy/services.h"

struct upstream;
struct origin;
struct parent;

enum upstream_end {
    UPSTREAM_END_OK,  /* the response was received to its end */
    UPSTREAM_END_CUT, /* it broke off */
    UPSTREAM_END_RESOLVE,
    UPSTREAM_END_CONNECT,
    UPSTREAM_END_PARENT, /* the proxy on the way there can't be reached, or refused */
    UPSTREAM_END_TLS,
    UPSTREAM_END_ADDRESS,  /* the name leads to an address that is not allowed */
    UPSTREAM_END_TIMEOUT,  /* no byte either way for too long, or no connection in time */
    UPSTREAM_END_RESPONSE, /* the response's head breaks the rules */
    UPSTREAM_END_NAME,     /* of a tunnel: the client's TLS is for another host */
    UPSTREAM_END_OTHER,
};

struct upstream_callbacks {
    /* The first three may run inside of libcurl: only take notes and write. */
    /* The final head, judged; 1xx are left out. */
    void (*on_head)(void *data, const struct http_response_head *head);
    /* False: nothing was taken, upstream_resume follows when there is room. */
    bool (*on_body)(void *data, const char *bytes, size_t len);
    /* The request body's queue has room again after upstream_send returned false. */
    void (*on_room)(void *data);
    /* Once, outside of libcurl, unless upstream_cancel was called. */
    void (*on_end)(void *data, enum upstream_end end);
    void *data;
};

struct upstream_options {
    struct origin *origin;  /* the connections to use, or NULL and */
    struct curl_loop *curl; /* these */
    const struct service *service;
    const char *path; /* canonical, with the query */
    const struct http_request *request;
    const struct buf *lines;     /* from inject_headers; copied before upstream_start returns */
    const struct parent *parent; /* borrowed; for libcurl's connections, as the next two */
    const char *ca_file;         /* NULL: the system's */
    uint64_t connect_timeout_ms;
    uint64_t head_timeout_ms; /* no byte either way until the response's head */
    uint64_t idle_timeout_ms; /* the same from then on */
};

int upstream_start(struct upstream **out, uv_loop_t *loop, const struct upstream_options *options,
                   const struct upstream_callbacks *callbacks, struct error *err);
/* Queues a piece of the request's body. False: enough is queued, wait for on_room (the piece is
 * taken all the same). */
bool upstream_send(struct upstream *upstream, const void *data, size_t len);
void upstream_send_end(struct upstream *upstream);
/* The client has room again. */
void upstream_resume(struct upstream *upstream);
/* Cuts it at once and closes its connection; no callback follows. Not from inside the first three
 * callbacks. */
void upstream_cancel(struct upstream *upstream);

#endif
