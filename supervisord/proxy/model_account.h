/* model_account.h: one model request in its run's account: asked for, its answer read along, and
 * what it came to, told by on_model. Internal to the proxy. */
#ifndef PROXY_MODEL_ACCOUNT_H
#define PROXY_MODEL_ACCOUNT_H

#include "proxy/inject.h"
#include "proxy/model_request.h"
#include "proxy/model_usage.h"
#include "proxy/proxy_internal.h"

struct model_account {
    bool asked;     /* passed on, and so accounted for */
    bool watched;   /* from the answer's head on */
    bool answering; /* counted as an answer that comes in */
    struct model_watch watch;
    uint64_t retry_after_ms; /* the upstream's own; 0 none */
    uint64_t number;         /* of the run's requests, once it was passed on */
    /* Where tokens or money are limited: */
    const struct price *price;  /* NULL: unknown */
    struct price_tokens most;   /* that it may use; all 0 where nothing is limited */
    struct budget_amount aside; /* the same in the budget's terms */
    struct model_usage usage;
};

/* NULL, or why the run's request must not go on. */
const char *model_account_ask(struct run *run);

struct model_wish {
    const char *service;
    const struct model_request *request;
    size_t body_bytes;
};
/* Sets aside what the request may use at most. OVER: *REASON says why. */
enum budget_verdict model_account_set_aside(struct model_account *account, struct run *run,
                                            const struct model_wish *wish, const char **reason);
/* EVENT_STREAM: one whose events can be read. */
void model_account_head(struct model_account *account, struct run *run,
                        const struct http_response_head *head, bool event_stream);
/* That answer is not the account's business after all: as before its head. */
void model_account_unwatch(struct model_account *account);
/* It was an answer that the client doesn't see, of STATUS; the same request goes on again. */
void model_account_again(struct model_account *account, struct run *run, struct inject_veil *veil,
                         int status);
void model_account_body(struct model_account *account, const char *bytes, size_t len);
/* The answer's body is over. False: it was an event stream that had not had its final event. */
bool model_account_whole(struct model_account *account);
/* It goes to the service, and what comes of it is told. */
void model_account_pass(struct model_account *account, const struct run *run);
/* DECISION says how it ended and gets what it used; what was set aside is given back. */
void model_account_settle(struct model_account *account, struct run *run,
                          struct proxy_decision *decision);
/* How it ended, as in the audit record. STATUS is the upstream's, 0 none. VEIL may be NULL. Then
 * the account is empty. */
void model_account_close(struct model_account *account, struct run *run, struct inject_veil *veil,
                         enum audit_verdict verdict, const char *reason, int status);

#endif
