/* client_model.c: a model's request and its run's budget: refused, held back until there is room,
 * or passed on. */
#include "proxy/client_internal.h"

#include <inttypes.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/model_gate.h"

/* Why a model is not asked, for the agent. */
static const struct {
    const char *reason;
    const char *message;
} refusals[] = {
    { "model_requests", "the run has used up its model requests" },
    { "model_tokens", "the run's tokens are used up: what is left is less than what this request "
                      "may use" },
    { "model_cost", "the run's money is used up: what is left is less than what this request may "
                    "cost" },
    { "model_price_unknown", "the run's money is limited, and this model has no price in the "
                             "configuration" },
    { "model_unmeasured", "the run's tokens or money are limited, and what this request would use "
                          "can't be seen" },
};

static void refuse(struct client_conn *conn, const char *reason)
{
    struct client_failure failure = { .reason = reason,
                                      .verdict = AUDIT_DENY,
                                      .status = 403,
                                      .type = "permission_error",
                                      .hint = NO_RETRY_HINT };
    AUTO_FREE
    char *message =
        mem_printf("the model failed too often and is not asked again: %s", conn->run->model_words);

    failure.message = message;
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (str_equal(refusals[i].reason, reason))
            failure.message = refusals[i].message;
    client_answer_failure(conn, &failure);
}

static bool is_measured(const struct client_conn *conn)
{
    const struct service *service = conn->exchange.decision.service;

    return service != NULL && service->model &&
           budget_measures(&conn->run->proxy->options.model_limits);
}

/* What uses nothing, or tells what it uses. */
static bool can_be_measured(const struct exchange *exchange)
{
    const struct policy_decision *decision = &exchange->decision;

    if (decision->action != POLICY_FORWARD)
        return false;
    return decision->model || str_equal(exchange->method, "GET") ||
           str_equal(exchange->method, "HEAD") || str_ends(decision->path, "/count_tokens") ||
           str_ends(decision->path, ":countTokens");
}

bool client_model_allows(struct client_conn *conn)
{
    const char *reason = NULL;

    if (is_measured(conn) && !can_be_measured(&conn->exchange))
        reason = "model_unmeasured";
    else if (conn->exchange.decision.model)
        reason = model_account_ask(conn->run);
    if (reason != NULL)
        refuse(conn, reason);
    return reason == NULL;
}

struct body_gate *client_model_gate(struct client_conn *conn, const struct http_request *request)
{
    const struct policy_decision *decision = &conn->exchange.decision;

    return decision->model && is_measured(conn) ? model_gate_new(request, decision->path) : NULL;
}

/* Its turn may have come: from the loop, since others are in the midst of their own ends. */
static void on_later(uv_timer_t *timer)
{
    struct client_conn *conn = timer->data;

    if (!conn->exchange.waits)
        return;
    conn->exchange.waits = false;
    client_gate_open(conn);
    if (conn->exchange.upstream != NULL)
        upstream_send_end(conn->exchange.upstream);
}

static void call_later(struct client_conn *conn)
{
    if (conn->later == NULL) {
        conn->later = NEW(uv_timer_t);
        uv_timer_init(conn->run->proxy->loop, conn->later);
        conn->later->data = conn;
    }
    uv_timer_start(conn->later, on_later, 0, 0);
}

bool client_model_goes(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;
    const struct model_wish wish = { .service = exchange->decision.service->name,
                                     .request = model_gate_request(exchange->gate),
                                     .body_bytes = model_gate_size(exchange->gate) };
    const char *reason = NULL;

    switch (model_account_set_aside(&exchange->account, conn->run, &wish, &reason)) {
    case BUDGET_GO:
        return true;
    case BUDGET_WAIT:
        exchange->waits = true;
        return false;
    case BUDGET_OVER:
        break;
    }
    refuse(conn, reason);
    return false;
}

void client_model_settle(struct client_conn *conn, struct proxy_decision *decision)
{
    model_account_settle(&conn->exchange.account, conn->run, decision);
    LIST_EACH(&conn->run->conns, link) {
        struct client_conn *other = client_conn_from_link(link);

        if (other->exchange.waits)
            call_later(other);
    }
}

static void on_later_closed(uv_handle_t *handle)
{
    free(handle);
}

void client_model_finish(struct client_conn *conn)
{
    if (conn->later != NULL)
        uv_close((uv_handle_t *)STEAL(conn->later), on_later_closed);
}
