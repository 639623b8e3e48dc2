/* internal.h: what the files of web/ share. Nobody else includes it. */
#ifndef WEB_INTERNAL_H
#define WEB_INTERNAL_H

#include "common/buf.h"
#include "common/json.h"
#include "common/json_write.h"
#include "common/list.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/str.h"
#include "http/http.h"
#include "io/handles.h"
#include "io/io.h"
#include "view/view.h"
#include "web/web.h"

struct web_asset {
    const char *name;
    const char *type;
    const unsigned char *data;
    size_t len;
};
extern const struct web_asset web_assets[]; /* ends with a NULL name */

#define WEB_KEY_SIZE 32
#define WEB_TOKEN_SIZE 44  /* 43 characters of base64url and NUL */
#define WEB_PREFIX_SIZE 20 /* "/w/" and 16 characters */
#define WEB_AGENT_HOST_SIZE 64

/* auth.c: what a request shows.
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
/* Where the pages of a browser that is signed in lie. Other programs on this machine may serve
 * pages under the same name, and cookies don't know ports: the cookie goes below this path only,
 * and they don't know it. */
void auth_prefix(const unsigned char key[WEB_KEY_SIZE], char prefix[WEB_PREFIX_SIZE]);
/* The name under which a session's agent shows pages: "ID-PROOF.localhost". Browsers take such a
 * name for this machine without asking anyone, and each for a site of its own. */
void auth_agent_host(const unsigned char key[WEB_KEY_SIZE], const struct id *session,
                     char host[WEB_AGENT_HOST_SIZE]);
/* Whether HOST is such a name with our PORT; then it is *SESSION's. */
bool auth_agent_host_parse(const unsigned char key[WEB_KEY_SIZE], const char *host, uint16_t port,
                           struct id *session);
/* Only loopback names with our own port: a page of another site that had its name resolve to
 * 127.0.0.1 sends its own. */
bool auth_host_allowed(const char *host, uint16_t port);
/* For pages that other machines may see: an address in digits, which no name of another site can
 * turn into ours, or one of NAMES; each with any port. */
bool auth_remote_host_allowed(const char *host, const char *const *names, size_t count);
/* "http://" or "https://" and the host; NULL without. */
const char *auth_origin_host(const char *origin);
/* "http://" and a host that auth_host_allowed allows. */
bool auth_origin_allowed(const char *origin, uint16_t port);

/* One value of a target's query: letters, digits, - and _ only, at most SIZE - 1. */
bool query_value(const char *target, const char *name, char *value, size_t size);
/* One cookie's value of the same characters; a cookie that comes twice is none. */
bool cookie_value(const struct http_headers *headers, const char *name, char *value, size_t size);

/* login.c: browsers that are signed in, and the links that sign one in.
 * ----------------------------------------------------------------------------------------------------------
 */
struct login;

#define LOGIN_CODE_MS (5u * 60 * 1000)
#define LOGIN_SESSION_MS (14ull * 24 * 3600 * 1000)
#define LOGIN_AGENT_MS (12ull * 3600 * 1000)

/* Only hashes are kept: codes in memory, sessions also in state/web.sessions, so that a restart
 * signs nobody out. CLOCK is borrowed. A SCOPE is what a browser is signed in to: "" for our own
 * pages, or the id of a session, for those of its agent. What is right in one is wrong in all
 * others. */
int login_open(struct login **out, const char *state_dir, const struct clock *clock,
               struct error *err);
void login_close(struct login *login);
/* A new code, which leads to PATH (copied). Of too many the oldest is forgotten. */
void login_make_code(struct login *login, const char *scope, const char *path,
                     char code[WEB_TOKEN_SIZE]);
/* Uses CODE up: its path (heap), or NULL when it is wrong, used or too old. */
char *login_take_code(struct login *login, const char *scope, const char *code);
/* A new session; TEXT is what the browser shows from now on, for so long. */
int login_begin(struct login *login, const char *scope, char text[WEB_TOKEN_SIZE],
                struct error *err);
uint64_t login_lasts_ms(const char *scope);
bool login_valid(const struct login *login, const char *scope, const char *text);
void login_end(struct login *login, const char *scope, const char *text);
/* Whether TOKEN may be tried now: wrong ones make the next wait. */
bool login_may_try(struct login *login);
void login_tried(struct login *login, bool right);

