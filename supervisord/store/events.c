#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "store/store_internal.h"

enum { PAGE_EVENTS = 64, PAGE_BYTES = 1 << 20 };

/* Events of one run that wait for a commit. */
struct batch_run {
    struct list link; /* event_batch::runs */
    struct id id;
    struct list events; /* pending_event::run_link */
    uint64_t newest;
};

struct pending_event {
    struct list order;    /* event_batch::order */
    struct list run_link; /* batch_run::events */
    struct batch_run *run;
    uint64_t number;
    struct buf record;
};

void store_events_init(struct store *store)
{
    list_init(&store->events.order);
    list_init(&store->events.runs);
    store->events.max_bytes = STORE_EVENT_BATCH_MAX;
}

static size_t pending_size(const struct pending_event *event)
{
    return sizeof(*event) + event->record.cap;
}

static void pending_free(struct event_batch *batch, struct pending_event *event)
{
    struct batch_run *run = event->run;

    batch->bytes -= pending_size(event);
    list_remove(&event->order);
    list_remove(&event->run_link);
    if (list_empty(&run->events)) {
        list_remove(&run->link);
        free(run);
    }
    buf_finish(&event->record);
    free(event);
}

void store_events_written(struct store *store)
{
    LIST_EACH(&store->events.order, link)
        pending_free(&store->events, LIST_ENTRY(link, struct pending_event, order));
}

void store_events_finish(struct store *store)
{
    store_events_written(store);
}

static struct batch_run *batch_find(const struct event_batch *batch, const struct id *id)
{
    LIST_EACH(&batch->runs, link) {
        struct batch_run *run = LIST_ENTRY(link, struct batch_run, link);

        if (memcmp(run->id.text, id->text, STORE_ID_LEN) == 0)
            return run;
    }
    return NULL;
}

static struct batch_run *batch_run_new(struct event_batch *batch, const struct id *id)
{
    struct batch_run *run = NEW(struct batch_run);

    run->id = *id;
    list_init(&run->events);
    list_append(&batch->runs, &run->link);
    return run;
}

/* Writing ------------------------------------------------------------------------------------- */

/* The number behind the newest sequence on disk. */
static int next_sequence(struct store *store, MDB_txn *txn, uint64_t *next)
{
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_EVENTS], &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
    if (rc == MDB_NOTFOUND) {
        *next = 1;
        rc = 0;
    } else if (rc == 0) {
        *next = store_get_u64(key.mv_data) + 1;
    }
    mdb_cursor_close(cursor);
    return rc;
}

/* The record goes to the end of the log, so that a batch dirties a few neighbouring pages whatever
 * runs it is of. */
static int write_event(struct store *store, MDB_txn *txn, uint64_t sequence, const struct id *run,
                       uint64_t number, const struct buf *record)
{
    uint8_t index_key[STORE_RUN_NUMBER_SIZE];
    uint8_t sequence_key[8];
    MDB_val key = store_val(index_key, sizeof(index_key));
    MDB_val value = store_val(sequence_key, sizeof(sequence_key));

    store_run_number_key(index_key, run, number);
    store_put_u64(sequence_key, sequence);
    int rc = mdb_put(txn, store->dbi[STORE_EVENT_INDEX], &key, &value, MDB_NOOVERWRITE);
    if (rc != 0)
        return rc;
    key = store_val(sequence_key, sizeof(sequence_key));
    value = store_val(record->data, record->len);
    return mdb_put(txn, store->dbi[STORE_EVENTS], &key, &value, MDB_APPEND);
}

int store_events_write(struct store *store, MDB_txn *txn)
{
    uint64_t sequence = 0;

    if (list_empty(&store->events.order))
        return 0;
    int rc = next_sequence(store, txn, &sequence);
    if (rc != 0)
        return rc;
    LIST_EACH(&store->events.order, link) {
        struct pending_event *event = LIST_ENTRY(link, struct pending_event, order);

        rc = write_event(store, txn, sequence, &event->run->id, event->number, &event->record);
        if (rc == 0)
            sequence++;
        else if (rc != MDB_KEYEXIST) /* there already: a commit that reported failure had reached
                                        the disk */
            return rc;
    }
    return 0;
}

static int encode_event(const struct event_record *event, struct buf *record, struct error *err)
{
    buf_init(record, STORE_RECORD_MAX);
    event_record_encode(event, record);
    if (!record->failed)
        return 0;
    buf_finish(record);
    return error_set(err, ERR_LIMIT, 0, "an event is larger than %u MiB",
                     (unsigned)(STORE_RECORD_MAX >> 20));
}

