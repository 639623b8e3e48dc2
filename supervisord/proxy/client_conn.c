/* client_conn.c: one connection from a sandbox: each request is judged, refused or passed on, and
 * recorded exactly once. */
#include "proxy/proxy_internal.h"

#include <strings.h>

#include "common/json_write.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "http/http.h"
#include "proxy/decode.h"
#include "proxy/git_push.h"
#include "proxy/graphql.h"
#include "proxy/inject.h"
#include "proxy/model_account.h"
#include "proxy/relay.h"
#include "proxy/upgrade.h"
#include "proxy/upstream.h"

#define ERROR_BODY_MAX (16u << 10)
#define PIECE_MAX                                                                                  \
    (8u << 20) /* of a body: what one piece may be decoded to, and what a veil holds back */
#define DECODED_MAX (4u << 20) /* of one piece; decode.c allows it the hundredfold and a bit */
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
};

struct client_conn {
    struct list link; /* run::conns */
    struct run *run;
    struct http_conn *http;
    bool intercepted; /* what comes is in a tunnel that ends here */
    struct entry_tunnel inside;
    bool active; /* an exchange is under way and not recorded yet */
    struct exchange exchange;
};

struct client_conn *client_conn_from_link(struct list *link)
{
    return LIST_ENTRY(link, struct client_conn, link);
}

/* Records
 * ---------------------------------------------------------------------------------------------------------
 */

static uint64_t now_ms(const struct client_conn *conn)
{
    return clock_mono_ms(conn->run->proxy->clock);
}

static void exchange_finish(struct exchange *exchange)
{
    body_gate_free(exchange->gate);
    decode_free(exchange->decode);
    policy_decision_finish(&exchange->decision);
    inject_veil_free(exchange->veil);
    free(exchange->method);
    free(exchange->host);
    free(exchange->base);
    *exchange = (struct exchange){ 0 };
}

