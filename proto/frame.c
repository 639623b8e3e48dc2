#include "proto/frame.h"

static uint32_t get_u32(const char *data)
{
    const unsigned char *bytes = (const unsigned char *)data;

    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void put_u32(char *to, uint32_t value)
{
    to[0] = (char)(value >> 24);
    to[1] = (char)(value >> 16);
    to[2] = (char)(value >> 8);
    to[3] = (char)value;
}

/* Largest payload of a kind; 0 for a kind that does not exist. */
static uint32_t payload_max(unsigned char kind)
{
    if (kind == FRAME_KIND_JSON)
        return FRAME_JSON_MAX;
    return kind == FRAME_KIND_BLOB ? FRAME_BLOB_MAX : 0;
}

/* The length is checked as soon as it is there, so that nobody buffers what will be refused. */
static int check_length(uint32_t length, struct error *err)
{
    if (length == 0)
        return error_set(err, ERR_INVALID, 0, "frame of length 0");
    if (length > FRAME_JSON_MAX + 1)
        return error_set(err, ERR_LIMIT, 0, "frame of %u bytes; at most %u are allowed", length,
                         FRAME_JSON_MAX + 1);
    return 0;
}

static int check_kind(unsigned char kind, uint32_t payload, struct error *err)
{
    uint32_t max = payload_max(kind);

    if (max == 0)
        return error_set(err, ERR_INVALID, 0, "frame of unknown kind 0x%02x", kind);
    if (payload > max)
        return error_set(err, ERR_LIMIT, 0,
                         "frame of kind %c with %u bytes; at most %u are allowed", kind, payload,
                         max);
    return 0;
}

long frame_parse(const char *data, size_t len, struct frame *frame, struct error *err)
{
    uint32_t length;

    if (len < FRAME_HEAD_SIZE - 1)
        return 0;
    length = get_u32(data);
    if (check_length(length, err) < 0)
        return -1;
    if (len < FRAME_HEAD_SIZE)
        return 0;
    if (check_kind((unsigned char)data[4], length - 1, err) < 0)
        return -1;
    if (len - FRAME_HEAD_SIZE < length - 1)
        return 0;
    frame->kind = (enum frame_kind)data[4];
    frame->data = data + FRAME_HEAD_SIZE;
    frame->len = length - 1;
    return FRAME_HEAD_SIZE + (long)frame->len;
}

int frame_append_head(struct buf *buf, enum frame_kind kind, size_t len, struct error *err)
{
    char *to;

    if (len > payload_max((unsigned char)kind))
        return error_set(err, ERR_LIMIT, 0, "%zu bytes are too many for one frame of kind %c", len,
                         (int)kind);
    to = buf_reserve(buf, FRAME_HEAD_SIZE + len);
    if (!to)
        return error_set(err, ERR_LIMIT, 0, "no room for a frame of %zu bytes", len);
    put_u32(to, (uint32_t)len + 1);
    to[4] = (char)kind;
    buf_commit(buf, FRAME_HEAD_SIZE);
    return 0;
}

int frame_append(struct buf *buf, enum frame_kind kind, const void *data, size_t len,
                 struct error *err)
{
    if (frame_append_head(buf, kind, len, err) < 0)
        return -1;
    buf_append(buf, data, len);
    return 0;
}
