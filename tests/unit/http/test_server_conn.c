/* A connection over a socket pair: what a peer sends and what it sees. */
#include "unit/http/cases.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "http/http.h"
#include "io/stream.h"

struct rig {
    uv_loop_t loop;
    uv_timer_t watchdog;
    bool late;
    struct http_conn *conn;
    struct stream *peer;
    struct buf in; /* what the peer got */
    bool peer_ended;
    bool peer_reset;
    bool peer_closed;
    bool conn_closed;
    unsigned requests;
    unsigned body_ends;
    unsigned aborts;
    unsigned refusals;
    unsigned drains;
    char refused[64];
    int refused_status;
    struct buf body;
    char target[64];
    /* What the server does. */
    bool answer_at_once; /* in on_request */
    bool hold;           /* don't answer by itself */
    bool stop_body;      /* pause after the first piece */
};

static void on_request(void *data, struct http_conn *conn, const struct http_request *request)
{
    struct rig *rig = data;

    rig->requests++;
    snprintf(rig->target, sizeof(rig->target), "%s", request->target);
    if (rig->answer_at_once)
        http_conn_respond(conn, 200, NULL, "now", 3);
}

static void on_body(void *data, struct http_conn *conn, const char *bytes, size_t len)
{
    struct rig *rig = data;

    buf_append(&rig->body, bytes, len);
    if (rig->stop_body)
        http_conn_pause_body(conn);
}

static void on_body_end(void *data, struct http_conn *conn)
{
    struct rig *rig = data;

    rig->body_ends++;
    if (!rig->hold)
        http_conn_respond(conn, 200, NULL, "done", 4);
}

static void on_refused(void *data, struct http_conn *conn, int status, const char *reason)
{
    struct rig *rig = data;

    (void)conn;
    rig->refusals++;
    rig->refused_status = status;
    snprintf(rig->refused, sizeof(rig->refused), "%s", reason);
}

static void on_drain(void *data, struct http_conn *conn)
{
    struct rig *rig = data;

    (void)conn;
    rig->drains++;
}

static void on_abort(void *data, struct http_conn *conn)
{
    struct rig *rig = data;

    (void)conn;
    rig->aborts++;
}

static void on_closed(void *data, struct http_conn *conn)
{
    struct rig *rig = data;

    (void)conn;
    rig->conn_closed = true;
}

static void on_peer_data(void *data, const char *bytes, size_t len)
{
    struct rig *rig = data;

    buf_append(&rig->in, bytes, len);
}

static void on_peer_end(void *data, const struct error *err)
{
    struct rig *rig = data;

    rig->peer_ended = true;
    rig->peer_reset = err != NULL;
}

static void on_peer_closed(void *data)
{
    struct rig *rig = data;

    rig->peer_closed = true;
}

static void on_watchdog(uv_timer_t *timer)
{
    struct rig *rig = timer->data;

    rig->late = true;
}

#define UNTIL(rig, condition)                                                                      \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            uv_run(&(rig)->loop, UV_RUN_ONCE);                                                     \
            if ((rig)->late)                                                                       \
                CHECK_FAILED("in time: " #condition);                                              \
        }                                                                                          \
    } while (0)

static struct rig *start(const struct http_conn_options *options)
{
    static const struct http_conn_options proxy = { .allow_absolute = true, .allow_connect = true };
    struct rig *rig = NEW(struct rig);
    struct http_conn_callbacks callbacks = {
        .on_request = on_request,
        .on_body = on_body,
        .on_body_end = on_body_end,
        .on_refused = on_refused,
        .on_drain = on_drain,
        .on_abort = on_abort,
        .on_closed = on_closed,
        .data = rig,
    };
    struct stream_callbacks peer = { .on_data = on_peer_data, .on_end = on_peer_end, .data = rig };
    struct error err = ERROR_INIT;
    int fds[2];

    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    uv_timer_init(&rig->loop, &rig->watchdog);
    rig->watchdog.data = rig;
    uv_timer_start(&rig->watchdog, on_watchdog, 20000, 0);
    buf_init(&rig->in, 64u << 20);
    buf_init(&rig->body, 64u << 20);
    CHECK_EQ(fd_socketpair(fds, &err), 0);
    CHECK_EQ(http_conn_start(&rig->conn, &rig->loop, fds[0], options != NULL ? options : &proxy,
                             &callbacks, &err),
             0);
    CHECK_EQ(stream_start(&rig->peer, &rig->loop, fds[1], &peer, &err), 0);
    return rig;
}

