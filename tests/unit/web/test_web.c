/* The page over a real socket: a client on a thread, a fake of what is behind run/. */
#include "harness/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "fake/fake_run.c"
#include "harness/tmp.h"
#include "web/web.h"

static struct lab {
    uv_loop_t loop;
    struct store *store;
    struct runs *runs;
    struct web *web;
    struct run_record run;
    uv_async_t poke;
    uv_async_t stop;
    pthread_t thread;
    char failure[600];
    char url[300];
    char login[300];
    char token[64];
    uint16_t port;
    int left_open;
    void (*body)(void);
} lab;

#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition) && lab.failure[0] == '\0')                                                \
            snprintf(lab.failure, sizeof(lab.failure), "line %d: %s", __LINE__, #condition);       \
    } while (0)

static void quiet(void *data, const char *line)
{
    (void)data;
    (void)line;
}

static void on_web_closed(void *data)
{
    (void)data;
    lab.web = NULL;
    fake_runs_free(lab.runs);
    uv_close((uv_handle_t *)&lab.poke, NULL);
    uv_close((uv_handle_t *)&lab.stop, NULL);
}

static void on_stop(uv_async_t *async)
{
    (void)async;
    if (lab.web != NULL)
        web_close(lab.web, on_web_closed, NULL);
}

static void on_poke(uv_async_t *async)
{
    (void)async;
    fake_event(lab.runs, &lab.run, RUN_WORKING, 4, "bash: <script>alert(1)</script>\nsecond", "");
    fake_event(lab.runs, &lab.run, RUN_COMPLETED, 0, "completed", "");
}

static void *client_thread(void *data)
{
    (void)data;
    lab.body();
    uv_async_send(&lab.stop);
    return NULL;
}

static void lab_finish(void *data)
{
    (void)data;
    if (lab.store == NULL)
        return;
    run_record_finish(&lab.run);
    store_close(STEAL(lab.store));
    log_set_sink(NULL, NULL);
}

static void make_run(void)
{
    struct run_request request = { .task = "make </script> it", .repository = "", .title = "t" };
    struct error err = ERROR_INIT;
    AUTO_BUF struct buf url = BUF_INIT(1000);
    uint64_t until = 0;

    run_record_init(&lab.run);
    CHECK_EQ(run_create(lab.runs, &request, &lab.run, &err), 0);
    web_run_url(lab.web, lab.run.id.text, &url);
    str_copy(lab.url, sizeof(lab.url), buf_text(&url));
    CHECK(str_starts(lab.url, web_origin(lab.web)));
    buf_clear(&url);
    CHECK_EQ(web_login_url(lab.web, "", &url, &until, &err), 0);
    str_copy(lab.login, sizeof(lab.login), buf_text(&url));
    str_copy(lab.token, sizeof(lab.token), strstr(lab.url, "token=") + 6);
    lab.port = (uint16_t)strtoul(strrchr(web_origin(lab.web), ':') + 1, NULL, 10);
}

static void with_web(void (*body)(void))
{
    struct store_options store_options = { .directory = tmp_path("db"),
                                           .map_size_bytes = 1u << 24 };
    struct web_options options = { .listen = "127.0.0.1", .state_dir = tmp_dir() };
    struct error err = ERROR_INIT;

    log_set_sink(quiet, NULL);
    lab.failure[0] = '\0';
    lab.body = body;
    CHECK_EQ(uv_loop_init(&lab.loop), 0);
    CHECK_EQ(store_open(&lab.store, &store_options, &err), 0);
    lab.runs = fake_runs_new(&lab.loop, lab.store, clock_system());
    test_defer(lab_finish, NULL);
    CHECK_EQ(web_start(&lab.web, &lab.loop, lab.runs, lab.store, clock_system(), &options, &err),
             0);
    make_run();
    uv_async_init(&lab.loop, &lab.poke, on_poke);
    uv_async_init(&lab.loop, &lab.stop, on_stop);
    CHECK_EQ(pthread_create(&lab.thread, NULL, client_thread, NULL), 0);
    uv_run(&lab.loop, UV_RUN_DEFAULT);
    pthread_join(lab.thread, NULL);
    CHECK_EQ(uv_loop_close(&lab.loop), 0);
    CHECK_STR(lab.failure, "");
}

