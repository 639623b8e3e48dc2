/* archive_read.c: takes a backup apart. Does no I/O: its bytes come from a source. */
#include "backup/archive_internal.h"

#include <string.h>

#include "common/mem.h"

static uint64_t get_number(const unsigned char *from, unsigned size)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < size; i++)
        value = value << 8 | from[i];
    return value;
}

struct archive_reader {
    crypto_secretstream_xchacha20poly1305_state state;
    unsigned char head[ARCHIVE_HEAD_SIZE];
    bool first;
    bool final; /* the chunk at hand is the last one */
    struct archive_source source;
    unsigned char chunk[ARCHIVE_CHUNK_SIZE];
    size_t at;
    size_t len;
    uint64_t left; /* of the entry */
};

/* All of it, or fewer bytes at the end. */
static ssize_t take(struct archive_reader *reader, void *to, size_t len)
{
    return reader->source.read(reader->source.data, to, len);
}

static int damaged(struct error *err)
{
    return error_set(err, ERR_INVALID, 0, "the backup is damaged or cut");
}

static int read_chunk(struct archive_reader *reader, struct error *err)
{
    unsigned char sealed[ARCHIVE_CHUNK_SIZE + ARCHIVE_TAG_SIZE];
    unsigned char length[ARCHIVE_LENGTH_SIZE];
    unsigned char tag;
    unsigned long long got;
    uint64_t len;

    if (reader->final || take(reader, length, sizeof(length)) != ARCHIVE_LENGTH_SIZE)
        return damaged(err);
    len = get_number(length, ARCHIVE_LENGTH_SIZE);
    if (len < ARCHIVE_TAG_SIZE || len > sizeof(sealed) ||
        take(reader, sealed, (size_t)len) != (ssize_t)len)
        return damaged(err);
    if (crypto_secretstream_xchacha20poly1305_pull(&reader->state, reader->chunk, &got, &tag,
                                                   sealed, len, reader->first ? reader->head : NULL,
                                                   reader->first ? ARCHIVE_HEAD_SIZE : 0) != 0)
        return reader->first && archive_is_sealed(reader)
                   ? error_set(err, ERR_DENIED, 0,
                               "the backup is sealed with another passphrase, or damaged")
                   : damaged(err);
    reader->first = false;
    reader->at = 0;
    reader->len = (size_t)got;
    reader->final = tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
    return 0;
}

bool archive_is_sealed(const struct archive_reader *reader)
{
    return reader->head[ARCHIVE_MAGIC_SIZE + 1] == ARCHIVE_SEALED;
}

static int read_head(struct archive_reader *reader, struct secret *passphrase, struct error *err)
{
    unsigned char key[ARCHIVE_KEY_SIZE];
    int rc;

    if (take(reader, reader->head, ARCHIVE_HEAD_SIZE) != ARCHIVE_HEAD_SIZE ||
        memcmp(reader->head, ARCHIVE_MAGIC, ARCHIVE_MAGIC_SIZE) != 0)
        return error_set(err, ERR_INVALID, 0, "this is no backup of a session");
    if (reader->head[ARCHIVE_MAGIC_SIZE] != ARCHIVE_VERSION ||
        reader->head[ARCHIVE_MAGIC_SIZE + 1] > ARCHIVE_SEALED)
        return error_set(err, ERR_INVALID, 0, "the backup has version %u, which is not known here",
                         (unsigned)reader->head[ARCHIVE_MAGIC_SIZE]);
    if (archive_is_sealed(reader) && passphrase == NULL)
        return error_set(err, ERR_DENIED, 0,
                         "the backup is sealed: name the secret that holds its passphrase");
    if (archive_derive(key, reader->head, passphrase, err) < 0)
        return -1;
    rc = crypto_secretstream_xchacha20poly1305_init_pull(&reader->state,
                                                         reader->head + ARCHIVE_CLEAR_SIZE, key);
    sodium_memzero(key, sizeof(key));
    reader->first = true;
    return rc == 0 ? 0 : damaged(err);
}

int archive_begin(struct archive_reader **out, const struct archive_source *source,
                  struct secret *passphrase, struct error *err)
{
    struct archive_reader *reader = NEW(struct archive_reader);

    reader->source = *source;
    if (read_head(reader, passphrase, err) == 0) {
        *out = reader;
        return 0;
    }
    archive_reader_free(reader);
    return -1;
}

void archive_reader_free(struct archive_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->source.close != NULL)
        reader->source.close(reader->source.data);
    sodium_memzero(&reader->state, sizeof(reader->state));
    free(reader);
}

static int read_bytes(struct archive_reader *reader, void *to, size_t len, struct error *err)
{
    unsigned char *at = to;

    while (len > 0) {
        size_t part = reader->len - reader->at;

        if (part == 0) {
            if (read_chunk(reader, err) < 0)
                return -1;
            continue;
        }
        part = part < len ? part : len;
        memcpy(at, reader->chunk + reader->at, part);
        reader->at += part;
        at += part;
        len -= part;
    }
    return 0;
}

/* 1: the last byte was read, and the file ends there. */
static int at_end(struct archive_reader *reader, struct error *err)
{
    char more;

    while (reader->at == reader->len && !reader->final) {
        if (read_chunk(reader, err) < 0)
            return -1;
    }
    if (reader->at < reader->len)
        return 0;
    return take(reader, &more, 1) == 0 ? 1 : damaged(err);
}

int archive_next(struct archive_reader *reader, struct archive_entry *entry, struct error *err)
{
    unsigned char head[ARCHIVE_ENTRY_HEAD_SIZE];
    uint64_t name_len;
    int end;

    BUG_ON(reader->left != 0);
    end = at_end(reader, err);
    if (end != 0)
        return end < 0 ? -1 : 0;
    if (read_bytes(reader, head, sizeof(head), err) < 0)
        return -1;
    name_len = get_number(head + 1, 2);
    if (head[0] < ARCHIVE_MANIFEST || head[0] > ARCHIVE_FILE || name_len > ARCHIVE_NAME_MAX)
        return damaged(err);
    entry->kind = (enum archive_kind)head[0];
    entry->len = reader->left = get_number(head + 3, 8);
    if (read_bytes(reader, entry->name, (size_t)name_len, err) < 0)
        return -1;
    entry->name[name_len] = '\0';
    return strlen(entry->name) == name_len ? 1 : damaged(err);
}

int archive_read(struct archive_reader *reader, void *to, size_t len, struct error *err)
{
    BUG_ON(len > reader->left);
    reader->left -= len;
    return read_bytes(reader, to, len, err);
}
