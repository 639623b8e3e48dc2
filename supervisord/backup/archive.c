#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/archive_internal.h"
#include "common/fd.h"
#include "common/mem.h"

static void put_number(unsigned char *to, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        to[i] = (unsigned char)(value >> (8 * (size - 1 - i)));
}

int archive_derive(unsigned char key[ARCHIVE_KEY_SIZE], const unsigned char *head,
                   struct secret *passphrase, struct error *err)
{
    const char *text;
    size_t len;
    int rc;

    if (head[ARCHIVE_MAGIC_SIZE + 1] == ARCHIVE_OPEN) {
        crypto_generichash(key, ARCHIVE_KEY_SIZE, head, ARCHIVE_CLEAR_SIZE, NULL, 0);
        return 0;
    }
    text = secret_open(passphrase, &len);
    rc = crypto_pwhash(key, ARCHIVE_KEY_SIZE, text, len, head + ARCHIVE_MAGIC_SIZE + 2,
                       crypto_pwhash_OPSLIMIT_MODERATE, crypto_pwhash_MEMLIMIT_INTERACTIVE,
                       crypto_pwhash_ALG_ARGON2ID13);
    secret_shut(passphrase);
    return rc == 0 ? 0 : error_set(err, ERR_LIMIT, 0, "no memory for the backup's key");
}

static void entry_head(unsigned char to[ARCHIVE_ENTRY_HEAD_SIZE], enum archive_kind kind,
                       size_t name_len, uint64_t len)
{
    to[0] = (unsigned char)kind;
    put_number(to + 1, name_len, 2);
    put_number(to + 3, len, 8);
}

void archive_append(struct buf *out, enum archive_kind kind, const char *name, const void *data,
                    size_t len)
{
    unsigned char head[ARCHIVE_ENTRY_HEAD_SIZE];

    BUG_ON(strlen(name) > ARCHIVE_NAME_MAX);
    entry_head(head, kind, strlen(name), len);
    buf_append(out, head, sizeof(head));
    buf_append_str(out, name);
    buf_append(out, data, len);
}

/* Writing ------------------------------------------------------------------------------------- */

struct archive_writer {
    crypto_secretstream_xchacha20poly1305_state state;
    unsigned char head[ARCHIVE_HEAD_SIZE];
    bool first; /* the next chunk is the first: it vouches for the head, too */
    int fd;
    char *path;
    char *partial; /* its name until it is whole, where the file system has no files without one */
    unsigned char chunk[ARCHIVE_CHUNK_SIZE];
    size_t len;
};

static int write_chunk(struct archive_writer *writer, unsigned char tag, struct error *err)
{
    unsigned char sealed[ARCHIVE_LENGTH_SIZE + ARCHIVE_CHUNK_SIZE + ARCHIVE_TAG_SIZE];

    put_number(sealed, writer->len + ARCHIVE_TAG_SIZE, ARCHIVE_LENGTH_SIZE);
    crypto_secretstream_xchacha20poly1305_push(
        &writer->state, sealed + ARCHIVE_LENGTH_SIZE, NULL, writer->chunk, writer->len,
        writer->first ? writer->head : NULL, writer->first ? ARCHIVE_HEAD_SIZE : 0, tag);
    writer->first = false;
    if (fd_write_all(writer->fd, sealed, ARCHIVE_LENGTH_SIZE + writer->len + ARCHIVE_TAG_SIZE,
                     err) < 0)
        return error_wrap(err, "write %s", writer->path);
    writer->len = 0;
    return 0;
}

static int begin(struct archive_writer *writer, struct secret *passphrase, struct error *err)
{
    unsigned char key[ARCHIVE_KEY_SIZE];

    memcpy(writer->head, ARCHIVE_MAGIC, ARCHIVE_MAGIC_SIZE);
    writer->head[ARCHIVE_MAGIC_SIZE] = ARCHIVE_VERSION;
    writer->head[ARCHIVE_MAGIC_SIZE + 1] = passphrase != NULL ? ARCHIVE_SEALED : ARCHIVE_OPEN;
    randombytes_buf(writer->head + ARCHIVE_MAGIC_SIZE + 2, ARCHIVE_SALT_SIZE);
    if (archive_derive(key, writer->head, passphrase, err) < 0)
        return -1;
    crypto_secretstream_xchacha20poly1305_init_push(&writer->state,
                                                    writer->head + ARCHIVE_CLEAR_SIZE, key);
    sodium_memzero(key, sizeof(key));
    writer->first = true;
    return fd_write_all(writer->fd, writer->head, ARCHIVE_HEAD_SIZE, err);
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
        size_t part = ARCHIVE_CHUNK_SIZE - writer->len;

        part = part < len ? part : len;
        memcpy(writer->chunk + writer->len, from, part);
        writer->len += part;
        from += part;
        len -= part;
        if (writer->len == ARCHIVE_CHUNK_SIZE && write_chunk(writer, 0, err) < 0)
            return -1;
    }
    return 0;
}

int archive_write_file(struct archive_writer *writer, const char *name, int fd, uint64_t len,
                       struct error *err)
{
    unsigned char head[ARCHIVE_ENTRY_HEAD_SIZE];
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

static ssize_t read_file(void *data, void *to, size_t len)
{
    const int *fd = data;
    size_t have = 0;

    while (have < len) {
        ssize_t got = read(*fd, (char *)to + have, len - have);

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

static void close_file(void *data)
{
    int *fd = data;

    fd_close(fd);
    free(fd);
}

int archive_open(struct archive_reader **out, const char *path, struct secret *passphrase,
                 struct error *err)
{
    int *fd = NEW(int);
    const struct archive_source source = { .read = read_file, .close = close_file, .data = fd };
    struct stat st;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "open %s", path);
    else if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode))
        error_set(err, ERR_INVALID, 0, "%s is no file", path);
    else
        return archive_begin(out, &source, passphrase, err);
    close_file(fd);
    return -1;
}