/* One exchange on a connection of its own; the answer until the peer closes or it has ENOUGH (NULL:
 * all), ours to free. HOST NULL: the right one. */
static char *exchange(const char *method, const char *target, const char *host, const char *more,
                      const char *enough)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(lab.port) };
    struct timeval timeout = { .tv_sec = 10 };
    AUTO_CLOSE
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO_FREE
    char *right = mem_printf("127.0.0.1:%u", (unsigned)lab.port);
    AUTO_FREE
    char *head = mem_printf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", method,
                            target, host != NULL ? host : right, more);
    AUTO_BUF struct buf answer = BUF_INIT(1u << 22);
    char part[4096];
    ssize_t got;

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return mem_strdup("no connection");
    if (send(fd, head, strlen(head), MSG_NOSIGNAL) < 0)
        return mem_strdup("no sending");
    while ((got = read(fd, part, sizeof(part))) > 0) {
        buf_append(&answer, part, (size_t)got);
        if (enough != NULL && strstr(buf_text(&answer), enough) != NULL)
            break;
    }
    return answer.len > 0 ? buf_steal(&answer) : mem_strdup("");
}

static char *ask(const char *method, const char *target, const char *host, const char *more)
{
    return exchange(method, target, host, more, NULL);
}

static char *ask_until(const char *target, const char *more, const char *enough)
{
    return exchange("GET", target, NULL, more, enough);
}

static bool answers(const char *method, const char *target, const char *host, const char *more,
                    const char *part)
{
    AUTO_FREE
    char *text = ask(method, target, host, more);

    if (strstr(text, part) != NULL)
        return true;
    snprintf(lab.failure, sizeof(lab.failure), "%s %.100s: \"%.300s\" has no \"%s\"", method,
             target, text, part);
    return false;
}

static const char *path_of(const char *before, const char *after, const char *token)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s%s%s%s%s", before, lab.run.id.text, after,
             token != NULL ? "?token=" : "", token != NULL ? token : "");
    return path;
}

static void body_routes(void)
{
    AUTO_FREE
    char *header = mem_printf("X-Token: %s\r\n", lab.token);
    AUTO_FREE
    char *page = ask("GET", path_of("/runs/", "", lab.token), NULL, "");

    WANT(str_starts(page, "HTTP/1.1 200"));
    WANT(strstr(page, "default-src 'none'; script-src 'self'") != NULL);
    WANT(strstr(page, "Referrer-Policy: no-referrer") != NULL);
    WANT(strstr(page, "Cache-Control: no-store") != NULL);
    WANT(strstr(page, "<script src=\"/static/app.js\"") != NULL);
    WANT(strstr(page, "make </script> it") == NULL);
    WANT(answers("GET", path_of("/api/runs/", "", lab.token), NULL, "", "\"status\":\"queued\""));
    WANT(answers("GET", path_of("/api/runs/", "", NULL), NULL, header, "make </script> it"));
    WANT(answers("GET", path_of("/api/runs/", "/diff", NULL), NULL, header, "has not ended"));
    WANT(answers("GET", "/static/app.js", NULL, "", "text/javascript"));
    WANT(answers("GET", "/static/style.css", NULL, "", "text/css"));
    WANT(answers("GET", "/static/../web.key", NULL, "", "HTTP/1.1 404"));
    WANT(answers("GET", "/", NULL, "", "sandboxctl web"));
    WANT(answers("GET", "/nowhere", NULL, "", "HTTP/1.1 404"));
    WANT(answers("PUT", path_of("/api/runs/", "", lab.token), NULL, "", "HTTP/1.1 405"));
}

TEST(a_link_opens_its_run)
{
    with_web(body_routes);
}

