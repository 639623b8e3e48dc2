#include "web/web.h"

#include <sodium.h>
#include <unistd.h>

#include "common/fd.h"
#include "web/internal.h"

#define DEFAULT_CONNECTIONS 128
#define PORT_FILE_MAX 16

/* Answers
 * ----------------------------------------------------------------------------------------------------------
 */

void web_headers(struct http_headers *headers, const char *type)
{
    static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

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

/* Routes
 * -----------------------------------------------------------------------------------------------------------
 */

static void respond_asset(struct http_conn *http, const char *name, size_t len)
{
    for (const struct web_asset *asset = web_assets; asset->name != NULL; asset++) {
        if (strlen(asset->name) == len && memcmp(asset->name, name, len) == 0) {
            web_respond(http, 200, asset->type, asset->data, asset->len);
            return;
        }
    }
    web_respond_error(http, 404, "not_found", "there is nothing here");
}

static void get_page(struct web_conn *conn, const struct run_record *run,
                     const struct http_request *request)
{
    (void)run;
    (void)request;
    respond_asset(conn->http, "index.html", strlen("index.html"));
}

static void get_run(struct web_conn *conn, const struct run_record *run,
                    const struct http_request *request)
{
    (void)request;
    api_get_run(conn, run);
}

static void get_diff(struct web_conn *conn, const struct run_record *run,
                     const struct http_request *request)
{
    (void)request;
    api_get_diff(conn, run);
}

static void post_cancel(struct web_conn *conn, const struct run_record *run,
                        const struct http_request *request)
{
    (void)request;
    api_cancel(conn, run);
}

static const struct route {
    const char *method;
    const char *before; /* the run's id stands between the two */
    const char *after;
    void (*handle)(struct web_conn *conn, const struct run_record *run,
                   const struct http_request *request);
} routes[] = {
    { "GET", "/runs/", "", get_page },
    { "GET", "/api/runs/", "", get_run },
    { "GET", "/api/runs/", "/diff", get_diff },
    { "GET", "/api/runs/", "/events", sse_start },
    { "POST", "/api/runs/", "/cancel", post_cancel },
};

/* Whether PATH of LEN bytes is the route's; the id between goes to RUN_ID. */
static bool route_matches(const struct route *route, const char *path, size_t len,
                          char run_id[ID_SIZE])
{
    size_t before = strlen(route->before);
    size_t after = strlen(route->after);

    if (len != before + ID_SIZE - 1 + after || memcmp(path, route->before, before) != 0 ||
        memcmp(path + len - after, route->after, after) != 0)
        return false;
    memcpy(run_id, path + before, ID_SIZE - 1);
    run_id[ID_SIZE - 1] = '\0';
    return true;
}

/* The page sends it as a header; links and event streams can't have one. */
static bool token_is_right(const struct web *web, const char *run_id,
                           const struct http_request *request)
{
    const char *header = http_headers_get(&request->headers, "x-token");
    char token[WEB_TOKEN_SIZE];

    if (header != NULL)
        return auth_token_matches(web->key, run_id, header);
    return query_value(request->target, "token", token, sizeof(token)) &&
           auth_token_matches(web->key, run_id, token);
}

static bool origin_is_right(const struct web *web, const struct http_request *request)
{
    const char *site = http_headers_get(&request->headers, "sec-fetch-site");

    if (str_equal(request->method, "GET"))
        return true;
    return auth_origin_allowed(http_headers_get(&request->headers, "origin"), web->port) &&
           (site == NULL || str_equal(site, "same-origin"));
}

static void serve_run(struct web_conn *conn, const struct route *route, const char *run_id,
                      const struct http_request *request)
{
    struct web *web = conn->web;
    struct error err = ERROR_INIT;
    struct run_record run;
    struct id id;

    run_record_init(&run);
    /* A wrong token, a run that never was and one that is gone all look the same. */
    if (!id_parse(ID_KIND_RUN, run_id, &id) || !token_is_right(web, run_id, request) ||
        run_load(web->runs, &id, &run, &err) < 0)
        web_respond_error(conn->http, 403, "denied", "this link is not valid, or its run is gone");
    else if (!origin_is_right(web, request))
        web_respond_error(conn->http, 403, "denied", "only the page itself may ask for this");
    else
        route->handle(conn, &run, request);
    run_record_finish(&run);
}

static void on_request(void *data, struct http_conn *http, const struct http_request *request)
{
    struct web_conn *conn = data;
    size_t len = strcspn(request->target, "?");
    bool known_path = false;
    char run_id[ID_SIZE];

    if (!auth_host_allowed(request->host, conn->web->port)) {
        web_respond_error(http, 421, "wrong_host", "this server answers on loopback only");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!route_matches(&routes[i], request->target, len, run_id))
            continue;
        known_path = true;
        if (str_equal(request->method, routes[i].method)) {
            serve_run(conn, &routes[i], run_id, request);
            return;
        }
    }
    if (known_path || !str_equal(request->method, "GET"))
        web_respond_error(http, 405, "method_not_allowed", "this method is not allowed here");
    else if (len > strlen("/static/") && str_starts(request->target, "/static/"))
        respond_asset(http, request->target + strlen("/static/"), len - strlen("/static/"));
    else
        web_respond_error(http, 404, "not_found", "there is nothing here; open a run by its link");
}

