/* agent_environment.h: what the programs of agents find in their environment. */
#ifndef AGENT_AGENT_ENVIRONMENT_H
#define AGENT_AGENT_ENVIRONMENT_H

#include <stddef.h>

struct agent_options;

/* HOME, where programs and languages are, who commits; OWN, the driver's, each "NAME=value"; and
 * what the options add. The array ends with NULL. */
char **agent_environment_new(const struct agent_options *options, const char *const *own,
                             size_t own_count);
void agent_environment_free(char **environment);

#endif
