/* network.c: ways out by sockets. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_MS 2000

static int finish_connect(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLOUT };
    int error = 0;
    socklen_t len = sizeof(error);

    if (poll(&wait, 1, CONNECT_MS) == 0)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
}

static int connect_to(int type, const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, type | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    if (connect(fd, address, len) == 0)
        return 0;
    return errno == EINPROGRESS ? finish_connect(fd) : errno;
}

static int try_tcp4(char **arguments)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)probe_number(arguments[1])) };

    if (inet_pton(AF_INET, arguments[0], &address.sin_addr) != 1)
        return EINVAL;
    return connect_to(SOCK_STREAM, (struct sockaddr *)&address, sizeof(address));
}

static int try_tcp6(char **arguments)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6,
                                    .sin6_port = htons((uint16_t)probe_number(arguments[1])) };

    if (inet_pton(AF_INET6, arguments[0], &address.sin6_addr) != 1)
        return EINVAL;
    return connect_to(SOCK_STREAM, (struct sockaddr *)&address, sizeof(address));
}

static int try_udp4(char **arguments)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)probe_number(arguments[1])) };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0)
        return errno;
    if (inet_pton(AF_INET, arguments[0], &address.sin_addr) != 1)
        return EINVAL;
    return probe_error(sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)));
}

static int unix_connect(const char *name, bool abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(name);

    if (len + 1 >= sizeof(address.sun_path))
        return ENAMETOOLONG;
    memcpy(address.sun_path + (abstract ? 1 : 0), name, len);
    return connect_to(
        SOCK_STREAM, (struct sockaddr *)&address,
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (abstract ? 1 : 0)));
}

static int try_abstract(char **arguments)
{
    return unix_connect(arguments[0], true);
}

static int try_unix(char **arguments)
{
    return unix_connect(arguments[0], false);
}

static int try_icmp(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
}

static int try_raw(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
}

static int try_raw6(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
}

static int try_packet(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_PACKET, SOCK_DGRAM, 0));
}

static int try_vsock_socket(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_VSOCK, SOCK_STREAM, 0));
}

static int try_vsock(char **arguments)
{
    struct sockaddr_vm address = { .svm_family = AF_VSOCK,
                                   .svm_cid = VMADDR_CID_HOST,
                                   .svm_port = 1024 };

    (void)arguments;
    return connect_to(SOCK_STREAM, (struct sockaddr *)&address, sizeof(address));
}

static int try_alg(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_ALG, SOCK_SEQPACKET, 0));
}

static int try_sctp(char **arguments)
{
    (void)arguments;
    return probe_error(socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
}

static int netlink(int protocol, unsigned groups)
{
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
    int fd = socket(AF_NETLINK, SOCK_RAW, protocol);

    return fd < 0 ? errno : probe_error(bind(fd, (struct sockaddr *)&address, sizeof(address)));
}

static int try_netlink_netfilter(char **arguments)
{
    (void)arguments;
    return netlink(NETLINK_NETFILTER, 0);
}

static int try_netlink_audit(char **arguments)
{
    (void)arguments;
    return netlink(NETLINK_AUDIT, 0);
}

static int try_netlink_uevent(char **arguments)
{
    (void)arguments;
    return netlink(NETLINK_KOBJECT_UEVENT, 1);
}

static int try_netlink_route(char **arguments)
{
    (void)arguments;
    return netlink(NETLINK_ROUTE, 0);
}

static bool may_exist(int family)
{
    return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

/* Any family beside the four that programs need, by any type, and by numbers that a filter might
 * compare at half their width. */
static int try_other_families(char **arguments)
{
    static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM };
    int last = EAFNOSUPPORT;

    (void)arguments;
    for (int family = -2; family < 256; family++) {
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !may_exist(family); i++) {
            if (socket(family, types[i], 0) >= 0)
                return 0;
            last = errno;
        }
    }
    return last;
}

/* PORT COUNT FILE: as many connections as possible to a port of the loopback. Makes FILE when no
 * more come about, and holds what it has until it is killed. */
static int try_connections(char **arguments)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)probe_number(arguments[0])),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int wanted = probe_number(arguments[1]);
    int last = -1;

    for (int i = 0; i < wanted; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        if (fd < 0)
            return errno;
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS)
            return errno;
        last = fd;
    }
    if (last >= 0)
        (void)finish_connect(last);
    if (open(arguments[2], O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0)
        return errno;
    return pause() < 0 ? errno : 0;
}

const struct probe network_probes[] = {
    { "tcp4", try_tcp4, 2 },
    { "tcp6", try_tcp6, 2 },
    { "udp4", try_udp4, 2 },
    { "abstract", try_abstract, 1 },
    { "unix", try_unix, 1 },
    { "icmp", try_icmp, 0 },
    { "raw", try_raw, 0 },
    { "raw6", try_raw6, 0 },
    { "packet", try_packet, 0 },
    { "vsock-socket", try_vsock_socket, 0 },
    { "vsock", try_vsock, 0 },
    { "alg", try_alg, 0 },
    { "sctp", try_sctp, 0 },
    { "netlink-netfilter", try_netlink_netfilter, 0 },
    { "netlink-audit", try_netlink_audit, 0 },
    { "netlink-uevent", try_netlink_uevent, 0 },
    { "netlink-route", try_netlink_route, 0 },
    { "other-families", try_other_families, 0 },
    { "connections", try_connections, 3 },
    { NULL, NULL, 0 },
};
