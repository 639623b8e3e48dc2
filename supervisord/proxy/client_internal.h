/* client_internal.h: what the files of a sandbox's connection share: client_conn.c its life,
 * client_request.c and client_response.c the ways up and back, client_gate.c bodies that are
 * judged, client_model.c the budget of a model's requests, client_lfs.c large files of git,
 * client_tunnel.c tunnels and upgrades, client_answer.c how a request ends. */
#ifndef PROXY_CLIENT_INTERNAL_H
#define PROXY_CLIENT_INTERNAL_H

#include "http/http.h"
#include "proxy/inject.h"
#include "proxy/model_account.h"
#include "proxy/proxy_internal.h"
#include "proxy/relay.h"
#include "proxy/upstream.h"

#define NO_RETRY_HINT                                                                              \
    "This is a rule of the sandbox, not a fault: the same request will be refused again, so do "   \
    "not retry it. "                                                                               \
    "Go on without it, or say in your answer what you would need."

/* The request under way. */
struct exchange {
    struct policy_decision decision;
    struct inject_veil *veil;
    struct upstream *upstream;          /* NULL before it starts and after its end */
    struct relay *relay;                /* the same, of a tunnel or an upgrade */
    const struct http_request *request; /* borrowed from the connection */
    char *method;
    char *host;
    char *base; /* "http://HOST/proxy/NAME", for redirects; NULL when the host is the service's own
                 */
    struct decode *decode;  /* takes a coding off that nobody asked for, to see what is inside */
    const char *unreadable; /* reason, when an answer can't be searched for the credential */
    bool begun;             /* the response's head went to the client */
    int status;
    struct model_account account; /* of a model request */
    uint64_t started_ms;
    uint64_t request_bytes;
    uint64_t response_bytes;
    const char *refused;    /* reason, when the http layer refused the body */
    struct body_gate *gate; /* NULL: the body needs no judge */
    /* Behind its open gate, for room in its run's budget; for the time to ask a busy model again.
     */
    enum { WAITS_NOT, WAITS_FOR_ROOM, WAITS_TO_RETRY } waits;
    unsigned retries; /* that were made */
    /* Of Git LFS: the answer to a batch, which is for nobody to see as it is; and for the audit
     * which object is meant, NULL none. */
    bool collects;
    struct buf collected;
    char *storage;
};

struct client_conn {
    struct list link; /* run::conns */
    struct run *run;
    struct http_conn *http;
    bool intercepted; /* what comes is in a tunnel that ends here */
    struct entry_tunnel inside;
    bool active; /* an exchange is under way and not recorded yet */
    struct exchange exchange;
    uv_timer_t *later; /* for an exchange that waits; NULL: none has */
};

/* What the client hears, and what is recorded. */
struct client_failure {
    const char *reason;
    enum audit_verdict verdict;
    int status;
    const char *type;
    const char *message;
    const char *hint;
};

/* client_answer.c */
uint64_t client_now_ms(const struct client_conn *conn);
void client_exchange_finish(struct exchange *exchange);
/* The one place that ends an exchange. STATUS 0: the connection was cut. */
void client_record(struct client_conn *conn, enum audit_verdict verdict, const char *reason,
                   int status);
/* A record of an attempt whose answer was not for the client; the exchange goes on. */
void client_record_attempt(struct client_conn *conn, const char *reason);
/* An error in the form that clients of model services understand. Not recorded. */
void client_answer_error(struct client_conn *conn, int status, const char *type, const char *code,
                         const char *message, const char *hint);
/* Answers and records: what the decision refuses; a failure. */
void client_answer_refusal(struct client_conn *conn);
void client_answer_failure(struct client_conn *conn, const struct client_failure *failure);
/* When the upstream's head never came. */
const struct client_failure *client_failure(enum upstream_end end);

/* client_response.c */
struct upstream_callbacks client_response_callbacks(struct client_conn *conn);

/* client_request.c */
void client_refuse_for_secret(struct client_conn *conn, const struct error *err);
/* The request's headers and path as they go upstream; the path is freed with inject_path_free. */
int client_put_credential(struct client_conn *conn, const struct http_request *request,
                          struct buf *lines, char **path, struct error *err);
void client_pass_on(struct client_conn *conn, const struct http_request *request);

/* client_model.c */
/* False: the request was refused, for good. */
bool client_model_allows(struct client_conn *conn);
/* The judge that a model's request needs, or NULL. */
struct body_gate *client_model_gate(struct client_conn *conn, const struct http_request *request);
/* Sets aside what the request behind its open gate may use. False: it was refused, or waits. */
bool client_model_goes(struct client_conn *conn);
/* What is held may have to be sent again. */
bool client_model_keeps(const struct client_conn *conn);
/* An answer has begun. True: it is not for the client, who waits for another one. */
bool client_model_retries(struct client_conn *conn, const struct http_response_head *head);
/* A piece of that answer, and its end. */
void client_model_drop(struct client_conn *conn, const char *bytes, size_t len);
void client_model_dropped(struct client_conn *conn);
/* It is over. DECISION gets what it used; others that wait may go. */
void client_model_settle(struct client_conn *conn, struct proxy_decision *decision);
/* The connection is over. */
void client_model_finish(struct client_conn *conn);

/* client_gate.c */
/* The judge that a request's body needs, or NULL. */
struct body_gate *client_gate_new(struct client_conn *conn, const struct http_request *request);
/* True while the body is the gate's business. */
bool client_gate_feed(struct client_conn *conn, const char *bytes, size_t len);
/* What was held goes on. */
void client_gate_open(struct client_conn *conn);
/* The body is over; also tells the upstream, once it has what was held. */
void client_gate_end(struct client_conn *conn);
/* The upstream has room. True: it is for what is held. */
bool client_gate_sends(struct client_conn *conn);

/* client_lfs.c */
struct body_gate *client_lfs_gate(struct client_conn *conn);
/* An answer has begun. True: it is collected, for client_lfs_answer. */
bool client_lfs_collects(struct client_conn *conn, const struct http_response_head *head);
void client_lfs_answer(struct client_conn *conn);
void client_lfs_pass(struct client_conn *conn, const struct http_request *request);

/* client_tunnel.c */
void client_open_tunnel(struct client_conn *conn);
void client_pass_upgrade(struct client_conn *conn, const struct http_request *request);
/* Ends TLS here from now on. The tunnel itself is one decision, each request in it another. */
void client_intercept(struct client_conn *conn);

#endif
