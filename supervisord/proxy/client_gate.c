/* client_gate.c: requests whose body is judged before anything goes upstream. */
#include "proxy/client_internal.h"

#include "common/mem.h"
#include "proxy/git_push.h"
#include "proxy/graphql.h"

/* Little enough to be queued while there is no connection yet. */
#define PIECE_BYTES (64u << 10)
#define HELD_FREE (1u << 20)    /* a body of so much is held in any case */
#define HELD_BY_RUN (64u << 20) /* what all of a run's bodies may hold, but for those */

static void on_pushed(void *data)
{
    run_note_pushed(data);
}

/* The repository's own stand before the service's. */
static struct git_push_rules rules_of(const struct policy_decision *decision, const struct run *run)
{
    const struct service *service = decision->service;
    const struct policy_repository *repository = decision->repository;
    bool own = repository != NULL && repository->push_refs != NULL;

    return (struct git_push_rules){
        .refs = (const char *const *)(own ? repository->push_refs : service->push_refs),
        .ref_count = own ? repository->push_ref_count : service->push_ref_count,
        .branch = repository != NULL ? repository->branch : "",
        .overwrite = repository != NULL ? repository->push_overwrite : service->push_overwrite,
        .only = run->only_ref,
    };
}

/* The judge that a request's body needs, or NULL. */
struct body_gate *client_gate_new(struct client_conn *conn, const struct http_request *request)
{
    const struct policy_decision *decision = &conn->exchange.decision;
    const struct service *service = decision->service;
    struct run *run = conn->run;

    if (decision->graphql)
        return graphql_gate_new(request);
    if (decision->git == GIT_ENDPOINT_LFS_BATCH)
        return client_lfs_gate(conn);
    if (decision->git != GIT_ENDPOINT_PUSH)
        return client_model_gate(conn, request);
    AUTO_FREE
    char *place =
        mem_printf("%s%.*s", service->name, (int)decision->repository_len, decision->path);
    const struct git_push_options options = {
        .rules = rules_of(decision, run),
        .tips = &run->tips,
        .place = place,
        .on_pushed = on_pushed,
        .data = run,
    };
    return git_push_gate_new(request, &options);
}

/* In pieces, as the upstream has room for them; then what follows. */
static void send_held(struct client_conn *conn)
{
    struct upstream *upstream = conn->exchange.upstream;
    struct body_gate *gate = conn->exchange.gate;
    bool room = true;

    while (room && gate->sent < gate->held.len) {
        size_t left = gate->held.len - gate->sent;
        size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;

        room = upstream_send(upstream, gate->held.data + gate->sent, piece);
        gate->sent += piece;
    }
    if (gate->sent < gate->held.len)
        return;
    if (!client_model_keeps(conn)) {
        buf_finish(&gate->held);
        gate->sent = 0;
    }
    if (gate->ended)
        upstream_send_end(upstream);
    else if (room)
        http_conn_resume_body(conn->http);
}

void client_gate_open(struct client_conn *conn)
{
    struct exchange *exchange = &conn->exchange;

    if (!client_model_goes(conn))
        return;
    client_pass_on(conn, exchange->request);
    if (exchange->upstream == NULL)
        return; /* answered, and the exchange is over */
    exchange->gate->sent = 0;
    http_conn_pause_body(conn->http);
    send_held(conn);
}

bool client_gate_sends(struct client_conn *conn)
{
    struct body_gate *gate = conn->exchange.gate;

    if (gate == NULL || gate->sent == gate->held.len)
        return false;
    send_held(conn);
    return true;
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
        client_answer_error(conn, status, "permission_error", reason, refusal->message,
                            NO_RETRY_HINT);
    }
    client_record(conn, AUDIT_DENY, reason, status);
}

/* One large body is as it may be; of many at once the supervisor would run out of memory. */
static bool holds_too_much(const struct client_conn *conn)
{
    size_t held = 0;

    if (conn->exchange.gate->held.len <= HELD_FREE)
        return false;
    LIST_EACH(&conn->run->conns, link) {
        const struct body_gate *gate = client_conn_from_link(link)->exchange.gate;

        held += gate != NULL ? gate->held.len : 0;
    }
    return held > HELD_BY_RUN;
}

/* True while the body is the gate's business. */
bool client_gate_feed(struct client_conn *conn, const char *bytes, size_t len)
{
    struct body_gate *gate = conn->exchange.gate;

    if (gate == NULL)
        return false;
    if (gate->state == BODY_GATE_OPEN && gate->sent < gate->held.len) {
        buf_append(&gate->held, bytes, len); /* read before the pause */
        BUG_ON(gate->held.failed);
        return true;
    }
    if (gate->state == BODY_GATE_OPEN)
        return false;
    if (gate->state == BODY_GATE_READING && holds_too_much(conn))
        body_gate_shut(gate, "the run's requests that are being judged are too large together");
    if (body_gate_feed(gate, bytes, len) == BODY_GATE_OPEN)
        client_gate_open(conn);
    else if (body_gate_overrun(gate))
        client_conn_cut(conn, gate->refusal.reason);
    return true;
}

void client_gate_end(struct client_conn *conn)
{
    struct body_gate *gate = conn->exchange.gate;

    gate->ended = true;
    if (gate->state == BODY_GATE_OPEN) {
        if (conn->exchange.upstream != NULL && gate->sent == gate->held.len)
            upstream_send_end(conn->exchange.upstream);
        return;
    }
    if (body_gate_end(gate) == BODY_GATE_OPEN)
        client_gate_open(conn);
    else
        answer_shut_gate(conn);
}
