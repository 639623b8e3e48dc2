/* msg_out.h: how a session's work comes out: pull requests, and what is taken from its files. */
#ifndef PROTO_MSG_OUT_H
#define PROTO_MSG_OUT_H

#include "common/json.h"
#include "common/json_write.h"

/* pr.create and opencode_create_pr. */
struct pull_create_params {
    const char *sessionId;
    const char *title;
    const char *body;
    bool draft;
    const char *base;
    bool commit;
};
extern const struct json_field pull_create_fields[];

/* What became of it. */
enum pull_status {
    PULL_STATUS_WORKING,
    PULL_STATUS_PUSHED,
    PULL_STATUS_OPENED,
    PULL_STATUS_UPDATED,
    PULL_STATUS_UNCHANGED,
    PULL_STATUS_COUNT
};
extern const char *const pull_status_names[]; /* ends with NULL */

/* NULL and "" strings are left out. */
struct pull_view {
    const char *sessionId;
    int status;          /* enum pull_status */
    const char *message; /* one sentence: where it stands, and what to do next */
    const char *phase;
    const char *repository;
    const char *forge;
    const char *branch;
    const char *base;
    const char *commit;
    uint64_t commits;
    uint64_t filesChanged;
    uint64_t insertions;
    uint64_t deletions;
    uint64_t number;
    const char *url;
    const char *title;
    bool draft;
    uint64_t uncommitted;
    const char *uncommittedFiles; /* the first of them, a line each */
    const char *note;
    const char *problemCode; /* "" none; and the members below */
    const char *problemMessage;
    const char *problemHint;
    bool problemRetryable;
};
void pull_view_write(struct json_writer *writer, const struct pull_view *view);

/* files.take: the reply says where it comes from, each event {"bytes":N} has a blob frame of N
 * bytes behind it, and the end is {"bytes":TOTAL,"truncated":bool} or {"error":{…}}. */
enum files_what {
    FILES_LIST,
    FILES_READ,
    FILES_ARCHIVE,
    FILES_BUNDLE,
    FILES_PATCH,
    FILES_WHAT_COUNT
};
extern const char *const files_what_names[]; /* ends with NULL */

#define FILES_HAVE_MAX 256u

struct files_take_params {
    int what; /* enum files_what */
    const char *runId;
    const char *sessionId; /* one of the two */
    const char *path;
    const struct json_value *have; /* bundle: array of commits' names that the taker has */
    uint64_t maxBytes;
};
extern const struct json_field files_take_fields[];

#endif
