/* userns.h: the switches with which a machine forbids user namespaces to ordinary users. */
#ifndef COMMON_USERNS_H
#define COMMON_USERNS_H

#include <stdbool.h>

struct userns_switch {
    const char *path;
    const char *forbids; /* what it says then */
    const char *reason;
    const char *mend; /* a command */
};

/* The first switch that forbids them, NULL when none does. ROOT is put before every path: "", but
 * in tests. A switch that isn't there forbids nothing. */
const struct userns_switch *userns_forbidden(const char *root);

/* Whether bubblewrap's WORDS say that it lacked user namespaces, or rights in its own. */
bool userns_blamed(const char *words);

#endif
