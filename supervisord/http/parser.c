/* parser.c: llhttp as the second judge, and bodies. Nothing else sees llhttp's types. Chunked
 * framing too is read twice: by a small machine of ours (chunks.c) that finds the message's end and
 * counts what llhttp doesn't, and by llhttp, which decodes. */
#include "http/http_internal.h"

#include <llhttp.h>

#include "common/mem.h"

struct http_parser {
    llhttp_t llhttp;
    llhttp_settings_t settings;
    void (*on_body)(void *data, const char *bytes, size_t len);
    void *data;
    struct http_request *request; /* while a head is read */
    struct buf target;
    struct buf name;
    struct buf value;
    struct http_chunks chunks;
    enum http_body_kind kind;
    uint64_t left;  /* of a body with a length, as we count it */
    bool done;      /* as we read it */
    bool completed; /* as llhttp reads it */
};

/* llhttp's callbacks
 * ---------------------------------------------------------------------------------------------- */

static int on_target(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    buf_append(&parser->target, at, len);
    return parser->target.failed ? -1 : 0;
}

static int on_field(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    if (parser->request == NULL)
        return 0; /* a trailer: dropped */
    buf_append(&parser->name, at, len);
    return parser->name.failed ? -1 : 0;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    if (parser->request == NULL)
        return 0;
    buf_append(&parser->value, at, len);
    return parser->value.failed ? -1 : 0;
}

static int on_value_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = llhttp->data;
    struct buf *value = &parser->value;

    if (parser->request == NULL)
        return 0;
    while (value->len > 0 &&
           (value->data[value->len - 1] == ' ' || value->data[value->len - 1] == '\t'))
        value->data[--value->len] = '\0';
    if (!http_token_valid(buf_text(&parser->name), parser->name.len) ||
        !http_value_valid(buf_text(value), value->len))
        return -1;
    http_headers_add(&parser->request->headers, buf_text(&parser->name), buf_text(value));
    buf_clear(&parser->name);
    buf_clear(value);
    return 0;
}

static int on_headers_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = llhttp->data;

    /* Neither CONNECT nor Upgrade changes the protocol before somebody has said yes: plain messages
     * until then. */
    llhttp->upgrade = 0;
    parser->request = NULL;
    return 0;
}

static int on_llhttp_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *parser = llhttp->data;

    parser->on_body(parser->data, at, len);
    return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = llhttp->data;

    parser->completed = true;
    return HPE_PAUSED;
}

struct http_parser *http_parser_new(void (*on_body)(void *data, const char *bytes, size_t len),
                                    void *data)
{
    struct http_parser *parser = NEW(struct http_parser);

    llhttp_settings_init(&parser->settings);
    parser->settings.on_url = on_target;
    parser->settings.on_header_field = on_field;
    parser->settings.on_header_value = on_value;
    parser->settings.on_header_value_complete = on_value_complete;
    parser->settings.on_headers_complete = on_headers_complete;
    parser->settings.on_body = on_llhttp_body;
    parser->settings.on_message_complete = on_message_complete;
    parser->on_body = on_body;
    parser->data = data;
    buf_init(&parser->target, HTTP_HEAD_MAX);
    buf_init(&parser->name, HTTP_HEAD_MAX);
    buf_init(&parser->value, HTTP_HEAD_MAX);
    return parser;
}

void http_parser_free(struct http_parser *parser)
{
    if (parser == NULL)
        return;
    buf_finish(&parser->target);
    buf_finish(&parser->name);
    buf_finish(&parser->value);
    free(parser);
}

static int disagree(struct error *err)
{
    return http_refuse(err, 400, "bad_request", "the two parsers read the head differently");
}

static bool text_is_span(const char *text, struct http_span span)
{
    return strlen(text) == span.len && memcmp(text, span.at, span.len) == 0;
}

