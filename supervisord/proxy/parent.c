/* parent.c: the settings, read once. */
#include "proxy/parent.h"

#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "proxy/addr_own.h"
#include "proxy/inject.h"

struct parent_without {
    struct host host; /* port 0: any */
    bool below;       /* any name below it, not itself */
};

static int wrong(const char *what, const char *text, struct error *err)
{
    return error_set(err, ERR_INVALID, 0, "%s: \"%.100s\" can't be used", what, text);
}

static bool parse_address(struct parent *parent, const char *text)
{
    static const char scheme[] = "http://";
    size_t skip = sizeof(scheme) - 1;

    return str_starts(text, scheme) &&
           host_parse(text + skip, strlen(text + skip), 0, &parent->where);
}

static bool parse_without(struct parent_without *without, const char *text)
{
    static const uint16_t any = 1; /* of those that host_parse takes for a default */
    const char *host;

    without->below = str_starts(text, "*.");
    host = without->below ? text + 2 : text;
    if (host_parse(host, strlen(host), 0, &without->host))
        return !without->below || !without->host.literal;
    if (!host_parse(host, strlen(host), any, &without->host))
        return false;
    without->host.port = 0;
    return !without->below || !without->host.literal;
}

static int read_options(struct parent *parent, const struct parent_options *options,
                        struct error *err)
{
    if (!parse_address(parent, options->address))
        return wrong("egress.proxy", options->address, err);
    parent->address = mem_strdup(options->address);
    parent->without = mem_new_zero(options->without_count + 1, sizeof(*parent->without));
    for (size_t i = 0; i < options->without_count; i++)
        if (!parse_without(&parent->without[parent->without_count++], options->without[i]))
            return wrong("egress.noProxy", options->without[i], err);
    if (options->secret != NULL && options->secret[0] != '\0')
        parent->secret = mem_strdup(options->secret);
    return 0;
}

int parent_init(struct parent *parent, const struct parent_options *options, struct vault *vault,
                struct error *err)
{
    *parent = (struct parent){ .vault = vault };
    if (options->address == NULL || options->address[0] == '\0' ||
        read_options(parent, options, err) == 0)
        return 0;
    parent_finish(parent);
    return -1;
}

void parent_finish(struct parent *parent)
{
    free(parent->address);
    free(parent->without);
    free(parent->secret);
    *parent = (struct parent){ 0 };
}

static bool is_without(const struct parent_without *without, const struct host *host)
{
    if (without->host.port != 0 && without->host.port != host->port)
        return false;
    return without->below ? host_below(host, &without->host)
                          : strcmp(without->host.name, host->name) == 0;
}

/* Loopback and this machine's own addresses are somewhere else for the parent. */
static bool is_here(const struct host *host)
{
    const struct addr_exception none = { 0 };
    struct addr_exception named;
    struct sockaddr_storage address;

    addr_exception_parse(host->name, &named);
    if (named.loopback)
        return true;
    return host->literal && addr_parse(host->name, &address) &&
           (str_equal(addr_class_text(host->name), "loopback") ||
            addr_is_own((const struct sockaddr *)&address, &none));
}

bool parent_takes(const struct parent *parent, const struct host *host,
                  const struct addr_exception *exception)
{
    if (parent == NULL || parent->address == NULL || is_here(host) ||
        (host->literal && !addr_allowed_text(host->name, exception)))
        return false;
    for (size_t i = 0; i < parent->without_count; i++)
        if (is_without(&parent->without[i], host))
            return false;
    return true;
}

void parent_line(const struct parent *parent, struct buf *out)
{
    struct error err = ERROR_INIT;

    buf_init(out, 0);
    if (parent->secret != NULL && inject_parent(parent->vault, parent->secret, out, &err) < 0)
        log_warn("proxy", "egress.proxySecret: %s", err.text);
}

void parent_refused(const struct parent *parent, const struct host *host, long status,
                    const char *why)
{
    char target[HOST_TEXT_SIZE];

    host_format(host, target);
    if (status == 0)
        log_warn("proxy", "egress.proxy %s, asked for %s: %s", parent->address, target, why);
    else if (status == 407)
        log_warn("proxy",
                 "egress.proxy %s, asked for %s: status 407; store \"user:password\" as the secret "
                 "that egress.proxySecret names",
                 parent->address, target);
    else
        log_warn("proxy", "egress.proxy %s, asked for %s: status %ld", parent->address, target,
                 status);
}
