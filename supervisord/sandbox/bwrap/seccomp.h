/* seccomp.h: the system-call filter of every sandbox, as the raw program that bubblewrap loads. */
#ifndef SANDBOX_SECCOMP_H
#define SANDBOX_SECCOMP_H

#include "common/error.h"

/* A descriptor of an anonymous file that holds the program, at its start; -1 with ERR. */
int seccomp_program_fd(struct error *err);

#endif
