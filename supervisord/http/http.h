/* http.h: HTTP/1.1 for two servers (proxy, web). A request passes only if two judges agree: llhttp
 * in strict mode and our own check over the raw head (http_head_check), since no packaged parser
 * refuses all that must be refused. Parsing does no I/O. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/error.h"
#include "io/tls.h"

#define HTTP_HEAD_MAX (64u << 10)
#define HTTP_HEADERS_MAX 128
#define HTTP_TARGET_MAX (16u << 10)

/* Headers
 * -------------------------------------------------------------------------------------------------------
 */

struct http_header {
    char *name;  /* as sent; owns the memory of both */
    char *value; /* may be changed in place, not made longer */
};

struct http_headers {
    struct http_header *items;
    size_t count;
    size_t cap;
};

void http_headers_init(struct http_headers *headers);
void http_headers_finish(struct http_headers *headers);
/* Name and value are copied. Both must have been checked (token; VCHAR, SP, HTAB, obs-text). */
void http_headers_add(struct http_headers *headers, const char *name, const char *value);
const char *http_headers_get(const struct http_headers *headers,
                             const char *name); /* first, names ignore case; NULL */
size_t http_headers_count_of(const struct http_headers *headers, const char *name);
void http_headers_remove(struct http_headers *headers, const char *name); /* all of that name */
/* NAME goes no further than the next hop: Connection, Keep-Alive, Proxy-*, TE, Trailer,
 * Transfer-Encoding, Upgrade and what Connection names (RFC 9110 7.6.1). */
bool http_headers_hop_by_hop(const struct http_headers *headers, const char *name);
void http_headers_drop_hop_by_hop(struct http_headers *headers); /* all of these */
bool http_token_valid(const char *text, size_t len);
bool http_value_valid(const char *text, size_t len);

/* Request heads
 * --------------------------------------------------------------------------------------------------
 */

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

enum http_target_kind {
    HTTP_TARGET_ORIGIN,
    HTTP_TARGET_ABSOLUTE,
    HTTP_TARGET_AUTHORITY,
    HTTP_TARGET_ASTERISK
};

struct http_request {
    char *method;
    char *target; /* as sent */
    enum http_target_kind target_kind;
    char *host; /* the Host header; of a CONNECT in HTTP/1.0 that has none, the target */
    int minor;  /* HTTP/1.x */
    struct http_headers headers;
    enum http_body_kind body_kind;
    uint64_t content_length;
    bool keep_alive;
    bool expect_continue;
};

void http_request_finish(struct http_request *request);

/* Our own judge: DATA is the head including the empty line. 0, or -1 with ERR; the status to answer
 * is in ERR->sys (400, 414, 431, 501, 505, 417), a machine-readable code in ERR->argument. Rules:
 * RFC 9112, and stricter where parsers are known to differ. */
int http_head_check(const char *data, size_t len, struct error *err);

/* Response heads of an upstream
 * ------------------------------------------------------------------------------------ */

struct http_response_head {
    int status;
    bool chunked;
    int64_t content_length;      /* -1: none given */
    struct http_headers headers; /* all, framing too */
};

/* The same judge over a response's raw head including the empty line. HEAD must be zeroed; it is
 * finished by the caller, also on failure. ERR as for http_head_check, with status 502. */
int http_response_check(const char *data, size_t len, struct http_response_head *head,
                        struct error *err);
void http_response_head_finish(struct http_response_head *head);

/* Where a reader of chunked framing is. */
enum http_chunk_state {
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_EXTENSION,
    HTTP_CHUNK_SIZE_LF,
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_DATA_CR,
    HTTP_CHUNK_DATA_LF,
    HTTP_CHUNK_TRAILER_START,
    HTTP_CHUNK_TRAILER_NAME,
    HTTP_CHUNK_TRAILER_VALUE,
    HTTP_CHUNK_TRAILER_LF,
    HTTP_CHUNK_END_LF,
    HTTP_CHUNK_DONE,
};

struct http_chunks {
    enum http_chunk_state state;
    uint64_t left;
    unsigned digits;
    size_t extension_bytes;
    size_t trailer_bytes;
};

enum http_reply_body {
    HTTP_REPLY_NONE,
    HTTP_REPLY_LENGTH,
    HTTP_REPLY_CHUNKED,
    HTTP_REPLY_UNTIL_END, /* the connection's */
};

/* Reads one response off an upstream's connection: its head through the judge above, its body
 * without the framing. Interim heads are skipped; trailers are dropped. */
struct http_reply {
    /* The final head; it may answer HEAD, whose body is none whatever the head says. */
    void (*on_head)(void *data, const struct http_response_head *head);
    /* Some of the body; never empty. */
    void (*on_body)(void *data, const char *bytes, size_t len);
    void *data;
    bool takes_upgrade; /* 101 is an answer: what follows its head is no more the reader's */
    /* The rest is the reader's own. */
    bool answers_head;
    bool head_done;
    bool done;
    bool kept; /* once it is done, another request may follow on the connection */
    enum http_reply_body body;
    unsigned interim;
    uint64_t left;
    struct http_chunks chunks;
    struct buf head;
};