/* The one place that ends an exchange. STATUS 0: the connection was cut. */
static void record(struct client_conn *conn, enum audit_verdict verdict, const char *reason,
                   int status)
{
    struct exchange *exchange = &conn->exchange;
    const struct proxy_options *options = &conn->run->proxy->options;
    const struct service *service = exchange->decision.service;
    AUTO_BUF struct buf detail = BUF_INIT(1u << 20);
    struct proxy_decision decision = {
        .run_id = conn->run->id,
        .service = service != NULL ? service->name : "",
        .method = exchange->method,
        .host = exchange->host,
        .path = exchange->decision.path,
        .verdict = verdict,
        .reason = reason,
        .status = (uint32_t)status,
        .request_bytes = exchange->request_bytes,
        .response_bytes = exchange->response_bytes,
        .milliseconds = now_ms(conn) - exchange->started_ms,
    };

    if (!conn->active)
        return;
    conn->active = false;
    if (exchange->decision.git == GIT_ENDPOINT_PUSH && exchange->gate != NULL)
        git_push_describe(exchange->gate, &detail);
    if (inject_veil_found(exchange->veil) > 0)
        buf_printf(&detail, "%sreflected_secret", detail.len > 0 ? "; " : "");
    decision.detail = buf_text(&detail);
    if (status >= 200 && status < 300 && verdict == AUDIT_ALLOW && exchange->decision.model)
        conn->run->answered++;
    if (options->on_decision != NULL)
        options->on_decision(options->data, &decision);
    if (exchange->decision.model)
        model_account_close(&exchange->account, conn->run, exchange->veil, verdict,
                            exchange->refused != NULL ? "client_abort" : reason, exchange->status);
    exchange_finish(exchange);
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

static void answer_error(struct client_conn *conn, int status, const char *type, const char *code,
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
    bool lfs = decision->git == GIT_ENDPOINT_LFS;

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

static void answer_refusal(struct client_conn *conn)
{
    const struct policy_decision *decision = &conn->exchange.decision;
    const char *reason = decision->reason;
    int status = decision->status;

    if (answer_git(conn, decision)) {
        record(conn, AUDIT_DENY, reason, status);
        return;
    }
    answer_error(conn, status, "permission_error", reason, decision->message, NO_RETRY_HINT);
    record(conn, AUDIT_DENY, reason, status);
}

struct failure {
    const char *reason;
    enum audit_verdict verdict;
    int status;
    const char *type;
    const char *message;
    const char *hint;
};

/* What the client hears when the upstream's head never came. */
static const struct failure failures[] = {
    [UPSTREAM_END_OK] = { "upstream_error", AUDIT_ERROR, 502, "api_error",
                          "the service gave no answer", NULL },
    [UPSTREAM_END_CUT] = { "upstream_cut", AUDIT_ERROR, 502, "api_error",
                           "the service broke the connection", NULL },
    [UPSTREAM_END_RESOLVE] = { "upstream_resolve", AUDIT_ERROR, 502, "api_error",
                               "the service's name has no address", NULL },
    [UPSTREAM_END_CONNECT] = { "upstream_connect", AUDIT_ERROR, 502, "api_error",
                               "the service can't be reached", NULL },
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

/* What can't be searched for the credential isn't passed on. */
static const struct failure unreadable = {
    "upstream_encoding",
    AUDIT_ERROR,
    502,
    "api_error",
    "the service's answer is compressed in a way that can't be read, though it was asked not to be",
    NULL
};

static void answer_failure(struct client_conn *conn, const struct failure *failure)
{
    answer_error(conn, failure->status, failure->type, failure->reason, failure->message,
                 failure->hint);
    record(conn, failure->verdict, failure->reason, failure->status);
}

/* Responses
 * ------------------------------------------------------------------------------------------------------
 */

/* A number of seconds or of milliseconds, cut down to LIMIT; a date or anything else becomes LIMIT.
 */
static void add_clamped(struct http_headers *headers, const char *name, const char *value,
                        uint64_t limit)
{
    uint64_t number;

    if (!str_parse_u64(value, limit, &number))
        number = limit;
    AUTO_FREE
    char *text = mem_printf("%llu", (unsigned long long)number);
    http_headers_add(headers, name, text);
}

/* An address of the service's own becomes one below the proxy, so that the next request is judged
 * as well. */
static void add_location(struct client_conn *conn, struct http_headers *headers, const char *name,
                         const char *value)
{
    const struct service *service = conn->exchange.decision.service;
    AUTO_FREE
    char *start = mem_printf("%s%s", service->origin, service->prefix);
    size_t len = strlen(start);

    if (conn->exchange.base != NULL && strncasecmp(value, start, len) == 0 &&
        (value[len] == '/' || value[len] == '\0')) {
        AUTO_FREE
        char *below = mem_printf("%s%s", conn->exchange.base, value + len);

        http_headers_add(headers, name, below);
        return;
    }
    http_headers_add(headers, name, value);
}

/* A login cookie is a credential that outlives the run; the others steer a client around the proxy.
 */
static bool is_dropped_from_response(const struct service *service, const char *name)
{
    static const char *const names[] = { "set-cookie", "set-cookie2", "alt-svc",
                                         "strict-transport-security", "content-length" };

    if (service->egress && strncasecmp(name, "set-cookie", 10) == 0)
        return false; /* nobody logged in with a credential of ours */
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static void copy_response_headers(struct client_conn *conn, const struct http_response_head *head,
                                  struct http_headers *out)
{
    uint64_t limit = conn->run->proxy->options.retry_after_max_seconds;
    struct http_headers kept;

    http_headers_init(&kept);
    for (size_t i = 0; i < head->headers.count; i++)
        http_headers_add(&kept, head->headers.items[i].name, head->headers.items[i].value);
    http_headers_drop_hop_by_hop(&kept);
    for (size_t i = 0; i < kept.count; i++) {
        struct http_header *header = &kept.items[i];

        if (is_dropped_from_response(conn->exchange.decision.service, header->name) ||
            (conn->exchange.decode != NULL && strcasecmp(header->name, "content-encoding") == 0))
            continue;
        inject_veil_text(conn->exchange.veil, header->name);
        inject_veil_text(conn->exchange.veil, header->value);
        if (strcasecmp(header->name, "retry-after") == 0)
            add_clamped(out, header->name, header->value, limit);
        else if (strcasecmp(header->name, "retry-after-ms") == 0)
            add_clamped(out, header->name, header->value, limit * 1000);
        else if (strcasecmp(header->name, "location") == 0)
            add_location(conn, out, header->name, header->value);
        else
            http_headers_add(out, header->name, header->value);
    }
    http_headers_finish(&kept);
}

static bool is_readable_event_stream(const struct exchange *exchange,
                                     const struct http_response_head *head)
{
    const char *type = http_headers_get(&head->headers, "content-type");
    const char *encoding = http_headers_get(&head->headers, "content-encoding");

    return type != NULL && strncasecmp(type, "text/event-stream", 17) == 0 &&
           (encoding == NULL || strcasecmp(encoding, "identity") == 0 || exchange->decode != NULL);
}

/* With a credential to hide, an answer must be readable, though "identity" was asked for. */
static bool prepare_decode(struct exchange *exchange, const struct http_response_head *head)
{
    const char *encoding = http_headers_get(&head->headers, "content-encoding");
    bool known;

    if (exchange->veil == NULL || encoding == NULL)
        return true;
    if (http_headers_count_of(&head->headers, "content-encoding") > 1)
        return false;
    exchange->decode = decode_new(encoding, &known);
    return known;
}

static void on_upstream_head(void *data, const struct http_response_head *head)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;
    struct http_headers headers;

    run_note_traffic(conn->run);
    if (!prepare_decode(exchange, head)) {
        exchange->unreadable = "upstream_encoding";
        return;
    }
    exchange->begun = true;
    exchange->status = head->status;
    if (exchange->decision.model)
        model_account_head(&exchange->account, conn->run, head,
                           is_readable_event_stream(exchange, head));
    http_headers_init(&headers);
    copy_response_headers(conn, head, &headers);
    http_conn_begin(conn->http, head->status, NULL, &headers,
                    exchange->decode != NULL ? -1 : head->content_length);
    http_headers_finish(&headers);
}

static void send_veiled(struct client_conn *conn, const char *bytes, size_t len)
{
    AUTO_BUF struct buf shown = BUF_INIT(PIECE_MAX);

    model_account_body(&conn->exchange.account, bytes, len);
    if (inject_veil_passes(conn->exchange.veil, bytes, len)) {
        http_conn_send(conn->http, bytes, len);
        return;
    }
    inject_veil_feed(conn->exchange.veil, bytes, len, &shown);
    http_conn_send(conn->http, buf_text(&shown), shown.len);
}

static void send_decoded(struct client_conn *conn, const char *bytes, size_t len)
{
    struct exchange *exchange = &conn->exchange;
    AUTO_BUF struct buf plain = BUF_INIT(DECODED_MAX);

    if (exchange->decode == NULL) {
        send_veiled(conn, bytes, len);
        return;
    }
    if (decode_feed(exchange->decode, bytes, len, &plain) < 0) {
        exchange->unreadable = "upstream_encoding";
        return;
    }
    if (plain.len > 0)
        send_veiled(conn, plain.data, plain.len);
}

/* The end of a body that was received whole. */
static void end_veiled(struct client_conn *conn)
{
    AUTO_BUF struct buf shown;

    buf_init(&shown, PIECE_MAX);
    inject_veil_end(conn->exchange.veil, &shown);
    http_conn_send(conn->http, buf_text(&shown), shown.len);
    http_conn_end(conn->http);
}

static bool on_upstream_body(void *data, const char *bytes, size_t len)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;

    if (http_conn_over_high(conn->http))
        return false;
    run_note_traffic(conn->run);
    if (exchange->unreadable != NULL)
        return true; /* dropped; the end says why */
    if (exchange->gate != NULL && exchange->gate->reads_answer && exchange->status == 200)
        exchange->gate->kind->on_answer(exchange->gate, bytes, len);
    exchange->response_bytes += len;
    send_decoded(conn, bytes, len);
    return true;
}

static void on_upstream_room(void *data)
{
    struct client_conn *conn = data;

    http_conn_resume_body(conn->http);
}

static void on_upstream_end(void *data, enum upstream_end end)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;
    int status = exchange->status;

    exchange->upstream = NULL;
    if (exchange->unreadable == NULL && end == UPSTREAM_END_OK && exchange->decode != NULL &&
        exchange->response_bytes > 0 && !decode_ended(exchange->decode))
        exchange->unreadable = "upstream_encoding";
    if (exchange->unreadable != NULL && !exchange->begun) {
        answer_failure(conn, &unreadable);
        return;
    }
    if (!exchange->begun) {
        answer_failure(conn, &failures[end]);
        return;
    }
    if (exchange->unreadable != NULL) {
        record(conn, AUDIT_ERROR, exchange->unreadable, 0);
        http_conn_reset(conn->http);
        return;
    }
    if (end == UPSTREAM_END_OK && !model_account_whole(&exchange->account)) {
        record(conn, AUDIT_ERROR, "upstream_incomplete", 0);
        http_conn_reset(conn->http);
        return;
    }
    if (end != UPSTREAM_END_OK) {
        record(conn, AUDIT_ERROR, failures[end].reason, 0);
        http_conn_reset(conn->http);
        return;
    }
    end_veiled(conn);
    record(conn, AUDIT_ALLOW, "ok", status);
}

/* Requests
 * -------------------------------------------------------------------------------------------------------
 */

static void refuse_for_secret(struct client_conn *conn, const struct error *err)
{
    struct failure failure = {
        .reason = err->code == ERR_NOT_FOUND ? "secret_missing" : "secret_unusable",
        .verdict = AUDIT_DENY,
        .status = 403,
        .type = "permission_error",
        .message = "the credential of this service is not set up on the host",
        .hint = NO_RETRY_HINT,
    };

    log_warn(conn->run->id, "service %s: %s", conn->exchange.decision.service->name, err->text);
    answer_failure(conn, &failure);
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

/* The request's headers and path as they go upstream; the path is freed with inject_path_free. */
static int put_credential(struct client_conn *conn, const struct http_request *request,
                          struct curl_slist **headers, char **path, struct error *err)
{
    struct exchange *exchange = &conn->exchange;
    const struct service *service = exchange->decision.service;
    const struct inject_source source = source_of(conn);

    if (inject_headers(service, request, &source, headers, &exchange->veil, err) < 0)
        return -1;
    if (service->inject != INJECT_QUERY || source.vault == NULL) {
        *path = mem_strdup(exchange->decision.upstream_path);
        return 0;
    }
    if (inject_query(service, exchange->decision.upstream_path, &source, path, &exchange->veil,
                     err) == 0)
        return 0;
    inject_free(*headers);
    return -1;
}

static void pass_on(struct client_conn *conn, const struct http_request *request)
{
    const struct upstream_callbacks callbacks = {
        .on_head = on_upstream_head,
        .on_body = on_upstream_body,
        .on_room = on_upstream_room,
        .on_end = on_upstream_end,
        .data = conn,
    };
    struct proxy *proxy = conn->run->proxy;
    struct exchange *exchange = &conn->exchange;
    struct upstream_options options = {
        .service = exchange->decision.service,
        .request = request,
        .ca_file = proxy->ca_file,
        .connect_timeout_ms = proxy->options.upstream_connect_ms,
        .head_timeout_ms = exchange->decision.model ? proxy->options.model_head_ms
                                                    : proxy->options.upstream_idle_ms,
        .idle_timeout_ms = exchange->decision.model ? proxy->options.model_silence_ms
                                                    : proxy->options.upstream_idle_ms,
    };
    struct error err = ERROR_INIT;
    struct curl_loop *pool = run_pool(conn->run, options.service, &err);
    char *path = NULL;
    int status;

    if (pool == NULL) {
        answer_failure(conn, &failures[UPSTREAM_END_OTHER]);
        return;
    }
    if (put_credential(conn, request, &options.headers, &path, &err) < 0) {
        refuse_for_secret(conn, &err);
        return;
    }
    options.path = path;
    status = upstream_start(&exchange->upstream, proxy->loop, pool, &options, &callbacks, &err);
    inject_path_free(path);
    if (status < 0) {
        exchange->upstream = NULL;
        answer_failure(conn, &failures[UPSTREAM_END_OTHER]);
        return;
    }
    http_conn_continue(conn->http);
}

/* False: the request was refused, for good. */
static bool budget_allows(struct client_conn *conn)
{
    struct run *run = conn->run;
    const char *reason = model_account_ask(&conn->exchange.account, run);
    struct failure failure = { .reason = reason,
                               .verdict = AUDIT_DENY,
                               .status = 403,
                               .type = "permission_error",
                               .message = "the run has used up its model requests",
                               .hint = NO_RETRY_HINT };
    AUTO_FREE
    char *message = NULL;

    if (reason == NULL)
        return true;
    if (!str_equal(reason, "model_requests")) {
        message =
            mem_printf("the model failed too often and is not asked again: %s", run->model_words);
        failure.message = message;
    }
    answer_failure(conn, &failure);
    return false;
}

/* Gates
 * ----------------------------------------------------------------------------------------------------------
 */

static void on_pushed(void *data)
{
    run_note_pushed(data);
}

/* The judge that a request's body needs, or NULL. */
static struct body_gate *make_gate(struct client_conn *conn, const struct http_request *request)
{
    const struct policy_decision *decision = &conn->exchange.decision;
    const struct service *service = decision->service;
    struct run *run = conn->run;

    if (decision->graphql)
        return graphql_gate_new(request);
    if (decision->git != GIT_ENDPOINT_PUSH)
        return NULL;
    AUTO_FREE
    char *place =
        mem_printf("%s%.*s", service->name, (int)decision->repository_len, decision->path);
    const struct git_push_options options = {
        .rules = { .refs = (const char *const *)service->push_refs,
                   .ref_count = service->push_ref_count,
                   .branch = decision->repository != NULL ? decision->repository->branch : "",
                   .overwrite = service->push_overwrite },
        .tips = &run->tips,
        .place = place,
        .on_pushed = on_pushed,
        .data = run,
    };
    return git_push_gate_new(request, &options);
}

static void open_gate(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;

    pass_on(conn, exchange->request);
    if (exchange->upstream == NULL)
        return; /* answered, and the exchange is over */
    if (!upstream_send(exchange->upstream, exchange->gate->held.data, exchange->gate->held.len))
        http_conn_pause_body(conn->http);
    buf_finish(&exchange->gate->held);
}

static void answer_shut_gate(struct client_conn *conn)
{
    const struct body_refusal *refusal = &conn->exchange.gate->refusal;
    const char *reason = refusal->reason;
    int status = refusal->status;

    if (refusal->type != NULL) {
        struct http_headers headers;

        http_headers_init(&headers);
        http_headers_add(&headers, "content-type", refusal->type);
        http_headers_add(&headers, "cache-control", "no-cache");
        http_conn_respond(conn->http, status, &headers, buf_text(&refusal->body),
                          refusal->body.len);
        http_headers_finish(&headers);
    } else {
        answer_error(conn, status, "permission_error", reason, refusal->message, NO_RETRY_HINT);
    }
    record(conn, AUDIT_DENY, reason, status);
}

/* True while the body is the gate's business. */
static bool feed_gate(struct client_conn *conn, const char *bytes, size_t len)
{
    struct body_gate *gate = conn->exchange.gate;

    if (gate == NULL || gate->state == BODY_GATE_OPEN)
        return false;
    if (body_gate_feed(gate, bytes, len) == BODY_GATE_OPEN)
        open_gate(conn);
    else if (body_gate_overrun(gate))
        client_conn_cut(conn, gate->refusal.reason);
    return true;
}

static void end_gate(struct client_conn *conn)
{
    struct body_gate *gate = conn->exchange.gate;

    if (gate == NULL || gate->state == BODY_GATE_OPEN)
        return;
    if (body_gate_end(gate) == BODY_GATE_OPEN)
        open_gate(conn);
    else
        answer_shut_gate(conn);
}

/* Tunnels and upgrades
 * -------------------------------------------------------------------------------------------
 */

static void on_relay_open(void *data)
{
    struct client_conn *conn = data;

    conn->exchange.begun = true;
    conn->exchange.status = 200;
    http_conn_begin_tunnel(conn->http, 200, NULL);
}

static void refuse_upgrade(struct client_conn *conn, int status)
{
    const struct failure failure = { .reason = "upgrade_refused",
                                     .verdict = AUDIT_ERROR,
                                     .status = status >= 400 ? status : 502,
                                     .type = "api_error",
                                     .message = "the service did not agree to a WebSocket" };

    answer_failure(conn, &failure);
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
        answer_failure(conn, &failures[end]);
        return;
    }
    if (end == UPSTREAM_END_OK) {
        record(conn, AUDIT_ALLOW, "ok", conn->exchange.status);
        return;
    }
    record(conn, failures[end].verdict, failures[end].reason, 0);
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

    options->connect_timeout_ms = proxy->options.upstream_connect_ms;
    options->idle_timeout_ms = proxy->options.upstream_idle_ms;
    if (relay_start(&conn->exchange.relay, proxy->loop, conn->http, options, &callbacks, &err) == 0)
        return;
    conn->exchange.relay = NULL;
    answer_failure(conn, &failures[UPSTREAM_END_OTHER]);
}

static void open_tunnel(struct client_conn *conn)
{
    struct relay_options options = { .host = &conn->exchange.decision.host,
                                     .exception = conn->exchange.decision.exception };

    start_relay(conn, &options);
}

static void pass_upgrade(struct client_conn *conn, const struct http_request *request)
{
    struct exchange *exchange = &conn->exchange;
    const struct service *service = exchange->decision.service;
    struct proxy *proxy = conn->run->proxy;
    struct relay_options options = { .host = &service->where, .exception = service->exception };
    struct curl_slist *lines = NULL;
    struct error err = ERROR_INIT;
    struct buf head;
    char *path;

    if (strcmp(service->scheme, "https") == 0) {
        options.tls = proxy_tls_client(proxy, &err);
        if (options.tls == NULL) {
            log_warn(conn->run->id, "%s", err.text);
            answer_failure(conn, &failures[UPSTREAM_END_TLS]);
            return;
        }
    }
    if (put_credential(conn, request, &lines, &path, &err) < 0) {
        refuse_for_secret(conn, &err);
        return;
    }
    buf_init(&head, UPGRADE_HEAD_MAX);
    (void)buf_reserve(&head, UPGRADE_HEAD_MAX - 1); /* growing would leave copies behind */
    upgrade_write(&head, service, path, request, lines);
    inject_path_free(path);
    inject_free(lines);
    options.upgrade = &head;
    options.veil = exchange->veil;
    start_relay(conn, &options);
}

/* Ends TLS here from now on. The tunnel itself is one decision, each request in it another. */
static void intercept(struct client_conn *conn)
{
    const struct host host = conn->exchange.decision.host;
    struct proxy *proxy = conn->run->proxy;
    struct tls_identity identity;
    struct error err = ERROR_INIT;
    struct ca_leaf leaf;

    if (ca_leaf(proxy->ca, host.name, host.literal, &leaf, &err) < 0) {
        log_warn(conn->run->id, "%s", err.text);
        answer_failure(conn, &failures[UPSTREAM_END_OTHER]);
        return;
    }
    identity = (struct tls_identity){ leaf.certificate, leaf.issuer, leaf.key };
    conn->intercepted = true;
    conn->inside.host = host;
    if (http_conn_begin_tls(conn->http, proxy->tls_server, conn->inside.host.name, &identity,
                            &err) < 0) {
        const struct failure failure = { "early_data",
                                         AUDIT_DENY,
                                         400,
                                         "invalid_request_error",
                                         "bytes came before the tunnel was there",
                                         NULL };

        conn->intercepted = false;
        answer_failure(conn, &failure);
        return;
    }
    record(conn, AUDIT_ALLOW, "ok", 200);
}

static void act(struct client_conn *conn, const struct http_request *request)
{
    struct exchange *exchange = &conn->exchange;

    switch (exchange->decision.action) {
    case POLICY_TUNNEL:
        open_tunnel(conn);
        return;
    case POLICY_INTERCEPT:
        intercept(conn);
        return;
    case POLICY_UPGRADE:
        pass_upgrade(conn, request);
        return;
    case POLICY_FORWARD:
        break;
    }
    if (request->target_kind == HTTP_TARGET_ORIGIN && !conn->intercepted)
        exchange->base =
            mem_printf("http://%s/proxy/%s", request->host, exchange->decision.service->name);
    exchange->gate = make_gate(conn, request);
    if (exchange->gate == NULL)
        pass_on(conn, request);
    else
        http_conn_continue(conn->http);
}

static void on_request(void *data, struct http_conn *http, const struct http_request *request)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;

    *exchange = (struct exchange){ .started_ms = now_ms(conn) };
    conn->active = true;
    exchange->request = request;
    conn->inside.clear = !http_conn_secure(http);
    exchange->method = mem_strdup(request->method);
    exchange->host = mem_strdup(request->host);
    policy_decide_inside(request, &conn->run->grant, conn->intercepted ? &conn->inside : NULL,
                         &exchange->decision);
    if (!exchange->decision.allowed) {
        answer_refusal(conn);
        return;
    }
    if (exchange->decision.model && !budget_allows(conn))
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
    if (feed_gate(conn, bytes, len))
        return;
    if (exchange->upstream != NULL && !upstream_send(exchange->upstream, bytes, len))
        http_conn_pause_body(http);
}

static void on_body_end(void *data, struct http_conn *http)
{
    struct client_conn *conn = data;

    (void)http;
    end_gate(conn);
    if (conn->exchange.upstream != NULL)
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
    conn->exchange = (struct exchange){ .started_ms = now_ms(conn),
                                        .method = mem_strdup(""),
                                        .host = mem_strdup(conn->inside.host.name) };
    conn->exchange.decision.path = mem_strdup("");
    conn->active = true;
    /* A client that doesn't like our certificate breaks no rule of ours. */
    record(conn, status == 0 && !str_equal(reason, "sni_mismatch") ? AUDIT_ERROR : AUDIT_DENY,
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
        record(conn, AUDIT_DENY, reason, conn->exchange.status);
    else
        record(conn, AUDIT_ERROR, "client_abort", 0);
}

static void on_closed(void *data, struct http_conn *http)
{
    struct client_conn *conn = data;
    struct run *run = conn->run;

    (void)http;
    exchange_finish(&conn->exchange);
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
        record(conn, AUDIT_DENY, reason, 0);
    http_conn_reset(conn->http);
}
