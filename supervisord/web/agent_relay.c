/* agent_relay.c: one request to an agent's own pages and its answer, or a WebSocket, as they come:
 * what one side doesn't take the other isn't read for. */
#include "io/stream.h"
#include "web/internal.h"

#define REQUEST_MAX (HTTP_HEAD_MAX + 4096)
#define RELAYS_MAX 256
#define SESSION_MAX 64 /* so that one session's pages never keep those of others from working */
/* A sandbox makes 32 connections at a time, and its agent's driver needs some. */
#define CONNECTING_MAX 24

struct relay {
    struct web_conn *conn;
    struct run_pages *pages;
    struct stream *stream; /* NULL until it is connected */
    const struct http_request *request;
    struct http_reply reply;
    struct error refused; /* the answer must not go on, and why */
    bool begun;           /* the answer's head went to the browser */
    bool tunnel;          /* of a WebSocket: bytes both ways */
};

/* Ends
 * -------------------------------------------------------------------------------------------------------------
 */

void agent_relay_stop(struct web_conn *conn)
{
    struct relay *relay = STEAL(conn->relay);

    if (relay == NULL)
        return;
    conn->web->relays--;
    if (relay->stream != NULL)
        stream_close(relay->stream, NULL, NULL);
    if (relay->pages != NULL)
        run_pages_release(relay->pages);
    http_reply_finish(&relay->reply);
    free(relay);
}

/* An answer that has begun must not look whole. */
static void fail(struct relay *relay, const struct error *err)
{
    struct web_conn *conn = relay->conn;
    struct error why = *err; /* it may be the relay's */
    bool begun = relay->begun;

    agent_relay_stop(conn);
    if (begun)
        http_conn_reset(conn->http);
    else
        web_respond_error(conn->http, 502, "agent_answer", why.text);
}

static void fail_with(struct relay *relay, const char *text)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_UNAVAILABLE, 0, "%s", text);
    fail(relay, &err);
}

static void finish(struct relay *relay)
{
    struct web_conn *conn = relay->conn;
    bool tunnel = relay->tunnel;

    agent_relay_stop(conn);
    http_conn_end(conn->http);
    if (tunnel) /* the browser's end must be heard, and nobody else would read on */
        http_conn_resume_body(conn->http);
}

/* The answer
 * -------------------------------------------------------------------------------------------------------
 */

static void on_head(void *data, const struct http_response_head *head)
{
    struct relay *relay = data;
    struct http_headers headers;

    http_headers_init(&headers);
    if (agent_head_answer(head, relay->request->host, &headers, &relay->refused) == 0) {
        relay->begun = true;
        relay->tunnel = head->status == 101;
        if (relay->tunnel)
            http_conn_begin_tunnel(relay->conn->http, 101, &headers);
        else
            http_conn_begin(relay->conn->http, head->status, NULL, &headers,
                            head->chunked ? -1 : head->content_length);
    }
    http_headers_finish(&headers);
}

static void on_body(void *data, const char *bytes, size_t len)
{
    struct relay *relay = data;

    if (relay->begun && !http_conn_send(relay->conn->http, bytes, len))
        stream_pause(relay->stream);
}

static void on_stream_data(void *data, const char *bytes, size_t len)
{
    struct relay *relay = data;
    struct error err = ERROR_INIT;
    size_t used = 0;

    if (!relay->tunnel && http_reply_feed(&relay->reply, bytes, len, &used, &err) < 0)
        fail(relay, &err);
    else if (relay->refused.code != ERR_NONE)
        fail(relay, &relay->refused);
    else if (relay->tunnel && used < len)
        on_body(relay, bytes + used, len - used);
    else if (relay->reply.done && !relay->tunnel)
        finish(relay);
}

static void on_stream_end(void *data, const struct error *err)
{
    struct relay *relay = data;

    if (err == NULL && (relay->tunnel || http_reply_end(&relay->reply)))
        finish(relay);
    else
        fail_with(relay, "the agent's server broke off");
}

/* The request
 * ------------------------------------------------------------------------------------------------------
 */

static void on_stream_drain(void *data)
{
    struct relay *relay = data;

    http_conn_resume_body(relay->conn->http);
}

static void on_connected(void *data, int fd, const char *authorization, const struct error *err)
{
    struct relay *relay = data;
    struct stream_callbacks callbacks = { .on_data = on_stream_data,
                                          .on_end = on_stream_end,
                                          .on_drain = on_stream_drain,
                                          .data = relay };
    AUTO_BUF struct buf head = BUF_INIT(REQUEST_MAX);
    struct error failed = ERROR_INIT;

    if (err != NULL) {
        fail(relay, err);
        return;
    }
    if (stream_start(&relay->stream, relay->conn->web->loop, fd, &callbacks, &failed) < 0) {
        fail(relay, &failed);
        return;
    }
    agent_head_write(relay->request, authorization, &head);
    if (head.failed) {
        fail_with(relay, "the request's head is too large");
        return;
    }
    /* A connection that broke meanwhile tells by its end. */
    (void)stream_write(relay->stream, head.data, head.len);
    http_conn_continue(relay->conn->http);
    http_conn_resume_body(relay->conn->http);
}

static void on_cut(void *data)
{
    struct relay *relay = data;

    relay->pages = NULL;
    fail_with(relay, "the run has ended, and its sandbox with it");
}

bool agent_relay_has_room(const struct web *web, const struct id *session)
{
    unsigned count = 0;
    unsigned connecting = 0;

    LIST_EACH(&web->conns, link) {
        const struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        if (conn->relay == NULL || !str_equal(conn->session.text, session->text))
            continue;
        count++;
        connecting += conn->relay->stream == NULL;
    }
    return web->relays < RELAYS_MAX && count < SESSION_MAX && connecting < CONNECTING_MAX;
}

int agent_relay_start(struct web_conn *conn, const struct id *session,
                      const struct http_request *request, struct error *err)
{
    struct run_pages_callbacks callbacks = { .on_connected = on_connected, .on_cut = on_cut };
    struct relay *relay = NEW(struct relay);

    callbacks.data = relay;
    if (run_pages_connect(&relay->pages, conn->web->runs, session, &callbacks, err) < 0) {
        free(relay);
        return -1;
    }
    relay->conn = conn;
    relay->request = request;
    http_reply_init(&relay->reply, request->method);
    relay->reply.on_head = on_head;
    relay->reply.on_body = on_body;
    relay->reply.data = relay;
    relay->reply.takes_upgrade = agent_head_is_socket(request);
    conn->relay = relay;
    conn->web->relays++;
    http_conn_pause_body(conn->http);
    return 0;
}

void agent_relay_body(struct web_conn *conn, const char *bytes, size_t len)
{
    struct relay *relay = conn->relay;
    char size[20];

    if (relay->request->body_kind == HTTP_BODY_CHUNKED) {
        (void)stream_write(relay->stream, size,
                           (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
        (void)stream_write(relay->stream, bytes, len);
        (void)stream_write(relay->stream, "\r\n", 2);
    } else {
        (void)stream_write(relay->stream, bytes, len);
    }
    if (stream_over_high(relay->stream))
        http_conn_pause_body(conn->http);
}

void agent_relay_body_end(struct web_conn *conn)
{
    struct relay *relay = conn->relay;

    if (relay->tunnel)
        stream_end(relay->stream);
    else if (relay->request->body_kind == HTTP_BODY_CHUNKED)
        (void)stream_write(relay->stream, "0\r\n\r\n", 5);
}

void agent_relay_drained(struct web_conn *conn)
{
    if (conn->relay->stream != NULL)
        stream_resume(conn->relay->stream);
}
