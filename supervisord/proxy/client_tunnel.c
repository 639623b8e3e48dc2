/* client_tunnel.c: tunnels, those that end here, and upgrades. */
#include "proxy/client_internal.h"

#include "common/log.h"
#include "proxy/upgrade.h"

static void on_relay_open(void *data)
{
    struct client_conn *conn = data;

    conn->exchange.begun = true;
    conn->exchange.status = 200;
    http_conn_begin_tunnel(conn->http, 200, NULL);
}

static void refuse_upgrade(struct client_conn *conn, int status)
{
    const struct client_failure failure = { .reason = "upgrade_refused",
                                            .verdict = AUDIT_ERROR,
                                            .status = status >= 400 ? status : 502,
                                            .type = "api_error",
                                            .message = "the service did not agree to a WebSocket" };

    client_answer_failure(conn, &failure);
}

static bool on_relay_answer(void *data, const struct http_response_head *head)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;
    struct http_headers headers;

    if (!upgrade_accepted(exchange->request, head)) {
        exchange->relay = NULL;
        refuse_upgrade(conn, head->status);
        return false;
    }
    exchange->begun = true;
    exchange->status = 101;
    http_headers_init(&headers);
    upgrade_answer(head, &headers);
    http_conn_begin_tunnel(conn->http, 101, &headers);
    http_headers_finish(&headers);
    return true;
}

static void on_relay_traffic(void *data, size_t up, size_t down)
{
    struct client_conn *conn = data;

    conn->exchange.request_bytes += up;
    conn->exchange.response_bytes += down;
    run_note_traffic(conn->run);
}

static void on_relay_end(void *data, enum upstream_end end)
{
    struct client_conn *conn = data;

    conn->exchange.relay = NULL;
    if (!conn->exchange.begun) {
        client_answer_failure(conn, client_failure(end));
        return;
    }
    if (end == UPSTREAM_END_OK) {
        client_record(conn, AUDIT_ALLOW, "ok", conn->exchange.status);
        return;
    }
    client_record(conn, client_failure(end)->verdict, client_failure(end)->reason, 0);
    http_conn_reset(conn->http);
}

static void start_relay(struct client_conn *conn, struct relay_options *options)
{
    const struct relay_callbacks callbacks = {
        .on_open = on_relay_open,
        .on_answer = on_relay_answer,
        .on_traffic = on_relay_traffic,
        .on_end = on_relay_end,
        .data = conn,
    };
    struct proxy *proxy = conn->run->proxy;
    struct error err = ERROR_INIT;

    options->parent = &proxy->parent;
    options->connect_timeout_ms = proxy->options.upstream_connect_ms;
    options->idle_timeout_ms = proxy->options.upstream_idle_ms;
    if (relay_start(&conn->exchange.relay, proxy->loop, conn->http, options, &callbacks, &err) == 0)
        return;
    conn->exchange.relay = NULL;
    client_answer_failure(conn, client_failure(UPSTREAM_END_OTHER));
}

void client_open_tunnel(struct client_conn *conn)
{
    struct relay_options options = { .host = &conn->exchange.decision.host,
                                     .exception = conn->exchange.decision.exception };

    start_relay(conn, &options);
}

void client_pass_upgrade(struct client_conn *conn, const struct http_request *request)
{
    struct exchange *exchange = &conn->exchange;
    const struct service *service = exchange->decision.service;
    struct proxy *proxy = conn->run->proxy;
    struct relay_options options = { .host = &service->where, .exception = service->exception };
    struct buf lines;
    struct error err = ERROR_INIT;
    struct buf head;
    char *path;

    if (exchange->decision.model)
        model_account_pass(&exchange->account, conn->run);
    if (strcmp(service->scheme, "https") == 0) {
        options.tls = proxy_tls_client(proxy, &err);
        if (options.tls == NULL) {
            log_warn(conn->run->id, "%s", err.text);
            client_answer_failure(conn, client_failure(UPSTREAM_END_TLS));
            return;
        }
    }
    if (client_put_credential(conn, request, &lines, &path, &err) < 0) {
        client_refuse_for_secret(conn, &err);
        return;
    }
    buf_init(&head, UPGRADE_HEAD_MAX);
    (void)buf_reserve(&head, UPGRADE_HEAD_MAX - 1); /* growing would leave copies behind */
    upgrade_write(&head, service, path, request, &lines);
    inject_path_free(path);
    inject_free(&lines);
    options.upgrade = &head;
    options.veil = exchange->veil;
    start_relay(conn, &options);
}

/* Ends TLS here from now on. The tunnel itself is one decision, each request in it another. */
void client_intercept(struct client_conn *conn)
{
    const struct host host = conn->exchange.decision.host;
    struct proxy *proxy = conn->run->proxy;
    struct tls_identity identity;
    struct error err = ERROR_INIT;
    struct ca_leaf leaf;

    if (ca_leaf(proxy->ca, host.name, host.literal, &leaf, &err) < 0) {
        log_warn(conn->run->id, "%s", err.text);
        client_answer_failure(conn, client_failure(UPSTREAM_END_OTHER));
        return;
    }
    identity = (struct tls_identity){ leaf.certificate, leaf.issuer, leaf.key };
    conn->intercepted = true;
    conn->inside.host = host;
    if (http_conn_begin_tls(conn->http, proxy->tls_server, conn->inside.host.name, &identity,
                            &err) < 0) {
        const struct client_failure failure = { "early_data",
                                                AUDIT_DENY,
                                                400,
                                                "invalid_request_error",
                                                "bytes came before the tunnel was there",
                                                NULL };

        conn->intercepted = false;
        client_answer_failure(conn, &failure);
        return;
    }
    client_record(conn, AUDIT_ALLOW, "ok", 200);
}
