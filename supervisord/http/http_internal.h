/* http_internal.h: what the files of this folder share and nobody else sees. */
#ifndef HTTP_HTTP_INTERNAL_H
#define HTTP_HTTP_INTERNAL_H

#include "http/http.h"

/* A span of the raw head; borrowed, not terminated. */
struct http_span {
    const char *at;
    size_t len;
};

/* What our own judge read out of a request head. */
struct http_head {
    struct http_span method;
    struct http_span target;
    struct http_span host;
    bool host_implied; /* there is no Host header: it is the target */
    enum http_target_kind target_kind;
    int minor;
    size_t header_count;
    enum http_body_kind body_kind;
    uint64_t content_length;
    bool keep_alive;
    bool expect_continue;
};

int http_head_read(const char *data, size_t len, struct http_head *head, struct error *err);

/* Sets ERR: CODE into argument (machine-readable), STATUS into sys. Returns -1. */
int http_refuse(struct error *err, int status, const char *code, const char *text);

/* Looks for the end of a head as its bytes arrive and refuses at once what no head may hold. */
struct http_scan {
    size_t at; /* bytes looked at */
    size_t line_start;
    bool after_cr;
};
/* DATA is the head so far, LEN what is there of it. 1: the head ends at *HEAD_LEN; 0: more is
 * needed; -1: refused. */
int http_scan(struct http_scan *scan, const char *data, size_t len, size_t *head_len,
              struct error *err);

/* Takes framing up to the next PIECE of data, which is empty when there is none in what came, or
 * when the message ends here. *USED counts the piece too. */
int http_chunks_take(struct http_chunks *chunks, const char *data, size_t len, size_t *used,
                     struct http_span *piece, struct error *err);
bool http_chunks_done(const struct http_chunks *chunks);

/* The second judge (llhttp) and the body. One parser handles one message after the other. */
struct http_parser;
struct http_parser *http_parser_new(void (*on_body)(void *data, const char *bytes, size_t len),
                                    void *data);
void http_parser_free(struct http_parser *parser);
/* HEAD is a whole head that http_head_read has passed as READ. Fills OUT (to be finished by the
 * caller also on failure) if the parser agrees in every point. */
int http_parser_head(struct http_parser *parser, const char *data, size_t len,
                     const struct http_head *read, struct http_request *out, struct error *err);
/* True once the message's last byte was taken. */
bool http_parser_done(const struct http_parser *parser);
/* Takes body bytes up to the message's end; *USED says how many. */
int http_parser_body(struct http_parser *parser, const char *data, size_t len, size_t *used,
                     struct error *err);

/* response.c
 * ----------------------------------------------------------------------------------------------------
 */

struct http_response {
    int status;
    const char *reason; /* NULL: the usual one */
    const struct http_headers
        *headers; /* NULL: none; framing and connection headers in it are left out */
    int minor;    /* of the request */
    bool close;
    bool chunked;
    int64_t length; /* Content-Length; -1: none */
};
void http_response_head(struct buf *out, const struct http_response *response,
                        int64_t unix_seconds);
/* The head that ends HTTP on a connection: 200 for CONNECT, 101. No framing of ours. */
void http_response_switch(struct buf *out, int status, const struct http_headers *headers);
/* 1xx, 204, 304 never have a body (RFC 9110 6.4.1). */
bool http_status_has_body(int status);
const char *http_status_reason(int status);

#endif
