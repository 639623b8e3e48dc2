/* none.h: a "sandbox" that isolates nothing: sandbox-init as an ordinary process of this machine.
 * It is for machines whose other walls do the work, and to keep the seam between backends honest.
 */
#ifndef NONE_NONE_H
#define NONE_NONE_H

#include <uv.h>

#include "common/error.h"
#include "io/child.h"
#include "sandbox/facts.h"
#include "sandbox/runtime.h"
#include "sandbox/sandbox.h"

/* ERR_INVALID when the spec wants anything to be seen elsewhere than where it is: there are no
 * mounts, and a program told to work in a folder of the sandbox would work in the machine's. */
int none_launch(struct child **out, uv_loop_t *loop, const struct sandbox_options *options,
                const struct sandbox_spec *spec, const struct runtime_fds *runtime,
                void (*on_exit)(void *data, int code, int signal), void *data, struct error *err);
int none_explain(const char *stderr_text, int code, int signal, struct error *err);
/* Promises nothing, so all is well. */
int none_verify(const struct sandbox_facts *facts, struct error *err);

#endif
