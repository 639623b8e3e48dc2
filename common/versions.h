/* versions.h: which versions of other people's programs are known to work with us. One table, for
 * those who refuse the others and for those who tell people. Pure. */
#ifndef COMMON_VERSIONS_H
#define COMMON_VERSIONS_H

#include <stdbool.h>

struct known_version {
    const char *program;
    unsigned major; /* and below its MINOR none */
    unsigned minor;
    bool later;        /* a greater major works as well */
    const char *words; /* for a person: "1.x", "0.8.0 or later" */
};

/* NULL: nothing is known of the program. */
const struct known_version *version_known(const char *program);
/* TEXT begins with the number, as in "1.18.33". False when it is none. */
bool version_works(const struct known_version *known, const char *text);
/* Where the number begins in what `PROGRAM --version` prints: "bubblewrap 0.8.0", "v1.2"; NULL. */
const char *version_in(const char *text);

#endif
