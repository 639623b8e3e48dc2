#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "store/store_internal.h"

enum { PAGE_SESSIONS = 64, UID_KEY_SIZE = 4 + STORE_ID_LEN };

static void uid_key(uint8_t to[UID_KEY_SIZE], const struct session_record *session)
{
    store_put_u32(to, session->host_uid);
    memcpy(to + 4, session->id.text, STORE_ID_LEN);
}

static int load(struct store *store, MDB_txn *txn, const struct id *id,
                struct session_record *session, struct error *err)
{
    MDB_val key = store_id_val(id);
    MDB_val value;
    int rc = mdb_get(txn, store->dbi[STORE_SESSIONS], &key, &value);

    if (rc == MDB_NOTFOUND) {
        error_set(err, ERR_NOT_FOUND, 0, "no session %s", id->text);
        return STORE_REFUSED;
    }
    if (rc != 0)
        return rc;
    if (session_record_decode(value.mv_data, value.mv_size, session, err) == 0)
        return 0;
    error_wrap(err, "session %s", id->text);
    return STORE_REFUSED;
}

/* Writing ------------------------------------------------------------------------------------- */

/* A session that isn't there, or can't be read, has no uid to give back. */
static int release_uid(struct store *store, MDB_txn *txn, const struct id *id)
{
    uint8_t bytes[UID_KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));
    struct session_record old;
    struct error err;

    session_record_init(&old);
    int rc = load(store, txn, id, &old, &err);
    if (rc == 0 && old.host_uid != 0) {
        uid_key(bytes, &old);
        rc = mdb_del(txn, store->dbi[STORE_SESSION_UIDS], &key, NULL);
    }
    session_record_finish(&old);
    return rc == STORE_REFUSED || rc == MDB_NOTFOUND ? 0 : rc;
}

static int take_uid(struct store *store, MDB_txn *txn, const struct session_record *session)
{
    uint8_t bytes[UID_KEY_SIZE];
    MDB_val key = store_val(bytes, sizeof(bytes));
    MDB_val nothing = store_val("", 0);

    if (session->host_uid == 0)
        return 0;
    uid_key(bytes, session);
    return mdb_put(txn, store->dbi[STORE_SESSION_UIDS], &key, &nothing, 0);
}

static int encode(const struct session_record *session, struct buf *record, struct error *err)
{
    if (!id_parse(ID_KIND_SESSION, session->id.text, NULL))
        return error_set(err, ERR_BUG, 0, "a session's record without an id");
    buf_init(record, STORE_RECORD_MAX);
    session_record_encode(session, record);
    if (record->failed)
        return error_set(err, ERR_LIMIT, 0, "session %s: its record is larger than %d MiB",
                         session->id.text, STORE_RECORD_MAX >> 20);
    return 0;
}

int store_session_put(struct store *store, MDB_txn *txn, const struct session_record *session,
                      struct error *err)
{
    AUTO_BUF struct buf record = { 0 };
    MDB_val key = store_id_val(&session->id);

    if (encode(session, &record, err) < 0)
        return STORE_REFUSED;
    MDB_val value = store_val(record.data, record.len);
    int rc = release_uid(store, txn, &session->id);
    if (rc == 0)
        rc = take_uid(store, txn, session);
    return rc != 0 ? rc : mdb_put(txn, store->dbi[STORE_SESSIONS], &key, &value, 0);
}

struct session_write {
    const struct session_record *session;
};

static int update(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    const struct session_write *write = data;

    return store_session_put(store, txn, write->session, err);
}

int store_session_update(struct store *store, const struct session_record *session,
                         struct error *err)
{
    struct session_write write = { session };

    return store_write(store, update, &write, err);
}

struct session_delete {
    const struct id *id;
};

static int delete_all(struct store *store, MDB_txn *txn, void *data, struct error *err)
{
    const struct session_delete *delete = data;
    MDB_val key = store_id_val(delete->id);
    MDB_val value;

    int rc = mdb_get(txn, store->dbi[STORE_SESSIONS], &key, &value);
    if (rc == MDB_NOTFOUND) {
        error_set(err, ERR_NOT_FOUND, 0, "no session %s", delete->id->text);
        return STORE_REFUSED;
    }
    if (rc == 0)
        rc = store_runs_remove(store, txn, delete->id);
    if (rc == 0)
        rc = store_checkpoints_remove(store, txn, delete->id);
    if (rc == 0)
        rc = release_uid(store, txn, delete->id);
    return rc != 0 ? rc : mdb_del(txn, store->dbi[STORE_SESSIONS], &key, NULL);
}

int store_session_delete(struct store *store, const struct id *id, struct error *err)
{
    struct session_delete delete = { id };

    return store_write(store, delete_all, &delete, err);
}

/* Reading ------------------------------------------------------------------------------------- */

