#include "proxy/errand.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "proxy/proxy_internal.h"
#include "proxy/upstream.h"

#define KEPT_MAX 300
#define HELD_BACK_MAX (1u << 20)

struct errand {
    struct proxy *proxy;
    uv_timer_t timer;
    struct upstream *upstream; /* NULL once it is over */
    struct services own;       /* the service in the form that its API wants; or nothing */
    const struct service *service;
    char *service_name;
    char *run_id;
    char *method;
    char *path; /* without the query */
    struct inject_cache cache;
    struct inject_veil *veil;
    struct buf body; /* with room for what a veil holds back */
    size_t body_max;
    bool too_long;
    char kept[KEPT_MAX];
    const char **wanted; /* names of headers */
    size_t wanted_count;
    int status;
    bool head_seen;
    uint64_t sent_bytes;
    uint64_t started_ms;
    errand_cb done;
    void *data;
};

static void on_timer_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF(handle, struct errand, timer));
}

static void release(struct errand *errand)
{
    for (size_t i = 0; i < errand->wanted_count; i++)
        free((void *)(uintptr_t)errand->wanted[i]);
    free(errand->wanted);
    inject_veil_free(errand->veil);
    inject_cache_finish(&errand->cache);
    services_finish(&errand->own);
    free(errand->service_name);
    free(errand->run_id);
    free(errand->method);
    free(errand->path);
    buf_finish(&errand->body);
    proxy_part_closed(errand->proxy);
    uv_close((uv_handle_t *)&errand->timer, on_timer_closed);
}

static void record(struct errand *errand, const char *reason)
{
    const struct proxy_options *options = &errand->proxy->options;
    const struct proxy_decision decision = {
        .run_id = errand->run_id,
        .service = errand->service_name,
        .method = errand->method,
        .host = errand->service->host,
        .path = errand->path,
        .verdict = str_equal(reason, "ok") ? AUDIT_ALLOW : AUDIT_ERROR,
        .detail = inject_veil_found(errand->veil) > 0 ? "by the supervisor, reflected_secret"
                                                      : "by the supervisor",
        .reason = reason,
        .status = (uint32_t)errand->status,
        .request_bytes = errand->sent_bytes,
        .response_bytes = errand->body.len,
        .milliseconds = uv_now(errand->proxy->loop) - errand->started_ms,
    };

    if (options->on_decision != NULL)
        options->on_decision(options->data, &decision);
}

/* REASON: "ok", or ERR says what. */
static void finish(struct errand *errand, const char *reason, const struct error *err)
{
    errand_cb done = errand->done;
    void *data = errand->data;
    struct errand_answer answer = { .status = errand->status,
                                    .body = buf_text(&errand->body),
                                    .len = errand->body.len,
                                    .kept = errand->kept };

    record(errand, reason);
    done(data, err == NULL ? &answer : NULL, err);
    release(errand);
}

/* Answer
 * --------------------------------------------------------------------------------------------- */

static void on_head(void *data, const struct http_response_head *head)
{
    struct errand *errand = data;

    errand->status = head->status;
    errand->head_seen = true;
    for (size_t i = 0; i < errand->wanted_count && errand->kept[0] == '\0'; i++) {
        const char *value = http_headers_get(&head->headers, errand->wanted[i]);
        AUTO_BUF struct buf shown = BUF_INIT(4 * KEPT_MAX);

        if (value == NULL)
            continue;
        str_append_escaped(&shown, value, strlen(value), KEPT_MAX / 2);
        str_copy(errand->kept, sizeof(errand->kept), buf_text(&shown));
        inject_veil_text(errand->veil, errand->kept);
    }
}

static void on_timer(uv_timer_t *timer);

/* Too much is dropped, and the timer ends it at once: nothing may be cut in here. */
static bool on_body(void *data, const char *bytes, size_t len)
{
    struct errand *errand = data;

    if (!errand->too_long && errand->body.len + len > errand->body_max) {
        errand->too_long = true;
        uv_timer_start(&errand->timer, on_timer, 0, 0);
    }
    if (!errand->too_long)
        inject_veil_feed(errand->veil, bytes, len, &errand->body);
    return true;
}

