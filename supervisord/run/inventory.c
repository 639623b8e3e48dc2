/* inventory.c: what this machine has for runs: agents' programs, and the limits it lets us set. */
#include "run/internal.h"

#include "common/str.h"
#include "sandbox/cgroup.h"

struct inventory {
    const struct runs *runs;
    void (*each)(void *data, const struct runs_agent *agent);
    void *data;
};

static void look_for(const struct inventory *inventory, const char *name)
{
    const struct runs_options *options = &inventory->runs->options;
    const struct agent_profile *profile;
    const struct agent_driver *driver = driver_find(inventory->runs, name, &profile);
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *program = NULL;
    struct runs_agent agent = { .name = name,
                                .install = profile != NULL ? profile->install : NULL,
                                .is_default = str_equal(name, options->default_agent) };

    if (driver == NULL)
        error_set(&err, ERR_INVALID, 0, "there is no driver %s", profile ? profile->driver : name);
    else if (driver->locate != NULL)
        driver->locate(profile, options->agent_opencode, options->data_dir, &program, &err);
    if (err.code != ERR_NONE)
        agent.problem = err.text;
    else if (profile == NULL) /* else it is more than a path */
        agent.program = program;
    inventory->each(inventory->data, &agent);
}

void runs_each_agent(const struct runs *runs,
                     void (*each)(void *data, const struct runs_agent *agent), void *data)
{
    const struct inventory inventory = { runs, each, data };

    for (size_t i = 0; agent_driver_at(i) != NULL; i++) {
        if (!agent_driver_at(i)->by_profile)
            look_for(&inventory, agent_driver_at(i)->name);
    }
    for (size_t i = 0; i < runs->options.agent_count; i++)
        look_for(&inventory, runs->options.agents[i].name);
}

void runs_describe_limits(const struct runs *runs, struct buf *out)
{
    if (runs->options.sandbox.cgroups != NULL)
        cgroup_host_describe(runs->options.sandbox.cgroups, out);
}