/* What llhttp left in the parser against what we read. */
static int compare(const struct http_parser *parser, const struct http_head *read,
                   const struct http_request *request, struct error *err)
{
    const llhttp_t *llhttp = &parser->llhttp;
    bool chunked = read->body_kind == HTTP_BODY_CHUNKED;
    bool whole = read->body_kind == HTTP_BODY_NONE ||
                 (read->body_kind == HTTP_BODY_LENGTH && read->content_length == 0);
    const char *host = http_headers_get(&request->headers, "host");

    if (!text_is_span(llhttp_method_name((llhttp_method_t)llhttp->method), read->method) ||
        !text_is_span(buf_text(&parser->target), read->target) ||
        (host == NULL) != read->host_implied || (host != NULL && !text_is_span(host, read->host)))
        return disagree(err);
    if (llhttp->http_major != 1 || llhttp->http_minor != read->minor ||
        request->headers.count != read->header_count)
        return disagree(err);
    if (parser->request != NULL || parser->completed != whole)
        return disagree(err);
    if (!whole && (((llhttp->flags & F_CHUNKED) != 0) != chunked ||
                   (!chunked && llhttp->content_length != read->content_length)))
        return disagree(err);
    return 0;
}

int http_parser_head(struct http_parser *parser, const char *data, size_t len,
                     const struct http_head *read, struct http_request *out, struct error *err)
{
    llhttp_errno_t status;

    llhttp_init(&parser->llhttp, HTTP_REQUEST, &parser->settings);
    parser->llhttp.data = parser;
    parser->request = out;
    parser->completed = false;
    parser->chunks = (struct http_chunks){ 0 };
    buf_clear(&parser->target);
    buf_clear(&parser->name);
    buf_clear(&parser->value);
    status = llhttp_execute(&parser->llhttp, data, len);
    if (status != HPE_OK && !(status == HPE_PAUSED && parser->completed))
        return http_refuse(err, 400, "bad_request", llhttp_get_error_reason(&parser->llhttp));
    if (compare(parser, read, out, err) < 0)
        return -1;
    parser->kind = read->body_kind;
    parser->left = read->content_length;
    parser->done = parser->completed;
    out->method = mem_strndup(read->method.at, read->method.len);
    out->target = mem_strndup(read->target.at, read->target.len);
    out->host = mem_strndup(read->host.at, read->host.len);
    out->target_kind = read->target_kind;
    out->minor = read->minor;
    out->body_kind = read->body_kind;
    out->content_length = read->content_length;
    out->keep_alive = read->keep_alive;
    out->expect_continue = read->expect_continue;
    return 0;
}

bool http_parser_done(const struct http_parser *parser)
{
    return parser->done;
}

/* Finds out how much of DATA is ours before llhttp sees any of it. */
static int measure(struct http_parser *parser, const char *data, size_t len, size_t *used,
                   struct error *err)
{
    if (parser->kind == HTTP_BODY_CHUNKED) {
        struct http_span piece;
        size_t at = 0;

        for (*used = 0; *used < len && !http_chunks_done(&parser->chunks); *used += at)
            if (http_chunks_take(&parser->chunks, data + *used, len - *used, &at, &piece, err) < 0)
                return -1;
        parser->done = http_chunks_done(&parser->chunks);
        return 0;
    }
    *used = len < parser->left ? len : (size_t)parser->left;
    parser->left -= *used;
    parser->done = parser->left == 0;
    return 0;
}

int http_parser_body(struct http_parser *parser, const char *data, size_t len, size_t *used,
                     struct error *err)
{
    llhttp_errno_t status;

    BUG_ON(parser->done);
    if (measure(parser, data, len, used, err) < 0)
        return -1;
    status = llhttp_execute(&parser->llhttp, data, *used);
    if (status != HPE_OK && !(status == HPE_PAUSED && parser->completed))
        return http_refuse(err, 400, "bad_chunk", llhttp_get_error_reason(&parser->llhttp));
    if (parser->completed != parser->done)
        return disagree(err);
    return 0;
}