static void on_room(void *data)
{
    (void)data; /* the body was queued as a whole */
}

static const struct failure {
    enum upstream_end end;
    enum error_code code;
    const char *reason;
    const char *text;
} failures[] = {
    { UPSTREAM_END_CUT, ERR_UNAVAILABLE, "upstream_cut", "broke off its answer" },
    { UPSTREAM_END_RESOLVE, ERR_UNAVAILABLE, "upstream_resolve", "can't be found by its name" },
    { UPSTREAM_END_CONNECT, ERR_UNAVAILABLE, "upstream_connect", "can't be reached" },
    { UPSTREAM_END_PARENT, ERR_UNAVAILABLE, "upstream_proxy",
      "can't be reached through egress.proxy" },
    { UPSTREAM_END_TLS, ERR_UNAVAILABLE, "upstream_tls", "has no certificate that is trusted" },
    { UPSTREAM_END_ADDRESS, ERR_DENIED, "address_not_allowed",
      "leads to an address that is not allowed" },
    { UPSTREAM_END_TIMEOUT, ERR_TIMEOUT, "upstream_timeout", "didn't answer in time" },
    { UPSTREAM_END_RESPONSE, ERR_UNAVAILABLE, "upstream_bad_response",
      "gave an answer that breaks the rules of HTTP" },
    { UPSTREAM_END_OTHER, ERR_UNAVAILABLE, "upstream_error", "can't be asked" },
};

static void fail(struct errand *errand, enum upstream_end end)
{
    const struct failure *failure = &failures[ARRAY_LEN(failures) - 1];
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        if (failures[i].end == end)
            failure = &failures[i];
    error_set(&err, failure->code, 0, "%s %s", errand->service->origin, failure->text);
    finish(errand, failure->reason, &err);
}

static void fail_too_long(struct errand *errand)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_LIMIT, 0, "%s gave an answer of more than %zu bytes",
              errand->service->origin, errand->body_max);
    finish(errand, "answer_too_large", &err);
}

static void on_timer(uv_timer_t *timer)
{
    struct errand *errand = CONTAINER_OF(timer, struct errand, timer);

    upstream_cancel(STEAL(errand->upstream));
    if (errand->too_long)
        fail_too_long(errand);
    else
        fail(errand, UPSTREAM_END_TIMEOUT);
}

static void on_end(void *data, enum upstream_end end)
{
    struct errand *errand = data;

    errand->upstream = NULL;
    if (end == UPSTREAM_END_OK)
        inject_veil_end(errand->veil, &errand->body);
    if (errand->too_long)
        fail_too_long(errand);
    else if (end != UPSTREAM_END_OK)
        fail(errand, end);
    else
        finish(errand, "ok", NULL);
}

/* Request
 * -------------------------------------------------------------------------------------------- */

/* The service as its API wants it, made from the one that is configured. */
static int make_own(struct errand *errand, const struct service *service,
                    const struct errand_options *options, struct error *err)
{
    AUTO_FREE
    char *target = mem_printf("%s%s%s", service->origin, service->prefix,
                              options->prefix != NULL ? options->prefix : "");
    AUTO_FREE
    char *value = mem_printf("%s{%s}", options->before, service->secret);
    const struct proxy_service own = { .name = "errand",
                                       .target = target,
                                       .inject_header = options->header,
                                       .inject_value = value,
                                       .secret = service->secret };

    if (services_init(&errand->own, &own, 1, err) < 0)
        return -1;
    errand->own.items[0].exception = service->exception;
    errand->service = &errand->own.items[0];
    return 0;
}

static int find_service(struct errand *errand, const struct errand_options *options,
                        struct error *err)
{
    const struct service *service =
        services_find(&errand->proxy->services, options->service, strlen(options->service));

    if (service == NULL)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "there is no service %s; configure services.%s.target", options->service,
                         options->service);
    if (service->inject == INJECT_NONE || !vault_has(errand->proxy->vault, service->secret))
        return error_set(err, ERR_NOT_FOUND, 0, "secret %s is not stored: sandboxctl secret set %s",
                         service->secret, service->secret);
    errand->service = service;
    return options->header != NULL ? make_own(errand, service, options, err) : 0;
}

