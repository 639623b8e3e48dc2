#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/backup.h"
#include "common/fd.h"
#include "common/mem.h"

static const char magic[] = "sandbox-mcp backup\n";

enum {
    MAGIC_SIZE = sizeof(magic) - 1,
    VERSION = 1,
    OPEN = 0, /* the key is in the head */
    SEALED = 1,
    SALT_SIZE = crypto_pwhash_SALTBYTES,
    KEY_SIZE = crypto_secretstream_xchacha20poly1305_KEYBYTES,
    STREAM_HEAD_SIZE = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    TAG_SIZE = crypto_secretstream_xchacha20poly1305_ABYTES,
    CLEAR_SIZE = MAGIC_SIZE + 2 + SALT_SIZE,
    HEAD_SIZE = CLEAR_SIZE + STREAM_HEAD_SIZE,
    CHUNK_SIZE = 65536,
    LENGTH_SIZE = 4,
    ENTRY_HEAD_SIZE = 1 + 2 + 8,
};

static void put_number(unsigned char *to, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        to[i] = (unsigned char)(value >> (8 * (size - 1 - i)));
}

static uint64_t get_number(const unsigned char *from, unsigned size)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < size; i++)
        value = value << 8 | from[i];
    return value;
}

static int derive(unsigned char key[KEY_SIZE], const unsigned char *head, struct secret *passphrase,
                  struct error *err)
{
    const char *text;
    size_t len;
    int rc;

    if (head[MAGIC_SIZE + 1] == OPEN) {
        crypto_generichash(key, KEY_SIZE, head, CLEAR_SIZE, NULL, 0);
        return 0;
    }
    text = secret_open(passphrase, &len);
    rc = crypto_pwhash(key, KEY_SIZE, text, len, head + MAGIC_SIZE + 2,
                       crypto_pwhash_OPSLIMIT_MODERATE, crypto_pwhash_MEMLIMIT_INTERACTIVE,
                       crypto_pwhash_ALG_ARGON2ID13);
    secret_shut(passphrase);
    return rc == 0 ? 0 : error_set(err, ERR_LIMIT, 0, "no memory for the backup's key");
}

static void entry_head(unsigned char to[ENTRY_HEAD_SIZE], enum archive_kind kind, size_t name_len,
                       uint64_t len)
{
    to[0] = (unsigned char)kind;
    put_number(to + 1, name_len, 2);
    put_number(to + 3, len, 8);
}

void archive_append(struct buf *out, enum archive_kind kind, const char *name, const void *data,
                    size_t len)
{
    unsigned char head[ENTRY_HEAD_SIZE];

    BUG_ON(strlen(name) > ARCHIVE_NAME_MAX);
    entry_head(head, kind, strlen(name), len);
    buf_append(out, head, sizeof(head));
    buf_append_str(out, name);
    buf_append(out, data, len);
}

/* Writing ------------------------------------------------------------------------------------- */

struct archive_writer {
    crypto_secretstream_xchacha20poly1305_state state;
    unsigned char head[HEAD_SIZE];
    bool first; /* the next chunk is the first: it vouches for the head, too */
    int fd;
    char *path;
    char *partial; /* its name until it is whole, where the file system has no files without one */
    unsigned char chunk[CHUNK_SIZE];
    size_t len;
};

static int write_chunk(struct archive_writer *writer, unsigned char tag, struct error *err)
{
    unsigned char sealed[LENGTH_SIZE + CHUNK_SIZE + TAG_SIZE];

    put_number(sealed, writer->len + TAG_SIZE, LENGTH_SIZE);
    crypto_secretstream_xchacha20poly1305_push(
        &writer->state, sealed + LENGTH_SIZE, NULL, writer->chunk, writer->len,
        writer->first ? writer->head : NULL, writer->first ? HEAD_SIZE : 0, tag);
    writer->first = false;
    if (fd_write_all(writer->fd, sealed, LENGTH_SIZE + writer->len + TAG_SIZE, err) < 0)
        return error_wrap(err, "write %s", writer->path);
    writer->len = 0;
    return 0;
}

