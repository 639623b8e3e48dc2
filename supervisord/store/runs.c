#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "store/store_internal.h"

enum {
    PAGE_RUNS = 32,
    PAGE_BYTES = 1 << 20,
    STATE_KEY_SIZE = 1 + STORE_ID_LEN,
    HASH_SIZE = 32,
    TOLD_SIZE = STORE_ID_LEN + HASH_SIZE, /* value of a message's idempotency key */
    TOLD_PREFIX_SIZE = 1 + STORE_ID_LEN,  /* NUL, which no key begins with, and the run */
    TOLD_KEY_MAX = TOLD_PREFIX_SIZE + STORE_KEY_MAX,
};
_Static_assert(TOLD_KEY_MAX <= 511, "what LMDB takes for a key");

struct run_write {
    const struct run_record *run;
    const struct session_record *session;
    const struct event_record *event;
    const struct buf *record; /* RUN encoded */
    const char *told_key;     /* of EVENT's message; NULL: none */
    const uint8_t *told_hash;
};

/* Indexes ------------------------------------------------------------------------------------- */

static void session_key(uint8_t to[2 * STORE_ID_LEN], const struct run_record *run)
{
    memcpy(to, run->session.text, STORE_ID_LEN);
    memcpy(to + STORE_ID_LEN, run->id.text, STORE_ID_LEN);
}

static void state_key(uint8_t to[STATE_KEY_SIZE], const struct run_record *run)
{
    to[0] = (uint8_t)run->state;
    memcpy(to + 1, run->id.text, STORE_ID_LEN);
}

/* STEP is 1 or -1; a counter that would pass below 0 stays there. */
static int count_state(struct store *store, MDB_txn *txn, uint32_t state, int step)
{
    uint8_t state_byte = (uint8_t)state;
    uint8_t number[8];
    MDB_val key = store_val(&state_byte, 1);
    MDB_val value;
    uint64_t count = 0;

    int rc = mdb_get(txn, store->dbi[STORE_RUN_COUNTS], &key, &value);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    if (rc == 0 && value.mv_size == sizeof(number))
        count = store_get_u64(value.mv_data);
    if (step > 0)
        count++;
    else if (count > 0)
        count--;
    store_put_u64(number, count);
    value = store_val(number, sizeof(number));
    return mdb_put(txn, store->dbi[STORE_RUN_COUNTS], &key, &value, 0);
}

static int enter_state(struct store *store, MDB_txn *txn, const struct run_record *run)
{
    uint8_t bytes[STATE_KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));
    MDB_val nothing = store_val("", 0);

    state_key(bytes, run);
    int rc = mdb_put(txn, store->dbi[STORE_RUN_STATES], &key, &nothing, 0);
    return rc != 0 ? rc : count_state(store, txn, run->state, 1);
}

static int leave_state(struct store *store, MDB_txn *txn, const struct run_record *run)
{
    uint8_t bytes[STATE_KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));

    state_key(bytes, run);
    int rc = mdb_del(txn, store->dbi[STORE_RUN_STATES], &key, NULL);
    return rc != 0 && rc != MDB_NOTFOUND ? rc : count_state(store, txn, run->state, -1);
}

static int put_record(struct store *store, MDB_txn *txn, const struct run_write *write,
                      unsigned flags)
{
    MDB_val key = store_id_val(&write->run->id);
    MDB_val value = store_val(write->record->data, write->record->len);

    return mdb_put(txn, store->dbi[STORE_RUNS], &key, &value, flags);
}

static int put_session_and_event(struct store *store, MDB_txn *txn, const struct run_write *write,
                                 struct error *err)
{
    int rc = 0;

    if (write->session != NULL)
        rc = store_session_put(store, txn, write->session, err);
    if (rc == 0 && write->event != NULL)
        rc = store_event_put(store, txn, &write->run->id, write->event, err);
    return rc;
}

/* Create and update --------------------------------------------------------------------------- */

static int put_idempotency_key(struct store *store, MDB_txn *txn, const struct run_record *run,
                               struct error *err)
{
    MDB_val key = store_val(run->idempotency_key, strlen(run->idempotency_key));
    MDB_val value = store_id_val(&run->id);

    if (key.mv_size == 0)
        return 0;
    int rc = mdb_put(txn, store->dbi[STORE_RUN_KEYS], &key, &value, MDB_NOOVERWRITE);
    if (rc != MDB_KEYEXIST)
        return rc;
    error_set(err, ERR_CONFLICT, 0, "another run has this idempotency key");
    return STORE_REFUSED;
}

