#include "agent/opencode/opencode_reply.h"

#include <string.h>
#include <strings.h>

#include "common/str.h"

#define HEAD_LINE_MAX 16384
#define HEAD_LINES_MAX 200
#define LENGTH_MAX (UINT64_C(1) << 53)

void opencode_reply_init(struct opencode_reply *reply)
{
    *reply = (struct opencode_reply){ .state = OPENCODE_REPLY_STATUS };
    buf_init(&reply->line, HEAD_LINE_MAX);
}

void opencode_reply_finish(struct opencode_reply *reply)
{
    buf_finish(&reply->line);
}

static int bad(struct error *err, const char *what)
{
    return error_set(err, ERR_UNAVAILABLE, 0, "not an HTTP response: %s", what);
}

/* "HTTP/1.1 200 OK" */
static int read_status(struct opencode_reply *reply, const char *line, struct error *err)
{
    if (!str_starts(line, "HTTP/1.") || strlen(line) < 12 || line[8] != ' ')
        return bad(err, "status line");
    for (size_t i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return bad(err, "status");
        reply->status = (i == 9 ? 0 : reply->status * 10) + (line[i] - '0');
    }
    if (reply->status < 100 || (line[12] != '\0' && line[12] != ' '))
        return bad(err, "status");
    reply->state = OPENCODE_REPLY_HEADERS;
    return 0;
}

/* The value of the header NAME, or NULL when LINE is another one. */
static const char *header_value(const char *line, const char *name)
{
    size_t len = strlen(name);

    if (strncasecmp(line, name, len) != 0 || line[len] != ':')
        return NULL;
    line += len + 1;
    return line + strspn(line, " \t");
}

static int read_header(struct opencode_reply *reply, const char *line, struct error *err)
{
    const char *value;

    if ((value = header_value(line, "content-type")) != NULL) {
        reply->is_json = strncasecmp(value, "application/json", 16) == 0;
        reply->is_event_stream = strncasecmp(value, "text/event-stream", 17) == 0;
    } else if ((value = header_value(line, "content-length")) != NULL) {
        if (!str_parse_u64(value, LENGTH_MAX, &reply->left))
            return bad(err, "length");
        reply->has_length = true;
    } else if ((value = header_value(line, "transfer-encoding")) != NULL) {
        if (strcasecmp(value, "chunked") != 0)
            return bad(err, "transfer encoding");
        reply->chunked = true;
    }
    return 0;
}

static void end_head(struct opencode_reply *reply)
{
    if (reply->status < 200) { /* "100 Continue": the response proper follows */
        reply->state = OPENCODE_REPLY_STATUS;
        reply->chunked = reply->has_length = false;
        reply->left = 0;
    } else if (reply->status == 204 || reply->status == 304) {
        reply->state = OPENCODE_REPLY_DONE;
    } else if (reply->chunked) {
        reply->state = OPENCODE_REPLY_CHUNK;
    } else if (reply->has_length) {
        reply->state = reply->left > 0 ? OPENCODE_REPLY_LENGTH : OPENCODE_REPLY_DONE;
    } else {
        reply->state = OPENCODE_REPLY_TO_END;
    }
}

/* Hexadecimal digits, then perhaps an extension. */
static int read_chunk_size(struct opencode_reply *reply, const char *line, struct error *err)
{
    uint64_t size = 0;
    size_t digits = strspn(line, "0123456789abcdefABCDEF");

    if (digits == 0 || digits > 13 ||
        (line[digits] != '\0' && line[digits] != ';' && line[digits] != ' '))
        return bad(err, "chunk size");
    for (size_t i = 0; i < digits; i++) {
        char c = (char)(line[i] | 0x20);

        size = size << 4 | (uint64_t)(c >= 'a' ? c - 'a' + 10 : c - '0');
    }
    reply->left = size;
    reply->state = size > 0 ? OPENCODE_REPLY_CHUNK_DATA : OPENCODE_REPLY_TRAILERS;
    return 0;
}

static int read_line(struct opencode_reply *reply, const char *line, struct error *err)
{
    if (reply->state == OPENCODE_REPLY_STATUS)
        return read_status(reply, line, err);
    if (reply->state == OPENCODE_REPLY_CHUNK)
        return read_chunk_size(reply, line, err);
    if (reply->state == OPENCODE_REPLY_CHUNK_END) {
        reply->state = OPENCODE_REPLY_CHUNK;
        return line[0] == '\0' ? 0 : bad(err, "end of chunk");
    }
    if (++reply->lines > HEAD_LINES_MAX)
        return bad(err, "too many headers");
    if (line[0] != '\0')
        return reply->state == OPENCODE_REPLY_HEADERS ? read_header(reply, line, err) : 0;
    if (reply->state == OPENCODE_REPLY_HEADERS)
        end_head(reply);
    else
        reply->state = OPENCODE_REPLY_DONE;
    return 0;
}

/* Takes bytes up to a line's end; reads the line when it is whole. Returns the number taken, or -1.
 */
static ssize_t take_line(struct opencode_reply *reply, const char *bytes, size_t len,
                         struct error *err)
{
    const char *newline = memchr(bytes, '\n', len);
    size_t part = newline != NULL ? (size_t)(newline - bytes) : len;
    int status;

    buf_append(&reply->line, bytes, part);
    if (reply->line.failed || memchr(bytes, '\0', part) != NULL)
        return bad(err, "a line that is too long or no text");
    if (newline == NULL)
        return (ssize_t)part;
    if (reply->line.len > 0 && reply->line.data[reply->line.len - 1] == '\r')
        reply->line.data[--reply->line.len] = '\0';
    status = read_line(reply, buf_text(&reply->line), err);
    buf_clear(&reply->line);
    return status < 0 ? -1 : (ssize_t)(part + 1);
}

static size_t take_body(struct opencode_reply *reply, const char *bytes, size_t len,
                        struct buf *body)
{
    if (reply->state == OPENCODE_REPLY_TO_END) {
        buf_append(body, bytes, len);
        return len;
    }
    if (len > reply->left)
        len = (size_t)reply->left;
    buf_append(body, bytes, len);
    reply->left -= len;
    if (reply->left == 0)
        reply->state =
            reply->state == OPENCODE_REPLY_LENGTH ? OPENCODE_REPLY_DONE : OPENCODE_REPLY_CHUNK_END;
    return len;
}

int opencode_reply_feed(struct opencode_reply *reply, const char *bytes, size_t len,
                        struct buf *body, struct error *err)
{
    while (len > 0 && reply->state != OPENCODE_REPLY_DONE) {
        bool in_body = reply->state == OPENCODE_REPLY_LENGTH ||
                       reply->state == OPENCODE_REPLY_TO_END ||
                       reply->state == OPENCODE_REPLY_CHUNK_DATA;
        ssize_t taken = in_body ? (ssize_t)take_body(reply, bytes, len, body)
                                : take_line(reply, bytes, len, err);

        if (taken < 0)
            return -1;
        bytes += taken;
        len -= (size_t)taken;
    }
    return 0;
}

int opencode_reply_end(struct opencode_reply *reply, struct error *err)
{
    if (reply->state == OPENCODE_REPLY_TO_END)
        reply->state = OPENCODE_REPLY_DONE;
    if (reply->state != OPENCODE_REPLY_DONE)
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "the connection ended in the middle of the response");
    return 0;
}
