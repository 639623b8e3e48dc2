/* launch.h: starting the supervisor when nobody serves its socket. */
#ifndef PROTO_LAUNCH_H
#define PROTO_LAUNCH_H

#include <stdbool.h>

#include "common/error.h"
#include "common/paths.h"

/* The supervisor's program: a path, or a bare name that is looked up in PATH. Heap. */
char *launch_program(void);

/* Starts `sandbox-supervisord` (beside this program's own file, else from PATH;
 * SANDBOX_MCP_SUPERVISORD overrides) detached for good: double fork, own session, standard
 * descriptors on /dev/null and state/supervisord.log, reparented to the system, since MCP clients
 * kill every descendant. Returns at once; the caller retries to connect. Starting twice at the same
 * time is harmless: the second one waits until the first serves, and ends. *STARTED becomes a
 * descriptor for launch_ended, which the caller closes, or -1 when the process can't be watched. */
int launch_supervisor(const struct paths *paths, int *started, struct error *err);
/* The process has ended: what can't be reached from then on doesn't come. A configuration that it
 * refuses is known within milliseconds. */
bool launch_ended(int started);

/* Fails with what a supervisor that was started and doesn't serve last said in its log (ENDED: it
 * ended at once), and the log's path. */
int launch_explain(const struct paths *paths, bool ended, struct error *err);

/* client_connect, and when nobody listens launch_supervisor and connect again until TIMEOUT_MS has
 * passed or it has ended. On failure the text says why and where to look. */
struct client;
int launch_connect(struct client **out, const struct paths *paths, const char *role, int timeout_ms,
                   struct error *err);

#endif
