#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/backup.h"
#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"

static struct secret *passphrase(const char *text)
{
    CHECK(sodium_init() >= 0);
    return text != NULL ? secret_new(text, strlen(text)) : NULL;
}

/* A backup at PATH of what TEXT, in the form of the stream, says. */
static void make(const char *path, const char *word, const struct buf *text)
{
    struct secret *secret = passphrase(word);
    struct archive_writer *writer = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(archive_create(&writer, path, secret, &err), 0);
    CHECK_EQ(archive_write(writer, text->data, text->len, &err), 0);
    CHECK_EQ(archive_finish(writer, &err), 0);
    archive_writer_free(writer);
    secret_unref(secret);
}

/* Reads all of it: the number of entries, or minus the error's code. */
static int read_through(const char *path, const char *word, struct buf *all)
{
    struct secret *secret = passphrase(word);
    struct archive_reader *reader = NULL;
    struct archive_entry entry;
    struct error err = ERROR_INIT;
    int count = 0;
    int rc = archive_open(&reader, path, secret, &err);

    while (rc == 0 && (rc = archive_next(reader, &entry, &err)) > 0) {
        char byte;

        count++;
        rc = 0;
        for (uint64_t i = 0; rc == 0 && i < entry.len; i++) {
            rc = archive_read(reader, &byte, 1, &err);
            if (rc == 0 && all != NULL)
                buf_append_char(all, byte);
        }
        if (rc < 0)
            break;
    }
    archive_reader_free(reader);
    secret_unref(secret);
    return rc < 0 ? -(int)err.code : count;
}

TEST(what_was_written_is_read_and_needs_its_passphrase)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);
    AUTO_BUF struct buf all = BUF_INIT(1u << 20);
    AUTO_FREE
    char *large = mem_new_zero(200000, 1);
    AUTO_FREE
    char *path = mem_printf("%s", tmp_path("sealed"));
    struct stat st;

    memset(large, 'x', 200000);
    archive_append(&text, ARCHIVE_MANIFEST, "", "{}", 2);
    archive_append(&text, ARCHIVE_EVENT, "run 1", "", 0);
    archive_append(&text, ARCHIVE_RUN, "a name", large, 200000);
    make(path, "a word", &text);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777u, 0600u);
    CHECK_EQ(read_through(path, "a word", &all), 3);
    CHECK_EQ(all.len, 200002u);
    CHECK_EQ(read_through(path, "another", NULL), -ERR_DENIED);
    CHECK_EQ(read_through(path, NULL, NULL), -ERR_DENIED);
}

TEST(a_file_is_never_replaced_and_never_half_there)
{
    AUTO_BUF struct buf text = BUF_INIT(1000);
    AUTO_FREE
    char *path = mem_printf("%s", tmp_path("plain"));
    AUTO_FREE
    char *partial = mem_printf("%s.partial", path);
    struct archive_writer *writer = NULL;
    struct error err = ERROR_INIT;

    archive_append(&text, ARCHIVE_MANIFEST, "", "{}", 2);
    CHECK_EQ(archive_create(&writer, path, NULL, &err), 0);
    CHECK_EQ(archive_write(writer, text.data, text.len, &err), 0);
    archive_writer_free(writer);
    CHECK(access(path, F_OK) < 0 && access(partial, F_OK) < 0);
    make(path, NULL, &text);
    CHECK_EQ(archive_create(&writer, path, NULL, &err), -1);
    CHECK_EQ((int)err.code, (int)ERR_CONFLICT);
    CHECK(access(partial, F_OK) < 0);
    CHECK_EQ(read_through(path, NULL, NULL), 1);
}

TEST(every_cut_and_every_changed_byte_is_noticed)
{
    AUTO_BUF struct buf text = BUF_INIT(1000);
    AUTO_FREE
    char *path = mem_printf("%s", tmp_path("whole"));
    AUTO_FREE
    char *changed = mem_printf("%s", tmp_path("changed"));
    AUTO_FREE
    char *bytes = NULL;
    struct error err = ERROR_INIT;
    size_t len = 0;

    archive_append(&text, ARCHIVE_MANIFEST, "", "{}", 2);
    archive_append(&text, ARCHIVE_RUN, "r", "some bytes", 10);
    make(path, NULL, &text);
    CHECK_EQ(fd_read_file(path, 100000, &bytes, &len, &err), 0);
    for (size_t cut = 0; cut < len; cut++) {
        CHECK_EQ(fd_replace_file(changed, bytes, cut, 0600, &err), 0);
        CHECK(read_through(changed, NULL, NULL) < 0);
    }
    for (size_t at = 0; at < len; at++) {
        bytes[at] ^= 1;
        CHECK_EQ(fd_replace_file(changed, bytes, len, 0600, &err), 0);
        CHECK(read_through(changed, NULL, NULL) < 0);
        bytes[at] ^= 1;
    }
}

TEST(a_stream_that_is_sealed_well_may_still_be_nonsense)
{
    static const struct {
        const char *bytes;
        size_t len;
    } streams[] = {
        { "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 11 },         /* no kind */
        { "\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 11 },         /* an unknown one */
        { "\x01\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00", 11 },         /* a long name */
        { "\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", 11 },         /* bytes that don't come */
        { "\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x61\x00", 13 }, /* a NUL in the name */
        { "\x01\x00", 2 },
    };
    AUTO_FREE
    char *path = mem_printf("%s", tmp_path("nonsense"));

    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        AUTO_BUF struct buf text = BUF_INIT(1000);

        buf_append(&text, streams[i].bytes, streams[i].len);
        make(path, NULL, &text);
        CHECK_EQ(read_through(path, NULL, NULL), -ERR_INVALID);
        unlink(path);
    }
}

TEST(names_of_objects_are_plain)
{
    CHECK(s3_key_valid("moves/2026-01/session.backup"));
    CHECK(!s3_key_valid(""));
    CHECK(!s3_key_valid("/a"));
    CHECK(!s3_key_valid("a/"));
    CHECK(!s3_key_valid("a//b"));
    CHECK(!s3_key_valid("a/../b"));
    CHECK(!s3_key_valid("a?b"));
    CHECK(!s3_key_valid("a b"));
}
