/* bwrap.h: the bubblewrap backend: one start of the tool. */
#ifndef SANDBOX_BWRAP_H
#define SANDBOX_BWRAP_H

#include <uv.h>

#include "common/error.h"
#include "io/child.h"
#include "sandbox/sandbox.h"

/* Starts bubblewrap with sandbox-init as process 1, which inherits CONTROL_FD (listening) and
 * LOCK_FD. Everything that is bound is opened here. */
int bwrap_start(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                const struct sandbox_spec *spec, int control_fd, int lock_fd,
                void (*on_exit)(void *data, int code, int signal), void *data, struct error *err);

/* What the tool's last words mean and what helps, as a sentence for an error. */
void bwrap_explain(const char *stderr_text, struct error *err);

#endif
