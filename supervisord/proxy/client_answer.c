/* client_answer.c: how a request ends: what its client hears of a refusal or a failure, and its one
 * record. */
#include "proxy/client_internal.h"

#include "common/json_write.h"
#include "common/mem.h"
#include "proxy/decode.h"
#include "proxy/git_push.h"
#include "proxy/token.h"

#define ERROR_BODY_MAX (16u << 10)

uint64_t client_now_ms(const struct client_conn *conn)
{
    return clock_mono_ms(conn->run->proxy->clock);
}

void client_exchange_finish(struct exchange *exchange)
{
    body_gate_free(exchange->gate);
    decode_free(exchange->decode);
    policy_decision_finish(&exchange->decision);
    inject_veil_free(exchange->veil);
    free(exchange->method);
    free(exchange->host);
    free(exchange->base);
    free(exchange->storage);
    if (exchange->collects)
        buf_finish(&exchange->collected);
    *exchange = (struct exchange){ 0 };
}

/* A token in the wrong place must not be found in the audit: it may still open the run's services.
 */
static void hide_token(struct exchange *exchange, struct buf *detail)
{
    token_hide(exchange->method);
    token_hide(exchange->host);
    token_hide(exchange->decision.path);
    token_hide(detail->data);
}

static struct proxy_decision describe(const struct client_conn *conn)
{
    const struct exchange *exchange = &conn->exchange;
    const struct service *service = exchange->decision.service;

    return (struct proxy_decision){
        .run_id = conn->run->id,
        .service = service != NULL ? service->name : "",
        .method = exchange->method,
        .host = exchange->host,
        .path = exchange->decision.path,
        .detail = "",
        .request_bytes = exchange->request_bytes,
        .response_bytes = exchange->response_bytes,
        .milliseconds = client_now_ms(conn) - exchange->started_ms,
    };
}

void client_record_attempt(struct client_conn *conn, const char *reason)
{
    const struct proxy_options *options = &conn->run->proxy->options;
    struct proxy_decision decision = describe(conn);

    decision.verdict = AUDIT_ERROR;
    decision.reason = reason;
    decision.status = (uint32_t)conn->exchange.status;
    if (options->on_decision != NULL)
        options->on_decision(options->data, &decision);
}

/* The one place that ends an exchange. STATUS 0: the connection was cut. */
void client_record(struct client_conn *conn, enum audit_verdict verdict, const char *reason,
                   int status)
{
    struct exchange *exchange = &conn->exchange;
    const struct proxy_options *options = &conn->run->proxy->options;
    AUTO_BUF struct buf detail = BUF_INIT(1u << 20);
    struct proxy_decision decision = describe(conn);

    decision.verdict = verdict;
    decision.reason = reason;
    decision.status = (uint32_t)status;

    if (!conn->active)
        return;
    conn->active = false;
    if (exchange->decision.git == GIT_ENDPOINT_PUSH && exchange->gate != NULL)
        git_push_describe(exchange->gate, &detail);
    if (exchange->storage != NULL)
        buf_append_str(&detail, exchange->storage);
    if (inject_veil_found(exchange->veil) > 0)
        buf_printf(&detail, "%sreflected_secret", detail.len > 0 ? "; " : "");
    hide_token(exchange, &detail);
    if (exchange->decision.model)
        client_model_settle(conn, &decision);
    if (decision.estimated)
        buf_printf(&detail, "%stokens estimated", detail.len > 0 ? "; " : "");
    decision.detail = buf_text(&detail);
    if (status >= 200 && status < 300 && verdict == AUDIT_ALLOW && exchange->decision.model)
        conn->run->answered++;
    if (options->on_decision != NULL)
        options->on_decision(options->data, &decision);
    if (conn->run->probe != NULL)
        probe_note(conn->run->probe, &decision);
    if (exchange->decision.model)
        model_account_close(&exchange->account, conn->run, exchange->veil, verdict,
                            exchange->refused != NULL ? "client_abort" : reason, exchange->status);
    client_exchange_finish(exchange);
}

/* Answers
 * --------------------------------------------------------------------------------------------------------
 */

/* An error in the form that clients of model services understand, with a reason that programs and a
 * hint that agents can read. */
static void error_body(struct buf *out, const char *type, const char *code, const char *message,
                       const char *hint)
{
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    json_member_string(&writer, "type", "error");
    json_write_name(&writer, "error");
    json_write_object(&writer);
    json_member_string(&writer, "type", type);
    json_member_string(&writer, "code", code);
    json_member_string(&writer, "message", message);
    json_member_string_opt(&writer, "hint", hint);
    json_write_object_end(&writer);
    json_write_object_end(&writer);
}

