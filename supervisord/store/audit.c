#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "store/store_internal.h"

enum { PAGE_RECORDS = 64 };

struct pending_audit {
    struct list link; /* audit_batch::order */
    uint64_t number;
    struct id run;
    struct buf record;
};

static size_t pending_size(const struct pending_audit *audit)
{
    return sizeof(*audit) + audit->record.cap;
}

static void pending_free(struct audit_batch *batch, struct pending_audit *audit)
{
    batch->bytes -= pending_size(audit);
    list_remove(&audit->link);
    buf_finish(&audit->record);
    free(audit);
}

void store_audit_written(struct store *store)
{
    LIST_EACH(&store->audit.order, link)
        pending_free(&store->audit, LIST_ENTRY(link, struct pending_audit, link));
}

void store_audit_finish(struct store *store)
{
    store_audit_written(store);
}

int store_audit_init(struct store *store, struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key;
    MDB_val value;

    store->audit.max_bytes = STORE_AUDIT_BATCH_MAX;
    store->audit.next_number = 1;
    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_AUDIT], &cursor);
    if (rc == 0) {
        rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
        if (rc == 0)
            store->audit.next_number = store_get_u64(key.mv_data) + 1;
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    return rc == 0 || rc == MDB_NOTFOUND ? 0 : store_fail(store, rc, err, "read the audit records");
}

/* Writing ------------------------------------------------------------------------------------- */

static int write_record(struct store *store, MDB_txn *txn, const struct pending_audit *audit)
{
    uint8_t number_key[8];
    uint8_t run_key[STORE_RUN_NUMBER_SIZE];
    MDB_val key = store_val(number_key, sizeof(number_key));
    MDB_val value = store_val(audit->record.data, audit->record.len);

    store_put_u64(number_key, audit->number);
    int rc = mdb_put(txn, store->dbi[STORE_AUDIT], &key, &value, MDB_APPEND);
    if (rc == MDB_KEYEXIST) /* there already: a commit that reported failure had reached the disk */
        return 0;
    if (rc != 0 || audit->run.text[0] == '\0')
        return rc;
    store_run_number_key(run_key, &audit->run, audit->number);
    key = store_val(run_key, sizeof(run_key));
    value = store_val("", 0);
    return mdb_put(txn, store->dbi[STORE_AUDIT_RUNS], &key, &value, 0);
}

int store_audit_write(struct store *store, MDB_txn *txn)
{
    LIST_EACH(&store->audit.order, link) {
        int rc = write_record(store, txn, LIST_ENTRY(link, struct pending_audit, link));

        if (rc != 0)
            return rc;
    }
    return 0;
}

static void drop_oldest(struct audit_batch *batch)
{
    while (batch->bytes > batch->max_bytes && !list_empty(&batch->order)) {
        pending_free(batch, LIST_ENTRY(batch->order.next, struct pending_audit, link));
        batch->dropped++;
        if ((batch->dropped & (batch->dropped - 1)) == 0) /* 1, 2, 4, 8 … */
            log_warn("store", "%llu audit records dropped: the database can't be written",
                     (unsigned long long)batch->dropped);
    }
}

int store_audit_append(struct store *store, struct audit_record *audit, struct error *err)
{
    struct audit_batch *batch = &store->audit;
    struct buf record;

    if (audit->run.text[0] != '\0' && !id_parse(ID_KIND_RUN, audit->run.text, NULL))
        return error_set(err, ERR_BUG, 0, "an audit record with a wrong run id");
    buf_init(&record, STORE_RECORD_MAX);
    audit_record_encode(audit, &record);
    if (record.failed) {
        buf_finish(&record);
        return error_set(err, ERR_LIMIT, 0, "an audit record is larger than %d MiB",
                         STORE_RECORD_MAX >> 20);
    }
    struct pending_audit *pending = NEW(struct pending_audit);
    pending->number = audit->number = batch->next_number++;
    pending->run = audit->run;
    pending->record = record;
    list_append(&batch->order, &pending->link);
    batch->bytes += pending_size(pending);
    drop_oldest(batch);
    return 0;
}

/* Reading ------------------------------------------------------------------------------------- */

/* Copies that leave the transaction before anyone is called. */
struct audit_page {
    struct audit_record records[PAGE_RECORDS];
    size_t count;
    size_t want;
    bool ended;
    const struct id *run;
    bool forward;
    uint64_t edge; /* the last number looked at: all further ones lie below, or above if forward */
};

/* A damaged record costs itself only. */
static void page_add(struct audit_page *page, uint64_t number, const void *data, size_t len)
{
    struct audit_record *audit = &page->records[page->count];
    struct error err;

    page->edge = number;
    audit_record_init(audit);
    audit->number = number;
    if (audit_record_decode(data, len, audit, &err) == 0) {
        page->count++;
        return;
    }
    log_error("store", "audit record %llu left out: %s", (unsigned long long)number, err.text);
    audit_record_finish(audit);
}

static bool page_wants(const struct audit_page *page, const struct pending_audit *audit)
{
    return (page->forward ? audit->number > page->edge : audit->number < page->edge) &&
           (page->run == NULL || memcmp(page->run->text, audit->run.text, STORE_ID_LEN) == 0);
}

