/* listener.c: accepts by hand on a polled descriptor, since libuv's own accept can't be paused at a
 * limit. */
#include "io/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"

#define RETRY_MS 1000
#define ACCEPTS_PER_TURN 16
#define BACKLOG 128

struct listener {
    uv_poll_t poll;
    uv_timer_t retry; /* runs while descriptors or memory are short */
    unsigned open_handles;
    int fd;
    uint32_t connections;
    uint32_t max_connections;
    bool accepting; /* the poll handle is active */
    bool closing;
    void (*on_accept)(void *data, int fd);
    void *data;
    void (*done)(void *data);
    void *done_data;
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;

    if (--listener->open_handles > 0)
        return;
    close(listener->fd);
    if (listener->done != NULL)
        listener->done(listener->done_data);
    free(listener);
}

static void stop_accepting(struct listener *listener)
{
    listener->accepting = false;
    uv_poll_stop(&listener->poll);
}

static void accept_some(struct listener *listener);

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;

    (void)status; /* accept4 tells it again */
    (void)events;
    accept_some(listener);
}

static void start_accepting(struct listener *listener)
{
    if (listener->closing || listener->accepting ||
        listener->connections >= listener->max_connections)
        return;
    if (uv_poll_start(&listener->poll, UV_READABLE, on_readable) == 0)
        listener->accepting = true;
}

static void on_retry(uv_timer_t *timer)
{
    start_accepting(timer->data);
}

static void accept_some(struct listener *listener)
{
    for (int i = 0; i < ACCEPTS_PER_TURN && !listener->closing; i++) {
        int fd;

        if (listener->connections >= listener->max_connections) {
            stop_accepting(listener);
            return;
        }
        fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->connections++;
            listener->on_accept(listener->data, fd);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
            continue;
        /* Short of descriptors or memory, or something worse: either way spinning would not help.
         */
        log_warn("listener", "accept failed (errno %d), waiting", errno);
        stop_accepting(listener);
        uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0);
        return;
    }
}

int listener_start(struct listener **out, uv_loop_t *loop, int fd, uint32_t max_connections,
                   void (*on_accept)(void *data, int fd), void *data, struct error *err)
{
    struct listener *listener = NEW(struct listener);
    int status = uv_poll_init(loop, &listener->poll, fd);

    if (status != 0) {
        free(listener);
        close(fd);
        return error_set(err, ERR_SYSTEM, -status, "watch listening socket");
    }
    listener->fd = fd;
    listener->open_handles = 1;
    listener->poll.data = listener;
    listener->max_connections = max_connections;
    listener->on_accept = on_accept;
    listener->data = data;
    status = uv_timer_init(loop, &listener->retry);
    BUG_ON(status != 0);
    listener->open_handles++;
    listener->retry.data = listener;
    start_accepting(listener);
    if (!listener->accepting) {
        listener_close(listener, NULL, NULL);
        return error_set(err, ERR_SYSTEM, 0, "poll listening socket");
    }
    *out = listener;
    return 0;
}

void listener_release(struct listener *listener)
{
    BUG_ON(listener->connections == 0);
    listener->connections--;
    if (listener->closing)
        return;
    uv_timer_stop(&listener->retry);
    start_accepting(listener);
}

void listener_close(struct listener *listener, void (*done)(void *data), void *data)
{
    if (listener->closing)
        return;
    listener->closing = true;
    listener->accepting = false;
    listener->done = done;
    listener->done_data = data;
    uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
    uv_close((uv_handle_t *)&listener->retry, on_handle_closed);
}

/* Fills TO from a numeric address; 0 when TEXT is none. */
static socklen_t parse_address(const char *text, uint16_t port, struct sockaddr_storage *to)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(to, &v4, sizeof(v4));
        return sizeof(v4);
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(to, &v6, sizeof(v6));
        return sizeof(v6);
    }
    return 0;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof(address);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    if (address.ss_family == AF_INET) {
        memcpy(&v4, &address, sizeof(v4));
        return ntohs(v4.sin_port);
    }
    memcpy(&v6, &address, sizeof(v6));
    return ntohs(v6.sin6_port);
}

int listener_tcp_socket(const char *address, uint16_t port, uint16_t *bound, struct error *err)
{
    struct sockaddr_storage storage = { 0 };
    socklen_t len = parse_address(address, port, &storage);
    AUTO_CLOSE
    int fd = -1;
    int on = 1;

    if (len == 0)
        return error_argument(err, "address", "not a numeric address: %s", address);
    fd = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        return error_set(err, ERR_SYSTEM, errno, "socket option");
    if (bind(fd, (struct sockaddr *)&storage, len) != 0)
        return error_set(err, ERR_SYSTEM, errno, "bind %s port %u", address, port);
    if (listen(fd, BACKLOG) != 0)
        return error_set(err, ERR_SYSTEM, errno, "listen on %s port %u", address, port);
    if (bound != NULL)
        *bound = bound_port(fd);
    return fd_steal(&fd);
}

/* Without SO_REUSEADDR, with which another one could take it as well while nobody listens. */
int listener_tcp_hold(const char *address, uint16_t port, int *fd, struct error *err)
{
    struct sockaddr_storage storage = { 0 };
    socklen_t len = parse_address(address, port, &storage);
    AUTO_CLOSE
    int held = -1;
    int on = 1;

    *fd = -1;
    if (len == 0)
        return error_argument(err, "address", "not a numeric address: %s", address);
    held = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (held < 0)
        return errno == EAFNOSUPPORT ? 0 : error_set(err, ERR_SYSTEM, errno, "socket");
    if (storage.ss_family == AF_INET6 &&
        setsockopt(held, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
        return error_set(err, ERR_SYSTEM, errno, "socket option");
    if (bind(held, (struct sockaddr *)&storage, len) == 0)
        *fd = fd_steal(&held);
    else if (errno != EADDRNOTAVAIL)
        return error_set(err, errno == EADDRINUSE ? ERR_CONFLICT : ERR_SYSTEM, errno,
                         "bind %s port %u", address, port);
    return 0;
}
