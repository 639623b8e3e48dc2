/* entry.h: the ways in which a request comes in, read into one form. From here on nothing asks how
 * it came: what is judged, sent and recorded is this. Pure. */
#ifndef PROXY_ENTRY_H
#define PROXY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "http/http.h"
#include "proxy/host.h"

enum entry_kind {
    ENTRY_BASE_URL,    /* /proxy/NAME/PATH: the service is named */
    ENTRY_ABSOLUTE,    /* http://HOST/PATH, as clients ask a proxy in the clear */
    ENTRY_CONNECT,     /* a tunnel to HOST:PORT */
    ENTRY_INTERCEPTED, /* a request inside a tunnel whose TLS ends here */
};

/* The tunnel that a request came in. */
struct entry_tunnel {
    struct host host;
    bool clear; /* the client speaks no TLS in it */
};

/* What is borrowed lives in the request. */
struct entry {
    enum entry_kind kind;
    const char *name; /* of the service, borrowed; NULL when the host tells it */
    size_t name_len;
    struct host host; /* where the request wants to go, when no service is named */
    bool clear;       /* and in the clear */
    const char *path; /* as sent, without the query; borrowed; NULL for a tunnel */
    size_t path_len;
    const char *query; /* with its '?', or ""; borrowed */
    bool websocket;    /* it asks to become one */
};

/* Why a request is refused: what is answered, recorded, and told to a person. */
struct entry_fault {
    int status;
    const char *reason;
    const char *message;
};

/* INSIDE is the tunnel of a request in an intercepted one, else NULL. False with FAULT. */
bool entry_read(const struct http_request *request, const struct entry_tunnel *inside,
                struct entry *out, struct entry_fault *fault);

#endif
