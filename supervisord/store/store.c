#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/paths.h"
#include "common/str.h"
#include "store/store_internal.h"

enum {
    MAP_TRIES = 16,       /* doublings in one write: more than any write needs */
    FULL_BYTES = 1 << 20, /* a write that failed with less than this free failed for want of room */
    LOCK_FILE_BYTES = 16 << 10,
};

#define MAP_DEFAULT_BYTES (64ull << 30)
#define MAP_SMALLEST_BYTES (1ull << 20)

void store_put_u32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

void store_put_u64(uint8_t *to, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (56 - 8 * i));
}

uint32_t store_get_u32(const void *from)
{
    const uint8_t *bytes = from;
    uint32_t value = 0;

    for (unsigned i = 0; i < 4; i++)
        value = value << 8 | bytes[i];
    return value;
}

uint64_t store_get_u64(const void *from)
{
    const uint8_t *bytes = from;
    uint64_t value = 0;

    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

void store_run_number_key(uint8_t to[STORE_RUN_NUMBER_SIZE], const struct id *run, uint64_t number)
{
    memcpy(to, run->text, STORE_ID_LEN);
    store_put_u64(to + STORE_ID_LEN, number);
}

/* Errors -------------------------------------------------------------------------------------- */

/* A write that ends early, since the file system just became full or the file may not grow, reaches
 * us as EIO. */
static bool short_of_room(const struct store *store)
{
    AUTO_FREE
    char *path = mem_printf("%s/data.mdb", store->directory);
    struct statvfs fs;
    struct stat status;
    struct rlimit limit;

    if (statvfs(store->directory, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < FULL_BYTES)
        return true;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           stat(path, &status) == 0 && (uint64_t)status.st_size >= limit.rlim_cur;
}

static bool disk_is_full(const struct store *store, int rc)
{
    return rc == ENOSPC || rc == EDQUOT || rc == EFBIG || (rc == EIO && short_of_room(store));
}

int store_fail(struct store *store, int rc, struct error *err, const char *doing)
{
    if (rc == STORE_REFUSED)
        return -1;
    if (disk_is_full(store, rc))
        return error_set(err, ERR_LIMIT, 0, "%s: disk full", doing);
    if (rc == MDB_MAP_FULL)
        return error_set(err, ERR_LIMIT, 0, "%s: the database can't grow", doing);
    if (rc > 0)
        return error_set(err, ERR_SYSTEM, rc, "%s", doing);
    if (rc == MDB_NOTFOUND || rc == MDB_KEYEXIST)
        return error_set(err, ERR_BUG, 0, "%s: an index of the database is wrong: %s", doing,
                         mdb_strerror(rc));
    return error_set(err, ERR_SYSTEM, 0, "%s: %s", doing, mdb_strerror(rc));
}

/* The environment ----------------------------------------------------------------------------- */

static void env_close(struct store *store)
{
    if (store->reader != NULL)
        mdb_txn_abort(store->reader);
    store->reader = NULL;
    if (store->env != NULL)
        mdb_env_close(store->env);
    store->env = NULL;
}

/* LMDB opens the data file so that programs we start would inherit it, for reading and writing. */
static int keep_from_children(MDB_env *env)
{
    mdb_filehandle_t fd;
    int rc = mdb_env_get_fd(env, &fd);

    if (rc == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        rc = errno;
    return rc;
}

static int env_try(struct store *store, uint64_t map_size_bytes)
{
    int rc = mdb_env_create(&store->env);

    if (rc != 0)
        return rc;
    rc = mdb_env_set_mapsize(store->env, (size_t)map_size_bytes);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(store->env, STORE_DB_COUNT);
    if (rc == 0)
        rc = mdb_env_open(store->env, store->directory, MDB_NOTLS, 0600);
    if (rc == 0)
        rc = keep_from_children(store->env);
    if (rc != 0)
        env_close(store);
    return rc;
}

/* Address space may be limited (ulimit -v, small machines): then half as much, and so on. */
static int env_open(struct store *store)
{
    uint64_t size = store->map_size_bytes;
    int rc = env_try(store, size);

    while (rc == ENOMEM && size / 2 >= MAP_SMALLEST_BYTES) {
        size /= 2;
        rc = env_try(store, size);
    }
    if (rc != 0)
        return rc;
    store->map_size_bytes = size;
    int dead;
    rc = mdb_reader_check(store->env, &dead);
    if (rc == 0)
        rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->reader);
    if (rc != 0) {
        env_close(store);
        return rc;
    }
    mdb_txn_reset(store->reader);
    return 0;
}

/* After a failed write of a meta page LMDB refuses everything until it is opened anew, and so it is
 * after a failed resize. */
static int env_reopen(struct store *store)
{
    MDB_txn *txn;

    env_close(store);
    int rc = env_open(store);
    if (rc == 0)
        rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    rc = store_open_databases(store, txn, 0);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn); /* keeps the handles */
}

static int grow_map(struct store *store)
{
    uint64_t smaller = store->map_size_bytes;

    if (smaller > SIZE_MAX / 2)
        return MDB_MAP_FULL;
    if (mdb_env_set_mapsize(store->env, (size_t)(smaller * 2)) == 0) {
        store->map_size_bytes = smaller * 2;
        log_info("store", "map grown to %llu KiB",
                 (unsigned long long)(store->map_size_bytes >> 10));
        return 0;
    }
    int rc = env_reopen(store);
    return rc != 0 ? rc : MDB_MAP_FULL;
}

/* Transactions -------------------------------------------------------------------------------- */

static int commit(struct store *store, MDB_txn *txn)
{
    int rc = store->fault != NULL ? store->fault(store->fault_data) : 0;

    store->changes++;
    if (rc == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int write_once(struct store *store,
                      int (*apply)(struct store *, MDB_txn *, void *, struct error *), void *data,
                      struct error *err)
{
    MDB_txn *txn;

    if (store->env == NULL) { /* an earlier reopening failed */
        int rc = env_reopen(store);
        if (rc != 0)
            return rc;
    }
    int rc = mdb_txn_begin(store->env, NULL, 0, &txn);
    if (rc != 0)
        return rc;
    rc = store_events_write(store, txn);
    if (rc == 0)
        rc = store_audit_write(store, txn);
    if (rc == 0 && apply != NULL)
        rc = apply(store, txn, data, err);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    return commit(store, txn);
}

int store_write(struct store *store,
                int (*apply)(struct store *, MDB_txn *, void *, struct error *), void *data,
                struct error *err)
{
    bool reopened = false;

    for (unsigned tries = 0; tries < MAP_TRIES; tries++) {
        int rc = write_once(store, apply, data, err);

        if (rc == 0) {
            store_events_written(store);
            store_audit_written(store);
            return 0;
        }
        if (rc == MDB_MAP_FULL)
            rc = grow_map(store);
        else if (rc == MDB_PANIC && !reopened) {
            reopened = true;
            rc = env_reopen(store);
        }
        if (rc != 0)
            return store_fail(store, rc, err, "write to the database");
    }
    return store_fail(store, MDB_MAP_FULL, err, "write to the database");
}

int store_read_begin(struct store *store, MDB_txn **txn, struct error *err)
{
    int rc = store->env != NULL ? 0 : env_reopen(store);

    if (rc == 0)
        rc = mdb_txn_renew(store->reader);
    if (rc == MDB_PANIC) {
        rc = env_reopen(store);
        if (rc == 0)
            rc = mdb_txn_renew(store->reader);
    }
    if (rc != 0)
        return store_fail(store, rc, err, "read the database");
    *txn = store->reader;
    return 0;
}

void store_read_end(struct store *store)
{
    mdb_txn_reset(store->reader);
}

int store_seek_below(MDB_cursor *cursor, const void *prefix, size_t prefix_len, const void *bound,
                     size_t bound_len, MDB_val *key, MDB_val *value)
{
    uint8_t from[256];
    size_t len = prefix_len;

    BUG_ON(prefix_len + bound_len + 1 > sizeof(from));
    memcpy(from, prefix, prefix_len);
    if (bound != NULL) {
        memcpy(from + len, bound, bound_len);
        len += bound_len;
    } else {
        from[len++] =
            0xff; /* no key goes on with this byte: ids are ASCII, numbers stay far below 2^63 */
    }
    *key = store_val(from, len);
    int rc = mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    rc = mdb_cursor_get(cursor, key, value, rc == MDB_NOTFOUND ? MDB_LAST : MDB_PREV);
    if (rc == 0 && (key->mv_size < prefix_len || memcmp(key->mv_data, prefix, prefix_len) != 0))
        return MDB_NOTFOUND;
    return rc;
}

/* Open and close ------------------------------------------------------------------------------ */

/* The lock file stays, and its text is the owner's pid; only the lock on it means something. */
static int lock_directory(struct store *store, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/lock", store->directory);
    char text[32] = "";
    AUTO_CLOSE
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return error_set(err, ERR_SYSTEM, errno, "lock %s", path);
        uint64_t pid;
        ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
        if (len > 0)
            text[strcspn(text, "\n")] = '\0';
        if (len > 0 && str_parse_u64(text, INT32_MAX, &pid))
            return error_set(err, ERR_CONFLICT, 0,
                             "another supervisor, process %s, is running on it", text);
        return error_set(err, ERR_CONFLICT, 0, "another supervisor is running on it");
    }
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)len, 0) != len)
        log_warn("store", "can't write the pid to %s",
                 path); /* a full disk: the lock holds anyway */
    store->lock_fd = fd_steal(&fd);
    return 0;
}