static void fill_from_batch(struct audit_page *page, const struct store *store)
{
    const struct list *head = &store->audit.order;

    for (struct list *link = page->forward ? head->next : head->prev;
         link != head && page->count < page->want; link = page->forward ? link->next : link->prev) {
        struct pending_audit *audit = LIST_ENTRY(link, struct pending_audit, link);

        if (page_wants(page, audit))
            page_add(page, audit->number, audit->record.data, audit->record.len);
    }
}

/* KEY ends in the number, in the index by run as in the records themselves. */
static int fill_record(struct audit_page *page, struct store *store, MDB_txn *txn,
                       const MDB_val *key)
{
    size_t prefix_len = page->run != NULL ? STORE_ID_LEN : 0;
    MDB_val record_key;
    MDB_val record;

    if (key->mv_size != prefix_len + 8)
        return MDB_CORRUPTED;
    record_key = store_val((const char *)key->mv_data + prefix_len, 8);
    uint64_t number = store_get_u64(record_key.mv_data);
    int rc = mdb_get(txn, store->dbi[STORE_AUDIT], &record_key, &record);
    if (rc == 0) {
        page_add(page, number, record.mv_data, record.mv_size);
    } else if (rc == MDB_NOTFOUND) {
        log_error("store", "audit record %llu is missing", (unsigned long long)number);
        page->edge = number;
        rc = 0;
    }
    return rc;
}

/* The first record on disk in the page's direction. */
static int page_seek(const struct audit_page *page, MDB_cursor *cursor, const char *prefix,
                     size_t prefix_len, MDB_val *key, MDB_val *value)
{
    uint8_t bound[STORE_RUN_NUMBER_SIZE];

    if (!page->forward) {
        store_put_u64(bound, page->edge);
        return store_seek_below(cursor, prefix, prefix_len, bound, 8, key, value);
    }
    memcpy(bound, prefix, prefix_len);
    store_put_u64(bound + prefix_len, page->edge + 1);
    *key = store_val(bound, prefix_len + 8);
    return mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
}

static int fill_from_cursor(struct audit_page *page, struct store *store, MDB_txn *txn,
                            MDB_cursor *cursor)
{
    size_t prefix_len = page->run != NULL ? STORE_ID_LEN : 0;
    const char *prefix = page->run != NULL ? page->run->text : "";
    MDB_val key;
    MDB_val value;
    int rc = page_seek(page, cursor, prefix, prefix_len, &key, &value);

    while (rc == 0 && page->count < page->want) {
        if (key.mv_size < prefix_len || memcmp(key.mv_data, prefix, prefix_len) != 0)
            rc = MDB_NOTFOUND;
        else
            rc = fill_record(page, store, txn, &key);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, page->forward ? MDB_NEXT : MDB_PREV);
    }
    page->ended = rc == MDB_NOTFOUND;
    return page->ended ? 0 : rc;
}

static int fill_from_disk(struct audit_page *page, struct store *store, struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_dbi dbi = store->dbi[page->run != NULL ? STORE_AUDIT_RUNS : STORE_AUDIT];

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_cursor_open(txn, dbi, &cursor);
    if (rc == 0) {
        rc = fill_from_cursor(page, store, txn, cursor);
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read audit records");
}

/* What is batched is newer than all that is on disk. */
static int page_read(struct audit_page *page, struct store *store, struct error *err)
{
    if (!page->forward)
        fill_from_batch(page, store);
    if (page->count < page->want && fill_from_disk(page, store, err) < 0)
        return -1;
    if (page->forward && page->ended) {
        fill_from_batch(page, store);
        page->ended = page->count < page->want;
    }
    return 0;
}

static bool page_hand_out(const struct audit_page *page,
                          bool (*each)(void *data, const struct audit_record *audit), void *data)
{
    for (size_t i = 0; i < page->count; i++) {
        if (!each(data, &page->records[i]))
            return false;
    }
    return true;
}

static void page_clear(struct audit_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        audit_record_finish(&page->records[i]);
    page->count = 0;
}

/* PAGE says where to begin and in which direction. */
static int each_page(struct store *store, struct audit_page *page, size_t limit,
                     bool (*each)(void *data, const struct audit_record *audit), void *data,
                     struct error *err)
{
    size_t left = limit != 0 ? limit : SIZE_MAX;
    bool more = true;
    int result = 0;

    while (result == 0 && more && left > 0) {
        page->want = left < PAGE_RECORDS ? left : PAGE_RECORDS;
        page->ended = false;
        result = page_read(page, store, err);
        more = result == 0 && page_hand_out(page, each, data) && !page->ended;
        left -= page->count;
        page_clear(page);
    }
    return result;
}

int store_audit_each(struct store *store, const struct id *run, uint64_t before, size_t limit,
                     bool (*each)(void *data, const struct audit_record *audit), void *data,
                     struct error *err)
{
    struct audit_page *page = NEW(struct audit_page);
    int result;

    page->run = run;
    page->edge = before != 0 ? before : UINT64_MAX;
    result = each_page(store, page, limit, each, data, err);
    free(page);
    return result;
}

int store_audit_after(struct store *store, const struct id *run, uint64_t after, size_t limit,
                      bool (*each)(void *data, const struct audit_record *audit), void *data,
                      struct error *err)
{
    struct audit_page *page = NEW(struct audit_page);
    int result = 0;

    page->run = run;
    page->forward = true;
    page->edge = after;
    if (after != UINT64_MAX)
        result = each_page(store, page, limit, each, data, err);
    free(page);
    return result;
}
