/* store.h: everything that must survive, in one LMDB environment (state/db), opened by one process,
 * once.
 *
 * A write function returns when its transaction is on disk (fdatasync) unless its comment says
 * batched. Transactions open and close inside one function. What leaves is a copy that the caller
 * finishes. A full map is grown and the transaction done again; a full disk is ERR_LIMIT ("disk
 * full"), nothing is half written, and later calls work again when there is room. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "common/clock.h"
#include "store/record.h"

struct store;

#define STORE_KEY_MAX 480         /* bytes of an idempotency key; a longer one is ERR_INVALID */
#define STORE_DIFF_MAX (8u << 20) /* bytes */

struct store_options {
    const char *directory;   /* made with 0700 if missing */
    uint64_t map_size_bytes; /* address space, not disk; 0: a large default */
};

/* ERR_CONFLICT when another process has it open (a lock file beside it), ERR_INVALID when the
 * schema is newer than this program. */
int store_open(struct store **out, const struct store_options *options, struct error *err);
/* Commits what is batched. NULL is fine. */
void store_close(struct store *store);

/* Rises with whatever changes what a read function returns: while it stands, so does what was read.
 */
uint64_t store_changes(const struct store *store);

/* Runs. --------------------------------------------------------------------------------------- */

/* One transaction: a new run, its session (new or updated) and its first event (NULL: none).
 * ERR_CONFLICT when the run exists or another one has its idempotency key. EVENT->number must be
 * run->last_event. States are 0 to 63. */
int store_run_create(struct store *store, const struct run_record *run,
                     const struct session_record *session, const struct event_record *event,
                     struct error *err);
/* One transaction: the run's record, optionally its session (NULL: unchanged) and one event (NULL:
 * none). Batched events of any run that are waiting are committed with it. The session and the
 * idempotency key of a run never change. */
int store_run_update(struct store *store, const struct run_record *run,
                     const struct session_record *session, const struct event_record *event,
                     struct error *err);
/* As store_run_update, with the idempotency KEY of what EVENT says to the run's agent in the same
 * transaction; HASH tells another message under the key from that one. ERR_CONFLICT when the key is
 * taken. */
int store_run_told(struct store *store, const struct run_record *run,
                   const struct event_record *event, const char *key, const uint8_t hash[32],
                   struct error *err);
/* Records come back into a RUN (or SESSION) that is initialised. last_event counts also events that
 * were appended after the run's last update, so the next number is always last_event + 1. */
int store_run_load(struct store *store, const struct id *id, struct run_record *run,
                   struct error *err);
/* The run made with this idempotency key, or ERR_NOT_FOUND. One whose agent was told something
 * under it counts as well: its own key is another one then, or none. */
int store_run_by_key(struct store *store, const char *key, struct run_record *run,
                     struct error *err);
/* The hash that store_run_told was given with KEY, or ERR_NOT_FOUND. */
int store_told_by_key(struct store *store, const char *key, uint8_t hash[32], struct error *err);

struct store_run_filter {
    const struct id *session; /* NULL: any */
    uint64_t states;          /* bit n set: state n wanted; 0: any */
    const struct id *before;  /* NULL; else strictly older ids only */
    uint64_t before_ms;       /* 0; else created strictly before, by the time in the id */
    size_t limit;             /* 0: none, here and below */
};
/* Newest first (ids sort by time). EACH gets a record that is valid during the call only; it
 * returns false to stop. No transaction is open then: it may call the store, also to write. A
 * record that is damaged is logged and left out. */
int store_run_each(struct store *store, const struct store_run_filter *filter,
                   bool (*each)(void *data, const struct run_record *run), void *data,
                   struct error *err);
/* Number of runs per state: COUNTS has room for SIZE states. Kept as counters, not by scanning. */
int store_run_counts(struct store *store, uint64_t *counts, size_t size, struct error *err);

/* Diffs: one text per run, at most STORE_DIFF_MAX. load appends to OUT. */
int store_diff_put(struct store *store, const struct id *run, const void *data, size_t len,
                   struct error *err);
int store_diff_load(struct store *store, const struct id *run, struct buf *out, struct error *err);

/* Runs whose notice_due is set, oldest first: at most SIZE ids into RUNS. */
int store_notices_due(struct store *store, struct id *runs, size_t size, size_t *count,
                      struct error *err);

/* Sessions. ----------------------------------------------------------------------------------- */
int store_session_update(struct store *store, const struct session_record *session,
                         struct error *err);
int store_session_load(struct store *store, const struct id *id, struct session_record *session,
                       struct error *err);
int store_session_each(struct store *store, const struct id *before, size_t limit,
                       bool (*each)(void *data, const struct session_record *session), void *data,
                       struct error *err);
int store_session_count(struct store *store, uint64_t *count, struct error *err);
/* The session with all its runs, their events and diffs. Audit records stay. */
int store_session_delete(struct store *store, const struct id *id, struct error *err);
/* The lowest host uid of base..base+count-1 that no stored session has, or ERR_LIMIT. */
int store_session_free_slot(struct store *store, uint32_t base, uint32_t count, uint32_t *uid,
                            struct error *err);

/* Checkpoints, by session and number. -------------------------------------------------------- */
/* One transaction: the checkpoint, and those of the session whose number is below KEEP_FROM go. */
int store_checkpoint_add(struct store *store, const struct id *session,
                         const struct checkpoint_record *checkpoint, uint32_t keep_from,
                         struct error *err);
int store_checkpoint_load(struct store *store, const struct id *session, uint32_t number,
                          struct checkpoint_record *checkpoint, struct error *err);
/* Oldest first, those with a number of at least FROM. As store_run_each. */
int store_checkpoint_each(struct store *store, const struct id *session, uint32_t from,
                          bool (*each)(void *data, const struct checkpoint_record *checkpoint),
                          void *data, struct error *err);

/* Events. ------------------------------------------------------------------------------------- */

/* Batched: kept in memory, readable at once through store_event_each, and on disk after store_flush
 * or any other write. The caller counts the numbers (run->last_event) without gaps; a number that
 * is not above the newest is ERR_BUG. ERR_NOT_FOUND when there is no such run. While the disk is
 * full 64 MiB are kept; beyond that the oldest are dropped and counted in the log. */
int store_event_append(struct store *store, const struct id *run, const struct event_record *event,
                       struct error *err);
/* Commits what is batched; the owner calls it at the end of a loop turn that appended. */
int store_flush(struct store *store, struct error *err);
bool store_has_batch(const struct store *store);
/* Events with a number above AFTER, in order, at most LIMIT. */
int store_event_each(struct store *store, const struct id *run, uint64_t after, size_t limit,
                     bool (*each)(void *data, const struct event_record *event), void *data,
                     struct error *err);
/* Number of the newest event on disk or batched; 0 if none. */
uint64_t store_event_last(struct store *store, const struct id *run);

/* Audit. -------------------------------------------------------------------------------------- */
/* Batched like events; the store gives the number. */
int store_audit_append(struct store *store, struct audit_record *audit, struct error *err);
/* Newest first; RUN may be NULL; BEFORE 0 means from the newest. */
int store_audit_each(struct store *store, const struct id *run, uint64_t before, size_t limit,
                     bool (*each)(void *data, const struct audit_record *audit), void *data,
                     struct error *err);
/* The same oldest first, those with a number above AFTER. */
int store_audit_after(struct store *store, const struct id *run, uint64_t after, size_t limit,
                      bool (*each)(void *data, const struct audit_record *audit), void *data,
                      struct error *err);

#endif