static int create(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    const struct run_write *write = data;
    uint8_t in_session[2 * STORE_ID_LEN];
    MDB_val key = store_val(in_session, sizeof(in_session));
    MDB_val nothing = store_val("", 0);

    int rc = put_record(store, txn, write, MDB_NOOVERWRITE);
    if (rc == MDB_KEYEXIST) {
        error_set(err, ERR_CONFLICT, 0, "run %s exists", write->run->id.text);
        return STORE_REFUSED;
    }
    if (rc == 0)
        rc = put_idempotency_key(store, txn, write->run, err);
    session_key(in_session, write->run);
    if (rc == 0)
        rc = mdb_put(txn, store->dbi[STORE_RUN_SESSIONS], &key, &nothing, 0);
    if (rc == 0)
        rc = enter_state(store, txn, write->run);
    if (rc == 0 && write->run->notice_due != 0)
        rc = store_notice_set(store, txn, write->run);
    return rc != 0 ? rc : put_session_and_event(store, txn, write, err);
}

static int load(struct store *store, MDB_txn *txn, const struct id *id, struct run_record *run,
                struct error *err)
{
    MDB_val key = store_id_val(id);
    MDB_val value;
    int rc = mdb_get(txn, store->dbi[STORE_RUNS], &key, &value);

    if (rc == MDB_NOTFOUND) {
        error_set(err, ERR_NOT_FOUND, 0, "no run %s", id->text);
        return STORE_REFUSED;
    }
    if (rc != 0)
        return rc;
    if (run_record_decode(value.mv_data, value.mv_size, run, err) == 0)
        return 0;
    error_wrap(err, "run %s", id->text);
    return STORE_REFUSED;
}

/* From the run to the keys of its messages, so that they go when it goes. */
static MDB_val told_key(uint8_t to[TOLD_KEY_MAX], const struct id *run, const char *key, size_t len)
{
    to[0] = '\0';
    memcpy(to + 1, run->text, STORE_ID_LEN);
    memcpy(to + TOLD_PREFIX_SIZE, key, len);
    return store_val(to, TOLD_PREFIX_SIZE + len);
}

static int put_told_key(struct store *store, MDB_txn *txn, const struct run_write *write,
                        struct error *err)
{
    size_t len = strlen(write->told_key);
    uint8_t bytes[TOLD_KEY_MAX];
    uint8_t told[TOLD_SIZE];
    MDB_val key = store_val(write->told_key, len);
    MDB_val value = store_val(told, sizeof(told));
    MDB_val nothing = store_val("", 0);
    int rc;

    memcpy(told, write->run->id.text, STORE_ID_LEN);
    memcpy(told + STORE_ID_LEN, write->told_hash, HASH_SIZE);
    rc = mdb_put(txn, store->dbi[STORE_RUN_KEYS], &key, &value, MDB_NOOVERWRITE);
    if (rc == MDB_KEYEXIST) {
        error_set(err, ERR_CONFLICT, 0, "the idempotency key is taken");
        return STORE_REFUSED;
    }
    if (rc != 0)
        return rc;
    key = told_key(bytes, &write->run->id, write->told_key, len);
    return mdb_put(txn, store->dbi[STORE_RUN_KEYS], &key, &nothing, 0);
}

static int change(struct store *store, MDB_txn *txn, const struct run_record *old,
                  const struct run_write *write, struct error *err)
{
    const struct run_record *run = write->run;
    int rc = 0;

    if (strcmp(old->session.text, run->session.text) != 0 ||
        strcmp(old->idempotency_key, run->idempotency_key) != 0) {
        error_set(err, ERR_BUG, 0, "run %s would change its session or idempotency key",
                  run->id.text);
        return STORE_REFUSED;
    }
    if (old->state != run->state) {
        rc = leave_state(store, txn, old);
        if (rc == 0)
            rc = enter_state(store, txn, run);
    }
    if (rc == 0 && (old->notice_due != 0) != (run->notice_due != 0))
        rc = store_notice_set(store, txn, run);
    if (rc == 0)
        rc = put_record(store, txn, write, 0);
    if (rc == 0 && write->told_key != NULL)
        rc = put_told_key(store, txn, write, err);
    return rc != 0 ? rc : put_session_and_event(store, txn, write, err);
}

