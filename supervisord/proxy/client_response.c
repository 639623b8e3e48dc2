/* client_response.c: an answer on its way back: judged, with what must not be seen taken out. */
#include "proxy/client_internal.h"

#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/body_gate.h"
#include "proxy/decode.h"

#define PIECE_MAX                                                                                  \
    (8u << 20) /* of a body: what one piece may be decoded to, and what a veil holds back */
#define DECODED_MAX (4u << 20) /* of one piece; decode.c allows it the hundredfold and a bit */

/* What can't be searched for the credential isn't passed on. */
static const struct client_failure unreadable = {
    "upstream_encoding",
    AUDIT_ERROR,
    502,
    "api_error",
    "the service's answer is compressed in a way that can't be read, though it was asked not to be",
    NULL
};

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

/* Length of "https://HOST/PREFIX" at the start of TEXT, the service's own address; 0 for others. */
static size_t own_address(const struct service *service, const char *text)
{
    size_t origin = strlen(service->origin);
    size_t len = origin + strlen(service->prefix);

    if (strncasecmp(text, service->origin, origin) != 0 ||
        strncmp(text + origin, service->prefix, len - origin) != 0)
        return 0;
    return text[len] == '\0' || strchr("/?#>", text[len]) != NULL ? len : 0;
}

/* Addresses of the service's own become such below the proxy, so that the next request is judged
 * as well: the one of a Location, and those between <> of a Link. */
static void add_addresses(struct client_conn *conn, struct http_headers *headers, const char *name,
                          const char *value)
{
    const struct service *service = conn->exchange.decision.service;
    bool first = strcasecmp(name, "location") == 0;
    AUTO_BUF struct buf below = BUF_INIT(256u << 10);

    if (conn->exchange.base == NULL) {
        http_headers_add(headers, name, value);
        return;
    }
    for (const char *at = value; *at != '\0';) {
        size_t own = first ? own_address(service, at) : 0;

        if (own > 0)
            buf_append_str(&below, conn->exchange.base);
        first = own == 0 && *at == '<';
        buf_append(&below, at, own > 0 ? 0 : 1);
        at += own > 0 ? own : 1;
    }
    http_headers_add(headers, name, buf_text(&below));
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

/* Of a storage the sandbox learns no address: what opens it may be in there. */
static bool leads_on(const char *name)
{
    return strcasecmp(name, "location") == 0 || strcasecmp(name, "link") == 0;
}

static void copy_response_headers(struct client_conn *conn, const struct http_response_head *head,
                                  struct http_headers *out)
{
    uint64_t limit = conn->run->proxy->options.retry_after_max_seconds;

    for (size_t i = 0; i < head->headers.count; i++) {
        const struct http_header *header = &head->headers.items[i];

        if (http_headers_hop_by_hop(&head->headers, header->name) ||
            is_dropped_from_response(conn->exchange.decision.service, header->name) ||
            (conn->exchange.decision.git == GIT_ENDPOINT_LFS_PLACE && leads_on(header->name)) ||
            (conn->exchange.decode != NULL && strcasecmp(header->name, "content-encoding") == 0))
            continue;
        if (strcasecmp(header->name, "retry-after") == 0)
            add_clamped(out, header->name, header->value, limit);
        else if (strcasecmp(header->name, "retry-after-ms") == 0)
            add_clamped(out, header->name, header->value, limit * 1000);
        else if (leads_on(header->name))
            add_addresses(conn, out, header->name, header->value);
        else
            http_headers_add(out, header->name, header->value);
        inject_veil_text(conn->exchange.veil, out->items[out->count - 1].name);
        inject_veil_text(conn->exchange.veil, out->items[out->count - 1].value);
    }
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
    if (client_model_retries(conn, head))
        return;
    if (!prepare_decode(exchange, head)) {
        exchange->unreadable = "upstream_encoding";
        return;
    }
    if (client_lfs_collects(conn, head))
        return;
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

static void take_plain(struct client_conn *conn, const char *bytes, size_t len)
{
    struct exchange *exchange = &conn->exchange;

    if (!exchange->collects) {
        send_veiled(conn, bytes, len);
        return;
    }
    buf_append(&exchange->collected, bytes, len);
    if (exchange->collected.failed)
        exchange->unreadable = "upstream_encoding";
}

static void send_decoded(struct client_conn *conn, const char *bytes, size_t len)
{
    struct exchange *exchange = &conn->exchange;
    AUTO_BUF struct buf plain = BUF_INIT(DECODED_MAX);

    if (exchange->decode == NULL) {
        take_plain(conn, bytes, len);
        return;
    }
    if (decode_feed(exchange->decode, bytes, len, &plain) < 0) {
        exchange->unreadable = "upstream_encoding";
        return;
    }
    if (plain.len > 0)
        take_plain(conn, plain.data, plain.len);
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
    if (exchange->waits != WAITS_NOT) {
        client_model_drop(conn, bytes, len);
        return true;
    }
    if (exchange->gate != NULL && exchange->gate->reads_answer && exchange->status == 200)
        exchange->gate->kind->on_answer(exchange->gate, bytes, len);
    exchange->response_bytes += len;
    send_decoded(conn, bytes, len);
    return true;
}

static void on_upstream_room(void *data)
{
    struct client_conn *conn = data;

    if (!client_gate_sends(conn))
        http_conn_resume_body(conn->http);
}

static void on_upstream_end(void *data, enum upstream_end end)
{
    struct client_conn *conn = data;
    struct exchange *exchange = &conn->exchange;
    int status = exchange->status;

    exchange->upstream = NULL;
    if (exchange->waits != WAITS_NOT) {
        client_model_dropped(conn);
        return;
    }
    if (exchange->unreadable == NULL && end == UPSTREAM_END_OK && exchange->decode != NULL &&
        exchange->response_bytes > 0 && !decode_ended(exchange->decode))
        exchange->unreadable = "upstream_encoding";
    if (exchange->unreadable != NULL && !exchange->begun) {
        client_answer_failure(conn, &unreadable);
        return;
    }
    if (exchange->collects && end == UPSTREAM_END_OK) {
        client_lfs_answer(conn);
        return;
    }
    if (!exchange->begun) {
        client_answer_failure(conn, client_failure(end));
        return;
    }
    if (exchange->unreadable != NULL) {
        client_record(conn, AUDIT_ERROR, exchange->unreadable, 0);
        http_conn_reset(conn->http);
        return;
    }
    if (end == UPSTREAM_END_OK && !model_account_whole(&exchange->account)) {
        client_record(conn, AUDIT_ERROR, "upstream_incomplete", 0);
        http_conn_reset(conn->http);
        return;
    }
    if (end != UPSTREAM_END_OK) {
        client_record(conn, AUDIT_ERROR, client_failure(end)->reason, 0);
        http_conn_reset(conn->http);
        return;
    }
    end_veiled(conn);
    client_record(conn, AUDIT_ALLOW, "ok", status);
}

struct upstream_callbacks client_response_callbacks(struct client_conn *conn)
{
    return (struct upstream_callbacks){ .on_head = on_upstream_head,
                                        .on_body = on_upstream_body,
                                        .on_room = on_upstream_room,
                                        .on_end = on_upstream_end,
                                        .data = conn };
}
