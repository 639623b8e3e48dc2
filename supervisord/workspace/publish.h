/* publish.h: git commands that bring a session's work out, for use inside the sandbox, and what
 * they print. As everything that comes out of a workspace, that is a claim: it is bounded, and a
 * name is taken only in the form that git allows. Pure. */
#ifndef WORKSPACE_PUBLISH_H
#define WORKSPACE_PUBLISH_H

#include "workspace/workspace.h"

#define PUBLISH_SUBJECTS_MAX 100u
#define PUBLISH_OUTPUT_MAX (128u << 10)

/* Where HEAD is, and what has been changed but not committed. Exit code 3: there is no commit. */
void publish_look(struct git_command *command, const char *folder);
struct publish_look {
    char head[65];
    char branch[256];   /* "" when HEAD is on none, or its name is not one that is taken */
    uint64_t dirty;     /* files that are changed but not committed */
    struct buf changed; /* the first of them, a line each, escaped */
};
/* OUT is finished in any case. */
bool publish_read_look(const struct buf *output, struct publish_look *out);
void publish_look_finish(struct publish_look *look);

/* Commits everything that is changed, in the agent's name. */
void publish_commit(struct git_command *command, const char *folder, const char *message);

/* What the remote has: HEAD, and those of the branches A and B ("" none) that are there. */
void publish_remote(struct git_command *command, const char *url, const char *a, const char *b);
/* The name of the remote's default branch. */
bool publish_read_default(const struct buf *output, char branch[256]);
/* The commit that the remote's branch points to; false when it isn't there. */
bool publish_read_branch(const struct buf *output, const char *branch, char object[65]);

/* What HEAD has that BASE_OBJECT, the commit of the remote's branch BASE, has not. */
void publish_compare(struct git_command *command, const char *folder, const char *url,
                     const char *base, const char *base_object, const char *head);
struct publish_changes {
    uint64_t commits;
    struct git_stat stat;
    struct buf subjects; /* of the newest commits, a line each, newest first, escaped */
};
bool publish_read_changes(const struct buf *output, struct publish_changes *out);
void publish_changes_finish(struct publish_changes *changes);

/* Makes the remote's BRANCH point to HEAD, whatever it points to: the proxy lets pass only what
 * overwrites nobody else's. */
void publish_push(struct git_command *command, const char *folder, const char *url,
                  const char *head, const char *branch);
/* Why it failed, in one line: of the remote's or git's own words. */
void publish_read_refusal(const struct buf *output, const char *stderr_text, struct buf *out);

#endif