int store_event_put(struct store *store, MDB_txn *txn, const struct id *run,
                    const struct event_record *event, struct error *err)
{
    uint64_t newest;
    uint64_t sequence;
    AUTO_BUF struct buf record = { 0 };
    int rc = store_event_newest(store, txn, run, &newest);

    if (rc != 0)
        return rc;
    if (event->number <= newest) {
        error_set(err, ERR_BUG, 0, "%s has event %llu already, so %llu can't be its next one",
                  run->text, (unsigned long long)newest, (unsigned long long)event->number);
        return STORE_REFUSED;
    }
    if (encode_event(event, &record, err) < 0)
        return STORE_REFUSED;
    rc = next_sequence(store, txn, &sequence);
    return rc != 0 ? rc : write_event(store, txn, sequence, run, event->number, &record);
}

static void drop_oldest(struct event_batch *batch)
{
    while (batch->bytes > batch->max_bytes && !list_empty(&batch->order)) {
        pending_free(batch, LIST_ENTRY(batch->order.next, struct pending_event, order));
        batch->dropped++;
        if ((batch->dropped & (batch->dropped - 1)) == 0) /* 1, 2, 4, 8 … */
            log_warn("store", "%llu events dropped: the database can't be written",
                     (unsigned long long)batch->dropped);
    }
}

/* The newest number of a run that exists, whether on disk or batched. */
static int check_run(struct store *store, const struct id *run, uint64_t *newest, struct error *err)
{
    MDB_txn *txn;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = store_run_exists(store, txn, run);
    if (rc == 0)
        rc = store_event_newest(store, txn, run, newest);
    store_read_end(store);
    if (rc == MDB_NOTFOUND)
        return error_set(err, ERR_NOT_FOUND, 0, "no run %s", run->text);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read events");
}

int store_event_append(struct store *store, const struct id *run, const struct event_record *event,
                       struct error *err)
{
    struct event_batch *batch = &store->events;
    struct batch_run *owner = batch_find(batch, run);
    uint64_t newest = owner != NULL ? owner->newest : 0;
    struct buf record;

    if (owner == NULL && check_run(store, run, &newest, err) < 0)
        return -1;
    if (event->number <= newest)
        return error_set(err, ERR_BUG, 0,
                         "%s has event %llu already, so %llu can't be its next one", run->text,
                         (unsigned long long)newest, (unsigned long long)event->number);
    if (encode_event(event, &record, err) < 0)
        return -1;
    if (owner == NULL)
        owner = batch_run_new(batch, run);
    struct pending_event *pending = NEW(struct pending_event);
    store->changes++;
    pending->run = owner;
    pending->number = event->number;
    pending->record = record;
    owner->newest = event->number;
    list_append(&batch->order, &pending->order);
    list_append(&owner->events, &pending->run_link);
    batch->bytes += pending_size(pending);
    drop_oldest(batch);
    return 0;
}

/* Reading ------------------------------------------------------------------------------------- */

