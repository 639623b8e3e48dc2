#include "io/listener.h"

#include <errno.h>
#include <sys/resource.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/tmp.h"
#include "unit/io/loop.h"

struct server {
    struct loop loop;
    struct listener *listener;
    uint16_t port;
    int accepted[16];
    unsigned count;
    bool close_in_accept;
    bool closed;
};

static void on_closed(void *data)
{
    struct server *server = data;

    server->closed = true;
}

static void on_accept(void *data, int fd)
{
    struct server *server = data;

    server->accepted[server->count++] = fd;
    if (server->close_in_accept)
        listener_close(server->listener, on_closed, server);
}

static void start(struct server *server, uint32_t max)
{
    struct error err = ERROR_INIT;
    int fd;

    loop_start(&server->loop);
    fd = listener_tcp_socket("127.0.0.1", 0, &server->port, &err);
    CHECK(fd >= 0);
    CHECK(server->port != 0);
    CHECK_EQ(
        listener_start(&server->listener, &server->loop.loop, fd, max, on_accept, server, &err), 0);
}

static void stop(struct server *server)
{
    if (!server->closed)
        listener_close(server->listener, on_closed, server);
    for (unsigned i = 0; i < server->count; i++)
        close(server->accepted[i]);
    loop_stop(&server->loop);
    CHECK(server->closed);
}

static void turn(struct server *server)
{
    for (int i = 0; i < 10; i++)
        uv_run(&server->loop.loop, UV_RUN_NOWAIT);
}

TEST(connections_are_accepted_non_blocking_and_close_on_exec)
{
    struct server server = { 0 };
    int client;

    start(&server, 4);
    client = loop_connect(server.port);
    LOOP_UNTIL(&server.loop, server.count == 1);
    CHECK(fcntl(server.accepted[0], F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(server.accepted[0], F_GETFD) & FD_CLOEXEC);
    close(client);
    stop(&server);
}

TEST(the_limit_pauses_and_a_release_resumes)
{
    struct server server = { 0 };
    int clients[4];

    start(&server, 2);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        clients[i] = loop_connect(server.port);
    LOOP_UNTIL(&server.loop, server.count == 2);
    turn(&server);
    CHECK_EQ(server.count, 2);
    listener_release(server.listener);
    LOOP_UNTIL(&server.loop, server.count == 3);
    turn(&server);
    CHECK_EQ(server.count, 3);
    listener_release(server.listener);
    listener_release(server.listener);
    LOOP_UNTIL(&server.loop, server.count == 4);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        close(clients[i]);
    stop(&server);
}

TEST(closing_inside_accept_is_fine)
{
    struct server server = { .close_in_accept = true };
    int client;
    int other;

    start(&server, 4);
    client = loop_connect(server.port);
    other = loop_connect(server.port);
    LOOP_UNTIL(&server.loop, server.closed);
    CHECK_EQ(server.count, 1);
    close(client);
    close(other);
    stop(&server);
}

TEST(a_shortage_of_descriptors_pauses_and_passes)
{
    struct server server = { 0 };
    struct rlimit old;
    struct rlimit none;
    int client;

    start(&server, 4);
    client = loop_connect(server.port);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = old;
    none.rlim_cur = 3; /* less than what is open: no new one */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    turn(&server);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_EQ(server.count, 0);
    LOOP_UNTIL(&server.loop, server.count == 1);
    close(client);
    stop(&server);
}

TEST(a_unix_socket_serves_as_well)
{
    struct server server = { 0 };
    struct error err = ERROR_INIT;
    const char *path = tmp_path("s");
    int client;

    loop_start(&server.loop);
    CHECK_EQ(listener_start(&server.listener, &server.loop.loop,
                            fd_listen_unix(path, SOCK_STREAM, 8, &err), 4, on_accept, &server,
                            &err),
             0);
    client = fd_connect_unix(path, SOCK_STREAM, &err);
    CHECK(client >= 0);
    LOOP_UNTIL(&server.loop, server.count == 1);
    close(client);
    stop(&server);
}

TEST(a_bad_address_is_refused)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(listener_tcp_socket("localhost", 0, NULL, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_EQ(listener_tcp_socket("8.8.8.8", 0, NULL, &err), -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
}

TEST(a_port_is_held_against_everybody_else)
{
    struct error err = ERROR_INIT;
    uint16_t port = 0;
    int held = -1;
    int other = -1;
    int fd = listener_tcp_socket("127.0.0.1", 0, &port, &err);

    CHECK(fd >= 0);
    CHECK_EQ(listener_tcp_hold("127.0.0.1", port, &held, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    close(fd);
    CHECK_EQ(listener_tcp_hold("127.0.0.1", port, &held, &err), 0);
    CHECK(held >= 0);
    CHECK_EQ(listener_tcp_socket("127.0.0.1", port, NULL, &err), -1);
    CHECK_EQ(err.sys, EADDRINUSE);
    CHECK_EQ(listener_tcp_hold("192.0.2.1", port, &other, &err), 0); /* nobody's address here */
    CHECK_EQ(other, -1);
    CHECK_EQ(listener_tcp_hold("box.lan", port, &other, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    close(held);
}
