// links: supervisor_backup
/* Whatever bytes a backup has: the reader fails, or gives entries that fit in them. The first byte
 * of the input chooses: the file as it is, which seldom gets past its seal; or what stands inside,
 * sealed here as it should be, in chunks whose size the second byte says. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backup/archive_internal.h"
#include "common/mem.h"

#define INPUT_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
    const unsigned char *bytes;
    size_t left;
};

static ssize_t read_memory(void *data, void *to, size_t len)
{
    struct memory *memory = data;
    size_t got = len < memory->left ? len : memory->left;

    memcpy(to, memory->bytes, got);
    memory->bytes += got;
    memory->left -= got;
    return (ssize_t)got;
}

/* Takes all entries; what they are goes to OUT in the form of the stream. */
static int take_all(struct archive_reader *reader, struct buf *out, struct error *err)
{
    struct archive_entry entry;
    int rc;

    while ((rc = archive_next(reader, &entry, err)) > 0) {
        AUTO_FREE
        char *bytes = NULL;

        BUG_ON(strlen(entry.name) > ARCHIVE_NAME_MAX);
        if (entry.len > INPUT_MAX)
            return -1;
        bytes = mem_new_zero((size_t)entry.len + 1, 1);
        if (archive_read(reader, bytes, (size_t)entry.len / 2, err) < 0 ||
            archive_read(reader, bytes + entry.len / 2, (size_t)(entry.len - entry.len / 2), err) <
                0)
            return -1;
        archive_append(out, entry.kind, entry.name, bytes, (size_t)entry.len);
    }
    return rc;
}

/* 0 and all entries in OUT, or -1. */
static int read_file(const void *bytes, size_t len, struct buf *out)
{
    struct memory memory = { bytes, len };
    const struct archive_source source = { .read = read_memory, .data = &memory };
    struct archive_reader *reader;
    struct error err = ERROR_INIT;
    int rc;

    if (archive_begin(&reader, &source, NULL, &err) < 0) {
        BUG_ON(err.code == ERR_NONE);
        return -1;
    }
    rc = take_all(reader, out, &err);
    archive_reader_free(reader);
    return rc;
}

static void push(crypto_secretstream_xchacha20poly1305_state *state, struct buf *file,
                 const uint8_t *data, size_t len, unsigned char tag)
{
    unsigned char sealed[4 + ARCHIVE_CHUNK_SIZE + ARCHIVE_TAG_SIZE];
    bool first = file->len == ARCHIVE_HEAD_SIZE;
    size_t size = len + ARCHIVE_TAG_SIZE;

    sealed[0] = 0;
    sealed[1] = (unsigned char)(size >> 16);
    sealed[2] = (unsigned char)(size >> 8);
    sealed[3] = (unsigned char)size;
    crypto_secretstream_xchacha20poly1305_push(state, sealed + 4, NULL, data, len,
                                               first ? (const unsigned char *)file->data : NULL,
                                               first ? ARCHIVE_HEAD_SIZE : 0, tag);
    buf_append(file, sealed, 4 + size);
}

static void seal(struct buf *file, const uint8_t *data, size_t len, size_t chunk)
{
    unsigned char head[ARCHIVE_HEAD_SIZE] = ARCHIVE_MAGIC;
    unsigned char key[ARCHIVE_KEY_SIZE];
    crypto_secretstream_xchacha20poly1305_state state;

    head[ARCHIVE_MAGIC_SIZE] = ARCHIVE_VERSION;
    crypto_generichash(key, sizeof(key), head, ARCHIVE_CLEAR_SIZE, NULL, 0);
    crypto_secretstream_xchacha20poly1305_init_push(&state, head + ARCHIVE_CLEAR_SIZE, key);
    buf_append(file, head, sizeof(head));
    for (; len > chunk; data += chunk, len -= chunk)
        push(&state, file, data, chunk, 0);
    push(&state, file, data, len, crypto_secretstream_xchacha20poly1305_TAG_FINAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BUF struct buf out = BUF_INIT(4 * INPUT_MAX);
    AUTO_BUF struct buf file = BUF_INIT(64 * INPUT_MAX);

    if (size < 2 || size > INPUT_MAX || sodium_init() < 0)
        return 0;
    if ((data[0] & 1) == 0) {
        read_file(data + 1, size - 1, &out);
        return 0;
    }
    seal(&file, data + 2, size - 2, data[1] == 0 ? ARCHIVE_CHUNK_SIZE : data[1]);
    BUG_ON(file.failed);
    if (read_file(file.data, file.len, &out) == 0)
        BUG_ON(out.len != size - 2 || (out.len > 0 && memcmp(out.data, data + 2, out.len) != 0));
    /* Cut anywhere it is never whole. */
    if (file.len > 1) {
        AUTO_BUF struct buf ignored = BUF_INIT(4 * INPUT_MAX);

        BUG_ON(read_file(file.data, file.len - 1 - data[1] % (file.len - 1), &ignored) == 0);
    }
    return 0;
}
