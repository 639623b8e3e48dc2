#include "proxy/addr_own.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* The 16 bytes that an IPv6 socket would take for it; false for other families. */
static bool bytes_of(const struct sockaddr *address, struct in6_addr *out)
{
    memset(out, 0, sizeof(*out));
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;

        memcpy(&v4, address, sizeof(v4));
        out->s6_addr[10] = out->s6_addr[11] = 0xff;
        memcpy(&out->s6_addr[12], &v4.sin_addr, 4);
        return true;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;

        memcpy(&v6, address, sizeof(v6));
        *out = v6.sin6_addr;
        return true;
    }
    return false;
}

static bool same(const struct sockaddr *a, const struct sockaddr *b)
{
    struct in6_addr left;
    struct in6_addr right;

    return bytes_of(a, &left) && bytes_of(b, &right) && memcmp(&left, &right, sizeof(left)) == 0;
}

bool addr_is_own(const struct sockaddr *address, const struct addr_exception *exception)
{
    struct ifaddrs *list;
    bool own = false;

    /* Loopback and private ones are judged by their range, with their exceptions. */
    if (addr_class(address) != NULL || exception->family != 0)
        return false;
    if (getifaddrs(&list) != 0)
        return true; /* nobody knows: not allowed */
    for (const struct ifaddrs *item = list; item != NULL && !own; item = item->ifa_next)
        own = item->ifa_addr != NULL && same(item->ifa_addr, address);
    freeifaddrs(list);
    return own;
}
