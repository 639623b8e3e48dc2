/* reply.c: one response of an upstream. Stricter than clients are: what has two readings is
 * refused, since what follows it would be taken for the answer to somebody else's request. */
#include "http/http_internal.h"

#include <strings.h>

#include "common/mem.h"

#define INTERIM_MAX 16 /* 1xx heads before the final one */

void http_reply_init(struct http_reply *reply, const char *method)
{
    *reply = (struct http_reply){ .answers_head = strcmp(method, "HEAD") == 0 };
    buf_init(&reply->head, HTTP_HEAD_MAX);
}

void http_reply_finish(struct http_reply *reply)
{
    buf_finish(&reply->head);
}

/* Length of the head with its empty line, or 0 when that isn't there. A bare LF counts as a line's
 * end here, so that the judge sees it and refuses. */
static size_t find_end(const char *data, size_t len, size_t from)
{
    const char *end = data + len;
    const char *at = data + from;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        if (at < end && at[0] == '\n')
            return (size_t)(at - data) + 1;
        if (end - at >= 2 && at[0] == '\r' && at[1] == '\n')
            return (size_t)(at - data) + 2;
    }
    return 0;
}

static bool lists_close(const struct http_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        if (strcasecmp(headers->items[i].name, "connection") == 0 &&
            strcasestr(headers->items[i].value, "close") != NULL)
            return true;
    return false;
}

static void choose_body(struct http_reply *reply, const struct http_response_head *head)
{
    if (reply->answers_head || !http_status_has_body(head->status)) { /* 101 among these */
        reply->body = HTTP_REPLY_NONE;
        reply->done = true;
    } else if (head->chunked) {
        reply->body = HTTP_REPLY_CHUNKED;
    } else if (head->content_length >= 0) {
        reply->body = HTTP_REPLY_LENGTH;
        reply->left = (uint64_t)head->content_length;
        reply->done = reply->left == 0;
    } else {
        reply->body = HTTP_REPLY_UNTIL_END;
        reply->kept = false;
    }
}

static int judge(struct http_reply *reply, const char *data, size_t len, struct error *err)
{
    struct http_response_head head = { 0 };
    int status = http_response_check(data, len, &head, err);

    if (status == 0 && (head.status >= 200 || (head.status == 101 && reply->takes_upgrade))) {
        reply->head_done = true;
        /* The judge has seen that there is a minor version. */
        reply->kept = strncmp(data, "HTTP/1.1", 8) == 0 && !lists_close(&head.headers);
        choose_body(reply, &head);
        reply->on_head(reply->data, &head);
    } else if (status == 0 && (head.status == 101 || ++reply->interim > INTERIM_MAX)) {
        status = http_refuse(err, 502, "bad_interim", "an upgrade nobody asked for, or a flood");
    }
    http_response_head_finish(&head);
    return status;
}

/* What is no HTTP is refused at its first byte: there may never be an empty line. */
static bool begins_well(const char *data, size_t len)
{
    static const char version[] = "HTTP/1.";

    return memcmp(data, version, len < sizeof(version) - 1 ? len : sizeof(version) - 1) == 0;
}

static int take_head(struct http_reply *reply, const char *bytes, size_t len, size_t *used,
                     struct error *err)
{
    size_t before = reply->head.len;
    const char *data = bytes;
    size_t have = len;
    size_t head_len;

    if (before > 0) {
        size_t room = HTTP_HEAD_MAX - before;

        buf_append(&reply->head, bytes, len < room ? len : room);
        data = reply->head.data;
        have = reply->head.len;
    }
    head_len = find_end(data, have, before > 2 ? before - 2 : 0);
    if (!begins_well(data, have))
        return http_refuse(err, 502, "bad_status_line", "this is no answer in HTTP/1");
    if (head_len > HTTP_HEAD_MAX || (head_len == 0 && have >= HTTP_HEAD_MAX))
        return http_refuse(err, 502, "head_too_large", "the head is too large");
    *used = len;
    if (head_len == 0) {
        if (before == 0)
            buf_append(&reply->head, bytes, len);
        return 0;
    }
    *used = head_len - before;
    if (judge(reply, data, head_len, err) < 0)
        return -1;
    buf_clear(&reply->head);
    return 0;
}

static int take_body(struct http_reply *reply, const char *bytes, size_t len, size_t *used,
                     struct error *err)
{
    struct http_span piece = { bytes, len };

    *used = len;
    switch (reply->body) {
    case HTTP_REPLY_CHUNKED:
        if (http_chunks_take(&reply->chunks, bytes, len, used, &piece, err) < 0)
            return -1;
        reply->done = http_chunks_done(&reply->chunks);
        break;
    case HTTP_REPLY_LENGTH:
        if (piece.len > reply->left)
            *used = piece.len = (size_t)reply->left;
        reply->left -= piece.len;
        reply->done = reply->left == 0;
        break;
    case HTTP_REPLY_NONE:
    case HTTP_REPLY_UNTIL_END:
        break;
    }
    if (piece.len > 0)
        reply->on_body(reply->data, piece.at, piece.len);
    return 0;
}

int http_reply_feed(struct http_reply *reply, const char *bytes, size_t len, size_t *used,
                    struct error *err)
{
    size_t at = 0;

    for (*used = 0; *used < len && !reply->done; *used += at) {
        int status = reply->head_done ? take_body(reply, bytes + *used, len - *used, &at, err)
                                      : take_head(reply, bytes + *used, len - *used, &at, err);

        if (status < 0)
            return -1;
    }
    return 0;
}

bool http_reply_end(struct http_reply *reply)
{
    if (reply->head_done && reply->body == HTTP_REPLY_UNTIL_END)
        reply->done = true;
    return reply->done;
}
