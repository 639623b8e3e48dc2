/* backup.h: one file that holds a session, and where such files are put. All functions that do I/O
 * block: they are for a thread of the pool.
 *
 * The file is a head in the clear (what it is, its version, how it is protected, a salt) and a
 * stream of chunks sealed by libsodium's secretstream: a cut, damaged, reordered or extended file
 * is noticed at the first chunk that is wrong, and the end only counts when its mark was read. The
 * key comes from a passphrase by Argon2id; without one it comes from the head itself, so that
 * anybody can read the file and damage is noticed, but no malice.
 *
 * Inside the stream are entries: a kind, a name, and bytes. */
#ifndef BACKUP_BACKUP_H
#define BACKUP_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "vault/secret.h"

#define ARCHIVE_NAME_MAX 200

/* Stored by number. */
enum archive_kind {
    ARCHIVE_MANIFEST = 1,
    ARCHIVE_SESSION,
    ARCHIVE_CHECKPOINT,
    ARCHIVE_RUN,
    ARCHIVE_DIFF,
    ARCHIVE_EVENT,
    ARCHIVE_FILE,
};

/* Appends an entry in the form of the stream. Pure. */
void archive_append(struct buf *out, enum archive_kind kind, const char *name, const void *data,
                    size_t len);

/* Writing. PASSPHRASE may be NULL. The file gets its name when it is whole and on disk, and never
 * replaces another: ERR_CONFLICT. */
struct archive_writer;
int archive_create(struct archive_writer **out, const char *path, struct secret *passphrase,
                   struct error *err);
int archive_write(struct archive_writer *writer, const void *data, size_t len, struct error *err);
/* An entry with the content of the file FD, LEN bytes of it. */
int archive_write_file(struct archive_writer *writer, const char *name, int fd, uint64_t len,
                       struct error *err);
int archive_finish(struct archive_writer *writer, struct error *err);
void archive_writer_free(struct archive_writer *writer); /* what is not finished is removed */

/* Reading. ERR_DENIED: another passphrase, or one is needed; ERR_INVALID: no backup, or damaged. */
struct archive_reader;
struct archive_entry {
    enum archive_kind kind;
    char name[ARCHIVE_NAME_MAX + 1];
    uint64_t len;
};
int archive_open(struct archive_reader **out, const char *path, struct secret *passphrase,
                 struct error *err);
bool archive_is_sealed(const struct archive_reader *reader); /* by a passphrase */
/* 1: ENTRY is filled, and its bytes are next; 0: the end, which is whole. */
int archive_next(struct archive_reader *reader, struct archive_entry *entry, struct error *err);
/* LEN is what is left of the entry or less. */
int archive_read(struct archive_reader *reader, void *to, size_t len, struct error *err);
void archive_reader_free(struct archive_reader *reader);

/* Storage that speaks S3. Requests are signed by libcurl. */
struct s3 {
    const char *endpoint; /* https://s3.example, or http://127.0.0.1:PORT */
    const char *region;
    const char *bucket;
    struct secret *access_key;
    struct secret *secret_key;
};
/* Where a backup is to go or to come from. */
struct backup_place {
    char *path; /* a file of this machine, absolute; for storage one that is removed afterwards */
    char *key;  /* of an object in the storage, or NULL */
    bool remove_path;
    char *endpoint;
    char *region;
    char *bucket;
    struct secret *access_key;
    struct secret *secret_key;
    struct secret *passphrase; /* NULL: not sealed */
};
void backup_place_free(struct backup_place *place); /* NULL is fine */
/* Removes what an earlier one may have left of a file that is only passing through. */
void backup_place_clear(const struct backup_place *place);
/* What there is to do after the file was made, or before it is read. */
int backup_place_send(const struct backup_place *place, struct error *err);
int backup_place_fetch(const struct backup_place *place, struct error *err);

#define S3_OBJECT_MAX (UINT64_C(5) << 30) /* one request's */

/* [A-Za-z0-9._-] and slashes, at most 200. */
bool s3_key_valid(const char *key);
int s3_put(const struct s3 *s3, const char *key, const char *path, struct error *err);
/* Makes PATH, 0600. */
int s3_get(const struct s3 *s3, const char *key, const char *path, struct error *err);

#endif