static int begin(struct archive_writer *writer, struct secret *passphrase, struct error *err)
{
    unsigned char key[KEY_SIZE];

    memcpy(writer->head, magic, MAGIC_SIZE);
    writer->head[MAGIC_SIZE] = VERSION;
    writer->head[MAGIC_SIZE + 1] = passphrase != NULL ? SEALED : OPEN;
    randombytes_buf(writer->head + MAGIC_SIZE + 2, SALT_SIZE);
    if (derive(key, writer->head, passphrase, err) < 0)
        return -1;
    crypto_secretstream_xchacha20poly1305_init_push(&writer->state, writer->head + CLEAR_SIZE, key);
    sodium_memzero(key, sizeof(key));
    writer->first = true;
    return fd_write_all(writer->fd, writer->head, HEAD_SIZE, err);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? mem_strndup(path, (size_t)(slash - path) + 1) : mem_strdup(".");
}

/* Of a file without a name nothing is left when its writer is killed. */
static int open_nameless(struct archive_writer *writer, struct error *err)
{
    AUTO_FREE
    char *folder = folder_of(writer->path);

    writer->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (writer->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return writer->fd >= 0 ? 0 : error_set(err, ERR_SYSTEM, errno, "make a file in %s", folder);
    writer->partial = mem_printf("%s.partial", writer->path);
    writer->fd = open(writer->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (writer->fd >= 0)
        return 0;
    return errno == EEXIST ? error_set(err, ERR_CONFLICT, 0,
                                       "%s is there: remove it, if no backup is being made there",
                                       writer->partial)
                           : error_set(err, ERR_SYSTEM, errno, "make %s", writer->partial);
}

int archive_create(struct archive_writer **out, const char *path, struct secret *passphrase,
                   struct error *err)
{
    struct archive_writer *writer = NEW(struct archive_writer);

    writer->path = mem_strdup(path);
    writer->fd = -1;
    if (access(path, F_OK) == 0)
        error_set(err, ERR_CONFLICT, 0, "%s is there already", path);
    else if (open_nameless(writer, err) == 0 && begin(writer, passphrase, err) == 0) {
        *out = writer;
        return 0;
    }
    archive_writer_free(writer);
    return -1;
}

int archive_write(struct archive_writer *writer, const void *data, size_t len, struct error *err)
{
    const unsigned char *from = data;

    while (len > 0) {
        size_t part = CHUNK_SIZE - writer->len;

        part = part < len ? part : len;
        memcpy(writer->chunk + writer->len, from, part);
        writer->len += part;
        from += part;
        len -= part;
        if (writer->len == CHUNK_SIZE && write_chunk(writer, 0, err) < 0)
            return -1;
    }
    return 0;
}

int archive_write_file(struct archive_writer *writer, const char *name, int fd, uint64_t len,
                       struct error *err)
{
    unsigned char head[ENTRY_HEAD_SIZE];
    char part[32768];

    entry_head(head, ARCHIVE_FILE, strlen(name), len);
    if (archive_write(writer, head, sizeof(head), err) < 0 ||
        archive_write(writer, name, strlen(name), err) < 0)
        return -1;
    while (len > 0) {
        ssize_t got = read(fd, part, len < sizeof(part) ? (size_t)len : sizeof(part));

        if (got <= 0)
            return error_set(err, ERR_SYSTEM, got < 0 ? errno : 0, "read %s", name);
        if (archive_write(writer, part, (size_t)got, err) < 0)
            return -1;
        len -= (uint64_t)got;
    }
    return 0;
}

static int sync_folder(const char *path, struct error *err)
{
    AUTO_FREE
    char *folder = folder_of(path);
    AUTO_CLOSE
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && fsync(fd) == 0 ? 0 : error_set(err, ERR_SYSTEM, errno, "write %s", folder);
}

/* A link replaces nothing. */
static int give_name(const struct archive_writer *writer)
{
    AUTO_FREE
    char *nameless = mem_printf("/proc/self/fd/%d", writer->fd);

    return writer->partial != NULL
               ? link(writer->partial, writer->path)
               : linkat(AT_FDCWD, nameless, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW);
}

int archive_finish(struct archive_writer *writer, struct error *err)
{
    if (write_chunk(writer, crypto_secretstream_xchacha20poly1305_TAG_FINAL, err) < 0)
        return -1;
    if (fsync(writer->fd) < 0)
        return error_set(err, ERR_SYSTEM, errno, "write %s", writer->path);
    if (give_name(writer) < 0)
        return error_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_SYSTEM, errno, "name %s",
                         writer->path);
    return sync_folder(writer->path, err);
}

void archive_writer_free(struct archive_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->fd >= 0 && writer->partial != NULL)
        unlink(writer->partial);
    fd_close(&writer->fd);
    sodium_memzero(&writer->state, sizeof(writer->state));
    free(writer->path);
    free(writer->partial);
    free(writer);
}

