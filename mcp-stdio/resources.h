/* resources.h: what a client can read by address: a run's result, log and diff, a session, and the
 * view of MCP Apps. */
#ifndef MCP_STDIO_RESOURCES_H
#define MCP_STDIO_RESOURCES_H

#include "mcp-stdio/server.h"

enum resource_kind {
    RESOURCE_RESULT,
    RESOURCE_LOG,
    RESOURCE_DIFF,
    RESOURCE_SESSION,
    RESOURCE_VIEW,
};

struct resource {
    enum resource_kind kind;
    char id[72]; /* of the run or the session; "" for the view */
};

/* False when URI names nothing that could exist. Whether it does, the supervisor knows. */
bool resource_parse(const char *uri, struct resource *out);
/* The name of a template's one variable ("runId"), or NULL when TEMPLATE is none of ours. */
const char *resource_variable(const char *uri_template);

/* resources/list, resources/templates/list and resources/read of both eras. */
void resources_on_list(struct server *server, const struct request *request);
void resources_on_templates(struct server *server, const struct request *request);
void resources_on_read(struct server *server, const struct request *request);

/* The error of the era for a resource that does not exist. */
void resources_refuse(struct server *server, const struct server_target *target, const char *uri);

#endif
