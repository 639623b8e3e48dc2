/* addr_check.c: tables of the IANA special-purpose registries, plus the well-known addresses of
 * clouds' metadata services. */
#include "proxy/addr_check.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

struct range4 {
    uint32_t address;
    unsigned bits;
    const char *class;
};

#define IP4(a, b, c, d)                                                                            \
    (((uint32_t)(a) << 24) | ((uint32_t)(b) << 16) | ((uint32_t)(c) << 8) | (uint32_t)(d))

static const struct range4 ranges4[] = {
    { IP4(169, 254, 169, 254), 32, "metadata" },  { IP4(169, 254, 170, 2), 32, "metadata" },
    { IP4(100, 100, 100, 200), 32, "metadata" },  { IP4(168, 63, 129, 16), 32, "metadata" },
    { IP4(0, 0, 0, 0), 8, "unspecified" },        { IP4(10, 0, 0, 0), 8, "private" },
    { IP4(100, 64, 0, 0), 10, "shared" },         { IP4(127, 0, 0, 0), 8, "loopback" },
    { IP4(169, 254, 0, 0), 16, "link_local" },    { IP4(172, 16, 0, 0), 12, "private" },
    { IP4(192, 0, 0, 0), 24, "reserved" },        { IP4(192, 0, 2, 0), 24, "documentation" },
    { IP4(192, 88, 99, 0), 24, "reserved" },      { IP4(192, 168, 0, 0), 16, "private" },
    { IP4(198, 18, 0, 0), 15, "benchmark" },      { IP4(198, 51, 100, 0), 24, "documentation" },
    { IP4(203, 0, 113, 0), 24, "documentation" }, { IP4(224, 0, 0, 0), 4, "multicast" },
    { IP4(240, 0, 0, 0), 4, "reserved" },
};

struct range6 {
    uint8_t address[16];
    unsigned bits;
    const char *class;
};

static const struct range6 ranges6[] = {
    { { 0 }, 128, "unspecified" },
    { { [15] = 1 }, 128, "loopback" },
    { { 0xfd, 0x00, 0x0e, 0xc2, [15] = 0 }, 32, "metadata" },
    { { 0x01, 0x00 }, 64, "reserved" },
    { { 0x20, 0x01, 0x0d, 0xb8 }, 32, "documentation" },
    { { 0x3f, 0xff }, 20, "documentation" },
    { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, "private" },
    { { 0x5f, 0x00 }, 16, "reserved" },
    { { 0xfc, 0x00 }, 7, "private" },
    { { 0xfe, 0x80 }, 10, "link_local" },
    { { 0xfe, 0xc0 }, 10, "private" },
    { { 0xff, 0x00 }, 8, "multicast" },
};

static const char *class4(uint32_t address)
{
    for (size_t i = 0; i < ARRAY_LEN(ranges4); i++) {
        uint32_t mask = ranges4[i].bits == 32 ? UINT32_MAX : ~(UINT32_MAX >> ranges4[i].bits);

        if ((address & mask) == ranges4[i].address)
            return ranges4[i].class;
    }
    return NULL;
}

static uint32_t load4(const uint8_t *bytes)
{
    return IP4(bytes[0], bytes[1], bytes[2], bytes[3]);
}

static bool has_prefix(const uint8_t *address, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8;
    uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));

    if (memcmp(address, prefix, whole) != 0)
        return false;
    return bits % 8 == 0 || (address[whole] & mask) == (prefix[whole] & mask);
}

static const char *class6(const uint8_t *address)
{
    static const uint8_t zero[16];
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };
    static const uint8_t six_to_four[2] = { 0x20, 0x02 };
    static const uint8_t teredo[4] = { 0x20, 0x01, 0x00, 0x00 };

    for (size_t i = 0; i < ARRAY_LEN(ranges6); i++)
        if (has_prefix(address, ranges6[i].address, ranges6[i].bits))
            return ranges6[i].class;
    if (memcmp(address, mapped, 12) == 0 || memcmp(address, nat64, 12) == 0)
        return class4(load4(address + 12));
    if (memcmp(address, zero, 12) == 0)
        return "reserved"; /* IPv4-compatible, long deprecated */
    if (memcmp(address, six_to_four, 2) == 0)
        return class4(load4(address + 2));
    if (memcmp(address, teredo, 4) == 0)
        return class4(~load4(address + 12)); /* the client's address is stored inverted */
    if ((address[0] & 0xe0) != 0x20)
        return "reserved"; /* outside of what is given out for global use */
    return NULL;
}

const char *addr_class(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;

        memcpy(&v4, address, sizeof(v4));
        return class4(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;

        memcpy(&v6, address, sizeof(v6));
        return class6(v6.sin6_addr.s6_addr);
    }
    return "malformed";
}

bool addr_parse(const char *text, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(out, &v4, sizeof(v4));
        return true;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(out, &v6, sizeof(v6));
        return true;
    }
    return false;
}

const char *addr_class_text(const char *text)
{
    struct sockaddr_storage address;

    return addr_parse(text, &address) ? addr_class((const struct sockaddr *)&address) : "malformed";
}

void addr_exception_parse(const char *host, struct addr_exception *out)
{
    size_t len = strlen(host);

    memset(out, 0, sizeof(*out));
    if (strcasecmp(host, "localhost") == 0 ||
        (len > 10 && strcasecmp(host + len - 10, ".localhost") == 0))
        out->loopback = true;
    else if (inet_pton(AF_INET, host, &out->v4) == 1)
        out->family = AF_INET;
    else if (inet_pton(AF_INET6, host, &out->v6) == 1)
        out->family = AF_INET6;
}

static bool is_excepted(const struct sockaddr *address, const struct addr_exception *exception)
{
    if (exception->family == 0 || exception->family != address->sa_family)
        return false;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;

        memcpy(&v4, address, sizeof(v4));
        return v4.sin_addr.s_addr == exception->v4.s_addr;
    }
    struct sockaddr_in6 v6;

    memcpy(&v6, address, sizeof(v6));
    return memcmp(&v6.sin6_addr, &exception->v6, sizeof(v6.sin6_addr)) == 0;
}

bool addr_allowed(const struct sockaddr *address, const struct addr_exception *exception)
{
    const char *class = addr_class(address);

    if (class == NULL || is_excepted(address, exception))
        return true;
    if (exception->private && (strcmp(class, "private") == 0 || strcmp(class, "shared") == 0))
        return true;
    return exception->loopback && strcmp(class, "loopback") == 0;
}

bool addr_allowed_text(const char *text, const struct addr_exception *exception)
{
    struct sockaddr_storage address;

    return addr_parse(text, &address) && addr_allowed((const struct sockaddr *)&address, exception);
}
