#include <string.h>

#include "store/store_internal.h"

int store_notice_set(struct store *store, MDB_txn *txn, const struct run_record *run)
{
    MDB_val key = store_id_val(&run->id);
    MDB_val nothing = store_val("", 0);
    int rc = run->notice_due != 0 ? mdb_put(txn, store->dbi[STORE_NOTICES], &key, &nothing, 0)
                                  : mdb_del(txn, store->dbi[STORE_NOTICES], &key, NULL);

    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_notice_remove(struct store *store, MDB_txn *txn, const struct id *run)
{
    MDB_val key = store_id_val(run);
    int rc = mdb_del(txn, store->dbi[STORE_NOTICES], &key, NULL);

    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int read_ids(MDB_cursor *cursor, struct id *runs, size_t size, size_t *count)
{
    MDB_val key;
    MDB_val value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);

    while (rc == 0 && *count < size) {
        if (key.mv_size != STORE_ID_LEN)
            return MDB_CORRUPTED;
        memcpy(runs[*count].text, key.mv_data, STORE_ID_LEN);
        runs[(*count)++].text[STORE_ID_LEN] = '\0';
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_notices_due(struct store *store, struct id *runs, size_t size, size_t *count,
                      struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;

    *count = 0;
    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_NOTICES], &cursor);
    if (rc == 0) {
        rc = read_ids(cursor, runs, size, count);
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read the notices that are due");
}
