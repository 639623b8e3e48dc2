#include "agent/agent_environment.h"

#include "agent/agent.h"
#include "common/mem.h"

static const char *const of_all[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "LANG=C.UTF-8",
    "TERM=dumb",
    "GIT_AUTHOR_NAME=agent",
    "GIT_AUTHOR_EMAIL=agent@sandbox.invalid",
    "GIT_COMMITTER_NAME=agent",
    "GIT_COMMITTER_EMAIL=agent@sandbox.invalid",
};

char **agent_environment_new(const struct agent_options *options, const char *const *own,
                             size_t own_count)
{
    size_t extra = 0;
    size_t count = 0;
    char **environment;

    while (options->env != NULL && options->env[extra] != NULL)
        extra++;
    environment = mem_new_zero(ARRAY_LEN(of_all) + own_count + extra + 2, sizeof(*environment));
    environment[count++] = mem_printf("HOME=%s", options->home);
    for (size_t i = 0; i < ARRAY_LEN(of_all); i++)
        environment[count++] = mem_strdup(of_all[i]);
    for (size_t i = 0; i < own_count; i++)
        environment[count++] = mem_strdup(own[i]);
    for (size_t i = 0; i < extra; i++)
        environment[count++] = mem_strdup(options->env[i]);
    return environment;
}

void agent_environment_free(char **environment)
{
    for (size_t i = 0; environment[i] != NULL; i++)
        free(environment[i]);
    free(environment);
}