static void body_denied(void)
{
    static const char unknown[] =
        "/api/runs/"
        "run_00000000000000000000000000?token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    AUTO_FREE
    char *wrong = mem_strdup(lab.token);
    AUTO_FREE
    char *first = NULL;
    AUTO_FREE
    char *second = NULL;
    AUTO_FREE
    char *right = mem_printf("X-Token: %s\r\n", lab.token);

    wrong[3] = wrong[3] == 'a' ? 'b' : 'a';
    WANT(answers("GET", path_of("/runs/", "", NULL), NULL, "", "HTTP/1.1 403"));
    WANT(answers("GET", path_of("/runs/", "", wrong), NULL, "", "HTTP/1.1 403"));
    WANT(answers("GET", path_of("/api/runs/", "/events", wrong), NULL, "", "HTTP/1.1 403"));
    first = ask("GET", path_of("/api/runs/", "", wrong), NULL, "");
    second = ask("GET", unknown, NULL, "");
    WANT(strstr(first, "\r\n\r\n") != NULL &&
         str_equal(strstr(first, "\r\n\r\n"), strstr(second, "\r\n\r\n")));
    WANT(answers("GET", path_of("/runs/", "", lab.token), "evil.example:80", "", "HTTP/1.1 421"));
    WANT(answers("GET", "/static/app.js", "evil.example", "", "HTTP/1.1 421"));
    WANT(answers("POST", path_of("/api/runs/", "/cancel", NULL), NULL, right, "HTTP/1.1 403"));
    WANT(answers("POST", path_of("/api/runs/", "/cancel", lab.token), NULL,
                 "Origin: http://evil.example\r\n", "HTTP/1.1 403"));
    WANT(lab.runs->cancels == 0);
}

TEST(a_wrong_token_host_or_origin_is_refused)
{
    with_web(body_denied);
}

static void body_cancel(void)
{
    AUTO_FREE
    char *more = mem_printf("X-Token: %s\r\nOrigin: http://localhost:%u\r\nContent-Length: 0\r\n",
                            lab.token, (unsigned)lab.port);

    lab.runs->cancel_ends = true;
    WANT(answers("POST", path_of("/api/runs/", "/cancel", NULL), NULL, more, "HTTP/1.1 202"));
    WANT(
        answers("GET", path_of("/api/runs/", "", lab.token), NULL, "", "\"status\":\"cancelled\""));
}

TEST(the_page_can_cancel)
{
    with_web(body_cancel);
}

static void body_events(void)
{
    AUTO_FREE
    char *all = NULL;

    uv_async_send(&lab.poke);
    all = ask("GET", path_of("/api/runs/", "/events", lab.token), NULL, "");
    WANT(strstr(all, "text/event-stream") != NULL);
    WANT(strstr(all, "id: 1\ndata: {\"number\":1,") != NULL);
    WANT(strstr(all, "id: 2\ndata: {") != NULL);
    WANT(strstr(all, "</script>\\nsecond") != NULL);
    WANT(strstr(all, "event: end\n") != NULL);
    free(STEAL(all));
    all = ask("GET", path_of("/api/runs/", "/events", lab.token), NULL, "Last-Event-ID: 2\r\n");
    WANT(strstr(all, "id: 2\n") == NULL && strstr(all, "id: 3\n") != NULL);
}

TEST(events_stream_to_the_end_and_replay_behind_a_number)
{
    with_web(body_events);
}

/* What stands behind NAME in ANSWER, up to one of END. */
static char *part_of(const char *answer, const char *name, const char *end)
{
    const char *at = strstr(answer, name);

    if (at == NULL)
        return mem_strdup("");
    at += strlen(name);
    return mem_strndup(at, strcspn(at, end));
}

static char *post(const char *path, const char *more, const char *body)
{
    AUTO_FREE
    char *all = mem_printf("Origin: http://127.0.0.1:%u\r\n%sContent-Length: %zu\r\n\r\n%s",
                           (unsigned)lab.port, more, strlen(body), body);

    return ask("POST", path, NULL, all);
}

