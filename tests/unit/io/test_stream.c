#include "io/stream.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "io/listener.h"
#include "unit/io/loop.h"

struct end {
    struct stream *stream;
    struct buf in;
    unsigned data_calls;
    unsigned ends;
    unsigned drains;
    unsigned closed;
    bool failed;
    bool close_in_data;
};

static void on_closed(void *data)
{
    struct end *end = data;

    end->closed++;
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct end *end = data;

    end->data_calls++;
    buf_append(&end->in, bytes, len);
    if (end->close_in_data)
        stream_close(end->stream, on_closed, end);
}

static void on_end(void *data, const struct error *err)
{
    struct end *end = data;

    end->ends++;
    end->failed = err != NULL;
}

static void on_drain(void *data)
{
    struct end *end = data;

    end->drains++;
}

static void open_end(struct end *end, struct loop *loop, int fd)
{
    struct stream_callbacks callbacks = {
        .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .data = end
    };
    struct error err = ERROR_INIT;

    buf_init(&end->in, 64u << 20);
    CHECK_EQ(stream_start(&end->stream, &loop->loop, fd, &callbacks, &err), 0);
}

static void open_pair(struct loop *loop, struct end *a, struct end *b)
{
    struct error err = ERROR_INIT;
    int fds[2];

    loop_start(loop);
    CHECK_EQ(fd_socketpair(fds, &err), 0);
    open_end(a, loop, fds[0]);
    open_end(b, loop, fds[1]);
}

static void shut(struct loop *loop, struct end *a, struct end *b)
{
    if (a->closed == 0)
        stream_close(a->stream, on_closed, a);
    if (b->closed == 0)
        stream_close(b->stream, on_closed, b);
    loop_stop(loop);
    CHECK_EQ(a->closed, 1);
    CHECK_EQ(b->closed, 1);
    buf_finish(&a->in);
    buf_finish(&b->in);
}

TEST(bytes_and_the_end_arrive)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    uv_buf_t pieces[3] = { { (char[]){ "one " }, 4 }, { NULL, 0 }, { (char[]){ "two" }, 3 } };

    open_pair(&loop, &a, &b);
    CHECK(stream_writev(a.stream, pieces, 3));
    CHECK_EQ(stream_queued(a.stream), 0);
    CHECK_EQ(b.data_calls, 0);
    LOOP_UNTIL(&loop, b.in.len == 7);
    CHECK_STR(buf_text(&b.in), "one two");
    stream_finish(a.stream, 5000, on_closed, &a);
    LOOP_UNTIL(&loop, b.ends == 1);
    CHECK(!b.failed);
    CHECK_EQ(a.closed, 0); /* it waits for the peer's end */
    CHECK(stream_write(b.stream, "late", 4));
    stream_close(b.stream, on_closed, &b);
    LOOP_UNTIL(&loop, a.closed == 1);
    CHECK_EQ(a.data_calls, 0); /* what comes while it finishes is thrown away */
    shut(&loop, &a, &b);
}

TEST(what_the_socket_does_not_take_is_queued_and_drains)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    AUTO_FREE
    char *big = mem_new_zero(1, 4u << 20);

    open_pair(&loop, &a, &b);
    memset(big, 'x', 4u << 20);
    stream_pause(b.stream);
    CHECK(stream_write(a.stream, big, 4u << 20));
    CHECK(stream_queued(a.stream) > 3u << 20);
    CHECK(stream_over_high(a.stream));
    CHECK(stream_write(a.stream, "end", 3)); /* behind the queue, never past it */
    for (int i = 0; i < 20; i++)
        uv_run(&loop.loop, UV_RUN_NOWAIT);
    CHECK_EQ(b.data_calls, 0);
    CHECK_EQ(a.drains, 0);
    stream_resume(b.stream);
    LOOP_UNTIL(&loop, b.in.len == (4u << 20) + 3);
    CHECK_EQ(memcmp(b.in.data + (4u << 20) - 1, "xend", 4), 0);
    LOOP_UNTIL(&loop, a.drains == 1);
    shut(&loop, &a, &b);
}

TEST(finishing_writes_the_queue_first)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    AUTO_FREE
    char *big = mem_new_zero(1, 4u << 20);

    open_pair(&loop, &a, &b);
    stream_pause(b.stream);
    CHECK(stream_write(a.stream, big, 4u << 20));
    stream_finish(a.stream, 10000, on_closed, &a);
    CHECK(!stream_write(a.stream, "x", 1));
    stream_resume(b.stream);
    LOOP_UNTIL(&loop, b.ends == 1);
    CHECK_EQ(b.in.len, 4u << 20);
    CHECK(!b.failed);
    shut(&loop, &a, &b);
}