static void make_request(struct http_request *request, const struct errand_options *options)
{
    *request = (struct http_request){ .method = mem_strdup(options->method), .minor = 1 };
    http_headers_init(&request->headers);
    http_headers_add(&request->headers, "accept", "application/json");
    http_headers_add(&request->headers, "user-agent", "sandbox-mcp");
    if (options->body == NULL)
        return;
    http_headers_add(&request->headers, "content-type", "application/json");
    request->body_kind = HTTP_BODY_LENGTH;
    request->content_length = options->body_len;
}

static int send_request(struct errand *errand, const struct errand_options *options,
                        struct error *err)
{
    const struct upstream_callbacks callbacks = {
        .on_head = on_head, .on_body = on_body, .on_room = on_room, .on_end = on_end, .data = errand
    };
    const struct inject_source source = { errand->proxy->vault, &errand->cache };
    AUTO_FREE
    char *path = mem_printf("%s%s", errand->service->prefix, options->path);
    struct upstream_options upstream = { .curl = errand->proxy->errands,
                                         .service = errand->service,
                                         .path = path,
                                         .parent = &errand->proxy->parent,
                                         .ca_file = errand->proxy->ca_file,
                                         .connect_timeout_ms =
                                             errand->proxy->options.upstream_connect_ms,
                                         .head_timeout_ms = options->timeout_ms,
                                         .idle_timeout_ms = options->timeout_ms };
    struct http_request request;
    struct buf lines;
    int rc;

    make_request(&request, options);
    upstream.request = &request;
    upstream.lines = &lines;
    rc = inject_headers(errand->service, &request, &source, &lines, &errand->veil, err);
    inject_cache_rest(&errand->cache);
    if (rc == 0) {
        rc = upstream_start(&errand->upstream, errand->proxy->loop, &upstream, &callbacks, err);
        inject_free(&lines);
    }
    http_request_finish(&request);
    if (rc < 0)
        return -1;
    if (options->body != NULL) {
        upstream_send(errand->upstream, options->body, options->body_len);
        upstream_send_end(errand->upstream);
    }
    return 0;
}

static void keep_names(struct errand *errand, const struct errand_options *options)
{
    errand->wanted = mem_new_zero(options->kept_count + 1, sizeof(char *));
    for (size_t i = 0; i < options->kept_count; i++)
        errand->wanted[errand->wanted_count++] = mem_strdup(options->kept[i]);
}

int errand_start(struct errand **out, struct proxy *proxy, const struct errand_options *options,
                 errand_cb done, void *data, struct error *err)
{
    struct errand *errand;

    if (proxy->closing)
        return error_set(err, ERR_UNAVAILABLE, 0, "the proxy is closing");
    if (proxy->errands == NULL) {
        if (curl_loop_start(&proxy->errands, proxy->loop, err) < 0) {
            proxy->errands = NULL;
            return -1;
        }
        proxy_part_opened(proxy);
    }
    errand = NEW(struct errand);
    errand->proxy = proxy;
    proxy_part_opened(proxy);
    uv_timer_init(proxy->loop, &errand->timer);
    errand->service_name = mem_strdup(options->service);
    errand->run_id = mem_strdup(options->run_id);
    errand->method = mem_strdup(options->method);
    errand->path = mem_strndup(options->path, strcspn(options->path, "?"));
    errand->sent_bytes = options->body_len;
    errand->started_ms = uv_now(proxy->loop);
    errand->done = done;
    errand->data = data;
    buf_init(&errand->body, options->answer_max + HELD_BACK_MAX);
    errand->body_max = options->answer_max;
    keep_names(errand, options);
    if (find_service(errand, options, err) < 0 || send_request(errand, options, err) < 0) {
        release(errand);
        return -1;
    }
    uv_timer_start(&errand->timer, on_timer, options->timeout_ms, 0);
    *out = errand;
    return 0;
}

void errand_cancel(struct errand *errand)
{
    if (errand->upstream != NULL)
        upstream_cancel(STEAL(errand->upstream));
    release(errand);
}
