/* client_lfs.c: Git LFS for a sandbox: batches, whose answers get places of the proxy's own, and
 * what is fetched from and sent to those. */
#include "proxy/client_internal.h"

#include <string.h>
#include <strings.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "proxy/body_gate.h"
#include "proxy/lfs.h"

#define REQUEST_MAX (1u << 20)
#define PLACE_FOLDER "/info/lfs/transfer/"

static const struct client_failure bad_answer = {
    "lfs_answer",
    AUDIT_ERROR,
    502,
    "api_error",
    "the server's answer about large files can't be used here: it may name a place that isn't safe "
    "to go to, or want another transfer than \"basic\"",
    NULL
};
static const struct client_failure no_place = {
    "lfs_place_unknown",
    AUDIT_DENY,
    404,
    "not_found_error",
    "there is no such place, or its time is over; ask for the object again",
    NULL
};
static const struct client_failure wrong_use = {
    "lfs_not_allowed",
    AUDIT_DENY,
    403,
    "permission_error",
    "this place is for one object of a certain size, and for one way to use it",
    NO_RETRY_HINT
};

/* The gate of a batch
 * ------------------------------------------------------------------------------------------------
 */

struct lfs_gate {
    struct body_gate gate; /* first */
    bool may_upload;
    bool uploads;
};

static enum body_gate_state look(struct body_gate *gate, bool ended)
{
    struct lfs_gate *lfs = CONTAINER_OF(gate, struct lfs_gate, gate);

    if (!ended)
        return BODY_GATE_READING;
    switch (lfs_read_request(gate->held.data, gate->held.len)) {
    case LFS_DOWNLOAD:
        return BODY_GATE_OPEN;
    case LFS_UPLOAD:
        lfs->uploads = true;
        if (lfs->may_upload)
            return BODY_GATE_OPEN;
        return body_gate_refuse(gate, 403, "repository_not_allowed",
                                "this run may not push to that repository");
    case LFS_UNCLEAR:
        break;
    }
    return body_gate_refuse(gate, 422, "lfs_not_allowed",
                            "only downloads and uploads of objects are possible");
}

static void gate_free(struct body_gate *gate)
{
    free(gate);
}

static const struct body_gate_kind lfs_kind = {
    .held_max = REQUEST_MAX,
    .too_large = "lfs_not_allowed",
    .look = look,
    .free = gate_free,
};

/* Branches can't be judged here: who may push any may send objects for it. */
static bool may_upload(const struct client_conn *conn)
{
    const char *only_ref = conn->run->only_ref;

    return !conn->exchange.decision.anonymous && (only_ref == NULL || only_ref[0] != '\0');
}

struct body_gate *client_lfs_gate(struct client_conn *conn)
{
    struct lfs_gate *lfs = NEW(struct lfs_gate);

    body_gate_init(&lfs->gate, &lfs_kind);
    lfs->may_upload = may_upload(conn);
    return &lfs->gate;
}

/* The answer to a batch
 * ------------------------------------------------------------------------------------------------
 */

bool client_lfs_collects(struct client_conn *conn, const struct http_response_head *head)
{
    struct exchange *exchange = &conn->exchange;

    if (exchange->decision.git != GIT_ENDPOINT_LFS_BATCH || head->status >= 300)
        return false;
    exchange->collects = true;
    exchange->status = head->status;
    buf_init(&exchange->collected, LFS_BODY_MAX);
    return true;
}

/* What it says in words may hold the credential. */
static void respond(struct client_conn *conn, const struct buf *text)
{
    AUTO_BUF struct buf shown = BUF_INIT(2 * LFS_BODY_MAX);
    struct http_headers headers;

    inject_veil_feed(conn->exchange.veil, text->data, text->len, &shown);
    inject_veil_end(conn->exchange.veil, &shown);
    http_headers_init(&headers);
    http_headers_add(&headers, "content-type", "application/vnd.git-lfs+json");
    http_conn_respond(conn->http, 200, &headers, buf_text(&shown), shown.len);
    http_headers_finish(&headers);
    client_record(conn, AUDIT_ALLOW, "ok", 200);
}

