/* archive_internal.h: what the form of a backup is, for the two files that write and read it. */
#ifndef BACKUP_ARCHIVE_INTERNAL_H
#define BACKUP_ARCHIVE_INTERNAL_H

#include <sodium.h>
#include <sys/types.h>

#include "backup/backup.h"

#define ARCHIVE_MAGIC "sandbox-mcp backup\n"

enum {
    ARCHIVE_MAGIC_SIZE = sizeof(ARCHIVE_MAGIC) - 1,
    ARCHIVE_VERSION = 1,
    ARCHIVE_OPEN = 0, /* the key is in the head */
    ARCHIVE_SEALED = 1,
    ARCHIVE_SALT_SIZE = crypto_pwhash_SALTBYTES,
    ARCHIVE_KEY_SIZE = crypto_secretstream_xchacha20poly1305_KEYBYTES,
    ARCHIVE_STREAM_HEAD_SIZE = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    ARCHIVE_TAG_SIZE = crypto_secretstream_xchacha20poly1305_ABYTES,
    ARCHIVE_CLEAR_SIZE = ARCHIVE_MAGIC_SIZE + 2 + ARCHIVE_SALT_SIZE,
    ARCHIVE_HEAD_SIZE = ARCHIVE_CLEAR_SIZE + ARCHIVE_STREAM_HEAD_SIZE,
    ARCHIVE_CHUNK_SIZE = 65536,
    ARCHIVE_LENGTH_SIZE = 4,
    ARCHIVE_ENTRY_HEAD_SIZE = 1 + 2 + 8,
};

/* The stream's key, from the clear part of HEAD and, if that says so, PASSPHRASE. */
int archive_derive(unsigned char key[ARCHIVE_KEY_SIZE], const unsigned char *head,
                   struct secret *passphrase, struct error *err);

/* Where a reader's bytes come from: LEN of them, or fewer at the end; -1. */
struct archive_source {
    ssize_t (*read)(void *data, void *to, size_t len);
    void (*close)(void *data); /* when the reader is freed; may be NULL */
    void *data;
};
/* A reader of SOURCE, which is closed on failure, too. */
int archive_begin(struct archive_reader **out, const struct archive_source *source,
                  struct secret *passphrase, struct error *err);

#endif
