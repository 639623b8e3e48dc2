/* target.h: what a word of the command line means where a run or a session is wanted: an id, or
 * "last" for the newest run. The only place that reads ids. */
#ifndef CTL_TARGET_H
#define CTL_TARGET_H

#include "ctl/session.h"

/* Each fills ID, or fails with what was meant: ERR_INVALID for a word that is no id of that kind,
 * ERR_NOT_FOUND where there is no run yet. */
int target_run(struct session *session, const char *word, struct buf *id, struct error *err);
/* A run's id means its session. */
int target_session(struct session *session, const char *word, struct buf *id, struct error *err);
/* A session's own id: for what can't be undone. */
int target_session_only(const char *word, struct buf *id, struct error *err);
int target_either(struct session *session, const char *word, struct buf *id, struct error *err);
/* The member that ID belongs into: "runId" or "sessionId". */
const char *target_member(const char *id);

#endif