static void stop(struct rig *rig)
{
    if (!rig->conn_closed)
        http_conn_close(rig->conn);
    if (rig->peer != NULL)
        stream_close(rig->peer, on_peer_closed, rig);
    UNTIL(rig, rig->conn_closed && (rig->peer == NULL || rig->peer_closed));
    uv_close((uv_handle_t *)&rig->watchdog, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    buf_finish(&rig->in);
    buf_finish(&rig->body);
    free(rig);
}

static void hang_up(struct rig *rig)
{
    stream_close(rig->peer, NULL, NULL);
    rig->peer = NULL;
}

enum delivery { AT_ONCE, BY_BYTE };

static void deliver(struct rig *rig, const char *data, size_t len, enum delivery delivery)
{
    if (delivery == AT_ONCE) {
        stream_write(rig->peer, data, len);
        return;
    }
    for (size_t i = 0; i < len && !rig->conn_closed && rig->refusals == 0; i++) {
        unsigned before = rig->requests;

        stream_write(rig->peer, data + i, 1);
        uv_run(&rig->loop, UV_RUN_NOWAIT);
        (void)before;
    }
}

static void say(struct rig *rig, const char *text)
{
    CHECK(stream_write(rig->peer, text, strlen(text)));
}

static void expect_refusal(const struct http_case *c, enum delivery delivery, unsigned requests)
{
    struct rig *rig = start(NULL);
    AUTO_FREE
    char *line = mem_printf("HTTP/1.1 %d ", c->status);

    deliver(rig, c->data, c->len, delivery);
    UNTIL(rig, rig->peer_ended);
    if (rig->refusals != 1 || rig->refused_status != c->status || rig->body_ends != 0 ||
        rig->requests != requests)
        CHECK_STR(c->name, rig->refused);
    CHECK_HAS(buf_text(&rig->in), line);
    CHECK_HAS(buf_text(&rig->in), "Connection: close\r\n");
    CHECK_EQ(rig->aborts, requests);
    stop(rig);
}

TEST(bad_heads_are_refused_however_they_arrive)
{
    for (size_t i = 0; i < ARRAY_LEN(head_cases); i++) {
        if (head_cases[i].status == 0)
            continue;
        expect_refusal(&head_cases[i], AT_ONCE, 0);
        expect_refusal(&head_cases[i], BY_BYTE, 0);
    }
}

TEST(good_heads_pass_however_they_arrive)
{
    for (size_t i = 0; i < ARRAY_LEN(head_cases); i++) {
        if (head_cases[i].status != 0)
            continue;
        for (enum delivery delivery = AT_ONCE; delivery <= BY_BYTE; delivery++) {
            struct rig *rig = start(NULL);

            deliver(rig, head_cases[i].data, head_cases[i].len, delivery);
            UNTIL(rig, rig->in.len > 0);
            if (rig->requests != 1 || rig->refusals != 0)
                CHECK_STR(head_cases[i].name, rig->refused);
            CHECK_HAS(buf_text(&rig->in), "HTTP/1.1 200 OK\r\n");
            stop(rig);
        }
    }
}

TEST(bodies_get_their_verdict_however_they_arrive)
{
    for (size_t i = 0; i < ARRAY_LEN(body_cases); i++) {
        const struct http_case *c = &body_cases[i];

        for (enum delivery delivery = AT_ONCE; delivery <= BY_BYTE; delivery++) {
            if (c->status != 0) {
                expect_refusal(c, delivery, 1);
                continue;
            }
            struct rig *rig = start(NULL);

            deliver(rig, c->data, c->len, delivery);
            UNTIL(rig, rig->in.len > 0);
            if (rig->refusals != 0)
                CHECK_STR(c->name, rig->refused);
            CHECK_STR(buf_text(&rig->body), "hello");
            CHECK_EQ(rig->body_ends, 1);
            stop(rig);
        }
    }
}

TEST(every_split_of_a_pipeline_is_read_the_same)
{
    static const char text[] = "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                               "chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n"
                               "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\ndef"
                               "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n";

    for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
        struct rig *rig = start(NULL);

        deliver(rig, text, cut, AT_ONCE);
        for (int i = 0; i < 4; i++)
            uv_run(&rig->loop, UV_RUN_NOWAIT);
        deliver(rig, text + cut, sizeof(text) - 1 - cut, AT_ONCE);
        UNTIL(rig, rig->body_ends == 3);
        CHECK_EQ(rig->requests, 3);
        CHECK_STR(buf_text(&rig->body), "abcdef");
        CHECK_STR(rig->target, "/3");
        stop(rig);
    }
}

