/* parent.h: the proxy between this one and the world, where there is one: for which hosts it is
 * asked, and with what credential. Which way a host is reached is decided here only. */
#ifndef PROXY_PARENT_H
#define PROXY_PARENT_H

#include "common/buf.h"
#include "proxy/addr_check.h"
#include "proxy/host.h"
#include "vault/vault.h"

struct parent_options {
    const char *address;        /* "http://HOST:PORT"; NULL or "": there is none */
    const char *const *without; /* hosts that are reached without it: "[*.]HOST[:PORT]" */
    size_t without_count;
    const char *secret; /* in the vault, "user:password"; NULL or "": none is needed */
};

/* Zeroed: there is none. */
struct parent {
    struct host where;
    char *address; /* NULL: there is none */
    struct parent_without *without;
    size_t without_count;
    struct vault *vault; /* borrowed */
    char *secret;        /* NULL: none is needed */
};

/* ERR_INVALID names the text that is wrong; PARENT is zeroed then. */
int parent_init(struct parent *parent, const struct parent_options *options, struct vault *vault,
                struct error *err);
void parent_finish(struct parent *parent);

/* Whether HOST is reached through PARENT. The parent resolves names, so their addresses can't be
 * judged here. False as well for an address that EXCEPTION doesn't allow: the way without a parent
 * refuses it. */
bool parent_takes(const struct parent *parent, const struct host *host,
                  const struct addr_exception *exception);
/* The line for its credential, with CRLF; empty when none is needed or it can't be used, which is
 * logged: the parent will refuse. OUT is freed with inject_free. */
void parent_line(const struct parent *parent, struct buf *out);
/* Tells the log what the parent answered; STATUS 0: nothing, and WHY says more. */
void parent_refused(const struct parent *parent, const struct host *host, long status,
                    const char *why);

#endif
