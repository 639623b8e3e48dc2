/* store_internal.h: what the files of store/ share: the environment, its sub-databases, one
 * function that writes and one that reads. Each sub-database is touched by the file named behind it
 * only. */
#ifndef STORE_STORE_INTERNAL_H
#define STORE_STORE_INTERNAL_H

#include <lmdb.h>

#include "common/list.h"
#include "store/store.h"

/* Numbers are big-endian in keys, so that the order of bytes is the order of numbers. Ids are their
 * text without NUL. */
enum store_db {
    STORE_META,         /* migrate.c   "schema" -> number */
    STORE_RUNS,         /* runs.c      run -> run record */
    STORE_RUN_SESSIONS, /* runs.c      session, run -> nothing */
    STORE_RUN_STATES,   /* runs.c      state (1 byte), run -> nothing */
    STORE_RUN_KEYS,     /* runs.c      idempotency key -> run, for a message with its hash;
                                       NUL, run, a message's key -> nothing */
    STORE_RUN_COUNTS,   /* runs.c      state (1 byte) -> number of runs */
    STORE_DIFFS,        /* diffs.c     run -> version byte, diff */
    STORE_SESSIONS,     /* sessions.c  session -> session record */
    STORE_SESSION_UIDS, /* sessions.c  uid (4 bytes), session -> nothing */
    STORE_EVENTS,       /* events.c    sequence -> event record */
    STORE_EVENT_INDEX,  /* events.c    run, number -> sequence */
    STORE_AUDIT,        /* audit.c     number -> audit record */
    STORE_AUDIT_RUNS,   /* audit.c     run, number -> nothing */
    STORE_NOTICES,      /* notices.c   run -> nothing: those whose notice_due is set */
    STORE_CHECKPOINTS,  /* checkpoints.c  session, number (4 bytes) -> checkpoint record */
    STORE_DB_COUNT
};

enum {
    STORE_ID_LEN = ID_SIZE - 1,
    STORE_STATES = 64,           /* states fit a filter's bits */
    STORE_RECORD_MAX = 16 << 20, /* bytes of one encoded record */
    STORE_EVENT_BATCH_MAX =
        64 << 20, /* bytes kept while the disk is full; beyond it the oldest go */
    STORE_AUDIT_BATCH_MAX = 16 << 20,
};

struct event_batch {
    struct list order; /* pending_event::order, as appended */
    struct list runs;  /* batch_run::link */
    size_t bytes;
    size_t max_bytes;
    uint64_t dropped; /* since the store was opened */
};

struct audit_batch {
    struct list order; /* pending_audit::link */
    size_t bytes;
    size_t max_bytes;
    uint64_t next_number;
    uint64_t dropped;
};

struct store {
    char *directory;
    int lock_fd;
    MDB_env *env;
    MDB_txn *reader; /* reset between uses, so it holds no page */
    MDB_dbi dbi[STORE_DB_COUNT];
    uint64_t map_size_bytes;
    uint64_t changes;
    struct event_batch events;
    struct audit_batch audit;
    int (*fault)(void *data);
    void *fault_data;
};

/* For fault tests: FAULT is asked before each commit; an errno other than 0 makes the commit fail
 * with it. NULL: none. */
void store_set_fault(struct store *store, int (*fault)(void *data), void *data);

/* Functions that work inside a transaction return 0, an LMDB or errno code, or this, when they
 * filled err themselves. */
#define STORE_REFUSED (-1)

/* Runs APPLY in one write transaction, after the batched events and audit records, and commits.
 * APPLY may run several times (a full map is grown and all done again), so it changes nothing
 * outside the transaction. */
int store_write(struct store *store,
                int (*apply)(struct store *, MDB_txn *, void *data, struct error *), void *data,
                struct error *err);
/* One read transaction; the functions between begin and end call nobody back. */
int store_read_begin(struct store *store, MDB_txn **txn, struct error *err);
void store_read_end(struct store *store);
/* Fills ERR from a code of LMDB (STORE_REFUSED leaves it as it is); returns -1. */
int store_fail(struct store *store, int rc, struct error *err, const char *doing);

/* The newest key with PREFIX that is below prefix + BOUND (NULL: the newest of all): positions
 * CURSOR there. MDB_NOTFOUND if none. */
int store_seek_below(MDB_cursor *cursor, const void *prefix, size_t prefix_len, const void *bound,
                     size_t bound_len, MDB_val *key, MDB_val *value);

static inline MDB_val store_val(const void *data, size_t len)
{
    union {
        const void *in;
        void *out;
    } pointer = { .in = data }; /* LMDB doesn't write through keys and values that are put */

    return (MDB_val){ len, pointer.out };
}

static inline MDB_val store_id_val(const struct id *id)
{
    return store_val(id->text, STORE_ID_LEN);
}

void store_put_u32(uint8_t *to, uint32_t value);
void store_put_u64(uint8_t *to, uint64_t value);
uint32_t store_get_u32(const void *from);
uint64_t store_get_u64(const void *from);

/* Key of an index by run: its id and a number. */
enum { STORE_RUN_NUMBER_SIZE = STORE_ID_LEN + 8 };
void store_run_number_key(uint8_t to[STORE_RUN_NUMBER_SIZE], const struct id *run, uint64_t number);

/* migrate.c: brings an environment to this program's schema, making what is missing; ERR_INVALID
 * when it is newer. */
int store_migrate(struct store *store, struct error *err);
int store_open_databases(struct store *store, MDB_txn *txn, unsigned flags);
uint32_t store_schema_version(void);

/* runs.c */
int store_run_exists(struct store *store, MDB_txn *txn, const struct id *run);
/* All runs of a session with their events and diffs. */
int store_runs_remove(struct store *store, MDB_txn *txn, const struct id *session);

/* diffs.c */
int store_diff_remove(struct store *store, MDB_txn *txn, const struct id *run);

/* notices.c: keeps the index in step with RUN's notice_due. */
int store_notice_set(struct store *store, MDB_txn *txn, const struct run_record *run);
int store_notice_remove(struct store *store, MDB_txn *txn, const struct id *run);

/* sessions.c */
int store_session_put(struct store *store, MDB_txn *txn, const struct session_record *session,
                      struct error *err);

/* checkpoints.c */
int store_checkpoints_remove(struct store *store, MDB_txn *txn, const struct id *session);

/* events.c */
void store_events_init(struct store *store);
void store_events_finish(struct store *store);
int store_events_write(struct store *store, MDB_txn *txn);
void store_events_written(struct store *store); /* the batch is on disk */
/* One event beside the batch; its number must be new. */
int store_event_put(struct store *store, MDB_txn *txn, const struct id *run,
                    const struct event_record *event, struct error *err);
/* On disk or batched; 0 if none. */
int store_event_newest(struct store *store, MDB_txn *txn, const struct id *run, uint64_t *number);
int store_events_remove(struct store *store, MDB_txn *txn, const struct id *run);

/* audit.c */
int store_audit_init(struct store *store, struct error *err);
void store_audit_finish(struct store *store);
int store_audit_write(struct store *store, MDB_txn *txn);
void store_audit_written(struct store *store);

#endif
