/* fake_sandbox.h: a sandbox without a sandbox, for tests of run/: it implements sandbox.h in memory
 * and answers commands from a script. A test includes fake_sandbox.c, so that the real one isn't
 * linked. */
#ifndef TESTS_FAKE_SANDBOX_H
#define TESTS_FAKE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

/* What a command does: the first row whose WORDS are part of the joined argument list. */
struct fake_answer {
    const char *words;
    const char *out;
    size_t out_len; /* 0: strlen */
    const char *err;
    int code;
    bool hangs; /* never ends by itself; a signal ends it */
};

struct fake_sandbox_script {
    const struct fake_answer *answers;
    size_t count;
    bool start_fails; /* sandbox_start returns an error */
    bool ready_fails; /* on_ready gets one */
    bool never_ready;
    unsigned long limit_times[2]; /* by enum sandbox_limit */
    unsigned started;             /* counts */
    unsigned live;
    unsigned leftovers_killed;
};

extern struct fake_sandbox_script fake_sandbox;

/* Ends the newest live sandbox as if its init had been killed. */
void fake_sandbox_lose(bool out_of_memory);

#endif
