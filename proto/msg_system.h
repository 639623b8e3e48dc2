/* msg_system.h: hello, system.status, system.machine, system.shutdown. */
#ifndef PROTO_MSG_SYSTEM_H
#define PROTO_MSG_SYSTEM_H

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"

extern const char *const hello_roles[]; /* "mcp", "ctl", "test" */

struct hello_params {
    uint32_t protocol;
    int role; /* index in hello_roles */
    const char *version;
};
extern const struct json_field hello_params_fields[];

struct hello_result {
    uint32_t protocol;
    uint64_t pid;
    const char *version;
};
extern const struct json_field hello_result_fields[];
void hello_result_write(struct json_writer *writer, const struct hello_result *result);

struct system_status {
    const char *version;
    uint64_t pid;
    uint64_t startedAt; /* by the clock of then; uptimeSeconds does not depend on it */
    uint64_t uptimeSeconds;
    const char *socket;
    const char *state;       /* state folder */
    const char *sandboxTool; /* the program that makes sandboxes, as configured; NULL unknown */
    const char *webUrl;      /* "" when the web view is off */
    const uint64_t *runs_by_status; /* RUN_STATUS_COUNT counts */
    uint64_t sessions;
    uint64_t connections; /* control connections now */
};
void system_status_write(struct json_writer *writer, const struct system_status *status);

/* One of system.machine's agents. */
struct system_agent_view {
    const char *name;
    const char *program; /* on this machine; NULL: none to name */
    const char *problem; /* NULL: it can be started */
    const char *install; /* a command; NULL: unknown */
    bool isDefault;
};
void system_agent_view_write(struct json_writer *writer, const struct system_agent_view *view);

#endif
