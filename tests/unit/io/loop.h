/* loop.h: a loop with a watchdog, that must end empty. */
#ifndef TESTS_UNIT_IO_LOOP_H
#define TESTS_UNIT_IO_LOOP_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "common/error.h"
#include "harness/test.h"
#include "io/listener.h"

struct loop {
    uv_loop_t loop;
    uv_timer_t watchdog;
    bool late;
};

static inline void loop_on_watchdog(uv_timer_t *timer)
{
    struct loop *loop = timer->data;

    loop->late = true;
}

static inline void loop_start(struct loop *loop)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(uv_loop_init(&loop->loop), 0);
    uv_timer_init(&loop->loop, &loop->watchdog);
    loop->watchdog.data = loop;
    uv_timer_start(&loop->watchdog, loop_on_watchdog, 20000, 0);
    uv_unref((uv_handle_t *)&loop->watchdog);
}

#define LOOP_UNTIL(loop_pointer, condition)                                                        \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            uv_run(&(loop_pointer)->loop, UV_RUN_ONCE);                                            \
            if ((loop_pointer)->late)                                                              \
                CHECK_FAILED("in time: " #condition);                                              \
        }                                                                                          \
    } while (0)

static inline void loop_stop(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->watchdog, NULL);
    uv_run(&loop->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop->loop), 0);
}

/* Connected blocking client socket to a listener of ours. */
static inline int loop_connect(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static inline void loop_tcp_pair(int fds[2])
{
    struct error err = ERROR_INIT;
    uint16_t port;
    int listening = listener_tcp_socket("127.0.0.1", 0, &port, &err);

    CHECK(listening >= 0);
    fds[0] = loop_connect(port);
    fds[1] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    CHECK(fds[1] >= 0);
    close(listening);
}

#endif
