#include <lmdb.h>

#include "common/log.h"
#include "common/mem.h"
#include "store/store_internal.h"

/* The order is enum store_db's. */
static const char *const names[] = {
    "meta",        "runs",  "run_sessions", "run_states",   "run_keys",
    "run_counts",  "diffs", "sessions",     "session_uids", "events",
    "event_index", "audit", "audit_runs",   "notices",      "checkpoints",
};
_Static_assert(ARRAY_LEN(names) == STORE_DB_COUNT, "a name for each sub-database");

int store_open_databases(struct store *store, MDB_txn *txn, unsigned flags)
{
    for (size_t i = 0; i < STORE_DB_COUNT; i++) {
        int rc = mdb_dbi_open(txn, names[i], flags, &store->dbi[i]);

        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Makes the sub-databases that are missing: all that a schema with new ones needs. */
static int make_databases(struct store *store, MDB_txn *txn)
{
    return store_open_databases(store, txn, MDB_CREATE);
}

/* Step N brings schema N to N + 1. Schema 0 is an environment without anything. */
static const struct migration {
    const char *what;
    int (*step)(struct store *store, MDB_txn *txn);
} migrations[] = {
    { "make the first schema", make_databases },
    { "keep which runs are to be told of", make_databases },
    { "make room for checkpoints", make_databases },
};

uint32_t store_schema_version(void)
{
    return (uint32_t)ARRAY_LEN(migrations);
}

static int read_schema(struct store *store, MDB_txn *txn, uint32_t *schema)
{
    MDB_val key = store_val("schema", 6);
    MDB_val value;
    int rc = mdb_dbi_open(txn, names[STORE_META], MDB_CREATE, &store->dbi[STORE_META]);

    if (rc == 0)
        rc = mdb_get(txn, store->dbi[STORE_META], &key, &value);
    if (rc == MDB_NOTFOUND) {
        *schema = 0;
        return 0;
    }
    if (rc == 0 && value.mv_size != 4)
        return MDB_CORRUPTED;
    if (rc == 0)
        *schema = store_get_u32(value.mv_data);
    return rc;
}

static int write_schema(struct store *store, MDB_txn *txn, uint32_t schema)
{
    uint8_t number[4];
    MDB_val key = store_val("schema", 6);
    MDB_val value = store_val(number, sizeof(number));

    store_put_u32(number, schema);
    return mdb_put(txn, store->dbi[STORE_META], &key, &value, 0);
}

/* All steps are one transaction: an upgrade that is cut short leaves the old schema whole. */
static int migrate(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    uint32_t newest = store_schema_version();
    uint32_t schema;
    int rc = read_schema(store, txn, &schema);

    (void)data;
    if (rc != 0)
        return rc;
    if (schema > newest) {
        error_set(err, ERR_INVALID, 0,
                  "it has schema %u, made by a newer version; this one knows up to %u", schema,
                  newest);
        return STORE_REFUSED;
    }
    for (uint32_t from = schema; from < newest; from++) {
        if (from != 0)
            log_info("store", "schema %u to %u: %s", from, from + 1, migrations[from].what);
        rc = migrations[from].step(store, txn);
        if (rc != 0)
            return rc;
    }
    if (schema < newest)
        rc = write_schema(store, txn, newest);
    return rc != 0 ? rc : store_open_databases(store, txn, 0);
}

int store_migrate(struct store *store, struct error *err)
{
    return store_write(store, migrate, NULL, err);
}