void client_lfs_answer(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;
    const struct policy_decision *decision = &exchange->decision;
    const struct service *service = decision->service;
    const char *prefix = exchange->base != NULL ? "" : service->prefix;
    AUTO_BUF struct buf text = BUF_INIT(LFS_BODY_MAX);
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *base = mem_printf("%s%s%.*s" PLACE_FOLDER,
                            exchange->base != NULL ? exchange->base : service->origin, prefix,
                            (int)decision->repository_len, decision->path);
    const struct lfs_answer answer = {
        .service = service,
        .base = base,
        .upload = CONTAINER_OF(exchange->gate, struct lfs_gate, gate)->uploads,
        .now_ms = client_now_ms(conn)
    };

    if (lfs_rewrite(&conn->run->lfs, &answer, exchange->collected.data, exchange->collected.len,
                    &text, &err) == 0) {
        respond(conn, &text);
        return;
    }
    log_warn(conn->run->id, "service %s: %s", service->name, err.text);
    client_answer_failure(conn, &bad_answer);
}

/* A place
 * ------------------------------------------------------------------------------------------------
 */

static const struct lfs_place *find_place(const struct client_conn *conn)
{
    const struct policy_decision *decision = &conn->exchange.decision;
    const char *key = strstr(decision->path, PLACE_FOLDER);
    const struct lfs_place *place;

    if (key == NULL)
        return NULL;
    key += strlen(PLACE_FOLDER);
    place = lfs_find(&conn->run->lfs, key, strlen(key), client_now_ms(conn));
    return place != NULL && place->service == decision->service ? place : NULL;
}

static bool is_meant(const struct lfs_place *place, const struct http_request *request)
{
    if (!str_equal(request->method, place->method))
        return false;
    return !str_equal(request->method, "PUT") ||
           (request->body_kind == HTTP_BODY_LENGTH && request->content_length == place->size) ||
           (request->body_kind == HTTP_BODY_NONE && place->size == 0);
}

/* What the storage has to know of the client's request, and what opens it. */
static void make_headers(const struct lfs_place *place, const struct http_request *request,
                         struct http_headers *headers)
{
    static const char *const kept[] = { "accept", "content-type", "range", "user-agent" };

    http_headers_init(headers);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const char *value = http_headers_get(&request->headers, kept[i]);
        bool given = false;

        for (size_t k = 0; k < place->header_count; k++)
            given |= strcasecmp(place->headers[k].name, kept[i]) == 0;
        if (value != NULL && !given)
            http_headers_add(headers, kept[i], value);
    }
    for (size_t i = 0; i < place->header_count; i++)
        http_headers_add(headers, place->headers[i].name, place->headers[i].value);
}

static void start(struct client_conn *conn, const struct lfs_place *place,
                  const struct http_request *request)
{
    const struct upstream_callbacks callbacks = client_response_callbacks(conn);
    const struct inject_source nothing = { 0 };
    struct proxy *proxy = conn->run->proxy;
    struct exchange *exchange = &conn->exchange;
    struct upstream_options options = { .service = place->storage,
                                        .path = place->path,
                                        .request = request,
                                        .parent = &proxy->parent,
                                        .ca_file = proxy->ca_file,
                                        .connect_timeout_ms = proxy->options.upstream_connect_ms,
                                        .head_timeout_ms = proxy->options.upstream_idle_ms,
                                        .idle_timeout_ms = proxy->options.upstream_idle_ms };
    struct error err = ERROR_INIT;
    struct buf lines = { 0 };
    int rc = -1;

    options.lines = &lines;
    options.curl = run_hosts(conn->run, &err);
    if (options.curl != NULL &&
        inject_headers(place->storage, request, &nothing, &lines, &exchange->veil, &err) == 0)
        rc = upstream_start(&exchange->upstream, proxy->loop, &options, &callbacks, &err);
    inject_free(&lines);
    if (rc == 0) {
        http_conn_continue(conn->http);
        return;
    }
    exchange->upstream = NULL;
    log_warn(conn->run->id, "%s", err.text);
    client_answer_failure(conn, client_failure(UPSTREAM_END_OTHER));
}

void client_lfs_pass(struct client_conn *conn, const struct http_request *request)
{
    const struct lfs_place *place = find_place(conn);
    struct http_request there = *request;

    if (place == NULL) {
        client_answer_failure(conn, &no_place);
        return;
    }
    conn->exchange.storage =
        mem_printf("object %.16s at %s", place->oid, place->storage->where.name);
    if (!is_meant(place, request)) {
        client_answer_failure(conn, &wrong_use);
        return;
    }
    make_headers(place, request, &there.headers);
    start(conn, place, &there);
    http_headers_finish(&there.headers);
}
