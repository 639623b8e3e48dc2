/* host_look.h: what of the host bubblewrap's arguments depend on. */
#ifndef BWRAP_HOST_LOOK_H
#define BWRAP_HOST_LOOK_H

#include "sandbox/bwrap/bwrap_args.h"

/* Fills in the root links and the masks of an empty plan; looks into the host's / and /proc. */
void bwrap_look_at_host(struct bwrap_plan *plan);

#endif
