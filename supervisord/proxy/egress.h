/* egress.h: which hosts that are no services a sandbox may reach, and what it may do there. Nothing
 * else is reached. Pure. */
#ifndef PROXY_EGRESS_H
#define PROXY_EGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "proxy/addr_check.h"
#include "proxy/host.h"

struct egress_rule {
    char *text;       /* as configured */
    struct host host; /* of "*.NAME:PORT": NAME and PORT */
    bool below;       /* any name below, not NAME itself */
    char *methods;    /* "GET,HEAD"; NULL: any */
    char *path;       /* canonical; NULL: any */
    bool path_below;  /* PATH ends in '/', and anything below it is meant */
    struct addr_exception exception;
};

struct egress {
    struct egress_rule *rules;
    size_t count;
};

/* Rules as the configuration has them: "[METHOD[,METHOD…] ]HOST:PORT[/path[/...]]
 * [ private]". ERR_INVALID
 * names the rule and what is wrong. */
int egress_init(struct egress *egress, const char *const *rules, size_t count, struct error *err);
/* One more; one that is there already is left out. */
int egress_add(struct egress *egress, const char *rule, struct error *err);
void egress_finish(struct egress *egress);

enum egress_reach {
    EGRESS_CLOSED,
    EGRESS_JUDGED, /* some requests: each is looked at */
    EGRESS_OPAQUE, /* anything: nobody looks into it */
};
enum egress_reach egress_reach(const struct egress *egress, const struct host *host);
/* The rule that allows the request, or NULL. PATH is canonical, NULL for a tunnel. */
const struct egress_rule *egress_find(const struct egress *egress, const struct host *host,
                                      const char *method, const char *path);

#endif
