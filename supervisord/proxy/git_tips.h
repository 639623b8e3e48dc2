/* git_tips.h: what a session has pushed: for each ref the commit that the server took last. Whoever
 * overwrites or deletes only these overwrites nothing of anybody else's. Pure. */
#ifndef PROXY_GIT_TIPS_H
#define PROXY_GIT_TIPS_H

#include <stddef.h>

#include "common/buf.h"

#define GIT_TIPS_MAX 128u /* the oldest is forgotten: its ref can't be changed any more */

struct git_tip {
    char *place; /* "github/o/r": service and repository */
    char *ref;
    char *id;
};

struct git_tips {
    struct git_tip items[GIT_TIPS_MAX];
    size_t count;
};

void git_tips_finish(struct git_tips *tips);
/* NULL when nothing is known. */
const char *git_tips_get(const struct git_tips *tips, const char *place, const char *ref);
/* An id of zeros forgets the ref. */
void git_tips_set(struct git_tips *tips, const char *place, const char *ref, const char *id);
/* Lines of "PLACE REF ID"; a line that isn't one is left out. TEXT may be NULL. */
void git_tips_parse(struct git_tips *tips, const char *text);
void git_tips_format(const struct git_tips *tips, struct buf *out);

#endif
