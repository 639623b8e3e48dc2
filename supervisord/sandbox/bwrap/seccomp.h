/* seccomp.h: the system calls that a sandbox is refused. */
#ifndef BWRAP_SECCOMP_H
#define BWRAP_SECCOMP_H

#include "common/error.h"

/* The filter as a BPF program in a memory file, ready to be read from its start; -1 on failure. */
int seccomp_make_file(struct error *err);

#endif