static int update(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    struct run_write *write = data;
    struct run_record old;

    run_record_init(&old);
    int rc = load(store, txn, &write->run->id, &old, err);
    if (rc == 0)
        rc = change(store, txn, &old, write, err);
    run_record_finish(&old);
    return rc;
}

static int check_key(const char *key, struct error *err)
{
    if (strlen(key) > STORE_KEY_MAX)
        return error_argument(err, "idempotencyKey", "is longer than %d bytes", STORE_KEY_MAX);
    return 0;
}

static int check_record(const struct run_record *run, struct error *err)
{
    if (!id_parse(ID_KIND_RUN, run->id.text, NULL) ||
        !id_parse(ID_KIND_SESSION, run->session.text, NULL))
        return error_set(err, ERR_BUG, 0, "a run's record without ids of a run and a session");
    if (run->state >= STORE_STATES)
        return error_set(err, ERR_BUG, 0, "run state %u is out of range", run->state);
    return check_key(run->idempotency_key, err);
}

static int write_run(struct store *store, struct run_write *write,
                     int (*apply)(struct store *, MDB_txn *, void *, struct error *),
                     struct error *err)
{
    AUTO_BUF struct buf record = { 0 };

    if (check_record(write->run, err) < 0)
        return -1;
    buf_init(&record, STORE_RECORD_MAX);
    run_record_encode(write->run, &record);
    if (record.failed)
        return error_set(err, ERR_LIMIT, 0, "run %s: its record is larger than %d MiB",
                         write->run->id.text, STORE_RECORD_MAX >> 20);
    write->record = &record;
    return store_write(store, apply, write, err);
}

int store_run_create(struct store *store, const struct run_record *run,
                     const struct session_record *session, const struct event_record *event,
                     struct error *err)
{
    struct run_write write = { .run = run, .session = session, .event = event };

    if (event != NULL && event->number != run->last_event)
        return error_set(err, ERR_BUG, 0, "run %s: its first event is %llu, its record says %llu",
                         run->id.text, (unsigned long long)event->number,
                         (unsigned long long)run->last_event);
    return write_run(store, &write, create, err);
}

int store_run_update(struct store *store, const struct run_record *run,
                     const struct session_record *session, const struct event_record *event,
                     struct error *err)
{
    struct run_write write = { .run = run, .session = session, .event = event };

    return write_run(store, &write, update, err);
}

int store_run_told(struct store *store, const struct run_record *run,
                   const struct event_record *event, const char *key, const uint8_t hash[32],
                   struct error *err)
{
    struct run_write write = { .run = run, .event = event, .told_key = key, .told_hash = hash };

    if (key[0] == '\0')
        return error_set(err, ERR_BUG, 0, "run %s: a message without a key", run->id.text);
    return check_key(key, err) < 0 ? -1 : write_run(store, &write, update, err);
}

/* Load ---------------------------------------------------------------------------------------- */

int store_run_exists(struct store *store, MDB_txn *txn, const struct id *run)
{
    MDB_val key = store_id_val(run);
    MDB_val value;

    return mdb_get(txn, store->dbi[STORE_RUNS], &key, &value);
}

/* Events that were flushed after the run's last update count too. */
static int load_with_events(struct store *store, MDB_txn *txn, const struct id *id,
                            struct run_record *run, struct error *err)
{
    uint64_t newest;
    int rc = load(store, txn, id, run, err);

    if (rc == 0)
        rc = store_event_newest(store, txn, id, &newest);
    if (rc == 0 && newest > run->last_event)
        run->last_event = newest;
    return rc;
}

int store_run_load(struct store *store, const struct id *id, struct run_record *run,
                   struct error *err)
{
    MDB_txn *txn;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = load_with_events(store, txn, id, run, err);
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read a run");
}

/* VALUE is that of an idempotency key. */
static int find_key(struct store *store, MDB_txn *txn, const char *text, MDB_val *value,
                    struct error *err)
{
    MDB_val key = store_val(text, strlen(text));
    int rc = MDB_NOTFOUND;

    if (key.mv_size > 0 && key.mv_size <= STORE_KEY_MAX)
        rc = mdb_get(txn, store->dbi[STORE_RUN_KEYS], &key, value);
    if (rc == MDB_NOTFOUND) {
        error_set(err, ERR_NOT_FOUND, 0, "nothing has this idempotency key");
        return STORE_REFUSED;
    }
    if (rc == 0 && value->mv_size != STORE_ID_LEN && value->mv_size != TOLD_SIZE)
        return MDB_CORRUPTED;
    return rc;
}