/* feed.c: what changed last, for boards.
 * ----------------------------------------------------------------------------------------------------------
 */
#define FEED_KEPT 256
#define FEED_EPOCH_SIZE 9
#define FEED_CURSOR_SIZE 32

/* Runs (and sessions that were deleted) in the order of their last change, each once. A board's
 * cursor is "EPOCH-NUMBER"; one from before a restart, or older than what is kept, starts anew. */
struct feed {
    struct {
        struct id id;
        uint64_t number;
    } entries[FEED_KEPT];
    size_t count;
    uint64_t number; /* of the newest change */
    uint64_t lost;   /* of the newest that is no longer kept */
    char epoch[FEED_EPOCH_SIZE];
};
void feed_init(struct feed *feed);
void feed_note(struct feed *feed, const struct id *id);
void feed_cursor(const struct feed *feed, uint64_t number, char cursor[FEED_CURSOR_SIZE]);
/* False when it isn't one of this feed's, or too old. */
bool feed_parse(const struct feed *feed, const char *cursor, uint64_t *number);

/* Connections
 * ----------------------------------------------------------------------------------------------------------
 */
struct stream;
struct deletion;
struct relay;
struct route;
struct call;

struct web {
    uv_loop_t *loop;
    struct runs *runs;
    struct store *store;
    const struct clock *clock;
    char *origin;
    uint16_t port;
    bool remote;
    bool local;       /* listens on this machine's loopback too, and nobody else does */
    int held;         /* the same port of the other loopback; -1: there is none */
    bool shared_port; /* somebody else has that */
    char **names;
    size_t name_count;
    bool (*token_matches)(void *data, const char *token);
    void *token_data;
    unsigned char key[WEB_KEY_SIZE];
    char prefix[WEB_PREFIX_SIZE];
    char cookie[24]; /* its name holds the port: cookies don't know it */
    struct login *login;
    struct feed feed;
    struct runs_watcher watcher;
    struct handles handles;
    uv_timer_t flush;          /* runs while a stream waits for news */
    struct listener *listener; /* NULL once it closes */
    struct list conns;         /* web_conn::link */
    unsigned streams;
    unsigned max_streams;
    unsigned relays;     /* requests under way to agents' pages */
    unsigned open_parts; /* listener, handles and connections, while they close */
    bool closing;
    void (*done)(void *data);
    void *done_data;
};

struct web_conn {
    struct list link; /* web::conns */
    struct web *web;
    struct http_conn *http;
    struct stream *stream;     /* being answered, or NULL */
    struct deletion *deletion; /* being waited for, or NULL */
    struct relay *relay;       /* to an agent's pages, or NULL */
    /* A request whose body is being read; NULL: none. */
    const struct route *route;
    unsigned access;
    struct id run;
    struct id session;
    char cookie[WEB_TOKEN_SIZE];
    struct buf body;
};

/* How a request was let in. */
enum access {
    ACCESS_LINK = 1,   /* by the token of the run that it is about */
    ACCESS_COOKIE = 2, /* by a session, below the prefix */
    ACCESS_OPEN = 4,   /* anyone who reaches us */
};

/* Which function answers what. */
struct route {
    const char *method;
    const char *path; /* below the prefix or not; @r is a run's id, @s a session's */
    unsigned access;
    void (*handle)(const struct call *call); /* NULL: the page */
};

/* A request that was let in. */
struct call {
    struct web_conn *conn;
    enum access access;
    const char *target;                 /* with its query; "" for what has a body */
    const struct http_request *request; /* NULL for what has a body */
    const struct run_record *run;       /* NULL: it is not about a run */
    const struct id *session;           /* NULL: it is not about a session */
    const struct json_value *body;      /* NULL without */
};

/* web.c */
/* Answers with our security headers. */
void web_respond(struct http_conn *http, int status, const char *type, const void *body,
                 size_t len);
void web_respond_json(struct http_conn *http, int status, const struct buf *body);
void web_respond_error(struct http_conn *http, int status, const char *code, const char *message);
/* What went wrong in words, with the status that goes with its code. */
void web_respond_failure(struct http_conn *http, const struct error *err);
void web_headers(struct http_headers *headers, const char *type);
/* One of the embedded files. */
void web_respond_asset(struct http_conn *http, int status, const char *name, size_t len);
/* A stream waits for news: looks a moment later. */
void web_flush_soon(struct web *web);
/* The address of a run's page for whoever made CALL, without the origin. */
void web_append_run_path(const struct call *call, const char *run_id, struct buf *out);

