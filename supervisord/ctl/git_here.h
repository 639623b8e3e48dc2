/* git_here.h: git in the user's own repository, started by sandboxctl as the user. The repository's
 * own hooks and helpers are the user's, but were not made for what is done here: they are off, and
 * so is all that git does of itself on the side. */
#ifndef CTL_GIT_HERE_H
#define CTL_GIT_HERE_H

#include "common/buf.h"
#include "common/error.h"

struct git_here {
    const char *folder;             /* where; NULL: the current folder */
    int input;                      /* descriptor that git reads from; 0: nothing */
    const char *const *environment; /* "NAME=value" each, the last is NULL; NULL: nothing added */
};

enum git_here_capture {
    GIT_HERE_OUT, /* its output; what it complains of goes nowhere */
    GIT_HERE_ALL, /* both */
};

/* ARGS end with NULL. What is said goes to OUT, as far as there is room. Waits for git's end: its
 * exit code, or -1 when it could not be started. */
int git_here(const struct git_here *where, const char *const *args, enum git_here_capture capture,
             struct buf *out, struct error *err);
/* WHAT and git's first line, as an error of CODE: -1. */
int git_here_failed(enum error_code code, const char *what, const struct buf *out,
                    struct error *err);
/* A name in the folder for temporary files that ends in XXXXXX, for mkostemp and mkdtemp. Heap. */
char *git_here_scratch(void);
/* Leaves only the first line. */
void git_here_cut_line(struct buf *text);

#endif