int store_session_load(struct store *store, const struct id *id, struct session_record *session,
                       struct error *err)
{
    MDB_txn *txn;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = load(store, txn, id, session, err);
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "read a session");
}

int store_session_count(struct store *store, uint64_t *count, struct error *err)
{
    MDB_txn *txn;
    MDB_stat stat;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_stat(txn, store->dbi[STORE_SESSIONS], &stat);
    store_read_end(store);
    if (rc != 0)
        return store_fail(store, rc, err, "count sessions");
    *count = stat.ms_entries;
    return 0;
}

/* Copies that leave the transaction before anyone is called. */
struct session_page {
    struct session_record sessions[PAGE_SESSIONS];
    size_t count;
    size_t want;
    bool ended;
    char below[STORE_ID_LEN]; /* ids looked at so far are not below this one */
    bool below_set;
};

/* A damaged record costs itself only. */
static void page_add(struct session_page *page, const MDB_val *key, const MDB_val *value)
{
    struct session_record *session = &page->sessions[page->count];
    struct error err;

    memcpy(page->below, key->mv_data, STORE_ID_LEN);
    page->below_set = true;
    session_record_init(session);
    if (session_record_decode(value->mv_data, value->mv_size, session, &err) == 0) {
        page->count++;
        return;
    }
    log_error("store", "session %.*s left out of a list: %s", STORE_ID_LEN, page->below, err.text);
    session_record_finish(session);
}

static int page_fill(struct session_page *page, MDB_cursor *cursor)
{
    MDB_val key;
    MDB_val value;
    int rc = store_seek_below(cursor, "", 0, page->below_set ? page->below : NULL, STORE_ID_LEN,
                              &key, &value);

    for (; rc == 0 && page->count < page->want;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_PREV)) {
        if (key.mv_size != STORE_ID_LEN)
            return MDB_CORRUPTED;
        page_add(page, &key, &value);
    }
    page->ended = rc == MDB_NOTFOUND;
    return page->ended ? 0 : rc;
}

static int page_read(struct session_page *page, struct store *store, struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_SESSIONS], &cursor);
    if (rc == 0) {
        rc = page_fill(page, cursor);
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    return rc == 0 ? 0 : store_fail(store, rc, err, "list sessions");
}

static bool page_hand_out(const struct session_page *page,
                          bool (*each)(void *data, const struct session_record *session),
                          void *data)
{
    for (size_t i = 0; i < page->count; i++) {
        if (!each(data, &page->sessions[i]))
            return false;
    }
    return true;
}

static void page_clear(struct session_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        session_record_finish(&page->sessions[i]);
    page->count = 0;
}

int store_session_each(struct store *store, const struct id *before, size_t limit,
                       bool (*each)(void *data, const struct session_record *session), void *data,
                       struct error *err)
{
    struct session_page *page = NEW(struct session_page);
    size_t left = limit != 0 ? limit : SIZE_MAX;
    int result = 0;

    if (before != NULL) {
        memcpy(page->below, before->text, STORE_ID_LEN);
        page->below_set = true;
    }
    while (result == 0 && left > 0 && !page->ended) {
        page->want = left < PAGE_SESSIONS ? left : PAGE_SESSIONS;
        result = page_read(page, store, err);
        if (result == 0 && !page_hand_out(page, each, data))
            left = 0;
        else
            left -= page->count;
        page_clear(page);
    }
    free(page);
    return result;
}

/* Uids ---------------------------------------------------------------------------------------- */

/* The index is in the order of uids: the first gap in it is free. */
static int first_gap(MDB_cursor *cursor, uint32_t base, uint32_t count, uint32_t *offset)
{
    uint8_t from[4];
    MDB_val key = store_val(from, sizeof(from));
    MDB_val value;
    uint32_t free_offset = 0;

    store_put_u32(from, base);
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (; rc == 0 && free_offset < count; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        uint32_t used = store_get_u32(key.mv_data) - base;

        if (used > free_offset)
            break;
        if (used == free_offset)
            free_offset++;
    }
    *offset = free_offset;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_session_free_slot(struct store *store, uint32_t base, uint32_t count, uint32_t *uid,
                            struct error *err)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    uint32_t offset = 0;

    if (store_read_begin(store, &txn, err) < 0)
        return -1;
    int rc = mdb_cursor_open(txn, store->dbi[STORE_SESSION_UIDS], &cursor);
    if (rc == 0) {
        rc = first_gap(cursor, base, count, &offset);
        mdb_cursor_close(cursor);
    }
    store_read_end(store);
    if (rc != 0)
        return store_fail(store, rc, err, "look for a free uid");
    if (offset >= count)
        return error_set(err, ERR_LIMIT, 0,
                         "all %u host uids from %u on belong to sessions: delete some", count,
                         base);
    *uid = base + offset;
    return 0;
}
