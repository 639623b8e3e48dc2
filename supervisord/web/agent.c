/* agent.c: an agent's own pages, each session's under a name of its own, so that for a browser they
 * are another site: they are whatever the sandbox says, and neither our cookies nor our answers are
 * theirs. Who is let in is judged here; everything but signing in is the agent's. */
#include <sodium.h>

#include "web/internal.h"

#define BODY_MAX 4096

/* The page
 * -----------------------------------------------------------------------------------------------------------
 */

/* A browser asks for it to show it, not to work with it. */
static bool is_page(const struct http_request *request)
{
    const char *mode = http_headers_get(&request->headers, "sec-fetch-mode");
    const char *accept = http_headers_get(&request->headers, "accept");

    if (mode != NULL)
        return str_equal(mode, "navigate");
    return accept != NULL && strstr(accept, "text/html") != NULL;
}

static void deny(struct web_conn *conn, const struct http_request *request)
{
    if (is_page(request))
        web_respond_asset(conn->http, 403, "agent-signin.html", strlen("agent-signin.html"));
    else
        web_respond_error(conn->http, 403, "denied",
                          "this browser is not signed in to these pages; the page of their run "
                          "leads here");
}

/* Links by an address that our own pages know the way from, since what is shown under an agent's
 * name may be read by it. */
static void respond_over(struct web_conn *conn, const struct id *session)
{
    AUTO_BUF struct buf page = BUF_INIT(4096);

    buf_printf(&page,
               "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
               "<meta name=\"color-scheme\" content=\"light dark\"><title>Not live</title>"
               "<link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" "
               "href=\"/static/style.css\"></head><body><main class=\"signin\"><h1>Not live</h1>"
               "<p>No agent is at work in this session now, so there is nothing of it to show. "
               "What it did is kept.</p><p><a href=\"%s/#%s\">Open the session's page</a></p>"
               "</main></body></html>\n",
               conn->web->origin, session->text);
    web_respond(conn->http, 503, "text/html; charset=utf-8", buf_text(&page), page.len);
}

/* Guards
 * -----------------------------------------------------------------------------------------------------------
 */

/* From these very pages, or typed. Reading by another site brings no cookie along, but that is the
 * browser's promise and this is ours. */
static bool comes_from_here(const struct http_request *request)
{
    const char *site = http_headers_get(&request->headers, "sec-fetch-site");
    const char *origin = http_headers_get(&request->headers, "origin");
    bool reads = str_equal(request->method, "GET") || str_equal(request->method, "HEAD");

    if (site != NULL && !str_equal(site, "same-origin") &&
        !(reads && str_equal(site, "none") && is_page(request)))
        return false;
    if (origin == NULL)
        return reads;
    return str_starts(origin, "http://") && str_equal(origin + strlen("http://"), request->host);
}

static bool method_known(const char *method)
{
    static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };

    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (str_equal(methods[i], method))
            return true;
    }
    return false;
}

static bool is_signed_in(struct web_conn *conn, const struct http_request *request)
{
    return cookie_value(&request->headers, conn->web->cookie, conn->cookie, sizeof(conn->cookie)) &&
           login_valid(conn->web->login, conn->session.text, conn->cookie);
}

/* Requests
 * ---------------------------------------------------------------------------------------------------------
 */

/* What is ours under the agent's name. */
static bool serve_own(struct web_conn *conn, const struct http_request *request)
{
    static const struct route login = { .handle = act_login, .access = ACCESS_OPEN };
    const char *target = request->target;
    bool reads = str_equal(request->method, "GET");

    if (reads && str_equal(target, "/login")) {
        web_respond_asset(conn->http, 200, "agent-signin.html", strlen("agent-signin.html"));
    } else if (str_equal(request->method, "POST") && str_equal(target, "/login")) {
        if (comes_from_here(request) && http_headers_get(&request->headers, "origin") != NULL)
            route_take_body(conn, &login, ACCESS_OPEN, BODY_MAX);
        else
            web_respond_error(conn->http, 403, "denied", "only the page itself may ask for this");
    } else {
        return reads && route_static(conn, target, strlen(target));
    }
    return true;
}

/* A worker that stands between browser and server would outlive the run, and its rules. */
static bool is_worker(const struct http_request *request)
{
    return http_headers_get(&request->headers, "service-worker") != NULL;
}

static void pass_on(struct web_conn *conn, const struct http_request *request)
{
    struct error err = ERROR_INIT;

    if (!agent_relay_has_room(conn->web, &conn->session))
        web_respond_error(conn->http, 503, "too_many",
                          "too many requests are under way to these pages at once");
    else if (agent_relay_start(conn, &conn->session, request, &err) == 0)
        return;
    else if (is_page(request))
        respond_over(conn, &conn->session);
    else
        web_respond_error(conn->http, 503, "not_live", err.text);
}

void agent_request(struct web_conn *conn, const struct http_request *request)
{
    if (is_worker(request)) {
        web_respond_error(conn->http, 403, "denied", "these pages may have no service worker");
        return;
    }
    if (serve_own(conn, request))
        return;
    if (!method_known(request->method))
        web_respond_error(conn->http, 405, "method_not_allowed", "this method is not allowed here");
    else if (!is_signed_in(conn, request))
        deny(conn, request);
    else if (!comes_from_here(request))
        web_respond_error(conn->http, 403, "denied", "only the page itself may ask for this");
    else
        pass_on(conn, request);
}

/* The way there
 * ----------------------------------------------------------------------------------------------------
 */

int agent_login_url(struct web *web, const struct id *session, struct buf *out, struct error *err)
{
    AUTO_BUF struct buf path = BUF_INIT(4096);
    char host[WEB_AGENT_HOST_SIZE];
    char code[WEB_TOKEN_SIZE];

    if (!web->local)
        return error_set(
            err, ERR_UNAVAILABLE, 0,
            web->shared_port
                ? "an agent's own pages are not shown: another program listens on this port "
                  "of the other loopback address; let web.port be another one"
                : "an agent's own pages are shown on this machine only, and web.remoteListen "
                  "leaves out its loopback: let that be 0.0.0.0");
    if (run_pages_path(web->runs, session, &path, err) < 0)
        return -1;
    login_make_code(web->login, session->text, buf_text(&path), code);
    auth_agent_host(web->key, session, host);
    buf_printf(out, "http://%s:%u/login#%s", host, (unsigned)web->port, code);
    sodium_memzero(code, sizeof(code));
    return 0;
}

/* Our page leads there: a code is made when the link is followed, so that none lies in the page. */
void agent_open(const struct call *call)
{
    const struct id *session = call->run != NULL ? &call->run->session : call->session;
    AUTO_BUF struct buf url = BUF_INIT(4096);
    struct error err = ERROR_INIT;
    struct http_headers headers;

    if (agent_login_url(call->conn->web, session, &url, &err) < 0) {
        if (err.code == ERR_CONFLICT)
            respond_over(call->conn, session);
        else
            web_respond_failure(call->conn->http, &err);
        return;
    }
    http_headers_init(&headers);
    web_headers(&headers, "text/plain");
    http_headers_add(&headers, "Location", buf_text(&url));
    http_conn_respond(call->conn->http, 303, &headers, "", 0);
    http_headers_finish(&headers);
}
