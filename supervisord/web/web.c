#include "web/web.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "web/internal.h"

#define DEFAULT_CONNECTIONS 512
#define DEFAULT_STREAMS 256
#define FLUSH_MS 250
#define PEER_GONE_SECONDS 60
#define PORT_TRIES 16
#define PORT_FILE_MAX 16

/* Answers
 * ----------------------------------------------------------------------------------------------------------
 */

void web_headers(struct http_headers *headers, const char *type)
{
    static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors "
        "'none'; base-uri 'none'; form-action 'none'";

    http_headers_add(headers, "Content-Type", type);
    http_headers_add(headers, "Cache-Control", "no-store");
    http_headers_add(headers, "Content-Security-Policy", policy);
    http_headers_add(headers, "Referrer-Policy", "no-referrer");
    http_headers_add(headers, "X-Content-Type-Options", "nosniff");
    http_headers_add(headers, "X-Frame-Options", "DENY");
    http_headers_add(headers, "Cross-Origin-Resource-Policy", "same-origin");
    http_headers_add(headers, "Cross-Origin-Opener-Policy", "same-origin");
}

void web_respond(struct http_conn *http, int status, const char *type, const void *body, size_t len)
{
    struct http_headers headers;

    http_headers_init(&headers);
    web_headers(&headers, type);
    http_conn_respond(http, status, &headers, body, len);
    http_headers_finish(&headers);
}

void web_respond_json(struct http_conn *http, int status, const struct buf *body)
{
    if (body->failed)
        web_respond_error(http, 500, "internal", "the answer is too large");
    else
        web_respond(http, status, "application/json", buf_text(body), body->len);
}

void web_respond_error(struct http_conn *http, int status, const char *code, const char *message)
{
    AUTO_BUF struct buf body = BUF_INIT(4096);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_write_name(&writer, "error");
    json_write_object(&writer);
    json_member_string(&writer, "code", code);
    json_member_string(&writer, "message", message);
    json_write_object_end(&writer);
    json_write_object_end(&writer);
    web_respond(http, status, "application/json", buf_text(&body), body.len);
}

void web_respond_failure(struct http_conn *http, const struct error *err)
{
    static const struct {
        enum error_code code;
        int status;
    } statuses[] = {
        { ERR_INVALID, 400 },   { ERR_NOT_FOUND, 404 },   { ERR_DENIED, 403 },
        { ERR_CONFLICT, 409 },  { ERR_LIMIT, 429 },       { ERR_TIMEOUT, 504 },
        { ERR_CANCELLED, 409 }, { ERR_UNAVAILABLE, 503 },
    };

    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        if (statuses[i].code == err->code) {
            web_respond_error(http, statuses[i].status, error_code_name(err->code), err->text);
            return;
        }
    }
    log_warn("web", "%s", err->text);
    web_respond_error(http, 500, error_code_name(err->code), err->text);
}

void web_respond_asset(struct http_conn *http, int status, const char *name, size_t len)
{
    for (const struct web_asset *asset = web_assets; asset->name != NULL; asset++) {
        if (strlen(asset->name) == len && memcmp(asset->name, name, len) == 0) {
            web_respond(http, status, asset->type, asset->data, asset->len);
            return;
        }
    }
    web_respond_error(http, 404, "not_found", "there is nothing here");
}

/* News
 * -------------------------------------------------------------------------------------------------------------
 */

static void on_flush(uv_timer_t *timer)
{
    stream_flush(timer->data);
}

void web_flush_soon(struct web *web)
{
    if (!web->closing && !uv_is_active((uv_handle_t *)&web->flush))
        uv_timer_start(&web->flush, on_flush, FLUSH_MS, 0);
}

/* In the midst of a change: only notes. */
static void on_changed(void *data, const struct id *session, const struct id *run)
{
    struct web *web = data;
    const struct id *id = run != NULL ? run : session;
    bool wanted = false;

    feed_note(&web->feed, id);
    LIST_EACH(&web->conns, link) {
        struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        wanted |= conn->stream != NULL && stream_changed(conn, id);
    }
    if (wanted)
        web_flush_soon(web);
}