/* Reading ------------------------------------------------------------------------------------- */

struct archive_reader {
    crypto_secretstream_xchacha20poly1305_state state;
    unsigned char head[HEAD_SIZE];
    bool first;
    bool final; /* the chunk at hand is the last one */
    int fd;
    unsigned char chunk[CHUNK_SIZE];
    size_t at;
    size_t len;
    uint64_t left; /* of the entry */
};

/* All of it, or fewer bytes at the file's end. */
static ssize_t read_all(int fd, void *to, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t got = read(fd, (char *)to + have, len - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static int damaged(struct error *err)
{
    return error_set(err, ERR_INVALID, 0, "the backup is damaged or cut");
}

static int read_chunk(struct archive_reader *reader, struct error *err)
{
    unsigned char sealed[CHUNK_SIZE + TAG_SIZE];
    unsigned char length[LENGTH_SIZE];
    unsigned char tag;
    unsigned long long got;
    uint64_t len;

    if (reader->final || read_all(reader->fd, length, sizeof(length)) != LENGTH_SIZE)
        return damaged(err);
    len = get_number(length, LENGTH_SIZE);
    if (len < TAG_SIZE || len > sizeof(sealed) ||
        read_all(reader->fd, sealed, (size_t)len) != (ssize_t)len)
        return damaged(err);
    if (crypto_secretstream_xchacha20poly1305_pull(&reader->state, reader->chunk, &got, &tag,
                                                   sealed, len, reader->first ? reader->head : NULL,
                                                   reader->first ? HEAD_SIZE : 0) != 0)
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
    return reader->head[MAGIC_SIZE + 1] == SEALED;
}

static int read_head(struct archive_reader *reader, struct secret *passphrase, struct error *err)
{
    unsigned char key[KEY_SIZE];
    int rc;

    if (read_all(reader->fd, reader->head, HEAD_SIZE) != HEAD_SIZE ||
        memcmp(reader->head, magic, MAGIC_SIZE) != 0)
        return error_set(err, ERR_INVALID, 0, "this is no backup of a session");
    if (reader->head[MAGIC_SIZE] != VERSION || reader->head[MAGIC_SIZE + 1] > SEALED)
        return error_set(err, ERR_INVALID, 0, "the backup has version %u, which is not known here",
                         (unsigned)reader->head[MAGIC_SIZE]);
    if (archive_is_sealed(reader) && passphrase == NULL)
        return error_set(err, ERR_DENIED, 0,
                         "the backup is sealed: name the secret that holds its passphrase");
    if (derive(key, reader->head, passphrase, err) < 0)
        return -1;
    rc = crypto_secretstream_xchacha20poly1305_init_pull(&reader->state, reader->head + CLEAR_SIZE,
                                                         key);
    sodium_memzero(key, sizeof(key));
    reader->first = true;
    return rc == 0 ? 0 : damaged(err);
}

int archive_open(struct archive_reader **out, const char *path, struct secret *passphrase,
                 struct error *err)
{
    struct archive_reader *reader = NEW(struct archive_reader);
    struct stat st;

    reader->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (reader->fd < 0)
        error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "open %s", path);
    else if (fstat(reader->fd, &st) < 0 || !S_ISREG(st.st_mode))
        error_set(err, ERR_INVALID, 0, "%s is no file", path);
    else if (read_head(reader, passphrase, err) == 0) {
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
    fd_close(&reader->fd);
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
    return read_all(reader->fd, &more, 1) == 0 ? 1 : damaged(err);
}

int archive_next(struct archive_reader *reader, struct archive_entry *entry, struct error *err)
{
    unsigned char head[ENTRY_HEAD_SIZE];
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
