/* internal.h: what the files of control/ share. Nobody else includes it. */
#ifndef CONTROL_INTERNAL_H
#define CONTROL_INTERNAL_H

#include "common/json.h"
#include "common/json_write.h"
#include "common/list.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "control/control.h"
#include "io/io.h"
#include "proto/frame.h"
#include "proto/methods.h"

struct reply_cache;
struct conn;
struct conn *conn_of(struct list *link);

struct known_service {
    char *name;
    char *target;
    char *secret; /* "" none */
};

struct control {
    uv_loop_t *loop;
    struct runs *runs;
    struct store *store;
    struct vault *vault;
    const struct clock *clock;
    char *socket_path;
    char *state_dir;
    char *sandbox_tool;
    char *version;
    uint32_t max_requests;
    struct reply_cache *replies; /* of run.get, about runs that have ended */
    struct known_service *services;
    size_t service_count;
    struct control_storage storage;
    void (*web_url)(void *data, const char *run_id, struct buf *out);
    int (*check_service)(void *data, const char *service, control_service_check_cb done,
                         void *check, struct error *err);
    int (*try_notices)(void *data, control_notices_tried_cb done, void *trial, struct error *err);
    int (*web_login)(void *data, const char *page, struct buf *out, uint64_t *expires_ms,
                     struct error *err);
    int (*web_agent)(void *data, const struct id *session, struct buf *out, uint64_t *expires_ms,
                     struct error *err);
    void (*on_shutdown)(void *data);
    void *data;                /* for all three */
    struct listener *listener; /* NULL once it closes */
    struct list conns;         /* conn::link */
    size_t conn_count;         /* whose memory is there */
    uint64_t conn_number;      /* of the newest, for the log */
    uint64_t started_mono_ms;
    uint64_t started_wall_ms;
    struct handles handles;
    uv_timer_t sweep;    /* ends connections that say no hello */
    struct list watches; /* of session.watch; on_watch.c */
    struct runs_watcher watcher;
    uv_timer_t flush;          /* of what the watches noted */
    struct list audit_follows; /* of audit.list; on_audit.c */
    uv_timer_t audit_tick;
    bool closing;
    unsigned open_parts; /* listener, handles and connections, while they close */
    void (*done)(void *data);
    void *done_data;
};

/* conn.c: one client.
 * ------------------------------------------------------------------------------------------- */

/* Takes FD (closed also on failure). The peer has been checked. */
int conn_start(struct control *control, int fd, struct error *err);
/* No request of it lives after this; what is queued leaves within a second. */
void conn_finish(struct conn *conn);
/* Ends it when hello is overdue; true while hello is still awaited. */
bool conn_sweep(struct conn *conn, uint64_t mono_ms);
/* Looks after connections that said no hello yet; the timer rests when there is none. */
void control_sweep_soon(struct control *control);
void control_sweep_rest(struct control *control); /* after a hello or an end */
bool conn_awaits_hello(const struct conn *conn);
void control_conn_gone(struct control *control); /* conn.c tells control.c */
/* The web address of a run, "" when there is no web view. */
void control_web_url(struct control *control, const char *run_id, struct buf *out);

/* A request in flight. It ends with exactly one of request_reply, request_fail and request_end,
 * which free it, or when the client cancels it or goes away: then DROP, if a handler set it, gives
 * the handler's own state back first. */
struct request {
    struct list link; /* conn::requests */
    struct conn *conn;
    struct control *control;
    uint64_t id;
    enum method method;
    struct json_doc *doc; /* owns params */
    const struct json_value *params;
    const char *blob; /* METHOD_BLOB: valid while the handler runs */
    size_t blob_len;
    bool is_local_person; /* the peer said hello as "ctl" */
    bool streaming;       /* replied, events may follow */

    void *state; /* the handler's */
    void (*drop)(struct request *request);
    /* The connection's queue was over the high mark and is short again. May be NULL. */
    void (*drain)(struct request *request);
};

/* Fills TARGET from the params. On failure the request has been answered and is gone: return at
 * once. */
