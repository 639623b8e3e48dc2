#include "agent/agent.h"

#include "agent/acp/acp.h"
#include "agent/opencode/opencode.h"
#include "agent/shell/shell.h"
#include "common/mem.h"
#include "common/str.h"

static const struct agent_driver *const drivers[] = {
    &opencode_driver,
    &shell_driver,
    &acp_driver,
};

const struct agent_driver *agent_driver_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
        if (str_equal(drivers[i]->name, name))
            return drivers[i];
    }
    return NULL;
}

const struct agent_driver *agent_driver_at(size_t index)
{
    return index < ARRAY_LEN(drivers) ? drivers[index] : NULL;
}