/* Connections
 * -------------------------------------------------------------------------------------------------------
 */

static void web_free(struct web *web)
{
    fd_close(&web->held);
    login_close(web->login);
    for (size_t i = 0; i < web->name_count; i++)
        free(web->names[i]);
    free(web->names);
    sodium_memzero(web->key, sizeof(web->key));
    free(web->origin);
    free(web);
}

static void on_part_closed(void *data)
{
    struct web *web = data;
    void (*done)(void *) = web->done;
    void *done_data = web->done_data;

    if (--web->open_parts > 0)
        return;
    web_free(web);
    if (done != NULL)
        done(done_data);
}

static void on_drain(void *data, struct http_conn *http)
{
    struct web_conn *conn = data;

    (void)http;
    stream_drained(conn);
    if (conn->relay != NULL)
        agent_relay_drained(conn);
}

static void conn_forget(struct web_conn *conn)
{
    stream_stop(conn);
    agent_relay_stop(conn);
    act_conn_gone(conn);
    conn->route = NULL;
    buf_finish(&conn->body);
}

static void on_request(void *data, struct http_conn *http, const struct http_request *request)
{
    (void)http;
    route_request(data, request);
}

static void on_abort(void *data, struct http_conn *http)
{
    (void)http;
    conn_forget(data);
}

static void on_closed(void *data, struct http_conn *http)
{
    struct web_conn *conn = data;
    struct web *web = conn->web;

    (void)http;
    conn_forget(conn);
    list_remove(&conn->link);
    free(conn);
    if (web->listener != NULL)
        listener_release(web->listener);
    on_part_closed(web);
}

static void on_body(void *data, struct http_conn *http, const char *bytes, size_t len)
{
    struct web_conn *conn = data;

    (void)http;
    if (conn->relay != NULL)
        agent_relay_body(conn, bytes, len);
    else
        route_body(conn, bytes, len);
}

static void on_body_end(void *data, struct http_conn *http)
{
    struct web_conn *conn = data;

    (void)http;
    if (conn->relay != NULL)
        agent_relay_body_end(conn);
    else
        route_body_end(conn);
}

/* A peer that takes nothing for so long is gone: the kernel finds out without our waking up. */
static void notice_gone_peers(int fd)
{
    int on = 1;
    int seconds = PEER_GONE_SECONDS;
    unsigned milliseconds = PEER_GONE_SECONDS * 1000;

    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds)) < 0)
        log_warn("web", "a page that is gone may be noticed late");
}

static void on_accept(void *data, int fd)
{
    static const struct http_conn_options options = { 0 };
    struct web *web = data;
    struct error err = ERROR_INIT;
    struct web_conn *conn = NEW(struct web_conn);
    struct http_conn_callbacks callbacks = { .on_request = on_request,
                                             .on_body = on_body,
                                             .on_body_end = on_body_end,
                                             .on_drain = on_drain,
                                             .on_abort = on_abort,
                                             .on_closed = on_closed,
                                             .data = conn };

    conn->web = web;
    notice_gone_peers(fd);
    if (http_conn_start(&conn->http, web->loop, fd, &options, &callbacks, &err) < 0) {
        log_warn("web", "connection lost: %s", err.text);
        free(conn);
        listener_release(web->listener);
        return;
    }
    list_append(&web->conns, &conn->link);
    web->open_parts++;
}

/* Life
 * --------------------------------------------------------------------------------------------------------------
 */

static uint16_t load_port(const char *path)
{
    AUTO_FREE
    char *text = NULL;
    struct error err = ERROR_INIT;
    uint64_t port = 0;
    size_t len;

    if (fd_read_file(path, PORT_FILE_MAX, &text, &len, &err) < 0)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return str_parse_u64(text, UINT16_MAX, &port) ? (uint16_t)port : 0;
}

/* Browsers look for names that end in .localhost at either loopback, the other one first: whoever
 * else listened there would be shown their cookies. */