static void body_sign_in(void)
{
    AUTO_FREE
    char *code = mem_strdup(strchr(lab.login, '#') + 1);
    AUTO_FREE
    char *body = mem_printf("{\"code\":\"%s\"}", code);
    AUTO_FREE
    char *first = post("/login", "", body);
    AUTO_FREE
    char *again = post("/login", "", body);
    AUTO_FREE
    char *cookie = part_of(first, "Set-Cookie: ", ";");
    AUTO_FREE
    char *prefix = part_of(first, "\"location\":\"", "\"");
    AUTO_FREE
    char *shown = mem_printf("Cookie: a=b; %s\r\n", cookie);
    AUTO_FREE
    char *api = mem_printf("%sapi/runs", prefix);
    AUTO_FREE
    char *send = mem_printf("%sapi/runs/%s/send", prefix, lab.run.id.text);
    AUTO_FREE
    char *gone = NULL;

    WANT(str_starts(first, "HTTP/1.1 200"));
    WANT(strstr(first, "HttpOnly; SameSite=Strict") != NULL);
    WANT(str_starts(prefix, "/w/") && strstr(first, prefix) != NULL);
    WANT(str_starts(again, "HTTP/1.1 403"));
    WANT(answers("GET", prefix, NULL, shown, "<script src=\"/static/app.js\""));
    WANT(answers("GET", prefix, NULL, "", "HTTP/1.1 403"));
    WANT(answers("GET", api, NULL, shown, "\"counts\":{\"queued\":1"));
    WANT(answers("GET", api, NULL, "", "HTTP/1.1 403"));
    WANT(answers("GET", api, NULL, "Cookie: a=b\r\n", "HTTP/1.1 403"));
    free(STEAL(again));
    again = post(send, shown, "{\"message\":\"and the docs\"}");
    WANT(strstr(again, "\"action\":\"queued\"") != NULL);
    WANT(strstr(again, "\"path\":\"/w/") != NULL);
    free(STEAL(again));
    again = post(send, shown, "{\"message\":\"x\",\"more\":1}");
    WANT(str_starts(again, "HTTP/1.1 400"));
    free(STEAL(again));
    again = mem_printf("%sapi/logout", prefix);
    gone = post(again, shown, "");
    WANT(str_starts(gone, "HTTP/1.1 200"));
    WANT(answers("GET", api, NULL, shown, "HTTP/1.1 403"));
}

TEST(a_login_link_works_once_and_its_cookie_until_it_is_given_back)
{
    with_web(body_sign_in);
}

static void body_board(void)
{
    AUTO_FREE
    char *body = mem_printf("{\"code\":\"%s\"}", strchr(lab.login, '#') + 1);
    AUTO_FREE
    char *first = post("/login", "", body);
    AUTO_FREE
    char *cookie = part_of(first, "Set-Cookie: ", ";");
    AUTO_FREE
    char *prefix = part_of(first, "\"location\":\"", "\"");
    AUTO_FREE
    char *shown = mem_printf("Cookie: %s\r\n", cookie);
    AUTO_FREE
    char *api = mem_printf("%sapi/runs", prefix);
    AUTO_FREE
    char *list = ask("GET", api, NULL, shown);
    AUTO_FREE
    char *cursor = part_of(list, "\"feed\":\"", "\"");
    AUTO_FREE
    char *feed = mem_printf("%sapi/feed?after=%s", prefix, cursor);
    AUTO_FREE
    char *stale = mem_printf("%sapi/feed?after=00000000-0", prefix);
    AUTO_FREE
    char *seen = NULL;

    uv_async_send(&lab.poke);
    seen = ask_until(feed, shown, "\"status\":\"completed\"");
    WANT(strstr(seen, "event: run\ndata: {\"run\":{") != NULL);
    WANT(strstr(seen, "event: reset") == NULL);
    free(STEAL(seen));
    seen = ask_until(feed, shown, "\"status\":\"completed\"");
    WANT(strstr(seen, "\"status\":\"completed\"") != NULL);
    free(STEAL(seen));
    seen = ask_until(stale, shown, "event: reset");
    WANT(strstr(seen, "event: reset") != NULL);
}

TEST(a_board_hears_of_changes_from_its_cursor_on)
{
    with_web(body_board);
}

/* Left open: closing the daemon must not wait for it. */
static void body_open_stream(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(lab.port) };
    AUTO_FREE
    char *head = mem_printf("GET %s HTTP/1.1\r\nHost: localhost:%u\r\n\r\n",
                            path_of("/api/runs/", "/events", lab.token), (unsigned)lab.port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char part[200];

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    WANT(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    WANT(send(fd, head, strlen(head), 0) > 0);
    WANT(read(fd, part, sizeof(part)) > 0);
    lab.left_open = fd;
}

TEST(closing_cuts_open_streams)
{
    with_web(body_open_stream);
    fd_close(&lab.left_open);
}

static void nothing(void)
{
}

TEST(links_stay_valid_after_a_restart)
{
    char before[300];

    with_web(nothing);
    str_copy(before, sizeof(before), strchr(lab.url + 7, ':'));
    lab_finish(NULL);
    with_web(nothing);
    before[strcspn(before, "/")] = '\0';
    CHECK(str_starts(strchr(lab.url + 7, ':'), before));
}
