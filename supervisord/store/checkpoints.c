#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "store/store_internal.h"

enum { KEY_SIZE = STORE_ID_LEN + 4, PAGE = 32 };

static void put_key(uint8_t to[KEY_SIZE], const struct id *session, uint32_t number)
{
    memcpy(to, session->text, STORE_ID_LEN);
    store_put_u32(to + STORE_ID_LEN, number);
}

static bool is_of(const MDB_val *key, const struct id *session)
{
    return key->mv_size == KEY_SIZE && memcmp(key->mv_data, session->text, STORE_ID_LEN) == 0;
}

static uint32_t number_of(const MDB_val *key)
{
    return store_get_u32((const uint8_t *)key->mv_data + STORE_ID_LEN);
}

/* Writing ------------------------------------------------------------------------------------- */

static int remove_below(struct store *store, MDB_txn *txn, const struct id *session, uint32_t end)
{
    uint8_t bytes[KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));
    MDB_val value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_CHECKPOINTS], &cursor);

    if (rc != 0)
        return rc;
    put_key(bytes, session, 0);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0 && is_of(&key, session) && number_of(&key) < end) {
        rc = mdb_cursor_del(cursor, 0);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_checkpoints_remove(struct store *store, MDB_txn *txn, const struct id *session)
{
    return remove_below(store, txn, session, UINT32_MAX);
}

struct checkpoint_write {
    const struct id *session;
    const struct checkpoint_record *checkpoint;
    uint32_t keep_from;
};

static int add(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    const struct checkpoint_write *write = data;
    uint8_t bytes[KEY_SIZE];
    AUTO_BUF struct buf record = { 0 };
    MDB_val key = store_val(bytes, sizeof(bytes));
    MDB_val session = store_id_val(write->session);
    MDB_val value;
    int rc = mdb_get(txn, store->dbi[STORE_SESSIONS], &session, &value);

    if (rc == MDB_NOTFOUND) {
        error_set(err, ERR_NOT_FOUND, 0, "no session %s", write->session->text);
        return STORE_REFUSED;
    }
    buf_init(&record, STORE_RECORD_MAX);
    checkpoint_record_encode(write->checkpoint, &record);
    if (record.failed) {
        error_set(err, ERR_LIMIT, 0, "a checkpoint's record is too large");
        return STORE_REFUSED;
    }
    value = store_val(record.data, record.len);
    put_key(bytes, write->session, write->checkpoint->number);
    if (rc == 0)
        rc = remove_below(store, txn, write->session, write->keep_from);
    return rc != 0 ? rc : mdb_put(txn, store->dbi[STORE_CHECKPOINTS], &key, &value, 0);
}

int store_checkpoint_add(struct store *store, const struct id *session,
                         const struct checkpoint_record *checkpoint, uint32_t keep_from,
                         struct error *err)
{
    struct checkpoint_write write = { session, checkpoint, keep_from };

    if (checkpoint->number == 0 || checkpoint->number == UINT32_MAX)
        return error_set(err, ERR_BUG, 0, "a checkpoint without a number");
    return store_write(store, add, &write, err);
}

/* Reading ------------------------------------------------------------------------------------- */

int store_checkpoint_load(struct store *store, const struct id *session, uint32_t number,
                          struct checkpoint_record *checkpoint, struct error *err)
{
    uint8_t bytes[KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));
    MDB_val value;
    MDB_txn *txn;
    int result = 0;
    int rc;

    put_key(bytes, session, number);
    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    rc = mdb_get(txn, store->dbi[STORE_CHECKPOINTS], &key, &value);
    checkpoint->number = number;
    if (rc == 0)
        result = checkpoint_record_decode(value.mv_data, value.mv_size, checkpoint, err);
    store_read_end(store);
    if (rc == MDB_NOTFOUND)
        return error_set(err, ERR_NOT_FOUND, 0, "session %s has no checkpoint %u", session->text,
                         (unsigned)number);
    return rc == 0 ? result : store_fail(store, rc, err, "read a checkpoint");
}

/* Copies that leave the transaction before anyone is called. */
struct checkpoint_page {
    struct checkpoint_record items[PAGE];
    size_t count;
    uint32_t next;
    bool ended;
};

static void page_add(struct checkpoint_page *page, const MDB_val *key, const MDB_val *value)
{
    struct checkpoint_record *item = &page->items[page->count];
    struct error err = ERROR_INIT;

    checkpoint_record_init(item);
    item->number = number_of(key);
    page->next = item->number + 1;
    if (checkpoint_record_decode(value->mv_data, value->mv_size, item, &err) == 0) {
        page->count++;
        return;
    }
    log_error("store", "checkpoint %u left out of a list: %s", (unsigned)item->number, err.text);
    checkpoint_record_finish(item);
}

static int page_fill(struct checkpoint_page *page, MDB_cursor *cursor, const struct id *session)
{
    uint8_t bytes[KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));
    MDB_val value;
    int rc;

    put_key(bytes, session, page->next);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; rc == 0 && is_of(&key, session) && page->count < PAGE;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))
        page_add(page, &key, &value);
    page->ended = rc == MDB_NOTFOUND || (rc == 0 && !is_of(&key, session));
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int page_read(struct checkpoint_page *page, struct store *store, const struct id *session,
                     struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    int rc;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    rc = mdb_cursor_open(txn, store->dbi[STORE_CHECKPOINTS], &cursor);
    if (rc == 0) {
        rc = page_fill(page, cursor, session);
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "list checkpoints");
}

int store_checkpoint_each(struct store *store, const struct id *session, uint32_t from,
                          bool (*each)(void *data, const struct checkpoint_record *checkpoint),
                          void *data, struct error *err)
{
    struct checkpoint_page *page = NEW(struct checkpoint_page);
    bool more = true;
    int rc = 0;

    page->next = from;
    while (rc == 0 && more && !page->ended) {
        rc = page_read(page, store, session, err);
        for (size_t i = 0; i < page->count; i++) {
            more = rc == 0 && more && each(data, &page->items[i]);
            checkpoint_record_finish(&page->items[i]);
        }
        page->count = 0;
    }
    free(page);
    return rc;
}
