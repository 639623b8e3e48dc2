#include <string.h>

#include "store/store_internal.h"

enum { DIFF_VERSION = 1 };

struct diff_write {
    const struct id *run;
    const void *data;
    size_t len;
};

static int put_diff(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    const struct diff_write *write = data;
    MDB_val key = store_id_val(write->run);
    MDB_val value = { write->len + 1, NULL };
    int rc = store_run_exists(store, txn, write->run);

    if (rc == MDB_NOTFOUND) {
        error_set(err, ERR_NOT_FOUND, 0, "no run %s", write->run->text);
        return STORE_REFUSED;
    }
    if (rc == 0)
        rc = mdb_put(txn, store->dbi[STORE_DIFFS], &key, &value, MDB_RESERVE);
    if (rc != 0)
        return rc;
    uint8_t *to = value.mv_data;
    to[0] = DIFF_VERSION;
    if (write->len > 0)
        memcpy(to + 1, write->data, write->len);
    return 0;
}

int store_diff_put(struct store *store, const struct id *run, const void *data, size_t len,
                   struct error *err)
{
    struct diff_write write = { run, data, len };

    if (len > STORE_DIFF_MAX)
        return error_set(err, ERR_LIMIT, 0, "run %s: a diff of %zu bytes is larger than %u MiB",
                         run->text, len, (unsigned)(STORE_DIFF_MAX >> 20));
    return store_write(store, put_diff, &write, err);
}

int store_diff_load(struct store *store, const struct id *run, struct buf *out, struct error *err)
{
    MDB_txn *txn;
    MDB_val key = store_id_val(run);
    MDB_val value;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_get(txn, store->dbi[STORE_DIFFS], &key, &value);
    bool known = rc == 0 && value.mv_size > 0 && *(const uint8_t *)value.mv_data == DIFF_VERSION;
    if (known)
        buf_append(out, (const char *)value.mv_data + 1, value.mv_size - 1);
    store_read_end(store);
    if (rc == MDB_NOTFOUND)
        return error_set(err, ERR_NOT_FOUND, 0, "run %s has no diff", run->text);
    if (rc != 0)
        return store_fail(store, rc, err, "read a diff");
    if (!known)
        return error_set(err, ERR_BUG, 0, "run %s: damaged diff", run->text);
    return out->failed
               ? error_set(err, ERR_LIMIT, 0, "run %s: its diff is too large here", run->text)
               : 0;
}

int store_diff_remove(struct store *store, MDB_txn *txn, const struct id *run)
{
    MDB_val key = store_id_val(run);
    int rc = mdb_del(txn, store->dbi[STORE_DIFFS], &key, NULL);

    return rc == MDB_NOTFOUND ? 0 : rc;
}
