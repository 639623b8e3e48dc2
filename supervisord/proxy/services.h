/* services.h: the upstreams that the proxy knows, parsed once from their configured form. */
#ifndef PROXY_SERVICES_H
#define PROXY_SERVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/addr_check.h"
#include "proxy/host.h"
#include "proxy/proxy.h"

enum inject_kind {
    INJECT_NONE,  /* the service needs no credential */
    INJECT_VALUE, /* before + secret + after */
    INJECT_BASIC, /* before + base64(user ":" secret) + after */
    INJECT_QUERY, /* parameter=secret, percent-encoded */
};

struct allow_rule {
    char *method;
    char *path;
    bool below; /* PATH ends in '/', and anything below it is meant */
};

struct service {
    char *name;
    char *scheme;      /* "http" or "https" */
    char *origin;      /* scheme, host and port, as in the URL */
    char *host;        /* host, with the port if it isn't the scheme's own */
    struct host where; /* the same, for comparing */
    char *prefix;      /* path that goes in front: "" or "/v1" */
    struct addr_exception exception;
    enum inject_kind inject;
    char *inject_header; /* lower case; "" when none */
    char *inject_query;  /* name of the parameter, "" none */
    char *inject_before;
    char *inject_after;
    char *basic_user;
    char *secret; /* name in the vault, "" when none */
    struct allow_rule *rules;
    size_t rule_count;
    bool egress; /* no service of the table: a host that a rule allows, without a credential */
    bool git;    /* only git's own endpoints, when no rules are given */
    bool
        pushes; /* git is served here: its pushes and repositories are judged, whatever the rules */
    char *probe;                   /* path of a harmless GET, "" none */
    bool model;                    /* a provider of models */
    const struct forge_api *forge; /* it is a forge's API: forge_rules.h, when no rules are given;
                                      NULL */
    char **push_refs;
    size_t push_ref_count;
    bool push_overwrite;
    char **repositories;
    size_t repository_count;
};

struct services {
    struct service *items;
    size_t count;
};

/* ERR_INVALID names the service and what is wrong. */
int services_init(struct services *services, const struct proxy_service *list, size_t count,
                  struct error *err);
void services_finish(struct services *services);
/* For a request to a host that is no service; freed with service_host_free. */
struct service *service_host_new(const struct host *host, const char *scheme,
                                 const struct addr_exception *exception);
void service_host_free(struct service *service);
/* NAME of LEN bytes, exactly; NULL. */
const struct service *services_find(const struct services *services, const char *name, size_t len);

#endif
