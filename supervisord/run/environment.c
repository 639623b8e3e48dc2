/* environment.c: the variables of a run's programs. */
#include "run/internal.h"

static const char *const base[] = {
    ("HOME=" SANDBOX_HOME), "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb",
    "SHELL=/bin/bash",
};

static size_t count_of(const char *(*variable)(const struct run *run, size_t index),
                       const struct run *run)
{
    size_t count = 0;

    while (variable(run, count) != NULL)
        count++;
    return count;
}

const char **environment_added(const struct run *run)
{
    const struct runs_options *options = &run->runs->options;
    size_t trust = count_of(trust_variable, run);
    size_t caches = count_of(caches_variable, run);
    const char **added =
        mem_new_zero(options->environment_count + trust + caches + 1, sizeof(*added));
    size_t count = 0;

    for (size_t i = 0; i < trust; i++)
        added[count++] = trust_variable(run, i);
    for (size_t i = 0; i < caches; i++)
        added[count++] = caches_variable(run, i);
    for (size_t i = 0; i < options->environment_count; i++)
        added[count++] = options->environment[i];
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
