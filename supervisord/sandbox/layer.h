/* layer.h: the layers that hold a sandbox, by name, so that records and doctor can say which are in
 * force and the configuration can demand some. */
#ifndef SANDBOX_LAYER_H
#define SANDBOX_LAYER_H

#include <stdint.h>

#include "common/buf.h"

enum sandbox_layer {
    SANDBOX_LAYER_USER_NAMESPACE,
    SANDBOX_LAYER_PID_NAMESPACE,
    SANDBOX_LAYER_NETWORK_NAMESPACE,
    SANDBOX_LAYER_IPC_NAMESPACE,
    SANDBOX_LAYER_UTS_NAMESPACE,
    SANDBOX_LAYER_MOUNT_NAMESPACE,
    SANDBOX_LAYER_CGROUP_NAMESPACE,
    SANDBOX_LAYER_OWN_UID, /* a host uid that nobody else has */
    SANDBOX_LAYER_NO_CAPABILITIES,
    SANDBOX_LAYER_NO_NEW_PRIVILEGES,
    SANDBOX_LAYER_SECCOMP,
    SANDBOX_LAYER_LANDLOCK,
    SANDBOX_LAYER_MEMORY_LIMIT,  /* by cgroup, for all its processes together */
    SANDBOX_LAYER_PROCESS_LIMIT, /* by cgroup */
    SANDBOX_LAYER_CPU_WEIGHT,
    SANDBOX_LAYER_COUNT
};

/* "user-namespace". */
const char *sandbox_layer_name(enum sandbox_layer layer);
/* -1 for an unknown name. */
int sandbox_layer_parse(const char *name);
/* Appends the names of LAYERS (bits 1 << layer), separated by ", ". */
void sandbox_layers_print(uint32_t layers, struct buf *out);

#endif
