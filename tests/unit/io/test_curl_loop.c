/* Transfers against a small server on the same loop. */
#include "io/curl_loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/mem.h"
#include "io/stream.h"
#include "unit/io/loop.h"

#define BIG (16u << 20)

struct served {
    struct server *server;
    struct stream *stream;
    struct buf in;
};

struct server {
    struct loop loop;
    struct curl_loop *curl;
    struct listener *listener;
    uint16_t port;
    struct served *conns[16];
    unsigned conn_count;
    unsigned ended;
    const char *answer;
    bool big; /* BIG zero bytes behind the answer */
    pthread_t threads[64];
    unsigned thread_count;
    bool silent;
    size_t uploaded;
    bool curl_closed;
};

struct transfer {
    struct server *server;
    CURL *easy;
    struct curl_job *job;
    struct buf body;
    unsigned headers;
    bool refuse_body; /* pause */
    unsigned pauses;
    size_t upload_left; /* given out piece by piece */
    size_t upload_ready;
    unsigned done;
    CURLcode result;
    bool start_again; /* in on_done */
    unsigned rounds;  /* so often again */
    bool close_loop;  /* in on_done */
};

static void on_served_data(void *data, const char *bytes, size_t len)
{
    struct served *served = data;
    struct server *server = served->server;

    server->uploaded += len;
    buf_append(&served->in, bytes, len);
    if (server->silent || memmem(served->in.data, served->in.len, "\r\n\r\n", 4) == NULL)
        return;
    buf_clear(&served->in);
    stream_write(served->stream, server->answer, strlen(server->answer));
    if (server->big) {
        AUTO_FREE
        char *body = mem_new_zero(1, BIG);

        stream_write(served->stream, body, BIG);
    }
}

static void on_served_end(void *data, const struct error *err)
{
    struct served *served = data;

    (void)err;
    served->server->ended++;
    stream_close(served->stream, NULL, NULL);
    served->stream = NULL;
}

static void on_accept(void *data, int fd)
{
    struct server *server = data;
    struct served *served = NEW(struct served);
    struct stream_callbacks callbacks = { .on_data = on_served_data,
                                          .on_end = on_served_end,
                                          .data = served };
    struct error err = ERROR_INIT;

    served->server = server;
    buf_init(&served->in, 64u << 20);
    CHECK_EQ(stream_start(&served->stream, &server->loop.loop, fd, &callbacks, &err), 0);
    CHECK(server->conn_count < ARRAY_LEN(server->conns));
    server->conns[server->conn_count++] = served;
}

static void start(struct server *server)
{
    struct error err = ERROR_INIT;
    int fd;

    curl_global_init(CURL_GLOBAL_DEFAULT);
    loop_start(&server->loop);
    fd = listener_tcp_socket("127.0.0.1", 0, &server->port, &err);
    CHECK_EQ(listener_start(&server->listener, &server->loop.loop, fd, 16, on_accept, server, &err),
             0);
    CHECK_EQ(curl_loop_start(&server->curl, &server->loop.loop, &err), 0);
    server->answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
}

static void on_curl_closed(void *data)
{
    struct server *server = data;

    server->curl_closed = true;
}

static void stop(struct server *server)
{
    if (!server->curl_closed)
        curl_loop_close(server->curl, on_curl_closed, server);
    LOOP_UNTIL(&server->loop, server->curl_closed);
    listener_close(server->listener, NULL, NULL);
    for (unsigned i = 0; i < server->conn_count; i++)
        if (server->conns[i]->stream != NULL)
            stream_close(server->conns[i]->stream, NULL, NULL);
    loop_stop(&server->loop);
    for (unsigned i = 0; i < server->conn_count; i++) {
        buf_finish(&server->conns[i]->in);
        free(server->conns[i]);
    }
    curl_global_cleanup();
}

static bool on_header(void *data, const char *line, size_t len)
{
    struct transfer *transfer = data;

    CHECK(len > 0 && line[len - 1] == '\n');
    transfer->headers++;
    return true;
}

static bool on_body(void *data, const char *bytes, size_t len)
{
    struct transfer *transfer = data;

    if (transfer->refuse_body) {
        transfer->pauses++;
        return false;
    }
    buf_append(&transfer->body, bytes, len);
    return true;
}

static size_t on_read(void *data, char *to, size_t len)
{
    struct transfer *transfer = data;

    if (transfer->upload_left == 0)
        return 0;
    if (transfer->upload_ready == 0)
        return CURL_READFUNC_PAUSE;
    if (len > transfer->upload_ready)
        len = transfer->upload_ready;
    memset(to, 'u', len);
    transfer->upload_ready -= len;
    transfer->upload_left -= len;
    return len;
}