TEST(too_much_of_anything_is_refused_before_it_is_kept)
{
    static const struct {
        const char *start;
        const char *piece;
        int status;
        const char *code;
    } cases[] = {
        { "GET / HTTP/1.1\r\nHost: a\r\nX: ",
          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
          431, "head_too_large" },
        { "GET / HTTP/1.1\r\nHost: a\r\n",
          "X: a\r\nY: b\r\nX: a\r\nY: b\r\nX: a\r\nY: b\r\nX: a\r\nY: b\r\n", 431,
          "head_too_large" },
        { "GET /",
          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
          414, "target_too_long" },
        { "XXX",
          "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
          414, "target_too_long" },
        { CHUNKED, "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n", 400,
          "chunk_extensions_too_large" },
        { CHUNKED "1;", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          400, "chunk_extensions_too_large" },
        { CHUNKED "0\r\n", "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 431,
          "trailers_too_large" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig *rig = start(NULL);

        say(rig, cases[i].start);
        for (int k = 0; k < 4000 && rig->refusals == 0; k++) {
            stream_write(rig->peer, cases[i].piece, strlen(cases[i].piece));
            uv_run(&rig->loop, UV_RUN_NOWAIT);
        }
        CHECK_EQ(rig->refused_status, cases[i].status);
        CHECK_STR(rig->refused, cases[i].code);
        stop(rig);
    }
}

TEST(keep_alive_and_pipelining_answer_in_order)
{
    struct rig *rig = start(NULL);
    const char *first;
    const char *second;

    rig->answer_at_once = true;
    say(rig, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->requests == 2);
    UNTIL(rig, (first = strstr(buf_text(&rig->in), "now")) != NULL &&
                   (second = strstr(first + 1, "now")) != NULL);
    CHECK_EQ(rig->body_ends, 0);
    rig->answer_at_once = false;
    say(rig, "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    UNTIL(rig, rig->peer_ended);
    CHECK(!rig->peer_reset);
    CHECK_HAS(buf_text(&rig->in), "Connection: close\r\n");
    CHECK_HAS(buf_text(&rig->in), "done");
    stop(rig);
}

TEST(ten_thousand_pipelined_requests_need_little_memory)
{
    struct rig *rig = start(NULL);
    AUTO_BUF struct buf text;

    rig->answer_at_once = true;
    buf_init(&text, 1u << 20);
    for (int i = 0; i < 10000; i++)
        buf_append_str(&text, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    stream_pause(rig->peer);
    CHECK(stream_write(rig->peer, text.data, text.len));
    for (int i = 0; i < 200; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    stream_resume(rig->peer);
    UNTIL(rig, rig->requests == 10000);
    stop(rig);
}

TEST(a_waiting_answer_stops_the_reading_of_more)
{
    struct rig *rig = start(NULL);
    AUTO_BUF struct buf text;

    rig->hold = true;
    buf_init(&text, 4u << 20);
    for (int i = 0; i < 60000; i++)
        buf_append_str(&text, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(stream_write(rig->peer, text.data, text.len));
    for (int i = 0; i < 200; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    CHECK_EQ(rig->requests, 1);
    CHECK(stream_queued(rig->peer) > text.len / 2); /* it stays with the sender */
    stop(rig);
}

TEST(a_streamed_answer_is_chunked)
{
    struct rig *rig = start(NULL);

    rig->hold = true;
    say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->body_ends == 1);
    http_conn_begin(rig->conn, 200, NULL, NULL, -1);
    UNTIL(rig, rig->in.len > 0); /* the head doesn't wait for a body */
    CHECK(http_conn_send(rig->conn, "hello", 5));
    CHECK(http_conn_send(rig->conn, "", 0));
    http_conn_end(rig->conn);
    UNTIL(rig, strstr(buf_text(&rig->in), "0\r\n\r\n") != NULL);
    CHECK_HAS(buf_text(&rig->in), "Transfer-Encoding: chunked\r\n");
    CHECK_HAS(buf_text(&rig->in), "\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    CHECK(strstr(buf_text(&rig->in), "Content-Length") == NULL);
    rig->hold = false;
    say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, strstr(buf_text(&rig->in), "done") != NULL);
    stop(rig);
}

TEST(http_1_0_gets_a_body_that_ends_with_the_connection)
{
    struct rig *rig = start(NULL);

    rig->hold = true;
    say(rig, "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->body_ends == 1);
    http_conn_begin(rig->conn, 200, NULL, NULL, -1);
    http_conn_send(rig->conn, "hello", 5);
    http_conn_end(rig->conn);
    UNTIL(rig, rig->peer_ended);
    CHECK(!rig->peer_reset);
    CHECK_HAS(buf_text(&rig->in), "\r\n\r\nhello");
    CHECK(strstr(buf_text(&rig->in), "chunked") == NULL);
    stop(rig);
}

TEST(head_and_204_and_304_have_no_body)
{
    static const struct {
        const char *method;
        int status;
        const char *length;
    } cases[] = { { "HEAD", 200, "Content-Length: 1000\r\n" },
                  { "GET", 204, NULL },
                  { "GET", 304, "Content-Length: 1000\r\n" } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig *rig = start(NULL);
        AUTO_FREE
        char *text = mem_printf("%s / HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].method);

        rig->hold = true;
        say(rig, text);
        UNTIL(rig, rig->body_ends == 1);
        http_conn_begin(rig->conn, cases[i].status, NULL, NULL, 1000);
        http_conn_send(rig->conn, "body", 4);
        http_conn_end(rig->conn);
        rig->hold = false;
        say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); /* still in step */
        UNTIL(rig, strstr(buf_text(&rig->in), "done") != NULL);
        CHECK(strstr(buf_text(&rig->in), "body") == NULL);
        CHECK(strstr(buf_text(&rig->in), "chunked") == NULL);
        if (cases[i].length != NULL)
            CHECK_HAS(buf_text(&rig->in), cases[i].length);
        else
            CHECK(strstr(buf_text(&rig->in), "Length: 1000") == NULL);
        stop(rig);
    }
}

TEST(fewer_bytes_than_promised_are_a_cut)
{
    struct rig *rig = start(NULL);

    rig->hold = true;
    say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->body_ends == 1);
    http_conn_begin(rig->conn, 200, NULL, NULL, 10);
    http_conn_send(rig->conn, "hello", 5);
    http_conn_end(rig->conn);
    UNTIL(rig, rig->peer_ended && rig->conn_closed);
    CHECK_HAS(buf_text(&rig->in), "Content-Length: 10\r\n");
    stop(rig);
}

TEST(an_early_answer_closes_behind_an_unread_body)
{
    struct rig *rig = start(NULL);

    rig->answer_at_once = true;
    say(rig, POST_HOST "Content-Length: 100000\r\n\r\nabc");
    UNTIL(rig, rig->peer_ended);
    CHECK(!rig->peer_reset);
    CHECK_HAS(buf_text(&rig->in), "Connection: close\r\n");
    CHECK_HAS(buf_text(&rig->in), "now");
    CHECK_EQ(rig->aborts, 0);
    stop(rig);
}

TEST(continue_is_sent_once_and_only_when_asked_for)
{
    struct rig *rig = start(NULL);

    rig->hold = true;
    say(rig, POST_HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    UNTIL(rig, rig->requests == 1);
    http_conn_continue(rig->conn);
    http_conn_continue(rig->conn);
    UNTIL(rig, rig->in.len > 0);
    CHECK_STR(buf_text(&rig->in), "HTTP/1.1 100 Continue\r\n\r\n");
    buf_clear(&rig->in);
    rig->hold = false;
    say(rig, "hello" POST_HOST "Content-Length: 5\r\n\r\n");
    UNTIL(rig, rig->requests == 2);
    http_conn_continue(rig->conn);
    say(rig, "hello");
    UNTIL(rig, rig->body_ends == 2);
    CHECK(strstr(buf_text(&rig->in), "100 Continue") == NULL);
    stop(rig);
}

TEST(a_paused_body_stays_with_the_peer)
{
    struct rig *rig = start(NULL);
    AUTO_FREE
    char *body = mem_new_zero(1, 8u << 20);
    size_t before;

    rig->stop_body = true;
    say(rig, POST_HOST "Content-Length: 8388608\r\n\r\n");
    CHECK(stream_write(rig->peer, body, 8u << 20));
    UNTIL(rig, rig->body.len > 0);
    before = rig->body.len;
    for (int i = 0; i < 100; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    CHECK_EQ(rig->body.len, before);
    CHECK(before <= 256u << 10);
    rig->stop_body = false;
    http_conn_resume_body(rig->conn);
    UNTIL(rig, rig->body_ends == 1);
    CHECK_EQ(rig->body.len, 8u << 20);
    stop(rig);
}

TEST(the_peer_going_away_aborts_the_request_under_way)
{
    struct rig *rig = start(NULL);

    rig->hold = true;
    say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->body_ends == 1);
    hang_up(rig);
    UNTIL(rig, rig->conn_closed);
    CHECK_EQ(rig->aborts, 1);
    stop(rig);
}

TEST(the_peer_going_away_between_requests_aborts_nothing)
{
    struct rig *rig = start(NULL);

    say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->in.len > 0);
    hang_up(rig);
    UNTIL(rig, rig->conn_closed);
    CHECK_EQ(rig->aborts, 0);
    CHECK_EQ(rig->refusals, 0);
    stop(rig);
}

TEST(a_slow_head_and_a_slow_body_run_out_of_time)
{
    const struct http_conn_options options = { .head_timeout_ms = 50, .idle_timeout_ms = 100 };
    struct rig *rig = start(&options);

    say(rig, "GET / HT");
    UNTIL(rig, rig->peer_ended);
    CHECK_STR(rig->refused, "head_timeout");
    CHECK_HAS(buf_text(&rig->in), "HTTP/1.1 408 ");
    stop(rig);

    rig = start(&options);
    rig->hold = true;
    say(rig, POST_HOST "Content-Length: 5\r\n\r\nhel");
    UNTIL(rig, rig->peer_ended);
    CHECK_STR(rig->refused, "body_timeout");
    CHECK_EQ(rig->aborts, 1);
    stop(rig);

    rig = start(&options);
    UNTIL(rig, rig->conn_closed); /* idle */
    CHECK_EQ(rig->refusals, 0);
    CHECK_EQ(rig->in.len, 0);
    stop(rig);
}

TEST(a_stopped_reader_bounds_the_queue_by_the_marks)
{
    struct rig *rig = start(NULL);
    AUTO_FREE
    char *piece = mem_new_zero(1, 16u << 10);
    size_t sent = 0;

    rig->hold = true;
    say(rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->body_ends == 1);
    stream_pause(rig->peer);
    http_conn_begin(rig->conn, 200, NULL, NULL, -1);
    while (http_conn_send(rig->conn, piece, 16u << 10))
        sent += 16u << 10;
    CHECK(http_conn_over_high(rig->conn));
    CHECK(http_conn_queued(rig->conn) < 300u << 10);
    CHECK_EQ(rig->drains, 0);
    stream_resume(rig->peer);
    UNTIL(rig, rig->drains == 1);
    CHECK(http_conn_queued(rig->conn) <= 64u << 10);
    CHECK(sent > 0);
    stop(rig);
}

TEST(a_server_that_is_no_proxy_takes_no_proxy_requests)
{
    static const struct http_conn_options options = { 0 };
    struct rig *rig = start(&options);

    say(rig, "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
    UNTIL(rig, rig->peer_ended);
    CHECK_HAS(buf_text(&rig->in), "HTTP/1.1 400 ");
    stop(rig);

    rig = start(&options);
    say(rig, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    UNTIL(rig, rig->peer_ended);
    CHECK_HAS(buf_text(&rig->in), "HTTP/1.1 405 ");
    CHECK_EQ(rig->requests, 0);
    stop(rig);
}
