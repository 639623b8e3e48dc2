/* client_request.c: a request on its way up, with its credential. */
#include "proxy/client_internal.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"

void client_refuse_for_secret(struct client_conn *conn, const struct error *err)
{
    struct client_failure failure = {
        .reason = err->code == ERR_NOT_FOUND ? "secret_missing" : "secret_unusable",
        .verdict = AUDIT_DENY,
        .status = 403,
        .type = "permission_error",
        .message = "the credential of this service is not set up on the host",
        .hint = NO_RETRY_HINT,
    };

    log_warn(conn->run->id, "service %s: %s", conn->exchange.decision.service->name, err->text);
    client_answer_failure(conn, &failure);
}

/* Where the credential comes from; a host that is no service has none. */
static struct inject_source source_of(const struct client_conn *conn)
{
    const struct policy_decision *decision = &conn->exchange.decision;
    struct proxy *proxy = conn->run->proxy;

    if (decision->service->egress)
        return (struct inject_source){ 0 };
    return (struct inject_source){
        .vault = decision->anonymous ? NULL : proxy->vault,
        .cache = &proxy->caches[decision->service - proxy->services.items],
    };
}

int client_put_credential(struct client_conn *conn, const struct http_request *request,
                          struct buf *lines, char **path, struct error *err)
{
    struct exchange *exchange = &conn->exchange;
    const struct service *service = exchange->decision.service;
    const struct inject_source source = source_of(conn);

    proxy_rest_soon(conn->run->proxy);
    if (inject_headers(service, request, &source, lines, &exchange->veil, err) < 0)
        return -1;
    if (service->inject != INJECT_QUERY || source.vault == NULL) {
        *path = mem_strdup(exchange->decision.upstream_path);
        return 0;
    }
    if (inject_query(service, exchange->decision.upstream_path, &source, path, &exchange->veil,
                     err) == 0)
        return 0;
    inject_free(lines);
    return -1;
}

/* Chooses the connections. -1: there are none. */
static int choose_way(struct client_conn *conn, struct upstream_options *options)
{
    struct error err = ERROR_INIT;

    if (options->service->egress)
        options->curl = run_hosts(conn->run, &err);
    else
        options->origin = run_origin(conn->run, options->service, &err);
    if (options->curl != NULL || options->origin != NULL)
        return 0;
    log_warn(conn->run->id, "%s", err.text);
    return -1;
}

void client_pass_on(struct client_conn *conn, const struct http_request *request)
{
    const struct upstream_callbacks callbacks = client_response_callbacks(conn);
    struct proxy *proxy = conn->run->proxy;
    struct exchange *exchange = &conn->exchange;
    struct upstream_options options = {
        .service = exchange->decision.service,
        .request = request,
        .parent = &proxy->parent,
        .ca_file = proxy->ca_file,
        .connect_timeout_ms = proxy->options.upstream_connect_ms,
        .head_timeout_ms = exchange->decision.model ? proxy->options.model_head_ms
                                                    : proxy->options.upstream_idle_ms,
        .idle_timeout_ms = exchange->decision.model ? proxy->options.model_silence_ms
                                                    : proxy->options.upstream_idle_ms,
    };
    struct error err = ERROR_INIT;
    struct buf lines;
    char *path = NULL;
    int status;

    if (exchange->decision.model)
        model_account_pass(&exchange->account, conn->run);
    if (choose_way(conn, &options) < 0) {
        client_answer_failure(conn, client_failure(UPSTREAM_END_OTHER));
        return;
    }
    if (client_put_credential(conn, request, &lines, &path, &err) < 0) {
        client_refuse_for_secret(conn, &err);
        return;
    }
    options.path = path;
    options.lines = &lines;
    status = upstream_start(&exchange->upstream, proxy->loop, &options, &callbacks, &err);
    inject_path_free(path);
    inject_free(&lines);
    if (status < 0) {
        exchange->upstream = NULL;
        client_answer_failure(conn, client_failure(UPSTREAM_END_OTHER));
        return;
    }
    http_conn_continue(conn->http);
}
