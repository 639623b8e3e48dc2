/* take.h: what is in a session's workspace, read out of it as a stream of bytes by a program in a
 * sandbox of its own, in which the workspace can't be written: a list of files, one file, all of
 * them, commits as a bundle, changes as a patch. Also while a run works there, and when none does.
 */
#ifndef RUN_TAKE_H
#define RUN_TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/id.h"

struct runs;
struct take;

enum take_what {
    TAKE_LIST,   /* "TYPE SIZE SECONDS PATH" each with a NUL behind; TYPE as find's %y */
    TAKE_FILE,   /* the bytes of a file */
    TAKE_TAR,    /* an archive of all files at or below PATH, without .git */
    TAKE_BUNDLE, /* HEAD's commits as a git bundle, without those that HAVE reaches; nothing when
                    there are no others */
    TAKE_PATCH,  /* from the session's first commit, or the run's, to the files as they are */
    TAKE_WHAT_COUNT
};

#define TAKE_HAVE_MAX 256u

struct take_options {
    enum take_what what;
    const struct id *session;
    const struct id *run;    /* NULL; else its place in the session, and its beginning */
    const char *path;        /* below the place's folder; "" all */
    const char *const *have; /* names of commits */
    size_t have_count;
    uint64_t max_bytes; /* at which it is cut */
    bool renames;       /* PATCH: say so where a file was renamed */
};

/* Where it comes from; borrowed. Strings are "" where nothing is known. */
struct take_source {
    const char *session;
    const char *directory; /* below the workspace */
    const char *repository;
    const char *branch;   /* BUNDLE, PATCH: HEAD's */
    const char *head;     /* BUNDLE, PATCH */
    const char *base;     /* the commit that it began with */
    uint64_t uncommitted; /* BUNDLE, PATCH: files that are changed but not committed */
};

/* From the loop; after on_end none. */
struct take_callbacks {
    void (*on_begin)(void *data, const struct take_source *source);
    void (*on_bytes)(void *data, const char *bytes, size_t len);
    /* ERR may come without on_begin. TRUNCATED: there is more than max_bytes. */
    void (*on_end)(void *data, bool truncated, const struct error *err);
    void *data;
};

int take_start(struct take **out, struct runs *runs, const struct take_options *options,
               const struct take_callbacks *callbacks, struct error *err);
/* No bytes come until it is resumed. Also from on_bytes. */
void take_pause(struct take *take);
void take_resume(struct take *take);
void take_cancel(struct take *take); /* on_end does not run */

#endif