/* route.c: which function answers what, and to whom.
 * ----------------------------------------------------------------------------------------------------------
 */
void route_request(struct web_conn *conn, const struct http_request *request);
void route_body(struct web_conn *conn, const char *bytes, size_t len);
void route_body_end(struct web_conn *conn);
/* ROUTE's function gets the request once its body of at most MAX bytes is there. */
void route_take_body(struct web_conn *conn, const struct route *route, enum access access,
                     size_t max);
/* One of the files below /static/; false when PATH is none. */
bool route_static(struct web_conn *conn, const char *path, size_t len);

/* agent.c: the pages that a session's agent itself shows, under a name of their own.
 * ----------------------------------------------------------------------------------------------------------
 */
/* A request to the agent of conn->session. */
void agent_request(struct web_conn *conn, const struct http_request *request);
/* Appends an address that signs one browser in to them, once. ERR_CONFLICT: there are none now. */
int agent_login_url(struct web *web, const struct id *session, struct buf *out, struct error *err);
void agent_open(const struct call *call);

/* agent_relay.c: one request to the agent and its answer. */
/* Whether one more may go to the agent of SESSION now. */
bool agent_relay_has_room(const struct web *web, const struct id *session);
/* It answers from here on; -1: the agent can't be reached, and the caller answers. */
int agent_relay_start(struct web_conn *conn, const struct id *session,
                      const struct http_request *request, struct error *err);
void agent_relay_body(struct web_conn *conn, const char *bytes, size_t len);
void agent_relay_body_end(struct web_conn *conn);
void agent_relay_drained(struct web_conn *conn);
void agent_relay_stop(struct web_conn *conn); /* the connection is over; harmless without one */

/* agent_head.c: pure. */
bool agent_head_is_socket(const struct http_request *request); /* it begins a WebSocket */
/* The head that goes to the agent: what of REQUEST is its business, and AUTHORIZATION. */
void agent_head_write(const struct http_request *request, const char *authorization,
                      struct buf *out);
/* What of the agent's answer goes to a browser that asked HOST, and the rules for it. -1: nothing
 * may. */
int agent_head_answer(const struct http_response_head *head, const char *host,
                      struct http_headers *out, struct error *err);

/* api.c: what pages ask for.
 * ----------------------------------------------------------------------------------------------------------
 */
void api_run(const struct call *call);
void api_diff(const struct call *call);  /* of a run, or a session's newest that ended */
void api_patch(const struct call *call); /* the same, to be kept as a file */
void api_runs(const struct call *call);
void api_audit(const struct call *call);
void api_sessions(const struct call *call);
void api_session(const struct call *call);
/* {"now","ended","agentPages","step"?,"run":{…}}: the socket's view of the run and what a page
 * needs beside. */
void api_write_run(struct json_writer *writer, struct web *web, const struct run_record *run);
/* {"run":{…},"model"?,…}: the socket's item of a list and what a board needs beside. */
void api_write_item(struct json_writer *writer, struct web *web, const struct run_record *run);

/* act.c: what pages do.
 * ----------------------------------------------------------------------------------------------------------
 */
void act_login(const struct call *call);
void act_logout(const struct call *call);
void act_cancel(const struct call *call);
void act_answer(const struct call *call);
void act_send(const struct call *call);
void act_delete(const struct call *call);
void act_conn_gone(struct web_conn *conn);

/* stream.c: server-sent events.
 * ----------------------------------------------------------------------------------------------------------
 */
void stream_run(const struct call *call);
void stream_board(const struct call *call);
void stream_drained(struct web_conn *conn);
void stream_stop(struct web_conn *conn); /* the connection is over; harmless without a stream */
/* ID has changed: true when the stream wants to be flushed. */
bool stream_changed(struct web_conn *conn, const struct id *id);
void stream_flush(struct web *web);
/* The number to start behind: Last-Event-ID wins over ?after=, since a browser that connects again
 * sends it. */
uint64_t stream_after(const char *last_event_id, const char *target);

#endif