int request_read(struct request *request, const struct json_field *fields, void *target);
/* Each sends and frees the request; BODY holds one JSON object (NULL: {}). A body that doesn't fit
 * is ERR_LIMIT to the client. */
void request_reply(struct request *request, const struct buf *body);
void request_fail(struct request *request, const struct error *err);
void request_end(struct request *request, const struct buf *body);
/* Sends the reply and keeps the request for events. */
void request_reply_open(struct request *request, const struct buf *body);
/* False when the connection's queue is over its high mark: stop sending until drain. */
bool request_event(struct request *request, const struct buf *body);
/* The same for LEN bytes, at most FRAME_BLOB_MAX: an event {"bytes":LEN}, and a blob. */
bool request_event_blob(struct request *request, const void *data, size_t len);
size_t request_queued(const struct request *request);

/* The answer to hello: the connection serves from now on; or the request fails and the connection
 * ends. */
void conn_greeted(struct request *request, const char *role, const char *version);
void conn_refuse(struct request *request, const struct error *err);

/* dispatch.c
 * ----------------------------------------------------------------------------------------------------
 */

/* Runs the method's handler. The request may be gone when it returns. */
void dispatch(struct request *request);

/* on_run.c, on_get.c, on_stream.c, on_diff.c, on_session.c */
void on_run_create(struct request *request);
void on_run_get(struct request *request);
void on_run_list(struct request *request);
void on_run_cancel(struct request *request);
void on_run_send(struct request *request);
void on_run_answer(struct request *request);
void on_run_events(struct request *request);
void on_run_diff(struct request *request);
void on_run_exec(struct request *request);
void on_session_list(struct request *request);
void on_session_get(struct request *request);
void on_session_rename(struct request *request);
void on_session_hold(struct request *request);
void on_session_checkpoint(struct request *request);
void on_session_restore(struct request *request);
void on_session_fork(struct request *request);
void on_session_delete(struct request *request);
void on_session_watch(struct request *request); /* on_watch.c */
void control_watch_start(struct control *control);
void on_backup_create(struct request *request); /* on_backup.c */
void on_backup_restore(struct request *request);
void on_retention_run(struct request *request); /* on_retention.c */
/* on_pr.c, on_files.c */
void on_pr_create(struct request *request);
void on_files_take(struct request *request);
/* on_service.c */
void on_secret_set(struct request *request);
void on_secret_list(struct request *request);
void on_secret_delete(struct request *request);
void on_service_list(struct request *request);
void on_service_check(struct request *request);
/* on_audit.c */
void on_audit_list(struct request *request);
void control_audit_start(struct control *control);
void on_notice_test(struct request *request); /* on_notice.c */
/* on_web.c */
void on_web_link(struct request *request);
/* on_system.c */
void on_hello(struct request *request);
void on_system_status(struct request *request);
void on_system_check(struct request *request);
void on_system_machine(struct request *request);
void on_system_shutdown(struct request *request);

/* What several handlers need of a run. on_run.c
 * ------------------------------------------------------------------ */

/* Fills CONTEXT for a run; the web address goes to WEB. Valid until the loop turns. */
struct view_context;
void run_context(struct control *control, const struct run_record *run, struct buf *web,
                 struct view_context *context);
/* ERR_INVALID naming runId, or ERR_NOT_FOUND. RUN is initialised by the caller and holds a copy
 * afterwards. */
int run_load_by_text(struct control *control, const char *text, struct run_record *run,
                     struct error *err);
/* What RUN_TEXT or SESSION_TEXT, of which one is given, means. RUN is initialised; its id is ""
 * when the session was named. */
int session_by_text(struct control *control, const char *run_text, const char *session_text,
                    struct run_record *run, struct id *session, struct error *err);
int session_id_parse(const char *text, struct id *id, struct error *err);
/* The same, and ERR_NOT_FOUND when there is no such session. */
int session_known(struct control *control, const char *text, struct id *session, struct error *err);
#define CONTROL_BODY_MAX (FRAME_JSON_MAX - 1024u) /* leaves room for the envelope */

#endif
