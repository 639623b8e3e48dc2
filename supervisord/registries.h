/* registries.h: asks this machine's own tools once which package registries they are set to, and
 * lets sandboxes read from these. No tool gets to see a sandbox's files. */
#ifndef SUPERVISORD_REGISTRIES_H
#define SUPERVISORD_REGISTRIES_H

#include <uv.h>

struct registries;

/* ON_RULE gets rules as egress.h has them; it is called from within and from the loop, for some
 * seconds at most. HOME is the user's. */
struct registries *registries_start(uv_loop_t *loop, const char *home,
                                    void (*on_rule)(void *data, const char *rule), void *data);
/* No rule follows. Frees it once its processes are let go. */
void registries_close(struct registries *registries);

#endif
