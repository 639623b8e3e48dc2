/* registries.h: asks this machine's own tools which package registries they are set to, and lets
 * sandboxes read from these. Not before there is a sandbox, and at most once a day. No tool gets to
 * see a sandbox's files. */
#ifndef SUPERVISORD_REGISTRIES_H
#define SUPERVISORD_REGISTRIES_H

#include <stdbool.h>
#include <uv.h>

struct registries;

struct registries_callbacks {
    void (*on_rule)(void *data, const char *rule); /* as egress.h has them */
    /* Once, after registries_need answered false: the tools have told what they know, or have had
     * their time. */
    void (*on_known)(void *data);
    void *data;
};

/* HOME is the user's, STATE_DIR has the file of what was found. Nothing happens yet. */
struct registries *registries_new(uv_loop_t *loop, const char *home, const char *state_dir,
                                  const struct registries_callbacks *callbacks);
/* There is a sandbox. What is known is told at once. False: it has to be asked for, and follows
 * from the loop within seconds. Later calls do nothing. */
bool registries_need(struct registries *registries);
/* "npm_config_registry=https://…": with it a tool in a sandbox finds what its namesake here is set
 * to. NULL behind the last. Good until the end. DATA is the registries. */
const char *registries_variable(void *data, size_t index);
/* No rule follows. Frees it once its processes are let go. */
void registries_close(struct registries *registries);

#endif