static const char *other_loopback(const char *listen)
{
    if (str_equal(listen, "127.0.0.1") || str_equal(listen, "0.0.0.0"))
        return "::1";
    return str_equal(listen, "::1") ? "127.0.0.1" : NULL;
}

static int take_port(struct web *web, const struct web_options *options, uint16_t wanted,
                     struct error *err)
{
    const char *other = other_loopback(options->listen);
    AUTO_CLOSE
    int fd = listener_tcp_socket(options->listen, wanted, &web->port, err);

    if (fd < 0 || other == NULL || listener_tcp_hold(other, web->port, &web->held, err) == 0)
        return fd_steal(&fd);
    if (options->port == 0)
        return -1;
    log_warn("web", "agents' own pages are not shown: %s", err->text);
    web->shared_port = true;
    return fd_steal(&fd);
}

/* The port of last time keeps old links valid; when it is taken, any will do. */
static int open_socket(struct web *web, const struct web_options *options, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/web.port", options->state_dir);
    uint16_t wanted = options->port != 0 ? options->port : load_port(path);
    struct error taken = ERROR_INIT;
    struct error kept = ERROR_INIT;
    char text[PORT_FILE_MAX];
    int fd = take_port(web, options, wanted, &taken);
    int len;

    if (fd < 0 && options->port != 0) {
        *err = taken;
        return -1;
    }
    if (fd < 0 && wanted != 0)
        log_warn("web", "%s; taking another port, so older links are no longer valid", taken.text);
    for (int i = 0; fd < 0 && i < PORT_TRIES; i++)
        fd = take_port(web, options, 0, err);
    if (fd < 0)
        return -1;
    len = snprintf(text, sizeof(text), "%u\n", (unsigned)web->port);
    if (web->port != wanted && fd_replace_file(path, text, (size_t)len, 0600, &kept) < 0)
        log_warn("web", "the port can't be kept for next time: %s", kept.text);
    return fd;
}

/* The name in links: an address that stands for all of them leads nowhere. */
static const char *shown_host(const struct web_options *options)
{
    if (options->remote && options->name_count > 0)
        return options->names[0];
    if (str_equal(options->listen, "0.0.0.0"))
        return "127.0.0.1";
    return str_equal(options->listen, "::") ? "::1" : options->listen;
}

/* Where browsers look for names that end in .localhost. */
static bool is_local(const char *listen)
{
    static const char *const addresses[] = { "127.0.0.1", "::1", "0.0.0.0", "::" };

    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        if (str_equal(listen, addresses[i]))
            return true;
    }
    return false;
}

static void take_options(struct web *web, const struct web_options *options)
{
    const char *shown = shown_host(options);
    bool bracket = strchr(shown, ':') != NULL;

    web->origin = mem_printf("http://%s%s%s:%u", bracket ? "[" : "", shown, bracket ? "]" : "",
                             (unsigned)web->port);
    snprintf(web->cookie, sizeof(web->cookie), "sandbox-mcp-%u", (unsigned)web->port);
    web->max_streams = options->max_streams != 0 ? options->max_streams : DEFAULT_STREAMS;
    web->remote = options->remote;
    web->local = is_local(options->listen) && !web->shared_port;
    web->token_matches = options->token_matches;
    web->token_data = options->token_data;
    web->names = mem_new_zero(options->name_count + 1, sizeof(*web->names));
    web->name_count = options->name_count;
    for (size_t i = 0; i < options->name_count; i++)
        web->names[i] = mem_strdup(options->names[i]);
}

static void start_news(struct web *web)
{
    feed_init(&web->feed);
    handles_init(&web->handles, on_part_closed, web);
    uv_timer_init(web->loop, &web->flush);
    handles_add(&web->handles, (uv_handle_t *)&web->flush, web);
    web->watcher.changed = on_changed;
    web->watcher.data = web;
    runs_watch(web->runs, &web->watcher);
}

