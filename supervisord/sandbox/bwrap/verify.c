#include "sandbox/bwrap/bwrap.h"

#include "sandbox/layer.h"

#define BIT(layer) (UINT32_C(1) << (layer))

/* The cgroup namespace is asked for where the kernel has one. Whether the uid is ours alone is the
 * caller's to know, and Landlock is init's. */
#define PROMISED                                                                                   \
    (BIT(SANDBOX_LAYER_USER_NAMESPACE) | BIT(SANDBOX_LAYER_PID_NAMESPACE) |                        \
     BIT(SANDBOX_LAYER_NETWORK_NAMESPACE) | BIT(SANDBOX_LAYER_IPC_NAMESPACE) |                     \
     BIT(SANDBOX_LAYER_UTS_NAMESPACE) | BIT(SANDBOX_LAYER_MOUNT_NAMESPACE) |                       \
     BIT(SANDBOX_LAYER_NO_CAPABILITIES) | BIT(SANDBOX_LAYER_NO_NEW_PRIVILEGES) |                   \
     BIT(SANDBOX_LAYER_SECCOMP))

int bwrap_verify(const struct sandbox_facts *facts, struct error *err)
{
    uint32_t missing = PROMISED & ~facts_layers(facts, 0, 0);
    AUTO_BUF struct buf names = BUF_INIT(1024);

    if (!facts->first)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "what answers is not the first process of a sandbox");
    if (!missing)
        return 0;
    sandbox_layers_print(missing, &names);
    return error_set(err, ERR_DENIED, 0, "the sandbox came up without %s", buf_text(&names));
}
