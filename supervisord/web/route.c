/* route.c: which function answers what, and to whom. A request is judged by its Host, the way it
 * shows who it is, and, where it changes something, the page that it comes from. */
#include "web/internal.h"

#define BODY_MAX (512u << 10)

#define BOTH (ACCESS_LINK | ACCESS_COOKIE)

static void sign_in(const struct call *call);

static const struct route routes[] = {
    { "GET", "/", ACCESS_COOKIE, NULL },
    { "GET", "/sessions", ACCESS_COOKIE, NULL },
    { "GET", "/sessions/@s", ACCESS_COOKIE, NULL },
    { "GET", "/audit", ACCESS_COOKIE, NULL },
    { "GET", "/runs/@r", BOTH, NULL },
    { "GET", "/runs/@r/agent", ACCESS_COOKIE, agent_open },
    { "GET", "/sessions/@s/agent", ACCESS_COOKIE, agent_open },
    { "GET", "/api/runs", ACCESS_COOKIE, api_runs },
    { "GET", "/api/feed", ACCESS_COOKIE, stream_board },
    { "GET", "/api/runs/@r", BOTH, api_run },
    { "GET", "/api/runs/@r/events", BOTH, stream_run },
    { "GET", "/api/runs/@r/diff", BOTH, api_diff },
    { "GET", "/api/runs/@r/patch", BOTH, api_patch },
    { "GET", "/api/runs/@r/audit", BOTH, api_audit },
    { "GET", "/api/sessions", ACCESS_COOKIE, api_sessions },
    { "GET", "/api/sessions/@s", ACCESS_COOKIE, api_session },
    { "GET", "/api/sessions/@s/diff", ACCESS_COOKIE, api_diff },
    { "GET", "/api/sessions/@s/patch", ACCESS_COOKIE, api_patch },
    { "GET", "/api/audit", ACCESS_COOKIE, api_audit },
    { "POST", "/api/runs/@r/cancel", BOTH, act_cancel },
    { "POST", "/api/runs/@r/answer", BOTH, act_answer },
    { "POST", "/api/runs/@r/send", BOTH, act_send },
    { "POST", "/api/sessions/@s/send", ACCESS_COOKIE, act_send },
    { "POST", "/api/sessions/@s/delete", ACCESS_COOKIE, act_delete },
    { "POST", "/api/logout", ACCESS_COOKIE, act_logout },
    { "GET", "/", ACCESS_OPEN, sign_in },
    { "GET", "/login", ACCESS_OPEN, sign_in },
    { "POST", "/login", ACCESS_OPEN, act_login },
};

static void respond_sign_in(struct http_conn *http, int status)
{
    web_respond_asset(http, status, "signin.html", strlen("signin.html"));
}

static void sign_in(const struct call *call)
{
    respond_sign_in(call->conn->http, 200);
}

/* Matching
 * ---------------------------------------------------------------------------------------------------------
 */

struct match {
    struct id run;     /* "" none */
    struct id session; /* "" none */
};

static bool take_id(enum id_kind kind, const char *path, size_t len, struct id *id)
{
    char text[ID_SIZE];

    if (len < ID_SIZE - 1)
        return false;
    memcpy(text, path, ID_SIZE - 1);
    text[ID_SIZE - 1] = '\0';
    return id_parse(kind, text, id);
}

/* Nothing is decoded: a path is ours byte for byte, or there is nothing. */
static bool path_matches(const char *pattern, const char *path, size_t len, struct match *match)
{
    *match = (struct match){ .run = { "" } };
    for (; *pattern != '\0'; pattern++) {
        bool run = pattern[0] == '@' && pattern[1] == 'r';

        if (pattern[0] == '@') {
            if (!take_id(run ? ID_KIND_RUN : ID_KIND_SESSION, path, len,
                         run ? &match->run : &match->session))
                return false;
            path += ID_SIZE - 1;
            len -= ID_SIZE - 1;
            pattern++;
        } else if (len == 0 || *path != *pattern) {
            return false;
        } else {
            path++;
            len--;
        }
    }
    return len == 0;
}

/* The route of METHOD and PATH for a request that comes by one of the ways in ACCESS; *KNOWN when
 * there is one with another method. */
static const struct route *find_route(const char *method, const char *path, size_t len,
                                      unsigned access, struct match *match, bool *known)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if ((routes[i].access & access) == 0 || !path_matches(routes[i].path, path, len, match))
            continue;
        *known = true;
        if (str_equal(routes[i].method, method))
            return &routes[i];
    }
    return NULL;
}

/* Guards
 * -----------------------------------------------------------------------------------------------------------
 */

static bool host_is_right(const struct web *web, const char *host)
{
    return auth_host_allowed(host, web->port) ||
           (web->remote &&
            auth_remote_host_allowed(host, (const char *const *)web->names, web->name_count));
}

static bool is_reading(const char *method)
{
    return str_equal(method, "GET");
}

/* A browser shows its cookie whoever asks it to: what changes something must come from a page of
 * ours, and what pages ask for from no other page; a page itself may be opened from anywhere. */