/* LMDB makes its files but doesn't flush the directory that names them. */
static int flush_directory(const char *path, struct error *err)
{
    AUTO_CLOSE
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0)
        return error_set(err, ERR_SYSTEM, errno, "flush directory %s", path);
    return 0;
}

static int prepare_directory(struct store *store, struct error *err)
{
    if (paths_make_private(store->directory, err) < 0)
        return -1;
    if (chmod(store->directory, 0700) < 0)
        return error_set(err, ERR_SYSTEM, errno, "chmod %s", store->directory);
    return lock_directory(store, err);
}

/* LMDB writes to its lock file through a shared map, where a full disk would be a SIGBUS: its
 * blocks are taken before. */
static int allocate_lock_file(struct store *store, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/lock.mdb", store->directory);
    AUTO_CLOSE
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", path);
    int rc = posix_fallocate(fd, 0, LOCK_FILE_BYTES);
    return rc == 0 ? 0 : store_fail(store, rc, err, "make lock.mdb");
}

static int open_environment(struct store *store, struct error *err)
{
    AUTO_FREE
    char *above = mem_printf("%s/..", store->directory);

    if (allocate_lock_file(store, err) < 0)
        return -1;
    int rc = env_open(store);
    if (rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH)
        return error_set(err, ERR_INVALID, 0, "%s/data.mdb is damaged or no database: %s",
                         store->directory, mdb_strerror(rc));
    if (rc != 0)
        return store_fail(store, rc, err, "open");
    if (store_migrate(store, err) < 0 || store_audit_init(store, err) < 0)
        return -1;
    return flush_directory(store->directory, err) < 0 ? -1 : flush_directory(above, err);
}

