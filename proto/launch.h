/* launch.h: starting the supervisor when nobody serves its socket. */
#ifndef PROTO_LAUNCH_H
#define PROTO_LAUNCH_H

#include "common/error.h"
#include "common/paths.h"

/* The supervisor's program: a path, or a bare name that is looked up in PATH. Heap. */
char *launch_program(void);

/* Starts `sandbox-supervisord` (beside this program's own file, else from PATH;
 * SANDBOX_MCP_SUPERVISORD overrides) detached for good: double fork, own session, standard
 * descriptors on /dev/null and state/supervisord.log, reparented to the system, since MCP clients
 * kill every descendant. Returns at once; the caller retries to connect. Starting twice at the same
 * time is harmless: the second one finds the lock taken and ends. */
int launch_supervisor(const struct paths *paths, struct error *err);

/* Appends to ERR where to look when a supervisor that was started doesn't come up: the log file's
 * path and its last line. */
int launch_explain(const struct paths *paths, struct error *err);

/* client_connect, and when nobody listens launch_supervisor and connect again until TIMEOUT_MS has
 * passed. On failure the text says what to look at (the log file's path and its last line). */
struct client;
int launch_connect(struct client **out, const struct paths *paths, const char *role, int timeout_ms,
                   struct error *err);

#endif
