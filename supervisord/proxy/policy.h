/* policy.h: a parsed request and a grant in, a decision out. Pure: no I/O, no secret. What is
 * judged here is the very form that is sent: the decision carries the canonical path. */
#ifndef PROXY_POLICY_H
#define PROXY_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "http/http.h"
#include "proxy/egress.h"
#include "proxy/entry.h"
#include "proxy/git_rules.h"
#include "proxy/services.h"
#include "proxy/token.h"

struct policy_repository {
    const struct service *service;
    char *path;       /* "/o/r.git" */
    char *branch;     /* that the session may push; "" none */
    char **push_refs; /* that may be pushed; NULL: the service's */
    size_t push_ref_count;
    bool push_overwrite;
};

struct policy_grant {
    const struct services *services;
    const bool *granted;         /* by index into services */
    const struct egress *egress; /* NULL: none */
    bool intercepts;             /* there is a certificate authority */
    bool open_listener; /* nobody but the run reaches its listener: hosts need no token there */
    bool probes;        /* asks for the probe of a service, and has nobody else in it */
    struct token_hash token;
    const struct policy_repository *repositories; /* the session's own */
    size_t repository_count;
};

enum policy_action {
    POLICY_FORWARD,   /* send it to the service */
    POLICY_TUNNEL,    /* connect to the host, and pass bytes */
    POLICY_INTERCEPT, /* end TLS here and judge what is inside */
    POLICY_UPGRADE,   /* send it, and pass bytes when the service agrees */
};

struct policy_decision {
    bool allowed;
    enum policy_action action;
    struct host host;                /* of a tunnel, intercepted or not */
    struct addr_exception exception; /* of a tunnel */
    struct service *made;            /* SERVICE when it is no service of the table; owned */
    const struct service *service;   /* NULL when none was recognised */
    const char *reason;              /* machine-readable; "ok" when allowed */
    const char *message;             /* for a person; NULL when allowed */
    int status;                      /* to answer when refused */
    bool challenge; /* a 401 that needs WWW-Authenticate: Basic, so that git tries again with its
                       password */
    char *path;     /* canonical, below the service, without the query; "" when there is none */
    char *upstream_path; /* prefix, path and query, when allowed */
    enum git_endpoint
        git; /* what git wants of a repository, NONE when this is about something else */
    const struct policy_repository *repository; /* the session's own that is meant; NULL */
    size_t repository_len;                      /* PATH begins with the repository */
    bool anonymous; /* no credential goes with it: a repository that isn't the session's */
    bool graphql;   /* its body has to be judged: graphql.h */
    bool model;     /* a request that a model answers: its event stream must have its final event */
};

void policy_decide(const struct http_request *request, const struct policy_grant *grant,
                   struct policy_decision *out);
/* The same for a request inside of an intercepted tunnel to INSIDE (NULL: none). */
void policy_decide_inside(const struct http_request *request, const struct policy_grant *grant,
                          const struct entry_tunnel *inside, struct policy_decision *out);
void policy_decision_finish(struct policy_decision *decision);

#endif