static void begin(struct transfer *transfer);

static void on_done(void *data, CURLcode result)
{
    struct transfer *transfer = data;

    transfer->done++;
    transfer->result = result;
    transfer->job = NULL;
    curl_easy_cleanup(transfer->easy);
    transfer->easy = NULL;
    if (transfer->start_again || transfer->rounds > 0) {
        transfer->start_again = false;
        transfer->rounds -= transfer->rounds > 0 ? 1 : 0;
        begin(transfer);
    }
    if (transfer->close_loop)
        curl_loop_close(transfer->server->curl, on_curl_closed, transfer->server);
}

static void begin(struct transfer *transfer)
{
    struct curl_job_callbacks callbacks = {
        .on_header = on_header,
        .on_body = on_body,
        .on_read = on_read,
        .on_done = on_done,
        .data = transfer,
    };
    AUTO_FREE
    char *url = mem_printf("http://127.0.0.1:%u/", transfer->server->port);
    struct error err = ERROR_INIT;

    transfer->easy = curl_easy_init();
    curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
    curl_easy_setopt(transfer->easy, CURLOPT_PROXY, "");
    if (transfer->upload_left > 0) {
        curl_easy_setopt(transfer->easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(transfer->easy, CURLOPT_INFILESIZE_LARGE,
                         (curl_off_t)transfer->upload_left);
    }
    CHECK_EQ(
        curl_job_start(&transfer->job, transfer->server->curl, transfer->easy, &callbacks, &err),
        0);
}

static void make(struct transfer *transfer, struct server *server)
{
    transfer->server = server;
    buf_init(&transfer->body, 64u << 20);
}

TEST(a_transfer_brings_its_body)
{
    struct server server = { 0 };
    struct transfer transfer = { 0 };

    start(&server);
    make(&transfer, &server);
    begin(&transfer);
    CHECK_EQ(transfer.done, 0);
    LOOP_UNTIL(&server.loop, transfer.done == 1);
    CHECK_EQ(transfer.result, CURLE_OK);
    CHECK_STR(buf_text(&transfer.body), "hello");
    CHECK_EQ(transfer.headers, 3);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(a_connection_is_used_again_also_from_the_end_of_another_transfer)
{
    struct server server = { 0 };
    struct transfer transfer = { .start_again = true };

    start(&server);
    make(&transfer, &server);
    for (unsigned i = 0; i < 20; i++) {
        unsigned before = transfer.done;

        begin(&transfer);
        LOOP_UNTIL(&server.loop, transfer.done == before + (i == 0 ? 2 : 1));
        CHECK_EQ(transfer.result, CURLE_OK);
    }
    CHECK_EQ(server.conn_count, 1);
    buf_finish(&transfer.body);
    stop(&server);
}

/* Answers so fast that a transfer may begin and end in one call of libcurl's. */
static void *serve_at_once(void *data)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    int fd = (int)(intptr_t)data;
    char request[4096];

    while (recv(fd, request, sizeof(request), 0) > 0)
        if (send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL) < 0)
            break;
    close(fd);
    return NULL;
}

static void on_accept_at_once(void *data, int fd)
{
    struct server *server = data;

    CHECK(server->thread_count < ARRAY_LEN(server->threads));
    CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
    CHECK_EQ(pthread_create(&server->threads[server->thread_count++], NULL, serve_at_once,
                            (void *)(intptr_t)fd),
             0);
}

TEST(connections_that_change_hands_at_once_stay_alive)
{
    struct transfer transfers[24] = { 0 };
    struct server server = { 0 };
    struct error err = ERROR_INIT;
    unsigned done = 0;
    int fd;

    start(&server);
    listener_close(server.listener, NULL, NULL);
    fd = listener_tcp_socket("127.0.0.1", 0, &server.port, &err);
    CHECK_EQ(listener_start(&server.listener, &server.loop.loop, fd, 64, on_accept_at_once, &server,
                            &err),
             0);
    for (unsigned i = 0; i < ARRAY_LEN(transfers); i++) {
        make(&transfers[i], &server);
        transfers[i].rounds = 300;
        begin(&transfers[i]);
    }
    while (done < ARRAY_LEN(transfers) * 301) {
        uv_run(&server.loop.loop, UV_RUN_ONCE);
        CHECK(!server.loop.late);
        done = 0;
        for (unsigned i = 0; i < ARRAY_LEN(transfers); i++)
            done += transfers[i].done;
    }
    /* None was spoiled, or another would have been opened for it. */
    CHECK(server.thread_count <= ARRAY_LEN(transfers));
    curl_loop_close(server.curl, on_curl_closed, &server);
    LOOP_UNTIL(&server.loop, server.curl_closed);
    for (unsigned i = 0; i < ARRAY_LEN(transfers); i++) {
        CHECK_EQ(transfers[i].result, CURLE_OK);
        buf_finish(&transfers[i].body);
    }
    for (unsigned i = 0; i < server.thread_count; i++)
        pthread_join(server.threads[i], NULL);
    stop(&server);
}

