/* proxy.h: HTTP proxy for sandboxes that puts the real credential in on the way out. Per run: a
 * listening socket that lives in the sandbox's network namespace, a worthless token, and a list of
 * services. A request is judged before a credential is looked up, one canonical form of it is
 * judged and sent, and whatever is not allowed is refused and recorded. */
#ifndef PROXY_PROXY_H
#define PROXY_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/error.h"
#include "proxy/budget.h"
#include "proxy/parent.h"
#include "proxy/price.h"
#include "vault/ca.h"
#include "vault/vault.h"

struct proxy;

#define PROXY_TOKEN_HASH_SIZE 32
#define PROXY_MODEL_WORDS_MAX 400u
#define PROXY_TOKEN_SIZE 48 /* "sbx_" + 43 characters of base64url (256 bits) + NUL */

/* One upstream; copied by proxy_start. Strings as in configuration (config.h); the roof maps one
 * onto the other. */
struct proxy_service {
    const char *name;
    const char *target;
    const char *inject_header; /* "" : none */
    const char *inject_query;  /* a parameter of the query instead; NULL or "": none */
    const char *inject_value;
    const char *secret;
    const char *const *allow;
    size_t allow_count;
    bool private;      /* the target may have an address in a private network */
    const char *probe; /* path of a harmless GET that needs the credential; NULL or "": none */
    bool model;        /* agents think with it: its requests are counted */
    /* For git: what may be pushed, as in git_rules.h; NULL: agent/... */
    const char *const *push_refs;
    size_t push_ref_count;
    bool push_overwrite;
    /* Repositories beside the session's own that the credential may be used for: "owner/name",
     * "owner/...", "..." */
    const char *const *repositories;
    size_t repository_count;
};

enum audit_verdict { AUDIT_ALLOW, AUDIT_DENY, AUDIT_ERROR };

/* One per request or refused connection; borrowed during the callback. Never holds a secret. */
struct proxy_decision {
    const char *run_id;
    const char *service; /* "" when none was recognised */
    const char *method;
    const char *host;
    const char *path; /* without the query */
    enum audit_verdict verdict;
    const char *detail; /* more about it, such as the refs of a push; "" mostly */
    const char *reason; /* "ok", "no_token", "unknown_service", "method_not_allowed",
                           "secret_missing", "upstream_connect", … */
    uint32_t status;    /* answered to the sandbox; 0: the connection was cut */
    uint64_t request_bytes;
    uint64_t response_bytes;
    uint64_t milliseconds;
    /* Of a model request: what the provider says that it used, all 0 when it used nothing. */
    uint64_t input_tokens; /* also those that a cache had */
    uint64_t output_tokens;
    uint64_t
        microdollars; /* by the table of prices; 0: the model has none, or nothing is limited */
    bool estimated;   /* it did not say, so the most that it may have been */
};

/* How a model request ended, in a run's own account. Borrowed during the callback. */
struct proxy_model_news {
    const char *run_id;
    bool good;       /* a whole answer came; else the members below say what did */
    bool at_length;  /* but it, or one that nothing was asked after, reached its greatest length */
    uint32_t status; /* the provider's; 0: none */
    const char *reason; /* "status", "error_event", or as in struct proxy_decision */
    const char *words;  /* the provider's own, "" none */
    const char *type;   /* and its name for the error, "" none */
    uint64_t
        retry_at_ms;   /* wall clock: the provider wants to be left alone until then; 0: no word */
    uint32_t failures; /* in a row */
    /* NULL, or why no further model request of the run is passed on: "model_failures" (in a row),
     * "model_wait" (too long to sit out), "model_requests" (in all), "model_tokens", "model_cost".
     */
    const char *exhausted;
};

struct proxy_options {
    const struct proxy_service *services;
    size_t service_count;
    /* Hosts that are no services (egress.h has the form); copied. */
    const char *const *egress;
    size_t egress_count;
    struct ca *ca; /* signs for the hosts whose TLS ends here; NULL: no tunnel to them. Outlives the
                      proxy. */
    uint32_t connections_per_run;      /* 0: 64 */
    uint64_t upstream_connect_ms;      /* 0: 10000 */
    uint64_t upstream_idle_ms;         /* no byte either way for so long: cut; 0: 600000 */
    uint64_t model_head_ms;            /* until a model's answer begins; 0: upstream_idle_ms */
    uint64_t model_silence_ms;         /* no byte of it for so long; 0: upstream_idle_ms */
    uint64_t retry_after_max_seconds;  /* an upstream's Retry-After is clamped to it; 0: 60 */
    struct budget_limits model_limits; /* of each run; all 0: none */
    const struct price *prices;        /* copied */
    size_t price_count;
    const char *ca_file;          /* extra CA bundle, NULL: the system's */
    struct parent_options parent; /* the proxy between this one and the world; copied */
    void (*on_decision)(void *data, const struct proxy_decision *decision);
    /* Any byte went to or from an upstream for this run: a sign of life. At most once a second per
     * run. It may be called in the midst of a transfer, so it only takes notes. May be NULL. */
    void (*on_traffic)(void *data, const char *run_id);
    /* A model request ended, other than by the client's own will. Only takes notes. May be NULL. */
    void (*on_model)(void *data, const struct proxy_model_news *news);
    /* A push was taken by its server. PUSHED is all that the run's session has pushed, for a later
     * grant. May be NULL. */
    void (*on_pushed)(void *data, const char *run_id, const char *pushed);
    void *data;
};

int proxy_start(struct proxy **out, uv_loop_t *loop, struct vault *vault, const struct clock *clock,
                const struct proxy_options *options, struct error *err);
