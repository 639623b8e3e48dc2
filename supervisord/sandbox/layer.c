#include "sandbox/layer.h"

#include "common/mem.h"
#include "common/str.h"

static const char *const names[SANDBOX_LAYER_COUNT] = {
    [SANDBOX_LAYER_USER_NAMESPACE] = "user-namespace",
    [SANDBOX_LAYER_PID_NAMESPACE] = "pid-namespace",
    [SANDBOX_LAYER_NETWORK_NAMESPACE] = "network-namespace",
    [SANDBOX_LAYER_IPC_NAMESPACE] = "ipc-namespace",
    [SANDBOX_LAYER_UTS_NAMESPACE] = "uts-namespace",
    [SANDBOX_LAYER_MOUNT_NAMESPACE] = "mount-namespace",
    [SANDBOX_LAYER_CGROUP_NAMESPACE] = "cgroup-namespace",
    [SANDBOX_LAYER_OWN_UID] = "own-uid",
    [SANDBOX_LAYER_NO_CAPABILITIES] = "no-capabilities",
    [SANDBOX_LAYER_NO_NEW_PRIVILEGES] = "no-new-privileges",
    [SANDBOX_LAYER_SECCOMP] = "seccomp",
    [SANDBOX_LAYER_LANDLOCK] = "landlock",
    [SANDBOX_LAYER_MEMORY_LIMIT] = "memory-limit",
    [SANDBOX_LAYER_PROCESS_LIMIT] = "process-limit",
    [SANDBOX_LAYER_CPU_WEIGHT] = "cpu-weight",
};

const char *sandbox_layer_name(enum sandbox_layer layer)
{
    return names[layer];
}

int sandbox_layer_parse(const char *name)
{
    for (int layer = 0; layer < SANDBOX_LAYER_COUNT; layer++) {
        if (str_equal(names[layer], name))
            return layer;
    }
    return -1;
}

void sandbox_layers_print(uint32_t layers, struct buf *out)
{
    const char *separator = "";

    for (int layer = 0; layer < SANDBOX_LAYER_COUNT; layer++) {
        if ((layers & UINT32_C(1) << layer) == 0)
            continue;
        buf_printf(out, "%s%s", separator, names[layer]);
        separator = ", ";
    }
}
