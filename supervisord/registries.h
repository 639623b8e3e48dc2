/* registries.h: asks this machine's own tools which package registries they are set to, and lets
 * sandboxes read from these. Not before there is a sandbox, and at most once a day. No tool gets to
 * see a sandbox's files. */
#ifndef SUPERVISORD_REGISTRIES_H
#define SUPERVISORD_REGISTRIES_H

#include <uv.h>

struct registries;

/* ON_RULE gets rules as egress.h has them. HOME is the user's, STATE_DIR has the file of what was
 * found. Nothing happens yet. */
struct registries *registries_new(uv_loop_t *loop, const char *home, const char *state_dir,
                                  void (*on_rule)(void *data, const char *rule), void *data);
/* There is a sandbox. What is known is told at once; what has to be asked for follows from the loop
 * within seconds. Later calls do nothing. */
void registries_need(struct registries *registries);
/* "npm_config_registry=https://…": with it a tool in a sandbox finds what its namesake here is set
 * to. NULL behind the last. Good until the end. DATA is the registries. */
const char *registries_variable(void *data, size_t index);
/* No rule follows. Frees it once its processes are let go. */
void registries_close(struct registries *registries);

#endif