static int load_by_key(struct store *store, MDB_txn *txn, const char *text, struct run_record *run,
                       struct error *err)
{
    struct id id;
    MDB_val value;
    int rc = find_key(store, txn, text, &value, err);

    if (rc != 0)
        return rc;
    memcpy(id.text, value.mv_data, STORE_ID_LEN);
    id.text[STORE_ID_LEN] = '\0';
    return load_with_events(store, txn, &id, run, err);
}

int store_told_by_key(struct store *store, const char *key, uint8_t hash[32], struct error *err)
{
    MDB_txn *txn;
    MDB_val value;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = find_key(store, txn, key, &value, err);
    if (rc == 0 && value.mv_size != TOLD_SIZE) {
        error_set(err, ERR_NOT_FOUND, 0, "no message has this idempotency key");
        rc = STORE_REFUSED;
    }
    if (rc == 0)
        memcpy(hash, (const uint8_t *)value.mv_data + STORE_ID_LEN, HASH_SIZE);
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read a message's key");
}

int store_run_by_key(struct store *store, const char *key, struct run_record *run,
                     struct error *err)
{
    MDB_txn *txn;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = load_by_key(store, txn, key, run, err);
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read a run");
}

int store_run_counts(struct store *store, uint64_t *counts, size_t size, struct error *err)
{
    MDB_txn *txn;
    int rc = 0;

    memset(counts, 0, size * sizeof(*counts));
    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    for (size_t i = 0; i < size && i < STORE_STATES && (rc == 0 || rc == MDB_NOTFOUND); i++) {
        uint8_t state = (uint8_t)i;
        MDB_val key = store_val(&state, 1);
        MDB_val value;

        rc = mdb_get(txn, store->dbi[STORE_RUN_COUNTS], &key, &value);
        if (rc == 0 && value.mv_size == 8)
            counts[i] = store_get_u64(value.mv_data);
    }
    store_read_end(store);
    return rc == 0 || rc == MDB_NOTFOUND ? 0 : store_fail(store, rc, err, "read the counters");
}

/* List ---------------------------------------------------------------------------------------- */

/* One index whose keys are a prefix and a run's id: all runs, a session's, or those in a state. */
struct range {
    MDB_cursor *cursor;
    uint8_t prefix[STORE_ID_LEN];
    size_t prefix_len;
    bool ended;
    char id[STORE_ID_LEN]; /* the run that the cursor is at */
};

/* Copies that leave the transaction before anyone is called. */
struct run_page {
    struct run_record runs[PAGE_RUNS];
    size_t count;
    size_t want;
    size_t bytes;
    bool ended;
    char below[STORE_ID_LEN]; /* ids looked at so far are not below this one */
    bool below_set;
};

/* All ranges of one walk; several when states are asked for without a session. */
struct walk {
    struct range ranges[STORE_STATES];
    size_t count;
    uint64_t states; /* to check on the record; 0: any */
};

static int range_settle(struct range *range, int rc, const MDB_val *key)
{
    if (rc == 0 && (key->mv_size != range->prefix_len + STORE_ID_LEN ||
                    memcmp(key->mv_data, range->prefix, range->prefix_len) != 0))
        rc = MDB_NOTFOUND;
    if (rc == 0)
        memcpy(range->id, (const char *)key->mv_data + range->prefix_len, STORE_ID_LEN);
    range->ended = rc != 0;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int range_open(struct range *range, MDB_txn *txn, MDB_dbi dbi, const struct run_page *page)
{
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_open(txn, dbi, &range->cursor);

    if (rc != 0)
        return rc;
    rc = store_seek_below(range->cursor, range->prefix, range->prefix_len,
                          page->below_set ? page->below : NULL, STORE_ID_LEN, &key, &value);
    return range_settle(range, rc, &key);
}

static int range_step(struct range *range)
{
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_get(range->cursor, &key, &value, MDB_PREV);

    return range_settle(range, rc, &key);
}

static int walk_open(struct walk *walk, struct store *store, MDB_txn *txn,
                     const struct store_run_filter *filter, const struct run_page *page)
{
    int rc = 0;

    if (filter->session != NULL || filter->states == 0) {
        struct range *range = &walk->ranges[walk->count++];

        walk->states = filter->states;
        if (filter->session == NULL)
            return range_open(range, txn, store->dbi[STORE_RUNS], page);
        range->prefix_len = STORE_ID_LEN;
        memcpy(range->prefix, filter->session->text, STORE_ID_LEN);
        return range_open(range, txn, store->dbi[STORE_RUN_SESSIONS], page);
    }
    for (unsigned state = 0; state < STORE_STATES && rc == 0; state++) {
        if ((filter->states >> state & 1) != 0) {
            struct range *range = &walk->ranges[walk->count++];

            range->prefix_len = 1;
            range->prefix[0] = (uint8_t)state;
            rc = range_open(range, txn, store->dbi[STORE_RUN_STATES], page);
        }
    }
    return rc;
}

static void walk_close(struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->ranges[i].cursor != NULL)
            mdb_cursor_close(walk->ranges[i].cursor);
    }
}

