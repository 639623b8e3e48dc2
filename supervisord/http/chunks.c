/* chunks.c: chunked framing (RFC 9112 7.1), strictly: requests' beside llhttp, responses' alone. */
#include "http/http_internal.h"

#include "common/mem.h"
#include "common/str.h"

#define CHUNK_DIGITS_MAX 16
#define EXTENSIONS_MAX 1024u /* bytes, all chunks of a message together */
#define TRAILERS_MAX (4u << 10)

static int bad_chunk(struct error *err, const char *text)
{
    return http_refuse(err, 400, "bad_chunk", text);
}

static int take_size(struct http_chunks *chunks, char c, struct error *err)
{
    int digit = str_hex_value(c);

    if (digit >= 0) {
        if (++chunks->digits > CHUNK_DIGITS_MAX || chunks->left > (INT64_MAX >> 4))
            return bad_chunk(err, "a chunk size that is too large");
        chunks->left = (chunks->left << 4) | (uint64_t)digit;
        return 0;
    }
    if (chunks->digits == 0 || (c != ';' && c != '\r'))
        return bad_chunk(err, "a chunk size that is no hexadecimal number");
    chunks->state = c == ';' ? HTTP_CHUNK_EXTENSION : HTTP_CHUNK_SIZE_LF;
    return 0;
}

static int take_extension(struct http_chunks *chunks, char c, struct error *err)
{
    if (c == '\r') {
        chunks->state = HTTP_CHUNK_SIZE_LF;
        return 0;
    }
    if (!http_value_valid(&c, 1))
        return bad_chunk(err, "a control character in a chunk extension");
    if (++chunks->extension_bytes > EXTENSIONS_MAX)
        return http_refuse(err, 400, "chunk_extensions_too_large",
                           "too many bytes in chunk extensions");
    return 0;
}

static int take_trailer(struct http_chunks *chunks, char c, struct error *err)
{
    if (++chunks->trailer_bytes > TRAILERS_MAX)
        return http_refuse(err, 431, "trailers_too_large", "too many bytes in trailers");
    if (chunks->state == HTTP_CHUNK_TRAILER_START && c == '\r') {
        chunks->state = HTTP_CHUNK_END_LF;
    } else if (chunks->state == HTTP_CHUNK_TRAILER_VALUE) {
        if (c == '\r')
            chunks->state = HTTP_CHUNK_TRAILER_LF;
        else if (!http_value_valid(&c, 1))
            return bad_chunk(err, "a control character in a trailer");
    } else if (chunks->state == HTTP_CHUNK_TRAILER_NAME && c == ':') {
        chunks->state = HTTP_CHUNK_TRAILER_VALUE;
    } else if (http_token_valid(&c, 1)) {
        chunks->state = HTTP_CHUNK_TRAILER_NAME;
    } else {
        return bad_chunk(err, "a trailer line that is no header");
    }
    return 0;
}

static int take_line_end(struct http_chunks *chunks, char c, char wanted,
                         enum http_chunk_state next, struct error *err)
{
    if (c != wanted)
        return bad_chunk(err, "a chunk without its line end");
    chunks->state = next;
    return 0;
}

static int take_chunk_byte(struct http_chunks *chunks, char c, struct error *err)
{
    switch (chunks->state) {
    case HTTP_CHUNK_SIZE:
        return take_size(chunks, c, err);
    case HTTP_CHUNK_EXTENSION:
        return take_extension(chunks, c, err);
    case HTTP_CHUNK_SIZE_LF:
        return take_line_end(chunks, c, '\n',
                             chunks->left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER_START, err);
    case HTTP_CHUNK_DATA_CR:
        return take_line_end(chunks, c, '\r', HTTP_CHUNK_DATA_LF, err);
    case HTTP_CHUNK_DATA_LF:
        chunks->digits = 0;
        return take_line_end(chunks, c, '\n', HTTP_CHUNK_SIZE, err);
    case HTTP_CHUNK_TRAILER_START:
    case HTTP_CHUNK_TRAILER_NAME:
    case HTTP_CHUNK_TRAILER_VALUE:
        return take_trailer(chunks, c, err);
    case HTTP_CHUNK_TRAILER_LF:
        return take_line_end(chunks, c, '\n', HTTP_CHUNK_TRAILER_START, err);
    case HTTP_CHUNK_END_LF:
        return take_line_end(chunks, c, '\n', HTTP_CHUNK_DONE, err);
    case HTTP_CHUNK_DATA:
    case HTTP_CHUNK_DONE:
        break;
    }
    BUG("chunk state");
}

bool http_chunks_done(const struct http_chunks *chunks)
{
    return chunks->state == HTTP_CHUNK_DONE;
}

int http_chunks_take(struct http_chunks *chunks, const char *data, size_t len, size_t *used,
                     struct http_span *piece, struct error *err)
{
    size_t at = 0;

    *piece = (struct http_span){ data, 0 };
    while (at < len && chunks->state != HTTP_CHUNK_DATA && chunks->state != HTTP_CHUNK_DONE)
        if (take_chunk_byte(chunks, data[at++], err) < 0)
            return -1;
    if (at < len && chunks->state == HTTP_CHUNK_DATA) {
        *piece = (struct http_span){ data + at, len - at };
        if (piece->len > chunks->left)
            piece->len = (size_t)chunks->left;
        at += piece->len;
        chunks->left -= piece->len;
        if (chunks->left == 0)
            chunks->state = HTTP_CHUNK_DATA_CR;
    }
    *used = at;
    return 0;
}
