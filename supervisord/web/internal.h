/* internal.h: what the files of web/ share. Nobody else includes it. */
#ifndef WEB_INTERNAL_H
#define WEB_INTERNAL_H

#include "common/buf.h"
#include "common/json_write.h"
#include "common/list.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "http/http.h"
#include "io/io.h"
#include "web/web.h"

struct web_asset {
    const char *name;
    const char *type;
    const unsigned char *data;
    size_t len;
};
extern const struct web_asset web_assets[]; /* ends with a NULL name */

#define WEB_KEY_SIZE 32
#define WEB_TOKEN_SIZE 44 /* 43 characters of base64url and NUL */

/* auth.c
 * ----------------------------------------------------------------------------------------------------------
 */

/* Reads state/web.key, or makes it. */
int auth_load_key(const char *state_dir, unsigned char key[WEB_KEY_SIZE], struct error *err);
/* The token that opens one run. */
void auth_token(const unsigned char key[WEB_KEY_SIZE], const char *run_id,
                char token[WEB_TOKEN_SIZE]);
/* In constant time; NULL is wrong. */
bool auth_token_matches(const unsigned char key[WEB_KEY_SIZE], const char *run_id,
                        const char *token);
/* Only loopback names with our own port: a page of another site that had its name resolve to
 * 127.0.0.1 sends its own. */
bool auth_host_allowed(const char *host, uint16_t port);
/* "http://" and such a host; a request that changes something must have one. */
bool auth_origin_allowed(const char *origin, uint16_t port);

/* One value of a target's query: letters, digits, - and _ only, at most SIZE - 1. */
bool query_value(const char *target, const char *name, char *value, size_t size);

struct sse;

struct web {
    uv_loop_t *loop;
    struct runs *runs;
    struct store *store;
    const struct clock *clock;
    char *origin;
    uint16_t port;
    unsigned char key[WEB_KEY_SIZE];
    struct listener *listener; /* NULL once it closes */
    struct list conns;         /* web_conn::link */
    unsigned open_parts;       /* listener and connections, while they close */
    bool closing;
    void (*done)(void *data);
    void *done_data;
};

struct web_conn {
    struct list link; /* web::conns */
    struct web *web;
    struct http_conn *http;
    struct sse *sse; /* the stream being answered, or NULL */
};

/* Answers with our security headers. */
void web_respond(struct http_conn *http, int status, const char *type, const void *body,
                 size_t len);
void web_respond_json(struct http_conn *http, int status, const struct buf *body);
void web_respond_error(struct http_conn *http, int status, const char *code, const char *message);
void web_headers(struct http_headers *headers, const char *type);

/* api.c: RUN is known and its token was right.
 * -------------------------------------------------------------------- */
void api_get_run(struct web_conn *conn, const struct run_record *run);
void api_get_diff(struct web_conn *conn, const struct run_record *run);
void api_cancel(struct web_conn *conn, const struct run_record *run);
void api_write_run(struct json_writer *writer, const struct run_record *run, uint64_t now_ms,
                   const char *step, const char *request);
void api_write_event(struct json_writer *writer, const struct event_record *event);

/* sse.c
 * -----------------------------------------------------------------------------------------------------------
 */
void sse_start(struct web_conn *conn, const struct run_record *run,
               const struct http_request *request);
void sse_drained(struct web_conn *conn);
void sse_stop(struct web_conn *conn); /* the connection is over; harmless without a stream */
/* The number to start behind: Last-Event-ID wins over ?after=, since a browser that connects again
 * sends it. */
uint64_t sse_after(const char *last_event_id, const char *target);

#endif