int web_start(struct web **out, uv_loop_t *loop, struct runs *runs, struct store *store,
              const struct clock *clock, const struct web_options *options, struct error *err)
{
    struct web *web = NEW(struct web);
    uint32_t connections =
        options->max_connections != 0 ? options->max_connections : DEFAULT_CONNECTIONS;
    int fd;

    web->loop = loop;
    web->runs = runs;
    web->store = store;
    web->clock = clock;
    list_init(&web->conns);
    if (auth_load_key(options->state_dir, web->key, err) < 0 ||
        login_open(&web->login, options->state_dir, clock, err) < 0)
        goto fail;
    auth_prefix(web->key, web->prefix);
    web->held = -1;
    fd = open_socket(web, options, err);
    if (fd < 0)
        goto fail;
    take_options(web, options);
    if (listener_start(&web->listener, loop, fd, connections, on_accept, web, err) < 0)
        goto fail;
    start_news(web);
    web->open_parts = 2; /* the listener and the handles */
    if (web->remote)
        log_warn(
            "web",
            "%s may be reached from other machines, in the clear: whoever is signed in sees all "
            "runs, diffs and the audit, and may answer, cancel, send messages and delete "
            "sessions",
            web->origin);
    *out = web;
    return 0;
fail:
    web_free(web);
    return error_wrap(err, "web");
}

void web_close(struct web *web, void (*done)(void *data), void *data)
{
    uv_handle_t *handles[] = { (uv_handle_t *)&web->flush };
    struct listener *listener = STEAL(web->listener);

    if (web->closing)
        return;
    web->closing = true;
    runs_unwatch(&web->watcher);
    web->done = done;
    web->done_data = data;
    LIST_EACH(&web->conns, link) {
        struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        stream_stop(conn);
        agent_relay_stop(conn);
        http_conn_close(conn->http);
    }
    listener_close(listener, on_part_closed, web);
    handles_close_all(&web->handles, web->loop, handles, ARRAY_LEN(handles));
}

const char *web_origin(const struct web *web)
{
    return web->origin;
}

void web_run_url(const struct web *web, const char *run_id, struct buf *out)
{
    char token[WEB_TOKEN_SIZE];

    auth_token(web->key, run_id, token);
    buf_printf(out, "%s/runs/%s?token=%s", web->origin, run_id, token);
}

void web_append_run_path(const struct call *call, const char *run_id, struct buf *out)
{
    const struct web *web = call->conn->web;
    char token[WEB_TOKEN_SIZE];

    if (call->access == ACCESS_COOKIE) {
        buf_printf(out, "%s/runs/%s", web->prefix, run_id);
        return;
    }
    auth_token(web->key, run_id, token);
    buf_printf(out, "/runs/%s?token=%s", run_id, token);
}

int web_login_url(struct web *web, const char *page, struct buf *out, uint64_t *expires_ms,
                  struct error *err)
{
    char code[WEB_TOKEN_SIZE];
    AUTO_FREE
    char *path = NULL;

    if (page[0] == '\0')
        path = mem_printf("%s/", web->prefix);
    else if (id_parse(ID_KIND_RUN, page, NULL))
        path = mem_printf("%s/runs/%s", web->prefix, page);
    else if (id_parse(ID_KIND_SESSION, page, NULL))
        path = mem_printf("%s/sessions/%s", web->prefix, page);
    else
        return error_set(err, ERR_INVALID, 0, "neither a run's nor a session's id");
    login_make_code(web->login, "", path, code);
    *expires_ms = clock_wall_ms(web->clock) + LOGIN_CODE_MS;
    /* Behind #, so that it is in no request's target, no log and no Referer, and is not used up by
     * what only looks at links. */
    buf_printf(out, "%s/login#%s", web->origin, code);
    sodium_memzero(code, sizeof(code));
    return 0;
}

int web_agent_url(struct web *web, const struct id *session, struct buf *out, uint64_t *expires_ms,
                  struct error *err)
{
    *expires_ms = clock_wall_ms(web->clock) + LOGIN_CODE_MS;
    return agent_login_url(web, session, out, err);
}

unsigned web_streams(const struct web *web)
{
    return web->streams;
}
