/* proxy_internal.h: what proxy.c and client_conn.c share. */
#ifndef PROXY_PROXY_INTERNAL_H
#define PROXY_PROXY_INTERNAL_H

#include "common/list.h"
#include "io/curl_loop.h"
#include "io/listener.h"
#include "io/tls.h"
#include "proxy/git_tips.h"
#include "proxy/inject.h"
#include "proxy/lfs.h"
#include "proxy/model_watch.h"
#include "proxy/origin.h"
#include "proxy/policy.h"
#include "proxy/proxy.h"
#include "proxy/services.h"

struct proxy {
    uv_loop_t *loop;
    struct vault *vault;
    const struct clock *clock;
    struct proxy_options options; /* defaults filled in; services are in the table below */
    char *ca_file;
    struct parent parent;
    struct services services;
    struct inject_cache *caches; /* one a service */
    uv_prepare_t rest;           /* runs once after a secret was used: before the loop sleeps */
    struct price_table prices;
    struct egress egress;
    struct egress allowed;          /* by proxy_allow: also part of EGRESS */
    struct ca *ca;                  /* borrowed; NULL: none */
    struct tls_context *tls_server; /* for clients; NULL without a CA */
    struct tls_context *tls_client; /* for services; made at first use */
    struct curl_loop *errands;      /* errand.c's; made at first use */
    struct list runs;               /* run::link */
    uv_idle_t closer; /* takes part in closing, so that DONE always comes from the loop */
    unsigned open;    /* runs, also those being closed, and the two handles */
    bool closing;
    void (*done)(void *data);
    void *done_data;
};

/* One run's side of the proxy. Freed when its last part is closed. */
struct run {
    struct list link; /* proxy::runs, until revoked */
    struct proxy *proxy;
    char *id;
    struct policy_grant grant;
    bool *granted;
    struct egress egress;                   /* in the place of the proxy's, if GRANT says so */
    struct policy_repository *repositories; /* of the session */
    struct git_tips tips;                   /* what the session has pushed */
    char *only_ref;                         /* NULL: what the services allow */
    struct listener *listener;              /* NULL before attach and after revoke */
    struct origin **origins; /* one a service, made at first use: connections are never shared
                                between runs */
    struct curl_loop *hosts; /* the same for hosts that are no services */
    struct list conns;       /* client_conn::link */
    unsigned open;           /* listener, pools, connections */
    bool revoked;
    uint64_t answered;
    struct probe *probe; /* of a run that is one; NULL once it is over */
    struct budget budget;
    uint32_t retries; /* of a model request */
    struct lfs_places lfs;
    uint64_t cut_at; /* number of requests when an answer was cut off by its greatest length; 0:
                        none was, or the model was asked on */
    char model_words[MODEL_WORDS_MAX]; /* what the last model that failed said */
    uint64_t traffic_ms;               /* when on_traffic was last called */
};

/* Counts a part in and out; the last one out frees a revoked run. */
void run_part_opened(struct run *run);
void run_part_closed(struct run *run);
/* NULL with ERR when it can't be made: connections to a service; those to hosts. */
struct origin *run_origin(struct run *run, const struct service *service, struct error *err);
struct curl_loop *run_hosts(struct run *run, struct error *err);
/* Of proxy::open. */
void proxy_part_opened(struct proxy *proxy);
void proxy_part_closed(struct proxy *proxy);
/* Secrets were used: they are shut before the loop sleeps. */
void proxy_rest_soon(struct proxy *proxy);
/* The context for TLS towards services, or NULL with ERR. */
struct tls_context *proxy_tls_client(struct proxy *proxy, struct error *err);
/* A byte went either way. */
void run_note_traffic(struct run *run);

/* run::tips has changed. */
void run_note_pushed(struct run *run);

/* Not yet revoked; NULL. */
struct run *proxy_run(const struct proxy *proxy, const char *run_id);

/* probe.c */
struct probe;
void probe_note(struct probe *probe, const struct proxy_decision *decision);

/* client_conn.c */
struct client_conn;
/* Serves one connection of a sandbox; FD is taken. */
void client_conn_start(struct run *run, int fd);
/* Cuts it: upstream, then the client by a reset. The exchange under way is recorded with REASON. */
void client_conn_cut(struct client_conn *conn, const char *reason);
struct client_conn *client_conn_from_link(struct list *link);

#endif