static bool origin_is_right(const struct web *web, const struct route *route,
                            const struct http_request *request)
{
    const char *site = http_headers_get(&request->headers, "sec-fetch-site");
    const char *origin = http_headers_get(&request->headers, "origin");
    const char *host = auth_origin_host(origin);

    if (is_reading(request->method))
        return route->handle == NULL || route->access == ACCESS_OPEN || site == NULL ||
               str_equal(site, "same-origin") || str_equal(site, "none");
    return host != NULL && (site == NULL || str_equal(site, "same-origin")) &&
           (auth_origin_allowed(origin, web->port) ||
            (web->remote && str_equal(host, request->host) && host_is_right(web, host)));
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

static bool is_let_in(struct web_conn *conn, enum access access, const struct match *match,
                      const struct http_request *request)
{
    struct web *web = conn->web;

    switch (access) {
    case ACCESS_LINK:
        return token_is_right(web, match->run.text, request);
    case ACCESS_COOKIE:
        return cookie_value(&request->headers, web->cookie, conn->cookie, sizeof(conn->cookie)) &&
               login_valid(web->login, "", conn->cookie);
    case ACCESS_OPEN:
        return true;
    }
    return false;
}

/* A wrong token, a run that never was and one that is gone all look the same. */
static void deny(struct web_conn *conn, const struct route *route)
{
    if (route->handle == NULL)
        respond_sign_in(conn->http, 403);
    else
        web_respond_error(conn->http, 403, "denied",
                          "this link is not valid or its run is gone, or this browser is not "
                          "signed in; sandboxctl web makes a new link");
}

/* Answering
 * --------------------------------------------------------------------------------------------------------
 */

static void answer(struct web_conn *conn, const struct route *route, struct call *call,
                   const struct match *match)
{
    struct error err = ERROR_INIT;
    struct run_record run;
    int rc = 0;

    call->conn = conn;
    call->session = match->session.text[0] != '\0' ? &match->session : NULL;
    run_record_init(&run);
    if (match->run.text[0] != '\0') {
        rc = run_load(conn->web->runs, &match->run, &run, &err);
        call->run = &run;
    }
    if (rc < 0 && call->access == ACCESS_LINK)
        deny(conn, route);
    else if (rc < 0)
        web_respond_failure(conn->http, &err);
    else if (route->handle == NULL)
        web_respond_asset(conn->http, 200, "index.html", strlen("index.html"));
    else
        route->handle(call);
    run_record_finish(&run);
}

static void serve(struct web_conn *conn, const struct route *route, enum access access,
                  const struct match *match, const struct http_request *request)
{
    struct call call = { .access = access, .target = request->target, .request = request };

    if (!is_let_in(conn, access, match, request)) {
        deny(conn, route);
    } else if (!origin_is_right(conn->web, route, request)) {
        web_respond_error(conn->http, 403, "denied", "only the page itself may ask for this");
    } else if (is_reading(request->method)) {
        answer(conn, route, &call, match);
    } else {
        conn->run = match->run;
        conn->session = match->session;
        route_take_body(conn, route, access, BODY_MAX);
    }
}

void route_take_body(struct web_conn *conn, const struct route *route, enum access access,
                     size_t max)
{
    conn->route = route;
    conn->access = access;
    buf_init(&conn->body, max);
}

bool route_static(struct web_conn *conn, const char *path, size_t len)
{
    if (len <= strlen("/static/") || !str_starts(path, "/static/"))
        return false;
    web_respond_asset(conn->http, 200, path + strlen("/static/"), len - strlen("/static/"));
    return true;
}

void route_request(struct web_conn *conn, const struct http_request *request)
{
    struct web *web = conn->web;
    const char *path = request->target;
    size_t len = strcspn(path, "?");
    size_t prefix = strlen(web->prefix);
    unsigned access = ACCESS_LINK | ACCESS_OPEN;
    const struct route *route;
    struct match match;
    bool known = false;

    conn->run.text[0] = conn->session.text[0] = '\0';
    if (auth_agent_host_parse(web->key, request->host, web->port, &conn->session)) {
        agent_request(conn, request);
        return;
    }
    if (!host_is_right(web, request->host)) {
        web_respond_error(conn->http, 421, "wrong_host",
                          "this server answers to its own names only (web.names)");
        return;
    }
    if (len > prefix && memcmp(path, web->prefix, prefix) == 0) {
        access = ACCESS_COOKIE;
        path += prefix;
        len -= prefix;
    }
    route = find_route(request->method, path, len, access, &match, &known);
    if (route != NULL)
        serve(conn, route, (enum access)(route->access & access), &match, request);
    else if (known || !is_reading(request->method))
        web_respond_error(conn->http, 405, "method_not_allowed", "this method is not allowed here");
    else if (!route_static(conn, request->target, strcspn(request->target, "?")))
        web_respond_error(conn->http, 404, "not_found",
                          "there is nothing here; open a run by its link");
}

/* Bodies
 * -----------------------------------------------------------------------------------------------------------
 */

void route_body(struct web_conn *conn, const char *bytes, size_t len)
{
    if (conn->route == NULL)
        return;
    buf_append(&conn->body, bytes, len);
    if (!conn->body.failed)
        return;
    conn->route = NULL;
    buf_finish(&conn->body);
    web_respond_error(conn->http, 413, "too_large", "this is more text than may be sent at once");
}

void route_body_end(struct web_conn *conn)
{
    const struct route *route = STEAL(conn->route);
    struct match match = { .run = conn->run, .session = conn->session };
    struct call call = { .access = (enum access)conn->access, .target = "" };
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    if (route == NULL)
        return;
    if (conn->body.len > 0 &&
        json_parse(&doc, conn->body.data, conn->body.len, BODY_MAX, &err) < 0) {
        err.code = ERR_INVALID;
        web_respond_failure(conn->http, &err);
    } else {
        call.body = json_root(doc);
        answer(conn, route, &call, &match);
    }
    buf_finish(&conn->body);
}
