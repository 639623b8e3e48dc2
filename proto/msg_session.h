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
    const struct session_place_view *places; /* borrowed; those without a repository are left out */
    size_t place_count;
};
void session_view_write(struct json_writer *writer, const struct session_view *view);
/* A list is {"sessions":[…],"hasMore":bool,"cursor":"ses_…"}. */

struct session_delete_params {
    const char *sessionId;
};
extern const struct json_field session_delete_fields[];

#endif
