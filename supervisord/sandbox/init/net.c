#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

#define BACKLOG 511

int64_t net_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Where the backend brought the loopback up itself we may not touch it, and need not. */
void net_up(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return;
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP)) {
        request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
        ioctl(fd, SIOCSIFFLAGS, &request);
    }
    close(fd);
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static int new_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int bind_and_listen(int fd, uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    return listen(fd, BACKLOG);
}

int net_listen(struct init *init, uint16_t port)
{
    struct listener *unused = NULL;
    int fd;

    for (size_t i = 0; i < LISTENERS_MAX; i++) {
        if (init->listeners[i].port == port)
            return init->listeners[i].fd;
        if (init->listeners[i].port == 0 && !unused)
            unused = &init->listeners[i];
    }
    if (!unused) {
        errno = EMFILE;
        return -1;
    }
    fd = new_socket();
    if (fd < 0)
        return -1;
    if (bind_and_listen(fd, port) < 0) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    *unused = (struct listener){ port, fd };
    return fd;
}

static void answer(struct init *init, uint32_t serial, uint64_t tag, int fd, int error)
{
    struct init_reply reply = { .verb = INIT_CONNECT, .tag = tag, .fds = 1 };
    int fds[3] = { fd, -1, -1 };

    if (error)
        control_refuse(init, serial, &reply, error, "connect");
    else
        control_reply(init, serial, &reply, fds);
}

static struct pending_connect *unused_connect(struct init *init)
{
    for (size_t i = 0; i < CONNECTS_MAX; i++) {
        if (init->connects[i].fd < 0)
            return &init->connects[i];
    }
    return NULL;
}

void net_connect(struct init *init, uint16_t port, uint32_t serial, uint64_t tag)
{
    struct sockaddr_in address = loopback(port);
    struct pending_connect *pending = unused_connect(init);
    int fd = new_socket();
    int on = 1;

    if (fd < 0) {
        answer(init, serial, tag, -1, errno);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        answer(init, serial, tag, fd, 0);
    } else if (errno == EINPROGRESS && pending) {
        *pending = (struct pending_connect){ fd, serial, tag, net_now_ms() + CONNECT_TIMEOUT_MS };
        return;
    } else {
        answer(init, serial, tag, -1, errno == EINPROGRESS ? EAGAIN : errno);
    }
    close(fd);
}

void net_connected(struct init *init, struct pending_connect *pending)
{
    struct pollfd state = { .fd = pending->fd, .events = POLLOUT };
    struct pending_connect done = *pending;
    int error = 0;
    socklen_t len = sizeof(error);

    pending->fd = -1;
    if (poll(&state, 1, 0) == 0)
        error = ETIMEDOUT;
    else if (getsockopt(done.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    answer(init, done.connection, done.tag, done.fd, error);
    close(done.fd);
}
