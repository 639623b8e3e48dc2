/* git_rules.h: what a run may do to repositories over smart HTTP. Reads which repository and which
 * of git's endpoints a path means, takes the commands of a push apart and judges each. Pure. */
#ifndef PROXY_GIT_RULES_H
#define PROXY_GIT_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/* Endpoints
 * ---------------------------------------------------------------------------------------------- */

enum git_endpoint {
    GIT_ENDPOINT_NONE,
    GIT_ENDPOINT_READ,      /* clone and fetch */
    GIT_ENDPOINT_PUSH_REFS, /* what git asks before a push */
    GIT_ENDPOINT_PUSH,
    GIT_ENDPOINT_LFS_BATCH, /* where objects of Git LFS are */
    GIT_ENDPOINT_LFS_PLACE, /* one of the places that the proxy has named: lfs.h */
    GIT_ENDPOINT_LFS,       /* the rest of it */
};

struct git_place {
    enum git_endpoint endpoint;
    size_t repository_len; /* the path begins with it: "/o/r.git" */
};

/* PATH is canonical, QUERY begins with '?' or is empty. */
struct git_place git_place_of(const char *method, const char *path, const char *query);
/* The same repository by another spelling: with and without ".git", slashes at the end, letter
 * case. Some servers tell these apart, so an alias is never sent as it is, but replaced by the
 * spelling that was allowed. */
bool git_repository_same(const char *a, size_t a_len, const char *b, size_t b_len);
/* LIST has "owner/name", "owner/..." or "...": exact spelling, but for ".git" at the end. */
bool git_repository_listed(const char *const *list, size_t count, const char *path, size_t len);

/* Refs
 * -----------------------------------------------------------------------------------------------
 */

/* By the rules of git check-ref-format, and plainer: below refs/, printable ASCII, at most 255
 * bytes. */
bool git_ref_valid(const char *ref, size_t len);
/* PATTERN is a branch ("agent/x"), all below ("agent/..."), or the same beginning with "refs/". */
bool git_ref_matches(const char *pattern, const char *ref);
/* A pattern that can match something. */
bool git_ref_pattern_valid(const char *pattern);

/* Pushes
 * --------------------------------------------------------------------------------------------- */

#define GIT_COMMANDS_MAX 1000u
#define GIT_COMMANDS_BYTES (384u << 10) /* fits what may be queued for an upstream at once */
#define GIT_ID_SIZE 65

struct git_command {
    char old_id[GIT_ID_SIZE];
    char new_id[GIT_ID_SIZE];
    char *ref;
    const char *refusal; /* reason (git_refusals), NULL when it may pass */
    bool accepted;       /* the server said so */
};

/* The part of a push that stands before the pack. */
struct git_push_head {
    struct git_command *commands;
    size_t count;
    bool report;    /* the client wants to be told about each ref */
    bool side_band; /* wrapped */
    bool options;   /* push options follow */
};

/* DATA is the whole section with its flush packet. NULL, or why it can't be judged: a reason of
 * git_refusals. OUT is finished in any case. */
const char *git_push_head_parse(const char *data, size_t len, struct git_push_head *out);
void git_push_head_finish(struct git_push_head *head);

struct git_push_rules {
    const char *const *refs; /* patterns */
    size_t ref_count;
    const char *branch; /* of the session; "" none */
    bool overwrite;     /* refs that exist may be changed and deleted */
    const char *only;   /* nothing but this ref, if the rest allows it; NULL: no such bound */
};

/* The commit that this session pushed to REF last, as far as the server took it; NULL when it never
 * did, or deleted it. */
typedef const char *(*git_tip_lookup)(void *data, const char *ref);

/* Judges every command. True when all may pass; else each has its reason: one bad command stops
 * all. */
bool git_push_judge(struct git_push_head *head, const struct git_push_rules *rules,
                    git_tip_lookup tip, void *data);
/* The first reason that isn't merely another command's. */
const char *git_push_reason(const struct git_push_head *head);

/* What a refused client reads: "only agent/... may be pushed", for REASON. */
const char *git_refusal_message(const char *reason);
/* The whole report in git's own words, status 200 and application/x-git-receive-pack-result. HEAD
 * asked for one. */
void git_push_refuse(const struct git_push_head *head, const struct git_push_rules *rules,
                     struct buf *out);

/* Reports
 * -------------------------------------------------------------------------------------------- */

/* Reads the server's answer to a push, in pieces, and marks what it accepted. */
struct git_report {
    struct git_push_head *head;
    struct buf packets;
    struct buf lines; /* what the first side band holds */
    bool over;        /* nothing more is believed */
};

void git_report_init(struct git_report *report, struct git_push_head *head);
void git_report_feed(struct git_report *report, const char *data, size_t len);
void git_report_finish(struct git_report *report);

#endif
