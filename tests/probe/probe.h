/* probe.h: things that an agent might try, one for each subcommand of the program `probe`.
 *
 * A probe does one thing that would matter if it worked, and undoes nothing: it runs in a child of
 * its own. Where a call changes the machine it is given what it has already (the time that is, the
 * name that is). */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stddef.h>

struct probe {
    const char *name;
    /* 0: it worked; otherwise the error number. ARGUMENTS are those behind the name; there are at
     * least `needs`, and NULL follows the last. */
    int (*run)(char **arguments);
    int needs;
};

extern const struct probe kernel_probes[];
extern const struct probe network_probes[];
extern const struct probe process_probes[];
extern const struct probe limit_probes[];

/* errno when RESULT is negative. */
int probe_error(long result);
/* A decimal number; ends the program when TEXT is none. */
int probe_number(const char *text);

#endif
