/* environment.c: the variables of a run's programs. */
#include "run/internal.h"

static const char *const base[] = {
    ("HOME=" SANDBOX_HOME), "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb",
    "SHELL=/bin/bash",
};

const char **environment_added(const struct run *run)
{
    const struct runs_options *options = &run->runs->options;
    size_t caches = 0;
    const char **added;

    while (caches_variable(run, caches) != NULL)
        caches++;
    added = mem_new_zero(options->environment_count + caches + 1, sizeof(*added));
    for (size_t i = 0; i < caches; i++)
        added[i] = caches_variable(run, i);
    for (size_t i = 0; i < options->environment_count; i++)
        added[caches + i] = options->environment[i];
    return added;
}

char **environment_new(const struct run *run)
{
    const char **added = environment_added(run);
    size_t count = 0;
    char **environment;

    while (added[count] != NULL)
        count++;
    environment = mem_new_zero(ARRAY_LEN(base) + count + 1, sizeof(*environment));
    for (size_t i = 0; i < ARRAY_LEN(base); i++)
        environment[i] = mem_strdup(base[i]);
    for (size_t i = 0; i < count; i++)
        environment[ARRAY_LEN(base) + i] = mem_strdup(added[i]);
    free(added);
    return environment;
}

void environment_free(char **environment)
{
    for (size_t i = 0; environment[i] != NULL; i++)
        free(environment[i]);
    free(environment);
}