/* The same as the option, before the first grant. CA outlives the proxy. */
int proxy_set_ca(struct proxy *proxy, struct ca *ca, struct error *err);
/* Lets all runs, also those under way, reach what RULE says, beside what the options said. */
int proxy_allow(struct proxy *proxy, const char *rule, struct error *err);
/* Cuts everything, then DONE. */
void proxy_close(struct proxy *proxy, void (*done)(void *data), void *data);

/* What may be pushed to one repository, where that isn't what its service says. */
enum proxy_overwrite { PROXY_OVERWRITE_AS_SERVICE, PROXY_OVERWRITE_NO, PROXY_OVERWRITE_YES };
struct proxy_push {
    const char *const *refs; /* NULL: the service's */
    size_t ref_count;
    enum proxy_overwrite overwrite;
};

/* A repository that is a session's own. */
struct proxy_repository {
    const char *service; /* a git service's name */
    const char *path;    /* there: "/owner/name.git" */
    const char *branch;  /* that the session may push; "" none */
    struct proxy_push push;
};

struct proxy_grant {
    const char *run_id;
    const char *const *services; /* names this run may use; NULL: all that are configured */
    size_t service_count;
    uint64_t model_requests;         /* that it has had already, at a restore, */
    struct budget_amount model_used; /* and what these used */
    uint32_t model_retries; /* how often a busy model is asked again for a client that waits */
    const struct proxy_repository *repositories;
    size_t repository_count;
    const char *pushed; /* from on_pushed of an earlier run; NULL: nothing */
    /* The only ref that may be pushed, where the service's rules allow it; "": none, NULL: what
     * they allow. */
    const char *only_ref;
    /* Hosts in the place of proxy_options::egress; what proxy_allow says is allowed beside them.
     * NULL: the same as for others. */
    const char *const *egress;
    size_t egress_count;
    bool no_hosts; /* services only */
};
/* Makes a run's token and writes it to TOKEN, and its hash, which is all that the proxy keeps, to
 * HASH. ERR_CONFLICT if the run has one. */
int proxy_grant_run(struct proxy *proxy, const struct proxy_grant *grant,
                    char token[PROXY_TOKEN_SIZE], uint8_t hash[PROXY_TOKEN_HASH_SIZE],
                    struct error *err);
/* After a restart: the grant again for a token that was given out before, known by its hash. */
int proxy_restore_run(struct proxy *proxy, const struct proxy_grant *grant,
                      const uint8_t hash[PROXY_TOKEN_HASH_SIZE], struct error *err);
/* Serves the run on LISTEN_FD (taken; also closed on failure). */
int proxy_attach(struct proxy *proxy, const char *run_id, int listen_fd, struct error *err);
/* Nobody but the run's own programs reaches its listener: they may ask for hosts without the token.
 * Services need it all the same. */
void proxy_open_listener(struct proxy *proxy, const char *run_id);
/* Sets what proxy_grant::only_ref says, of a run that has one: "" none. */
void proxy_limit_push(struct proxy *proxy, const char *run_id, const char *only_ref);
/* Forgets the token and cuts the run's connections and streams at once. Unknown runs are ignored.
 */
void proxy_revoke(struct proxy *proxy, const char *run_id);

/* Does the credential get there? A harmless request, the service's own probe, goes the way of all
 * requests; its record is of the run "probe". */
enum proxy_probe_outcome {
    PROXY_PROBE_WORKS,
    PROXY_PROBE_SECRET_MISSING,
    PROXY_PROBE_SECRET_UNUSABLE, /* no header can hold it */
    PROXY_PROBE_KEY_REFUSED,     /* the service answered 401 or 403 */
    PROXY_PROBE_UNREACHABLE,
    PROXY_PROBE_TLS,      /* its certificate is not trusted */
    PROXY_PROBE_NO_PROBE, /* nothing harmless to ask it is known */
    PROXY_PROBE_FAILED,   /* it answered something else */
};
struct proxy_probe_result {
    enum proxy_probe_outcome outcome;
    uint32_t status;    /* 0: there was no answer */
    const char *reason; /* as in struct proxy_decision; "" none. Borrowed during the callback */
};
typedef void (*proxy_probe_cb)(void *data, const struct proxy_probe_result *result);
/* DONE runs once, perhaps before this returns; within half a minute, and when the proxy closes. One
 * at a time: ERR_CONFLICT. ERR_NOT_FOUND. */
int proxy_probe(struct proxy *proxy, const char *service, proxy_probe_cb done, void *data,
                struct error *err);
/* "works", "secret_missing", … */
const char *proxy_probe_name(enum proxy_probe_outcome outcome);

/* What may be pushed there as a branch: WANTED itself, or WANTED below the first folder that the
 * rules of the service, or of the repository in PUSH, allow. False: there is no such. */
bool proxy_push_branch(const struct proxy *proxy, const char *service,
                       const struct proxy_push *push, const char *wanted, struct buf *out);
/* For on_pushed's text PUSHED (may be NULL): that the session has pushed ID to REF of the
 * repository PATH as well. */
void proxy_pushed_add(const char *pushed, const char *service, const char *path, const char *ref,
                      const char *id, struct buf *out);

/* For service.list and doctor: whether the service is known, and whether its secret is there. */
bool proxy_service_ready(const struct proxy *proxy, const char *service, bool *secret_present);
/* Whether MODEL ("SERVICE/NAME") may be used as far as money goes: it is not limited, or the model
 * has a price. */
bool proxy_model_priced(const struct proxy *proxy, const char *model);
/* Model requests that were answered 2xx for this run. */
uint64_t proxy_requests(const struct proxy *proxy, const char *run_id);

#endif