TEST(finishing_gives_up_in_time)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    AUTO_FREE
    char *big = mem_new_zero(1, 4u << 20);

    open_pair(&loop, &a, &b);
    stream_pause(b.stream);
    CHECK(stream_write(a.stream, big, 4u << 20));
    stream_finish(a.stream, 50, on_closed, &a);
    LOOP_UNTIL(&loop, a.closed == 1);
    shut(&loop, &a, &b);
}

TEST(closing_drops_the_queue_and_calls_nobody_back)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    AUTO_FREE
    char *big = mem_new_zero(1, 4u << 20);

    open_pair(&loop, &a, &b);
    CHECK(stream_write(a.stream, big, 4u << 20));
    CHECK(stream_write(b.stream, "unread", 6));
    stream_close(a.stream, on_closed, &a);
    LOOP_UNTIL(&loop, a.closed == 1);
    CHECK_EQ(a.data_calls + a.ends + a.drains, 0);
    shut(&loop, &a, &b);
}

TEST(a_stream_may_be_closed_in_its_own_callback)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { .close_in_data = true };

    open_pair(&loop, &a, &b);
    CHECK(stream_write(a.stream, "x", 1));
    LOOP_UNTIL(&loop, b.closed == 1 && a.ends == 1);
    shut(&loop, &a, &b);
}

TEST(writing_to_nobody_reports_the_end_once_and_later)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };

    open_pair(&loop, &a, &b);
    CHECK(stream_write(b.stream, "last words", 10));
    stream_close(b.stream, on_closed, &b);
    CHECK_EQ(uv_run(&loop.loop, UV_RUN_NOWAIT) >= 0, true);
    LOOP_UNTIL(&loop, b.closed == 1);
    (void)stream_write(a.stream, "x", 1);
    LOOP_UNTIL(&loop, a.ends == 1);
    CHECK_STR(buf_text(&a.in), "last words");
    CHECK(!stream_write(a.stream, "x", 1) || a.ends == 1);
    for (int i = 0; i < 10; i++)
        uv_run(&loop.loop, UV_RUN_NOWAIT);
    CHECK_EQ(a.ends, 1);
    shut(&loop, &a, &b);
}

TEST(a_paused_stream_learns_of_a_broken_write)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };

    open_pair(&loop, &a, &b);
    stream_pause(a.stream);
    stream_close(b.stream, on_closed, &b);
    LOOP_UNTIL(&loop, b.closed == 1);
    CHECK(!stream_write(a.stream, "x", 1));
    CHECK_EQ(a.ends, 0);
    LOOP_UNTIL(&loop, a.ends == 1);
    CHECK(a.failed);
    shut(&loop, &a, &b);
}

TEST(one_way_pipes_work)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    int fds[2];

    loop_start(&loop);
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    open_end(&a, &loop, fds[1]);
    open_end(&b, &loop, fds[0]);
    CHECK(stream_write(a.stream, "hello", 5));
    LOOP_UNTIL(&loop, b.in.len == 5);
    stream_finish(a.stream, 1000, on_closed, &a);
    LOOP_UNTIL(&loop, b.ends == 1 && a.closed == 1);
    CHECK(!b.failed);
    shut(&loop, &a, &b);
}

TEST(a_reset_is_not_an_orderly_end)
{
    struct loop loop = { 0 };
    struct end a = { 0 };
    struct end b = { 0 };
    int fds[2];

    loop_start(&loop);
    loop_tcp_pair(fds);
    open_end(&a, &loop, fds[0]);
    open_end(&b, &loop, fds[1]);
    CHECK(stream_write(a.stream, "x", 1));
    LOOP_UNTIL(&loop, b.in.len == 1);
    CHECK_EQ(stream_fd(a.stream), fds[0]);
    stream_reset(a.stream, on_closed, &a);
    LOOP_UNTIL(&loop, b.ends == 1);
    CHECK(b.failed);
    shut(&loop, &a, &b);
}

TEST(a_bad_descriptor_is_refused_and_nothing_stays_open)
{
    struct loop loop = { 0 };
    struct stream_callbacks callbacks = { .on_data = on_data, .on_end = on_end };
    struct stream *stream;
    struct error err = ERROR_INIT;

    loop_start(&loop);
    CHECK_EQ(stream_start(&stream, &loop.loop, 987, &callbacks, &err), -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
    loop_stop(&loop);
}
