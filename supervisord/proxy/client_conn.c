/* client_conn.c: one connection from a sandbox: each request is judged, refused or passed on, and
 * recorded exactly once. */
#include "proxy/client_internal.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

struct client_conn *client_conn_from_link(struct list *link)
{
    return LIST_ENTRY(link, struct client_conn, link);
}

static void act(struct client_conn *conn, const struct http_request *request)
{
    struct exchange *exchange = &conn->exchange;

    switch (exchange->decision.action) {
    case POLICY_TUNNEL:
        client_open_tunnel(conn);
        return;
    case POLICY_INTERCEPT:
        client_intercept(conn);
        return;
    case POLICY_UPGRADE:
        client_pass_upgrade(conn, request);
        return;
    case POLICY_FORWARD:
        break;
    }
    if (request->target_kind == HTTP_TARGET_ORIGIN && !conn->intercepted)
        exchange->base =
            mem_printf("http://%s/proxy/%s", request->host, exchange->decision.service->name);
    if (exchange->decision.git == GIT_ENDPOINT_LFS_PLACE) {
        client_lfs_pass(conn, request);
        return;
    }
    exchange->gate = client_gate_new(conn, request);
    if (exchange->gate == NULL)
        client_pass_on(conn, request);
    else
        http_conn_continue(conn->http);
}

static void on_request(void *data, struct http_conn *http, const struct http_request *request)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;

    *exchange = (struct exchange){ .started_ms = client_now_ms(conn) };
    conn->active = true;
    exchange->request = request;
    conn->inside.clear = !http_conn_secure(http);
    exchange->method = mem_strdup(request->method);
    exchange->host = mem_strdup(request->host);
    policy_decide_inside(request, &conn->run->grant, conn->intercepted ? &conn->inside : NULL,
                         &exchange->decision);
    if (!exchange->decision.allowed) {
        client_answer_refusal(conn);
        return;
    }
    if (!client_model_allows(conn))
        return;
    act(conn, request);
}

static void on_body(void *data, struct http_conn *http, const char *bytes, size_t len)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;

    if (exchange->relay != NULL) {
        relay_on_body(exchange->relay, bytes, len);
        return;
    }
    exchange->request_bytes += len;
    run_note_traffic(conn->run);
    if (client_gate_feed(conn, bytes, len))
        return;
    if (exchange->upstream != NULL && !upstream_send(exchange->upstream, bytes, len))
        http_conn_pause_body(http);
}

static void on_body_end(void *data, struct http_conn *http)
{
    struct client_conn *conn = data;

    (void)http;
    if (conn->exchange.gate != NULL)
        client_gate_end(conn);
    else if (conn->exchange.upstream != NULL)
        upstream_send_end(conn->exchange.upstream);
    if (conn->exchange.relay != NULL)
        relay_on_body_end(conn->exchange.relay);
}

/* Bytes that make no request are recorded too, unless they came in the body of one. */
static void on_refused(void *data, struct http_conn *http, int status, const char *reason)
{
    struct client_conn *conn = data;

    (void)http;
    if (conn->active) {
        conn->exchange.refused = reason;
        conn->exchange.status = conn->exchange.begun ? 0 : status;
        return;
    }
    conn->exchange = (struct exchange){ .started_ms = client_now_ms(conn),
                                        .method = mem_strdup(""),
                                        .host = mem_strdup(conn->inside.host.name) };
    conn->exchange.decision.path = mem_strdup("");
    conn->active = true;
    /* A client that doesn't like our certificate breaks no rule of ours. */
    client_record(conn,
                  status == 0 && !str_equal(reason, "sni_mismatch") ? AUDIT_ERROR : AUDIT_DENY,
                  reason, status);
}

static void on_drain(void *data, struct http_conn *http)
{
    struct client_conn *conn = data;

    (void)http;
    if (conn->exchange.upstream != NULL)
        upstream_resume(conn->exchange.upstream);
    if (conn->exchange.relay != NULL)
        relay_on_drain(conn->exchange.relay);
}

static void cancel_upstream(struct client_conn *conn)
{
    struct upstream *upstream = STEAL(conn->exchange.upstream);
    struct relay *relay = STEAL(conn->exchange.relay);

    if (relay != NULL)
        relay_cancel(relay);
    if (upstream != NULL)
        upstream_cancel(upstream);
}

static void on_abort(void *data, struct http_conn *http)
{
    struct client_conn *conn = data;
    const char *reason = conn->exchange.refused;

    (void)http;
    cancel_upstream(conn);
    if (reason != NULL)
        client_record(conn, AUDIT_DENY, reason, conn->exchange.status);
    else
        client_record(conn, AUDIT_ERROR, "client_abort", 0);
}

static void on_closed(void *data, struct http_conn *http)
{
    struct client_conn *conn = data;
    struct run *run = conn->run;

    (void)http;
    client_exchange_finish(&conn->exchange);
    client_model_finish(conn);
    list_remove(&conn->link);
    free(conn);
    if (run->listener != NULL)
        listener_release(run->listener);
    run_part_closed(run);
}

void client_conn_start(struct run *run, int fd)
{
    const struct http_conn_options options = { .allow_absolute = true, .allow_connect = true };
    struct http_conn_callbacks callbacks = {
        .on_request = on_request,
        .on_body = on_body,
        .on_body_end = on_body_end,
        .on_refused = on_refused,
        .on_drain = on_drain,
        .on_abort = on_abort,
        .on_closed = on_closed,
    };
    struct client_conn *conn = NEW(struct client_conn);
    struct error err = ERROR_INIT;

    conn->run = run;
    list_init(&conn->link);
    callbacks.data = conn;
    if (http_conn_start(&conn->http, run->proxy->loop, fd, &options, &callbacks, &err) < 0) {
        log_warn(run->id, "proxy connection: %s", err.text);
        free(conn);
        if (run->listener != NULL)
            listener_release(run->listener);
        return;
    }
    list_append(&run->conns, &conn->link);
    run_part_opened(run);
}

void client_conn_cut(struct client_conn *conn, const char *reason)
{
    cancel_upstream(conn);
    if (conn->active)
        client_record(conn, AUDIT_DENY, reason, 0);
    http_conn_reset(conn->http);
}
