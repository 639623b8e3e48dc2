/* msg_session.h: sessions, which group runs and outlive clients and sandboxes. */
#ifndef PROTO_MSG_SESSION_H
#define PROTO_MSG_SESSION_H

#include "common/json.h"
#include "common/json_write.h"

struct session_list_params {
    uint32_t limit;
    const char *before; /* the cursor of the last answer */
};
extern const struct json_field session_list_fields[];

struct session_place_view {
    const char *repository;
    const char *branch;
    const char *directory; /* below /workspace */
};

struct session_view {
    const char *sessionId;
    const char *title;
    const char *repository;
    const char *branch;
    uint64_t createdAt;
    uint64_t updatedAt;
    uint64_t runs;
    const char *lastRunId;
    const char *state; /* "working", "idle", or what is being done with it */
    bool held;
    const char *forkedFrom;
    uint64_t forkedCheckpoint;
    uint64_t fileBytes; /* when it was last counted; 0: never */
    uint64_t checkpointBytes;
    const struct session_place_view *places; /* borrowed; those without a repository are left out */
    size_t place_count;
    const char *pullUrl; /* of its newest pull request, "" none; and the members below */
    uint64_t pullNumber;
    const char *pullBranch;
    const char *pullBase;
};
void session_view_write(struct json_writer *writer, const struct session_view *view);
/* The members without the braces. */
void session_view_members(struct json_writer *writer, const struct session_view *view);
/* A list is {"sessions":[…],"hasMore":bool,"cursor":"ses_…"}. */

/* session.get, session.checkpoint and session.delete */
struct session_params {
    const char *sessionId;
};
extern const struct json_field session_fields[];

struct session_rename_params {
    const char *sessionId;
    const char *title;
};
extern const struct json_field session_rename_fields[];

struct session_hold_params {
    const char *sessionId;
    bool hold;
};
extern const struct json_field session_hold_fields[];

struct session_restore_params {
    const char *sessionId;
    uint32_t checkpoint;
};
extern const struct json_field session_restore_fields[];

struct session_fork_params {
    const char *sessionId;
    uint32_t checkpoint; /* 0: now */
    const char *title;
};
extern const struct json_field session_fork_fields[];

/* backup.create and backup.restore, which has no sessionId. Either file or key. */
struct backup_params {
    const char *sessionId;
    const char *file;
    const char *key;
    const char *passphrase; /* the name of a secret */
};
extern const struct json_field backup_create_fields[];
extern const struct json_field backup_restore_fields[];

struct retention_params {
    bool dryRun;
};
extern const struct json_field retention_fields[];

struct retained_view {
    const char *sessionId;  /* NULL: a mirror */
    const char *repository; /* of a mirror; NULL or "": a session, or not known */
    const char *title;
    uint64_t updatedAt;
    uint64_t bytes;
    const char *reason; /* "age" or "disk" */
    bool removed;
};
void retained_view_write(struct json_writer *writer, const struct retained_view *view);
/* The result is {"dryRun":bool,"sessions":[…],"mirrors":[…]}. */

extern const char *const checkpoint_reason_names[]; /* ends with NULL */

struct checkpoint_view {
    uint32_t checkpoint;
    const char *reason;
    uint64_t time;
    const char *runId;
    uint64_t bytes; /* that it takes itself */
    uint64_t files; /* names in it */
    uint64_t leftOut;
};
void checkpoint_view_write(struct json_writer *writer, const struct checkpoint_view *view);

#endif