/* For an answer to METHOD. Caller's storage; the callbacks and DATA are set by the caller after
 * this. */
void http_reply_init(struct http_reply *reply, const char *method);
void http_reply_finish(struct http_reply *reply);
/* *USED is less than LEN when the response ended before. -1: it breaks the rules, ERR as for
 * http_response_check, and the reader is of no more use. */
int http_reply_feed(struct http_reply *reply, const char *bytes, size_t len, size_t *used,
                    struct error *err);
/* The connection has ended in order. False: it was too early. */
bool http_reply_end(struct http_reply *reply);

/* Server side
 * ------------------------------------------------------------------------------------------------------
 */

struct http_conn;

struct http_conn_callbacks {
    /* A whole head was read and both judges agree. REQUEST is borrowed until the response is
     * finished. The callee answers with the functions below, now or later. Requests on one
     * connection come one at a time. */
    void (*on_request)(void *data, struct http_conn *conn, const struct http_request *request);
    /* Body bytes in order; call http_conn_pause_body to be spared. */
    void (*on_body)(void *data, struct http_conn *conn, const char *bytes, size_t len);
    /* Also for a request without a body, unless it was answered before. */
    void (*on_body_end)(void *data, struct http_conn *conn);
    /* The peer broke the rules: the connection answers (STATUS, reason) and closes by itself; this
     * is for the audit only. When it happened in the body of a request, on_abort follows for that
     * request. STATUS 0: it was cut, since TLS failed. May be NULL. */
    void (*on_refused)(void *data, struct http_conn *conn, int status, const char *reason);
    /* The response's queue fell below the low mark. */
    void (*on_drain)(void *data, struct http_conn *conn);
    /* The request under way is dead: the peer is gone, was refused or too slow. Not called between
     * requests, nor after http_conn_close and http_conn_reset. on_closed follows. */
    void (*on_abort)(void *data, struct http_conn *conn);
    /* Last call: the connection's memory goes right after. */
    void (*on_closed)(void *data, struct http_conn *conn);
    void *data;
};

struct http_conn_options {
    uint64_t head_timeout_ms; /* from the first byte of a head to its end; 0: 30 s */
    uint64_t idle_timeout_ms; /* between requests; 0: 120 s */
    bool allow_absolute;      /* absolute-form targets (proxy) */
    bool allow_connect;       /* CONNECT host:port (proxy) */
};

/* Takes FD (closed also on failure). */
int http_conn_start(struct http_conn **out, uv_loop_t *loop, int fd,
                    const struct http_conn_options *options,
                    const struct http_conn_callbacks *callbacks, struct error *err);
void http_conn_set_data(struct http_conn *conn,
                        void *data); /* replaces callbacks.data for this connection */
void *http_conn_data(const struct http_conn *conn);
/* Closes without a further answer; on_closed follows from the loop. */
void http_conn_close(struct http_conn *conn);
/* Closes so that the peer sees a reset: a response that was cut must not look whole. */
void http_conn_reset(struct http_conn *conn);

void http_conn_pause_body(struct http_conn *conn);
void http_conn_resume_body(struct http_conn *conn);
/* Sends "100 Continue" if the request asked for it and nothing was answered yet; else nothing. */
void http_conn_continue(struct http_conn *conn);

/* A whole response at once: status, headers (may be NULL; framing, Date and Connection are added),
 * body. Unread request body: the connection closes after it. */
void http_conn_respond(struct http_conn *conn, int status, const struct http_headers *headers,
                       const void *body, size_t len);
/* {"error":{"code":…,"message":…}} with content-type application/json. */
void http_conn_respond_error(struct http_conn *conn, int status, const char *code,
                             const char *message);

/* A streamed response: head, then any number of body pieces, then the end. LENGTH -1: chunked (or
 * close-delimited on HTTP/1.0). */
void http_conn_begin(struct http_conn *conn, int status, const char *reason,
                     const struct http_headers *headers, int64_t length);
/* False when the queue is over the high mark (the bytes are taken all the same; wait for on_drain)
 * or the peer is gone. */
bool http_conn_send(struct http_conn *conn, const void *data, size_t len);
void http_conn_end(struct http_conn *conn);

/* Answers a CONNECT (200) or an upgrade (101) and makes the rest of the connection bytes: on_body
 * gets what the peer sends and on_body_end its end, http_conn_send sends, and http_conn_end sends
 * our end while the other direction goes on. With both ends the connection is over. Bytes that came
 * early are kept. HEADERS may be NULL. */
void http_conn_begin_tunnel(struct http_conn *conn, int status, const struct http_headers *headers);
/* Answers a CONNECT with 200 and serves requests inside of TLS from there on, or in the clear when
 * the client sends no TLS; on_request comes for each. -1 when the peer sent something before it was
 * answered, or TLS can't start; then the request waits for another answer. */
int http_conn_begin_tls(struct http_conn *conn, struct tls_context *context, const char *name,
                        const struct tls_identity *identity, struct error *err);
/* Whether what comes is inside of TLS. */
bool http_conn_secure(const struct http_conn *conn);
bool http_conn_over_high(const struct http_conn *conn);
size_t http_conn_queued(const struct http_conn *conn);

#endif