/* Connections
 * -------------------------------------------------------------------------------------------------------
 */

static void web_free(struct web *web)
{
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
    (void)http;
    sse_drained(data);
}

static void on_abort(void *data, struct http_conn *http)
{
    (void)http;
    sse_stop(data);
}

static void on_closed(void *data, struct http_conn *http)
{
    struct web_conn *conn = data;
    struct web *web = conn->web;

    (void)http;
    sse_stop(conn);
    list_remove(&conn->link);
    free(conn);
    if (web->listener != NULL)
        listener_release(web->listener);
    on_part_closed(web);
}

static void on_body(void *data, struct http_conn *http, const char *bytes, size_t len)
{
    (void)data;
    (void)http;
    (void)bytes;
    (void)len; /* no request here means anything by its body */
}

static void on_body_end(void *data, struct http_conn *http)
{
    (void)data;
    (void)http;
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

/* The port of last time keeps old links valid; when it is taken, any will do. */
static int open_socket(const struct web_options *options, uint16_t *port, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/web.port", options->state_dir);
    uint16_t wanted = options->port != 0 ? options->port : load_port(path);
    struct error taken = ERROR_INIT;
    struct error kept = ERROR_INIT;
    char text[PORT_FILE_MAX];
    int fd = listener_tcp_socket(options->listen, wanted, port, &taken);
    int len;

    if (fd < 0 && (options->port != 0 || wanted == 0)) {
        *err = taken;
        return -1;
    }
    if (fd < 0) {
        log_warn("web", "%s; taking another port, so older links are no longer valid", taken.text);
        fd = listener_tcp_socket(options->listen, 0, port, err);
    }
    if (fd < 0)
        return -1;
    len = snprintf(text, sizeof(text), "%u\n", (unsigned)*port);
    if (*port != wanted && fd_replace_file(path, text, (size_t)len, 0600, &kept) < 0)
        log_warn("web", "the port can't be kept for next time: %s", kept.text);
    return fd;
}

int web_start(struct web **out, uv_loop_t *loop, struct runs *runs, struct store *store,
              const struct clock *clock, const struct web_options *options, struct error *err)
{
    struct web *web = NEW(struct web);
    uint32_t connections =
        options->max_connections != 0 ? options->max_connections : DEFAULT_CONNECTIONS;
    bool bracket = strchr(options->listen, ':') != NULL;
    int fd;

    web->loop = loop;
    web->runs = runs;
    web->store = store;
    web->clock = clock;
    list_init(&web->conns);
    if (auth_load_key(options->state_dir, web->key, err) < 0)
        goto fail;
    fd = open_socket(options, &web->port, err);
    if (fd < 0)
        goto fail;
    web->origin = mem_printf("http://%s%s%s:%u", bracket ? "[" : "", options->listen,
                             bracket ? "]" : "", (unsigned)web->port);
    if (listener_start(&web->listener, loop, fd, connections, on_accept, web, err) < 0)
        goto fail;
    web->open_parts = 1;
    *out = web;
    return 0;
fail:
    web_free(web);
    return error_wrap(err, "web");
}

void web_close(struct web *web, void (*done)(void *data), void *data)
{
    struct listener *listener = STEAL(web->listener);

    if (web->closing)
        return;
    web->closing = true;
    web->done = done;
    web->done_data = data;
    LIST_EACH(&web->conns, link) {
        struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        sse_stop(conn);
        http_conn_close(conn->http);
    }
    listener_close(listener, on_part_closed, web);
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
