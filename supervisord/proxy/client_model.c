/* client_model.c: a model's request and its run's budget: refused, held back until there is room,
 * or passed on. */
#include "proxy/client_internal.h"

#include <sodium.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/model_gate.h"

#define RETRY_FIRST_MS UINT64_C(1000)
#define RETRY_WAIT_MAX_MS UINT64_C(30000) /* longer waits are the client's business */

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

    if (!decision->model)
        return NULL;
    if (is_measured(conn))
        return model_gate_new(request, decision->path);
    return conn->run->retries > 0 ? model_gate_new_keeping() : NULL;
}

static void go_on(struct client_conn *conn);

static void on_later(uv_timer_t *timer)
{
    go_on(timer->data);
}

/* From the loop: others are in the midst of their own ends. */
static void call_later(struct client_conn *conn, uint64_t after_ms)
{
    if (conn->later == NULL) {
        conn->later = NEW(uv_timer_t);
        uv_timer_init(conn->run->proxy->loop, conn->later);
        conn->later->data = conn;
    }
    uv_timer_start(conn->later, on_later, after_ms, 0);
}

bool client_model_goes(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;
    const char *reason = NULL;

    /* Asked again, it has what was set aside for it. */
    if (!exchange->decision.model || !is_measured(conn) || exchange->retries > 0)
        return true;
    const struct model_wish wish = { .service = exchange->decision.service->name,
                                     .request = model_gate_request(exchange->gate),
                                     .body_bytes = model_gate_size(exchange->gate) };
    switch (model_account_set_aside(&exchange->account, conn->run, &wish, &reason)) {
    case BUDGET_GO:
        return true;
    case BUDGET_WAIT:
        exchange->waits = WAITS_FOR_ROOM;
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

        if (other->exchange.waits == WAITS_FOR_ROOM)
            call_later(other, 0);
    }
}

/* Asking again
 * ------------------------------------------------------------------------------------------------
 */

bool client_model_keeps(const struct client_conn *conn)
{
    return conn->exchange.decision.model && conn->run->retries > 0 &&
           model_gate_keeps(conn->exchange.gate);
}

/* What the service wants, or twice as long each time; and a bit more, since others wait as well. */
static uint64_t wait_ms(const struct exchange *exchange)
{
    uint64_t asked = exchange->account.retry_after_ms;
    uint64_t ms = asked > 0 ? asked : RETRY_FIRST_MS << exchange->retries;

    return ms + randombytes_uniform((uint32_t)(ms < RETRY_WAIT_MAX_MS ? ms / 4 + 1 : 1));
}

bool client_model_retries(struct client_conn *conn, const struct http_response_head *head)
{
    struct exchange *exchange = &conn->exchange;
    uint64_t ms;

    if ((head->status != 429 && head->status != 529) || exchange->retries >= conn->run->retries ||
        !client_model_keeps(conn))
        return false;
    model_account_head(&exchange->account, conn->run, head, false);
    ms = wait_ms(exchange);
    if (ms > RETRY_WAIT_MAX_MS) {
        model_account_unwatch(&exchange->account);
        return false;
    }
    exchange->status = head->status;
    exchange->waits = WAITS_TO_RETRY;
    call_later(conn, ms);
    return true;
}

void client_model_drop(struct client_conn *conn, const char *bytes, size_t len)
{
    conn->exchange.response_bytes += len;
    model_account_body(&conn->exchange.account, bytes, len);
}

/* One attempt is over: a record of its own, and the run shows it. */
void client_model_dropped(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;

    if (!exchange->account.asked)
        return;
    client_record_attempt(conn, "model_retry");
    model_account_again(&exchange->account, conn->run, exchange->veil, exchange->status);
    exchange->response_bytes = 0;
}

static void ask_again(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;
    struct upstream *upstream = STEAL(exchange->upstream);
    const char *reason;

    if (upstream != NULL)
        upstream_cancel(upstream);
    client_model_dropped(conn);
    exchange->retries++;
    exchange->status = 0;
    inject_veil_free(STEAL(exchange->veil));
    reason = model_account_ask(conn->run);
    if (reason != NULL)
        refuse(conn, reason);
    else
        client_gate_open(conn);
}

/* Its turn has come, unless it is over. */
static void go_on(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;
    bool again = exchange->waits == WAITS_TO_RETRY;

    if (exchange->waits == WAITS_NOT)
        return;
    exchange->waits = WAITS_NOT;
    if (again)
        ask_again(conn);
    else
        client_gate_open(conn);
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
