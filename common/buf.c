#include "common/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define FIRST_CAPACITY 64

void buf_init(struct buf *buf, size_t max_bytes)
{
    *buf = (struct buf)BUF_INIT(max_bytes);
}

void buf_finish(struct buf *buf)
{
    free(buf->data);
    buf_init(buf, buf->max);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

/* CAP counts the terminating NUL; NEEDED does not. */
static bool grow(struct buf *buf, size_t needed)
{
    size_t cap = buf->cap ? buf->cap : FIRST_CAPACITY;
    char *data;

    if (needed < buf->cap)
        return true;
    while (cap <= needed)
        cap = cap <= SIZE_MAX / 2 ? cap * 2 : SIZE_MAX;
    if (cap - 1 > buf->max)
        cap = buf->max + 1;
    data = realloc(buf->data, cap);
    if (!data)
        return false;
    buf->data = data;
    buf->cap = cap;
    return true;
}

char *buf_reserve(struct buf *buf, size_t len)
{
    if (buf->failed)
        return NULL;
    if (len > buf->max - buf->len || buf->len + len == SIZE_MAX || !grow(buf, buf->len + len)) {
        buf->failed = true;
        return NULL;
    }
    buf->data[buf->len] = '\0';
    return buf->data + buf->len;
}

void buf_commit(struct buf *buf, size_t len)
{
    BUG_ON(len && len >= buf->cap - buf->len);
    buf->len += len;
    if (buf->data)
        buf->data[buf->len] = '\0';
}

void buf_append(struct buf *buf, const void *data, size_t len)
{
    char *to = buf_reserve(buf, len);

    if (!to)
        return;
    if (len)
        memcpy(to, data, len);
    buf_commit(buf, len);
}

void buf_append_char(struct buf *buf, char c)
{
    if (buf->failed || buf->len + 1 >= buf->cap) {
        buf_append(buf, &c, 1);
        return;
    }
    buf->data[buf->len++] = c;
    buf->data[buf->len] = '\0';
}

void buf_append_str(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    int len;
    char *to;

    if (buf->failed)
        return;
    /* Mostly it fits into what is there already. */
    va_start(args, format);
    len = vsnprintf(buf->data ? buf->data + buf->len : NULL, buf->data ? buf->cap - buf->len : 0,
                    format, args);
    va_end(args);
    if (len >= 0 && buf->data && (size_t)len < buf->cap - buf->len) {
        buf->len += (size_t)len;
        return;
    }
    if (buf->data)
        buf->data[buf->len] = '\0';
    if (len < 0) {
        buf->failed = true;
        return;
    }
    to = buf_reserve(buf, (size_t)len);
    if (!to)
        return;
    va_start(args, format);
    vsnprintf(to, (size_t)len + 1, format, args);
    va_end(args);
    buf_commit(buf, (size_t)len);
}

void buf_consume(struct buf *buf, size_t len)
{
    BUG_ON(len > buf->len);
    if (!len)
        return;
    buf->len -= len;
    memmove(buf->data, buf->data + len, buf->len);
    buf->data[buf->len] = '\0';
}

const char *buf_text(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

char *buf_steal(struct buf *buf)
{
    char *text = NULL;

    if (!buf->failed)
        text = buf->data ? STEAL(buf->data) : mem_strdup("");
    buf_finish(buf);
    return text;
}