TEST(a_cached_connection_that_the_server_closes_is_not_used)
{
    struct server server = { 0 };
    struct transfer transfer = { 0 };

    start(&server);
    make(&transfer, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, transfer.done == 1);
    stream_close(server.conns[0]->stream, NULL, NULL);
    server.conns[0]->stream = NULL;
    for (int i = 0; i < 10; i++)
        uv_run(&server.loop.loop, UV_RUN_NOWAIT);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, transfer.done == 2);
    CHECK_EQ(transfer.result, CURLE_OK);
    CHECK_EQ(server.conn_count, 2);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(bytes_on_a_cached_connection_spoil_it)
{
    struct server server = { 0 };
    struct transfer transfer = { 0 };
    static const char evil[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL";

    start(&server);
    make(&transfer, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, transfer.done == 1);
    stream_write(server.conns[0]->stream, evil, sizeof(evil) - 1);
    for (int i = 0; i < 10; i++)
        uv_run(&server.loop.loop, UV_RUN_NOWAIT);
    buf_clear(&transfer.body);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, transfer.done == 2);
    CHECK_STR(buf_text(&transfer.body), "hello");
    CHECK_EQ(server.conn_count, 2);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(a_paused_body_waits_and_goes_on)
{
    struct server server = { .big = true };
    struct transfer transfer = { .refuse_body = true };
    size_t left;

    start(&server);
    server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n";
    make(&transfer, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, transfer.pauses == 1);
    for (int i = 0; i < 100; i++)
        uv_run(&server.loop.loop, UV_RUN_NOWAIT);
    left = stream_queued(server.conns[0]->stream);
    CHECK(left > BIG / 3);
    CHECK_EQ(transfer.pauses, 1);
    curl_job_resume(transfer.job); /* refused again: nothing is lost */
    LOOP_UNTIL(&server.loop, transfer.pauses == 2);
    transfer.refuse_body = false;
    curl_job_resume(transfer.job);
    curl_job_resume(transfer.job);
    LOOP_UNTIL(&server.loop, transfer.done == 1);
    CHECK_EQ(transfer.result, CURLE_OK);
    CHECK_EQ(transfer.body.len, BIG);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(a_paused_upload_waits_and_goes_on)
{
    struct server server = { .silent = true };
    struct transfer transfer = { .upload_left = 300000 };

    start(&server);
    make(&transfer, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, server.uploaded > 0);
    for (int i = 0; i < 3; i++) {
        size_t before = server.uploaded;

        transfer.upload_ready = 100000;
        curl_job_resume_upload(transfer.job);
        LOOP_UNTIL(&server.loop, server.uploaded >= before + 100000);
    }
    server.silent = false;
    buf_clear(&server.conns[0]->in);
    stream_write(server.conns[0]->stream, server.answer, strlen(server.answer));
    LOOP_UNTIL(&server.loop, transfer.done == 1);
    CHECK_EQ(transfer.result, CURLE_OK);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(a_cancelled_job_closes_its_connection_and_calls_nobody)
{
    struct server server = { .silent = true };
    struct transfer transfer = { 0 };

    start(&server);
    make(&transfer, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, server.uploaded > 0);
    curl_job_cancel(transfer.job);
    curl_easy_cleanup(transfer.easy);
    LOOP_UNTIL(&server.loop, server.ended == 1);
    CHECK_EQ(transfer.done, 0);
    buf_finish(&transfer.body);
    stop(&server);
}

/* A port at which connections come about for nobody: its queue is full. */
static uint16_t full_port(int fds[3])
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 3; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i > 0 ? SOCK_NONBLOCK : 0), 0);
    CHECK_EQ(bind(fds[0], (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(fds[0], 0), 0);
    CHECK_EQ(getsockname(fds[0], (struct sockaddr *)&address, &len), 0);
    for (int i = 1; i < 3; i++)
        (void)connect(fds[i], (struct sockaddr *)&address, sizeof(address));
    return ntohs(address.sin_port);
}

/* Libcurl closes a socket that never got its connection behind our back. The next connection has
 * its number, and must be served. */
TEST(a_connection_that_never_came_about_leaves_its_number_to_others)
{
    struct server server = { 0 };
    struct transfer waiting = { 0 };
    struct transfer transfer = { 0 };
    uint16_t good;
    int fds[3];

    start(&server);
    good = server.port;
    make(&waiting, &server);
    make(&transfer, &server);
    server.port = full_port(fds);
    begin(&waiting);
    for (int i = 0; i < 20; i++)
        uv_run(&server.loop.loop, UV_RUN_NOWAIT);
    CHECK_EQ(waiting.done, 0);
    curl_job_cancel(waiting.job);
    curl_easy_cleanup(waiting.easy);
    uv_run(&server.loop.loop, UV_RUN_NOWAIT); /* what is still watched would be told the kernel */
    server.port = good;
    for (unsigned i = 0; i < 3; i++) {
        begin(&transfer);
        LOOP_UNTIL(&server.loop, transfer.done == i + 1);
        CHECK_EQ(transfer.result, CURLE_OK);
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    buf_finish(&waiting.body);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(closing_the_loop_ends_its_jobs)
{
    struct server server = { .silent = true };
    struct transfer transfer = { 0 };
    struct transfer paused = { .refuse_body = true };

    start(&server);
    make(&transfer, &server);
    make(&paused, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, server.uploaded > 0);
    server.silent = false;
    begin(&paused);
    LOOP_UNTIL(&server.loop, paused.pauses == 1);
    curl_loop_close(server.curl, on_curl_closed, &server);
    CHECK_EQ(transfer.done, 0);
    LOOP_UNTIL(&server.loop, server.curl_closed);
    CHECK_EQ(transfer.done, 1);
    CHECK_EQ(paused.done, 1);
    CHECK_EQ(transfer.result, CURLE_ABORTED_BY_CALLBACK);
    buf_finish(&transfer.body);
    buf_finish(&paused.body);
    stop(&server);
}

TEST(the_loop_may_be_closed_when_a_job_is_done)
{
    struct server server = { 0 };
    struct transfer transfer = { .close_loop = true };

    start(&server);
    make(&transfer, &server);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, server.curl_closed);
    CHECK_EQ(transfer.done, 1);
    buf_finish(&transfer.body);
    stop(&server);
}

TEST(many_transfers_run_side_by_side)
{
    struct server server = { 0 };
    struct transfer transfers[12] = { 0 };
    unsigned done = 0;

    start(&server);
    for (size_t i = 0; i < ARRAY_LEN(transfers); i++) {
        make(&transfers[i], &server);
        begin(&transfers[i]);
    }
    while (done < ARRAY_LEN(transfers)) {
        uv_run(&server.loop.loop, UV_RUN_ONCE);
        CHECK(!server.loop.late);
        done = 0;
        for (size_t i = 0; i < ARRAY_LEN(transfers); i++)
            done += transfers[i].done;
    }
    for (size_t i = 0; i < ARRAY_LEN(transfers); i++) {
        CHECK_EQ(transfers[i].result, CURLE_OK);
        buf_finish(&transfers[i].body);
    }
    stop(&server);
}

TEST(a_name_is_resolved_beside_the_loop)
{
    struct server server = { 0 };
    struct transfer transfer = { 0 };
    struct curl_job_callbacks callbacks = { .on_body = on_body,
                                            .on_done = on_done,
                                            .data = &transfer };
    AUTO_FREE
    char *url = NULL;
    struct error err = ERROR_INIT;

    start(&server);
    make(&transfer, &server);
    url = mem_printf("http://localhost:%u/", server.port);
    transfer.easy = curl_easy_init();
    curl_easy_setopt(transfer.easy, CURLOPT_URL, url);
    curl_easy_setopt(transfer.easy, CURLOPT_PROXY, "");
    CHECK_EQ(curl_job_start(&transfer.job, server.curl, transfer.easy, &callbacks, &err), 0);
    LOOP_UNTIL(&server.loop, transfer.done == 1);
    CHECK_EQ(transfer.result, CURLE_OK);
    begin(&transfer);
    LOOP_UNTIL(&server.loop, transfer.done == 2);
    CHECK_EQ(transfer.result, CURLE_OK);
    buf_finish(&transfer.body);
    stop(&server);
}
