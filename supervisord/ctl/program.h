/* program.h: other programs that are run for what they print. */
#ifndef CTL_PROGRAM_H
#define CTL_PROGRAM_H

#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

enum program_capture {
    PROGRAM_OUT, /* its output; what it complains of goes nowhere */
    PROGRAM_ALL, /* both */
};

struct program {
    const char *const *argv; /* argv[0] is looked up in PATH; ends with NULL */
    const char *const *env;  /* ends with NULL; NULL: ours */
    int in;                  /* its input; -1 none */
    enum program_capture capture;
    int timeout_ms; /* then it is killed with what it started; 0: it has all the time */
};

/* Waits for its end. The exit code, 128 and the signal for one that a signal ended; -1: it could
 * not be started (ERR_UNAVAILABLE) or took too long (ERR_TIMEOUT). OUT gets what fits in it. */
int program_run(const struct program *program, struct buf *out, struct error *err);

/* waitpid for one that was started otherwise; the same exit code, or -1. */
int program_wait(pid_t pid);

/* A program file: NAME itself when it has a slash, else by PATH. Heap, or NULL. */
char *program_find(const char *name);

#endif