void client_answer_error(struct client_conn *conn, int status, const char *type, const char *code,
                         const char *message, const char *hint)
{
    AUTO_BUF struct buf body;
    struct http_headers headers;

    buf_init(&body, ERROR_BODY_MAX);
    error_body(&body, type, code, message, hint);
    http_headers_init(&headers);
    http_headers_add(&headers, "content-type", "application/json");
    if (status == 401)
        http_headers_add(&headers, "www-authenticate", "Basic realm=\"sandbox\"");
    if (status == 407)
        http_headers_add(&headers, "proxy-authenticate", "Basic realm=\"sandbox\"");
    if (status == 405)
        http_headers_add(&headers, "allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    http_conn_respond(conn->http, status, &headers, buf_text(&body), body.len);
    http_headers_finish(&headers);
}

/* Git shows a person what an error page in plain text says, and its LFS what is in "message". */
static bool answer_git(struct client_conn *conn, const struct policy_decision *decision)
{
    AUTO_BUF struct buf body = BUF_INIT(ERROR_BODY_MAX);
    struct http_headers headers;
    bool lfs = decision->git == GIT_ENDPOINT_LFS || decision->git == GIT_ENDPOINT_LFS_BATCH;

    if (decision->challenge ||
        (!lfs && decision->git != GIT_ENDPOINT_READ && decision->git != GIT_ENDPOINT_PUSH_REFS))
        return false;
    http_headers_init(&headers);
    if (lfs) {
        struct json_writer writer;

        json_write_init(&writer, &body);
        json_write_object(&writer);
        json_member_string(&writer, "message", decision->message);
        json_member_string(&writer, "code", decision->reason);
        json_write_object_end(&writer);
        http_headers_add(&headers, "content-type", "application/vnd.git-lfs+json");
    } else {
        buf_printf(&body, "%s (%s)\n%s\n", decision->message, decision->reason, NO_RETRY_HINT);
        http_headers_add(&headers, "content-type", "text/plain; charset=utf-8");
    }
    http_conn_respond(conn->http, decision->status, &headers, buf_text(&body), body.len);
    http_headers_finish(&headers);
    return true;
}

void client_answer_refusal(struct client_conn *conn)
{
    const struct policy_decision *decision = &conn->exchange.decision;
    const char *reason = decision->reason;
    int status = decision->status;

    if (answer_git(conn, decision)) {
        client_record(conn, AUDIT_DENY, reason, status);
        return;
    }
    client_answer_error(conn, status, "permission_error", reason, decision->message, NO_RETRY_HINT);
    client_record(conn, AUDIT_DENY, reason, status);
}

/* What the client hears when the upstream's head never came. */
static const struct client_failure failures[] = {
    [UPSTREAM_END_OK] = { "upstream_error", AUDIT_ERROR, 502, "api_error",
                          "the service gave no answer", NULL },
    [UPSTREAM_END_CUT] = { "upstream_cut", AUDIT_ERROR, 502, "api_error",
                           "the service broke the connection", NULL },
    [UPSTREAM_END_RESOLVE] = { "upstream_resolve", AUDIT_ERROR, 502, "api_error",
                               "the service's name has no address", NULL },
    [UPSTREAM_END_CONNECT] = { "upstream_connect", AUDIT_ERROR, 502, "api_error",
                               "the service can't be reached", NULL },
    [UPSTREAM_END_PARENT] = { "upstream_proxy", AUDIT_ERROR, 502, "api_error",
                              "the proxy on the way to the service refused or can't be reached",
                              NULL },
    [UPSTREAM_END_TLS] = { "upstream_tls", AUDIT_ERROR, 502, "api_error",
                           "the service's certificate is not trusted", NULL },
    [UPSTREAM_END_ADDRESS] = { "address_not_allowed", AUDIT_DENY, 403, "permission_error",
                               "the service's address is not a public one", NO_RETRY_HINT },
    [UPSTREAM_END_TIMEOUT] = { "upstream_timeout", AUDIT_ERROR, 504, "api_error",
                               "the service took too long", NULL },
    [UPSTREAM_END_RESPONSE] = { "upstream_bad_response", AUDIT_ERROR, 502, "api_error",
                                "the service's answer is malformed", NULL },
    [UPSTREAM_END_NAME] = { "sni_mismatch", AUDIT_DENY, 403, "permission_error",
                            "TLS for another host than the tunnel's", NO_RETRY_HINT },
    [UPSTREAM_END_OTHER] = { "upstream_error", AUDIT_ERROR, 502, "api_error",
                             "the request to the service failed", NULL },
};

void client_answer_failure(struct client_conn *conn, const struct client_failure *failure)
{
    client_answer_error(conn, failure->status, failure->type, failure->reason, failure->message,
                        failure->hint);
    client_record(conn, failure->verdict, failure->reason, failure->status);
}

const struct client_failure *client_failure(enum upstream_end end)
{
    return &failures[end];
}