int store_event_newest(struct store *store, MDB_txn *txn, const struct id *run, uint64_t *number)
{
    struct batch_run *owner = batch_find(&store->events, run);
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;

    int rc = mdb_cursor_open(txn, store->dbi[STORE_EVENT_INDEX], &cursor);
    if (rc != 0)
        return rc;
    *number = 0;
    rc = store_seek_below(cursor, run->text, STORE_ID_LEN, NULL, 0, &key, &value);
    if (rc == 0 && key.mv_size == STORE_RUN_NUMBER_SIZE)
        *number = store_get_u64((const char *)key.mv_data + STORE_ID_LEN);
    mdb_cursor_close(cursor);
    if (owner != NULL && owner->newest > *number)
        *number = owner->newest;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

uint64_t store_event_last(struct store *store, const struct id *run)
{
    struct error err;
    MDB_txn *txn;
    uint64_t number = 0;

    if (store_read_begin(store, &txn, &err) < 0) {
        log_error(run->text, "can't read its events: %s", err.text);
        return 0;
    }
    int rc = store_event_newest(store, txn, run, &number);
    store_read_end(store);
    if (rc != 0)
        log_error(run->text, "can't read its events: %s", mdb_strerror(rc));
    return number;
}

/* Copies that leave the transaction before anyone is called. */
struct event_page {
    struct event_record events[PAGE_EVENTS];
    size_t count;
    size_t want;
    size_t bytes;
    uint64_t after; /* number of the newest looked at */
};

static bool page_full(const struct event_page *page)
{
    return page->count == page->want || page->bytes >= PAGE_BYTES;
}

/* A damaged record costs itself only. */
static void page_add(struct event_page *page, const struct id *run, uint64_t number,
                     const void *data, size_t len)
{
    struct event_record *event = &page->events[page->count];
    struct error err;

    event_record_init(event);
    event->number = number;
    page->after = number;
    page->bytes += len;
    if (event_record_decode(data, len, event, &err) < 0) {
        log_error(run->text, "event %llu left out: %s", (unsigned long long)number, err.text);
        event_record_finish(event);
        return;
    }
    page->count++;
}

static void page_finish(struct event_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        event_record_finish(&page->events[i]);
}

static int fill_from_cursor(struct store *store, MDB_txn *txn, MDB_cursor *cursor,
                            const struct id *run, struct event_page *page)
{
    uint8_t from[STORE_RUN_NUMBER_SIZE];
    MDB_val key = store_val(from, sizeof(from));
    MDB_val sequence;
    MDB_val record;

    store_run_number_key(from, run, page->after + 1);
    int rc = mdb_cursor_get(cursor, &key, &sequence, MDB_SET_RANGE);
    for (; rc == 0 && !page_full(page); rc = mdb_cursor_get(cursor, &key, &sequence, MDB_NEXT)) {
        if (key.mv_size != STORE_RUN_NUMBER_SIZE ||
            memcmp(key.mv_data, run->text, STORE_ID_LEN) != 0)
            return 0;
        uint64_t number = store_get_u64((const char *)key.mv_data + STORE_ID_LEN);
        rc = mdb_get(txn, store->dbi[STORE_EVENTS], &sequence, &record);
        if (rc == MDB_NOTFOUND) {
            log_error(run->text, "event %llu is missing", (unsigned long long)number);
            page->after = number;
        } else if (rc == 0) {
            page_add(page, run, number, record.mv_data, record.mv_size);
        } else {
            return rc;
        }
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int fill_from_disk(struct store *store, const struct id *run, struct event_page *page,
                          struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_EVENT_INDEX], &cursor);
    if (rc == 0) {
        rc = fill_from_cursor(store, txn, cursor, run, page);
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read events");
}

static void fill_from_batch(struct store *store, const struct id *run, struct event_page *page)
{
    struct batch_run *owner = batch_find(&store->events, run);

    if (owner == NULL || owner->newest <= page->after)
        return;
    LIST_EACH(&owner->events, link) {
        struct pending_event *event = LIST_ENTRY(link, struct pending_event, run_link);

        if (page_full(page))
            return;
        if (event->number > page->after)
            page_add(page, run, event->number, event->record.data, event->record.len);
    }
}

static bool hand_out(const struct event_page *page,
                     bool (*each)(void *data, const struct event_record *event), void *data)
{
    for (size_t i = 0; i < page->count; i++) {
        if (!each(data, &page->events[i]))
            return false;
    }
    return true;
}

int store_event_each(struct store *store, const struct id *run, uint64_t after, size_t limit,
                     bool (*each)(void *data, const struct event_record *event), void *data,
                     struct error *err)
{
    size_t left = limit != 0 ? limit : SIZE_MAX;
    bool more = after != UINT64_MAX;

    while (more && left > 0) {
        struct event_page *page = NEW(struct event_page);

        page->after = after;
        page->want = left < PAGE_EVENTS ? left : PAGE_EVENTS;
        int result = fill_from_disk(store, run, page, err);
        if (result == 0)
            fill_from_batch(store, run, page);
        more = result == 0 && page_full(page);
        if (result == 0 && !hand_out(page, each, data))
            more = false;
        left -= page->count;
        after = page->after;
        page_finish(page);
        free(page);
        if (result < 0)
            return -1;
    }
    return 0;
}

/* Removing ------------------------------------------------------------------------------------ */

int store_events_remove(struct store *store, MDB_txn *txn, const struct id *run)
{
    uint8_t from[STORE_RUN_NUMBER_SIZE];
    uint8_t sequence_key[8];
    MDB_cursor *cursor;
    MDB_val sequence;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_EVENT_INDEX], &cursor);

    if (rc != 0)
        return rc;
    store_run_number_key(from, run, 0);
    for (;;) {
        MDB_val key = store_val(from, sizeof(from));

        rc = mdb_cursor_get(cursor, &key, &sequence, MDB_SET_RANGE);
        if (rc != 0 || memcmp(key.mv_data, run->text, STORE_ID_LEN) != 0)
            break;
        memcpy(sequence_key, sequence.mv_data, sizeof(sequence_key));
        sequence = store_val(sequence_key, sizeof(sequence_key));
        rc = mdb_del(txn, store->dbi[STORE_EVENTS], &sequence, NULL);
        if (rc == 0 || rc == MDB_NOTFOUND)
            rc = mdb_cursor_del(cursor, 0);
        if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}
