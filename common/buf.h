/* buf.h: a growing byte buffer with a hard maximum. Failure sticks: once an append did not fit,
 * `failed` is set, later appends do nothing, and the owner checks once at the end. */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* always NUL-terminated behind len once something was appended */
    size_t len;
    size_t cap;
    size_t max;  /* bytes; the terminating NUL is not counted */
    bool failed; /* an append would have passed max, or memory was out */
};

/* Caller's storage. Nothing is allocated before the first append. A variable with AUTO_BUF is
 * initialised where it is declared: AUTO_BUF struct buf text = BUF_INIT(4096); */
#define BUF_INIT(max_bytes)                                                                        \
    {                                                                                              \
        .max = (max_bytes)                                                                         \
    }
void buf_init(struct buf *buf, size_t max_bytes);
void buf_finish(struct buf *buf); /* frees; the struct may be initialised again */
void buf_clear(struct buf *buf);  /* len 0 and failed off; memory kept */
void buf_append(struct buf *buf, const void *data, size_t len);
void buf_append_char(struct buf *buf, char c);
void buf_append_str(struct buf *buf, const char *text);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Room for LEN more bytes at data + len, or NULL (and failed) when that passes max; buf_commit adds
 * them. */
char *buf_reserve(struct buf *buf, size_t len);
void buf_commit(struct buf *buf, size_t len);
/* Removes LEN bytes from the front. */
void buf_consume(struct buf *buf, size_t len);
/* The text, "" when empty; borrowed until the next append. */
const char *buf_text(const struct buf *buf);
/* Hands the heap string to the caller (never NULL unless failed) and leaves an empty buffer. */
char *buf_steal(struct buf *buf);

#define AUTO_BUF __attribute__((cleanup(buf_finish)))

#endif