static void store_free(struct store *store)
{
    store_events_finish(store);
    store_audit_finish(store);
    env_close(store);
    fd_close(&store->lock_fd);
    free(store->directory);
    free(store);
}

int store_open(struct store **out, const struct store_options *options, struct error *err)
{
    struct store *store = NEW(struct store);

    store->lock_fd = -1;
    store->directory = mem_strdup(options->directory);
    store->map_size_bytes =
        options->map_size_bytes != 0 ? options->map_size_bytes : MAP_DEFAULT_BYTES;
    store_events_init(store);
    list_init(&store->audit.order);
    if (prepare_directory(store, err) < 0 || open_environment(store, err) < 0) {
        error_wrap(err, "database %s", options->directory);
        store_free(store);
        return -1;
    }
    *out = store;
    return 0;
}

void store_close(struct store *store)
{
    struct error err;

    if (store == NULL)
        return;
    if (store_has_batch(store) && store_flush(store, &err) < 0)
        log_error("store", "batched events are lost: %s", err.text);
    store_free(store);
}

int store_flush(struct store *store, struct error *err)
{
    return store_has_batch(store) ? store_write(store, NULL, NULL, err) : 0;
}

bool store_has_batch(const struct store *store)
{
    return !list_empty(&store->events.order) || !list_empty(&store->audit.order);
}

uint64_t store_changes(const struct store *store)
{
    return store->changes;
}

void store_set_fault(struct store *store, int (*fault)(void *data), void *data)
{
    store->fault = fault;
    store->fault_data = data;
}