static struct range *walk_newest(struct walk *walk)
{
    struct range *newest = NULL;

    for (size_t i = 0; i < walk->count; i++) {
        struct range *range = &walk->ranges[i];

        if (!range->ended && (newest == NULL || memcmp(range->id, newest->id, STORE_ID_LEN) > 0))
            newest = range;
    }
    return newest;
}

/* A damaged record costs itself only. */
static int page_add(struct run_page *page, struct store *store, MDB_txn *txn, const char *id_text,
                    uint64_t states)
{
    struct run_record *run = &page->runs[page->count];
    struct error err;
    struct id id;

    memcpy(id.text, id_text, STORE_ID_LEN);
    id.text[STORE_ID_LEN] = '\0';
    run_record_init(run);
    int rc = load_with_events(store, txn, &id, run, &err);
    if (rc == 0 && (states == 0 || (states >> (run->state & 63) & 1) != 0)) {
        page->count++;
        page->bytes += strlen(run->task) + strlen(run->output);
        return 0;
    }
    run_record_finish(run);
    if (rc == STORE_REFUSED) {
        log_error(id.text, "left out of a list: %s", err.text);
        rc = 0;
    }
    return rc;
}

static int page_fill(struct run_page *page, struct store *store, MDB_txn *txn, struct walk *walk)
{
    while (page->count < page->want && page->bytes < PAGE_BYTES) {
        struct range *range = walk_newest(walk);

        if (range == NULL) {
            page->ended = true;
            return 0;
        }
        memcpy(page->below, range->id, STORE_ID_LEN);
        page->below_set = true;
        int rc = page_add(page, store, txn, page->below, walk->states);
        if (rc == 0)
            rc = range_step(range);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int page_read(struct run_page *page, struct store *store,
                     const struct store_run_filter *filter, struct error *err)
{
    struct walk *walk = NEW(struct walk);
    MDB_txn *txn;

    if (store_read_begin(store, &txn, err) < 0) {
        free(walk);
        return -1;
    }
    int rc = walk_open(walk, store, txn, filter, page);
    if (rc == 0)
        rc = page_fill(page, store, txn, walk);
    walk_close(walk);
    store_read_end(store);
    free(walk);
    return rc == 0 ? 0 : store_fail(store, rc, err, "list runs");
}

static bool page_hand_out(const struct run_page *page,
                          bool (*each)(void *data, const struct run_record *run), void *data)
{
    for (size_t i = 0; i < page->count; i++) {
        if (!each(data, &page->runs[i]))
            return false;
    }
    return true;
}

static void page_clear(struct run_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        run_record_finish(&page->runs[i]);
    page->count = 0;
    page->bytes = 0;
}

static void bound(struct run_page *page, const char *id)
{
    if (page->below_set && memcmp(page->below, id, STORE_ID_LEN) <= 0)
        return;
    memcpy(page->below, id, STORE_ID_LEN);
    page->below_set = true;
}

/* The lowest id that a run made at that time could have. */
static void bound_time(struct run_page *page, uint64_t ms)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    char id[STORE_ID_LEN];

    if (ms > 0xffffffffffffull)
        return;
    memset(id, '0', sizeof(id));
    memcpy(id, "run_", 4);
    for (unsigned i = 0; i < 10; i++)
        id[4 + i] = digits[ms >> (45 - 5 * i) & 31];
    bound(page, id);
}

int store_run_each(struct store *store, const struct store_run_filter *filter,
                   bool (*each)(void *data, const struct run_record *run), void *data,
                   struct error *err)
{
    struct run_page *page = NEW(struct run_page);
    size_t left = filter->limit != 0 ? filter->limit : SIZE_MAX;
    int result = 0;

    if (filter->before != NULL)
        bound(page, filter->before->text);
    if (filter->before_ms != 0)
        bound_time(page, filter->before_ms);
    while (result == 0 && left > 0 && !page->ended) {
        page->want = left < PAGE_RUNS ? left : PAGE_RUNS;
        result = page_read(page, store, filter, err);
        if (result == 0 && !page_hand_out(page, each, data))
            left = 0;
        else
            left -= page->count;
        page_clear(page);
    }
    free(page);
    return result;
}

/* Removing ------------------------------------------------------------------------------------ */

static int del(struct store *store, MDB_txn *txn, enum store_db db, MDB_val key)
{
    int rc = mdb_del(txn, store->dbi[db], &key, NULL);

    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* A record that can't be read leaves its entries in the indexes by state and key, which lists pass
 * over. */
static int remove_indexes(struct store *store, MDB_txn *txn, const struct id *id)
{
    struct run_record run;
    struct error err;

    run_record_init(&run);
    int rc = load(store, txn, id, &run, &err);
    if (rc == STORE_REFUSED) {
        log_error(id->text, "removed without its indexes: %s", err.text);
        rc = 0;
    } else if (rc == 0) {
        rc = leave_state(store, txn, &run);
        if (rc == 0 && run.idempotency_key[0] != '\0')
            rc = del(store, txn, STORE_RUN_KEYS,
                     store_val(run.idempotency_key, strlen(run.idempotency_key)));
    }
    run_record_finish(&run);
    return rc;
}

static int remove_told_keys(struct store *store, MDB_txn *txn, const struct id *id)
{
    uint8_t bytes[TOLD_KEY_MAX];
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_RUN_KEYS], &cursor);

    if (rc != 0)
        return rc;
    while (rc == 0) {
        key = told_key(bytes, id, "", 0);
        rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
        if (rc != 0 || key.mv_size <= TOLD_PREFIX_SIZE || key.mv_size > TOLD_KEY_MAX ||
            memcmp(key.mv_data, bytes, TOLD_PREFIX_SIZE) != 0)
            break;
        memcpy(bytes, key.mv_data, key.mv_size);
        value = store_val(bytes + TOLD_PREFIX_SIZE, key.mv_size - TOLD_PREFIX_SIZE);
        rc = mdb_cursor_del(cursor, 0);
        if (rc == 0)
            rc = del(store, txn, STORE_RUN_KEYS, value);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int remove_run(struct store *store, MDB_txn *txn, const struct id *id)
{
    int rc = remove_indexes(store, txn, id);

    if (rc == 0)
        rc = remove_told_keys(store, txn, id);
    if (rc == 0)
        rc = store_events_remove(store, txn, id);
    if (rc == 0)
        rc = store_diff_remove(store, txn, id);
    if (rc == 0)
        rc = store_notice_remove(store, txn, id);
    return rc != 0 ? rc : del(store, txn, STORE_RUNS, store_id_val(id));
}

static int newest_of_session(struct store *store, MDB_txn *txn, const struct id *session,
                             uint8_t index_key[2 * STORE_ID_LEN])
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_RUN_SESSIONS], &cursor);

    if (rc != 0)
        return rc;
    rc = store_seek_below(cursor, session->text, STORE_ID_LEN, NULL, 0, &key, &value);
    if (rc == 0 && key.mv_size != 2 * STORE_ID_LEN)
        rc = MDB_CORRUPTED;
    if (rc == 0)
        memcpy(index_key, key.mv_data, 2 * STORE_ID_LEN);
    mdb_cursor_close(cursor);
    return rc;
}

int store_runs_remove(struct store *store, MDB_txn *txn, const struct id *session)
{
    uint8_t index_key[2 * STORE_ID_LEN];
    struct id run = { "" };
    int rc;

    while ((rc = newest_of_session(store, txn, session, index_key)) == 0) {
        memcpy(run.text, index_key + STORE_ID_LEN, STORE_ID_LEN);
        rc = remove_run(store, txn, &run);
        if (rc == 0)
            rc = del(store, txn, STORE_RUN_SESSIONS, store_val(index_key, sizeof(index_key)));
        if (rc != 0)
            return rc;
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}
