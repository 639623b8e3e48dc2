/* addr_check.h: which addresses an upstream may have. Pure. */
#ifndef PROXY_ADDR_CHECK_H
#define PROXY_ADDR_CHECK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

/* What the configured target itself says about addresses that are not public. */
struct addr_exception {
    bool loopback; /* the target is "localhost" or a name below it */
    bool private;  /* the operator says that it lies in a private network */
    int family;    /* of a target that is a literal address, else 0: exactly that one is allowed */
    struct in_addr v4;
    struct in6_addr v6;
};

/* Reads HOST ("localhost", "127.0.0.1", "::1", a name) into *OUT. */
void addr_exception_parse(const char *host, struct addr_exception *out);
/* A numeric text; false when it is none. The port is 0. */
bool addr_parse(const char *text, struct sockaddr_storage *out);
/* "private", "loopback", "link_local", … or NULL for a public address. Addresses that carry an IPv4
 * one (mapped, compatible, NAT64, 6to4, Teredo) are judged by that too. */
const char *addr_class(const struct sockaddr *address);
/* The same for a numeric text; "malformed" when it is none. */
const char *addr_class_text(const char *text);
bool addr_allowed(const struct sockaddr *address, const struct addr_exception *exception);
bool addr_allowed_text(const char *text, const struct addr_exception *exception);

#endif
