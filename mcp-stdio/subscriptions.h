/* subscriptions.h: what a client wants to be told without asking: that a resource has changed, and
 * how a task stands. Each watched thing follows its run's events at the supervisor; where the
 * connection breaks, it is taken up again. */
#ifndef MCP_STDIO_SUBSCRIPTIONS_H
#define MCP_STDIO_SUBSCRIPTIONS_H

#include "mcp-stdio/server.h"

struct subscriptions;

struct subscriptions *subscriptions_new(struct server *server);
void subscriptions_free(struct subscriptions *subscriptions);
/* The client does not want ID's any more; unknown ids are fine. */
void subscriptions_close(struct subscriptions *subscriptions, struct jsonrpc_slice id);

/* Legacy: resources/subscribe and resources/unsubscribe. */
void subscriptions_on_subscribe(struct server *server, const struct request *request);
void subscriptions_on_unsubscribe(struct server *server, const struct request *request);
/* Modern: subscriptions/listen, which stays open until it is cancelled. */
void subscriptions_on_listen(struct server *server, const struct request *request);

/* Legacy: tells the client how the task RUN_ID goes on (notifications/tasks/status) until it has
 * ended. When so much is watched already nothing is told: the client polls in any case. */
void subscriptions_watch_task(struct server *server, const char *run_id);

#endif
