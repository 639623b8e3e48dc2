/* view.h: a run as clients see it: the record and what is known beside it become the socket's view,
 * with a sentence that tells a person or a model where the run stands and what to do next. The
 * socket and the web pages show the same. view.c is pure; look.c reads the store and the runs. */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include "common/buf.h"
#include "proto/msg_run.h"
#include "run/run.h"
#include "store/store.h"

/* What the record doesn't hold; strings are borrowed. */
struct view_context {
    uint64_t now_ms;           /* wall clock */
    const char *web_url;       /* "" none */
    const char *current_step;  /* "bash: make test", or NULL */
    uint64_t waiting_since_ms; /* 0: it asks nothing */
    const char *retrying;      /* {"failures","status"?,"message","nextAt"?} as text, or NULL */
    const char *open_request;  /* while waiting: {"requestId","kind","text",…} as text, or NULL */
    uint64_t model_tokens;     /* that a run may use; 0: any, as in the next */
    uint64_t model_microdollars;
};

/* Fills VIEW; its strings are borrowed from RUN, CONTEXT and MESSAGE, which gets the sentence. */
void view_fill(struct run_view *view, const struct run_record *run,
               const struct view_context *context, struct buf *message);
void view_message(struct buf *out, const struct run_record *run,
                  const struct view_context *context);
/* What run.create says: the run goes on by itself, and how to ask for it. */
void view_created_message(struct buf *out, const struct run_record *run,
                          const struct view_context *context);
/* For a message that goes into RUN, which is at work. */
void view_steered_message(struct buf *out, const struct run_record *run);

/* "850 ms", "12 s", "3 m 12 s", "2 h 5 m". */
void view_duration(struct buf *out, uint64_t milliseconds);

/* Cut to its first CODE_POINTS, with "…" when something was cut. */
void view_excerpt(struct buf *out, const char *text, size_t code_points);

/* An event as the steps of a view show it: one JSON object with short text, and data only where a
 * request is open. */
void view_step(struct buf *out, const struct event_record *event);
bool view_is_step(const struct event_record *event);
/* An event as run.events sends it. */
void view_event(struct json_writer *writer, const struct event_record *event);
/* A decision of the proxy as audit.list sends it. */
void view_audit(struct json_writer *writer, const struct audit_record *audit);
/* A session as session.list sends it. */
void view_session(struct json_writer *writer, struct runs *runs,
                  const struct session_record *session);
/* Its members only, into an object that is open. */
void view_session_members(struct json_writer *writer, struct runs *runs,
                          const struct session_record *session);

/* look.c
 * ------------------------------------------------------------------------------------------------
 */

/* Fills CONTEXT for a run; WEB_URL is borrowed by it. Valid until the loop turns. */
void view_context_fill(struct view_context *context, struct runs *runs,
                       const struct run_record *run, uint64_t now_ms, const char *web_url);
/* The whole view with its newest steps. */
void view_run(struct json_writer *writer, struct store *store, const struct run_record *run,
              const struct view_context *context);
/* An element of a list of runs. */
void view_run_item(struct json_writer *writer, const struct run_record *run,
                   const struct view_context *context);

/* The run's state as a bit set for the store's filter: every state that users see as STATUS, or
 * that has ended. */
uint64_t view_states_of_status(int status);
uint64_t view_states_ended(void);
/* How many runs there are in each status. */
int view_counts(struct store *store, uint64_t counts[RUN_STATUS_COUNT], struct error *err);

/* A session's newest run that has ended, into RUN, which is initialised; or ERR_NOT_FOUND. */
int view_newest_ended(struct store *store, const struct id *session, struct run_record *run,
                      struct error *err);
/* Appends the diff that was taken at the run's end: nothing when it changed nothing, ERR_CONFLICT
 * when it has not ended. */
int view_diff_load(struct store *store, const struct run_record *run, struct buf *diff,
                   struct error *err);
/* The result of run.diff: PATH (NULL: all) and MAX bytes of text as in diff.h. */
void view_diff(struct buf *body, const struct run_record *run, const struct buf *diff,
               const char *path, size_t max);
/* The same of what is no run's. */
struct view_diff_source {
    const char *run; /* "" none */
    const char *session;
    const char *base;
    const char *head;
    bool was_cut; /* the diff is itself only a part */
};
void view_diff_of(struct buf *body, const struct view_diff_source *source, const struct buf *diff,
                  const char *path, size_t max);

#endif
