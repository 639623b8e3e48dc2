/* host.h: a host and port as a request or the configuration names them, in one canonical form.
 * Pure. */
#ifndef PROXY_HOST_H
#define PROXY_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_NAME_MAX_LEN 253
#define HOST_TEXT_SIZE (HOST_NAME_MAX_LEN + 10) /* with brackets, port and NUL */

struct host {
    char name[HOST_NAME_MAX_LEN + 1]; /* lower case; of an IPv6 address without brackets */
    uint16_t port;
    bool literal; /* an address, not a name */
};

/* Reads "HOST", "HOST:PORT" or "[IPv6]:PORT"; DEFAULT_PORT 0: the port must be given. False for
 * what could be read in more than one way: empty labels, a dot at the end, numbers that some
 * resolvers take for addresses ("0x7f.1", "2130706433"), zone ids, userinfo. */
bool host_parse(const char *text, size_t len, uint16_t default_port, struct host *out);
bool host_equal(const struct host *a, const struct host *b);
/* HOST's name lies below PARENT's; ports play no part. */
bool host_below(const struct host *host, const struct host *parent);
/* "name:443", "[::1]:443". */
void host_format(const struct host *host, char out[HOST_TEXT_SIZE]);

#endif
