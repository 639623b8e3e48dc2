/* bwrap.h: starts a sandbox with bubblewrap. */
#ifndef BWRAP_BWRAP_H
#define BWRAP_BWRAP_H

#include <uv.h>

#include "common/error.h"
#include "io/child.h"
#include "sandbox/facts.h"
#include "sandbox/runtime.h"
#include "sandbox/sandbox.h"

/* Starts bubblewrap with sandbox-init in it. Everything is borrowed during the call. ON_EXIT tells
 * about bubblewrap itself, which ends after the sandbox, unless somebody kills it. */
int bwrap_launch(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                 const struct sandbox_spec *spec, const struct runtime_fds *runtime,
                 void (*on_exit)(void *data, int code, int signal), void *data, struct error *err);

/* Makes an error of what bubblewrap said on stderr before it failed, with what to enable when the
 * machine forbids sandboxes. */
int bwrap_explain(const char *stderr_text, int code, int signal, struct error *err);

/* ERR_DENIED, naming what is missing, unless FACTS are those of a sandbox that bubblewrap finished:
 * the namespaces that need no support beyond what it insists on, the filter, no_new_privs and no
 * capabilities. */
int bwrap_verify(const struct sandbox_facts *facts, struct error *err);

#endif
