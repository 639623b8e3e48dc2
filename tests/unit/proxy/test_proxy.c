/* The whole proxy over real sockets. */
#include "unit/proxy/rig.h"

#include <zlib.h>

#define MESSAGES "POST /proxy/anthropic/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\n"

TEST(a_request_goes_through_with_the_real_key)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *answer = rig_ask(
        rig, MESSAGES
        "x-api-key: %T\r\nanthropic-version: 2023-06-01\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\nCookie: a=b\r\nAuthorization: Bearer own\r\n"
        "Content-Length: 4\r\n\r\nabcd");

    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(answer, "\r\n\r\nhi");
    CHECK_EQ(rig->requests, 1);
    CHECK_HAS(buf_text(&rig->seen), "POST /v1/messages HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "x-api-key: " RIG_SECRET "\r\n");
    CHECK_HAS(buf_text(&rig->seen), "anthropic-version: 2023-06-01\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Accept-Encoding: identity\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Content-Length: 4\r\n");
    CHECK_HAS(buf_text(&rig->seen), "\r\n\r\nabcd");
    CHECK(strstr(buf_text(&rig->seen), rig->token) == NULL);
    CHECK(strcasestr(buf_text(&rig->seen), "cookie") == NULL);
    CHECK(strcasestr(buf_text(&rig->seen), "authorization") == NULL);
    CHECK(strcasestr(buf_text(&rig->seen), "expect") == NULL);
    CHECK(strcasestr(buf_text(&rig->seen), "4999") == NULL);
    CHECK_EQ(rig->decision_count, 1);
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK_STR(rig_last(rig)->service, "anthropic");
    CHECK_STR(rig_last(rig)->path, "/v1/messages");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ALLOW);
    CHECK_EQ(rig_last(rig)->status, 200);
    CHECK_EQ(rig_last(rig)->request_bytes, 4);
    CHECK_EQ(rig_last(rig)->response_bytes, 2);
    CHECK_EQ(proxy_requests(rig->proxy, "run_1"), 1);
    CHECK(rig->traffic > 0);
    rig_stop(rig);
}

TEST(refusals_are_json_that_says_not_to_retry)
{
    static const struct {
        const char *request;
        const char *line;
        const char *code;
    } cases[] = {
        { "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n", "HTTP/1.1 407 ",
          "no_token" },
        { "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nProxy-Authorization: Bearer "
          "%T\r\n\r\n",
          "HTTP/1.1 403 ", "host_not_allowed" },
        { "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\nConnection: "
          "upgrade\r\nUpgrade: websocket\r\n\r\n",
          "HTTP/1.1 400 ", "bad_upgrade" },
        { "TRACE /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n", "HTTP/1.1 405 ",
          "method_not_allowed" },
        { MESSAGES "Content-Length: 0\r\n\r\n", "HTTP/1.1 403 ", "no_token" },
        { MESSAGES "Content-Length: 0\r\nx-api-key: nope\r\n\r\n", "HTTP/1.1 403 ", "bad_token" },
        { MESSAGES "Content-Length: 0\r\nauthorization: Bearer %T\r\n\r\n", "HTTP/1.1 403 ",
          "token_misplaced" },
        { "POST /proxy/keyless/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\nContent-Length: 0\r\n\r\n",
          "HTTP/1.1 403 ", "secret_missing" },
        { "GET /proxy/github/o/r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: p\r\n\r\n",
          "HTTP/1.1 401 ", "no_token" },
        { "POST /proxy/corp/files HTTP/1.1\r\nHost: p\r\nauthorization: Bearer "
          "%T\r\nContent-Length: 0\r\n\r\n",
          "HTTP/1.1 403 ", "request_not_allowed" },
        { "GET / HTTP/1.1\r\nHost: p\r\n\r\n", "HTTP/1.1 404 ", "unknown_path" },
        { "GET / HTTP/1.1\r\nHost: p\r\nHost: q\r\n\r\n", "HTTP/1.1 400 ", "duplicate_host" },
        { "GET /\xff HTTP/1.1\r\nHost: p\r\n\r\n", "HTTP/1.1 400 ", "bad_target" },
        { "\x16\x03\x01 hello", "HTTP/1.1 400 ", "control_character" },
    };
    struct rig *rig = rig_start(NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_FREE
        char *answer = rig_ask(rig, cases[i].request);
        AUTO_FREE
        char *code = mem_printf("\"code\":\"%s\"", cases[i].code);

        CHECK_HAS(answer, cases[i].line);
        CHECK_HAS(answer, code);
        if (i < 11)
            CHECK_HAS(answer, "do not retry");
        CHECK_EQ(rig->decision_count, i + 1);
        CHECK_STR(rig_last(rig)->reason, cases[i].code);
        CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    }
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

TEST(git_is_challenged_and_then_served)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *plain = mem_printf("user:%s", rig->token);
    char basic[200];
    AUTO_FREE
    char *first = rig_ask(
        rig,
        "GET /proxy/github/o/r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: p\r\n\r\n");

    CHECK_HAS(first, "www-authenticate: Basic ");
    sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)plain, strlen(plain),
                      sodium_base64_VARIANT_ORIGINAL);
    AUTO_FREE
    char *request = mem_printf("POST /proxy/github/o/r.git/git-upload-pack HTTP/1.1\r\nHost: "
                               "p\r\nAuthorization: Basic %s\r\n"
                               "Content-Encoding: gzip\r\nTransfer-Encoding: "
                               "chunked\r\nContent-Type: application/x-git-upload-pack-request\r\n"
                               "Git-Protocol: version=2\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
                               basic);
    AUTO_FREE
    char *second = rig_ask(rig, request);

    CHECK_HAS(second, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(buf_text(&rig->seen), "POST /o/r.git/git-upload-pack HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "authorization: Basic eC1hY2Nlc3MtdG9rZW46");
    CHECK_HAS(buf_text(&rig->seen), "Content-Encoding: gzip\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Git-Protocol: version=2\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Transfer-Encoding: chunked\r\n");
    CHECK_HAS(buf_text(&rig->seen), "4\r\nabcd\r\n0\r\n\r\n");
    CHECK(strstr(buf_text(&rig->seen), basic) == NULL);
    CHECK_EQ(proxy_requests(rig->proxy, "run_1"), 0);
    rig_stop(rig);
}

TEST(a_target_with_a_path_gets_it_in_front)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *answer = rig_ask(
        rig,
        "GET /proxy/corp/models/a%2Db?x=1 HTTP/1.1\r\nHost: p\r\nAuthorization: bearer %T\r\n\r\n");

    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(buf_text(&rig->seen), "GET /base/v1/models/a-b?x=1 HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "authorization: Bearer " RIG_SECRET "\r\n");
    rig_stop(rig);
}

static struct rig_client *begin(struct rig *rig, const char *rest)
{
    struct rig_client *client = rig_connect(rig);
    AUTO_FREE
    char *text = mem_printf(MESSAGES "x-api-key: %s\r\n%s", rig->token, rest);

    rig_send(client, text);
    return client;
}

#define NO_BODY "Content-Length: 0\r\n\r\n"
#define STREAM_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: "     \
    "chunked\r\n\r\n"

static void first_event(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, STREAM_HEAD "d\r\ndata: {\"a\"}\n\n\r\n");
}

TEST(an_event_goes_on_at_once_and_the_final_one_ends_cleanly)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = first_event;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "data: {\"a\"}\n\n\r\n") != NULL);
    CHECK_EQ(rig->decision_count, 0);
    rig_say(rig->upstreams[0], "15\r\nevent: message_stop\n\n\r\n0\r\n\r\n");
    RIG_UNTIL(rig, rig->decision_count == 1);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "\r\n0\r\n\r\n") != NULL);
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK(!client->ended);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_stream_that_ends_cleanly_without_its_final_event_is_cut)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = first_event;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "{\"a\"}") != NULL);
    rig_say(rig->upstreams[0], "0\r\n\r\n");
    RIG_UNTIL(rig, client->ended);
    CHECK(client->reset);
    CHECK(strstr(buf_text(&client->in), "\r\n0\r\n\r\n") == NULL);
    CHECK_STR(rig_last(rig)->reason, "upstream_incomplete");
    CHECK_EQ(rig_last(rig)->status, 0);
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ERROR);
    rig_hang_up(client);
    rig_stop(rig);
}

static const char *cut_start;
static int cut_way;

static void say_and_cut(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, cut_start);
    if (cut_way == 0)
        rig_upstream_close(upstream);
    else
        rig_upstream_cut(upstream);
}

TEST(a_cut_answer_reaches_the_client_as_a_cut)
{
    static const char *const starts[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    };
    struct rig *rig = rig_start(NULL);

    rig->script = say_and_cut;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        for (cut_way = 0; cut_way < 2; cut_way++) {
            struct rig_client *client;

            cut_start = starts[i];
            client = begin(rig, NO_BODY);
            RIG_UNTIL(rig, client->ended || strstr(buf_text(&client->in), "HTTP/1.1 502 ") != NULL);
            CHECK(strstr(buf_text(&client->in), "\r\n0\r\n\r\n") == NULL);
            CHECK_STR(rig_last(rig)->reason, "upstream_cut");
            rig_hang_up(client);
        }
    }
    rig_stop(rig);
}

TEST(a_body_that_ends_with_the_connection_is_passed_on_as_chunks)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = say_and_cut;
    cut_start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello";
    cut_way = 0;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, rig->decision_count == 1 && strstr(buf_text(&client->in), "0\r\n\r\n") != NULL);
    CHECK_HAS(buf_text(&client->in), "hello\r\n0\r\n\r\n");
    CHECK_STR(rig_last(rig)->reason, "ok");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_client_that_goes_away_ends_the_upstream_at_once)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = first_event;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "{\"a\"}") != NULL);
    rig_hang_up(client);
    RIG_UNTIL(rig, rig->upstreams[0]->ended && rig->decision_count == 1);
    CHECK_STR(rig_last(rig)->reason, "client_abort");
    CHECK_EQ(rig_last(rig)->status, 0);
    rig_stop(rig);
}

TEST(revoking_cuts_streams_and_forgets_the_token)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;
    struct rig_client *idle = rig_connect(rig);
    bool present;

    rig->script = first_event;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "{\"a\"}") != NULL);
    proxy_revoke(rig->proxy, "run_1");
    proxy_revoke(rig->proxy, "run_1");
    proxy_revoke(rig->proxy, "run_2");
    CHECK_EQ(rig->decision_count, 1);
    CHECK_STR(rig_last(rig)->reason, "revoked");
    RIG_UNTIL(rig, client->ended && idle->ended && rig->upstreams[0]->ended);
    CHECK(client->reset);
    CHECK(strstr(buf_text(&client->in), "\r\n0\r\n\r\n") == NULL);
    CHECK_EQ(proxy_requests(rig->proxy, "run_1"), 0);
    CHECK(proxy_service_ready(rig->proxy, "anthropic", &present) && present);
    CHECK(proxy_service_ready(rig->proxy, "keyless", &present) && !present);
    CHECK(!proxy_service_ready(rig->proxy, "nope", &present));
    rig_hang_up(client);
    rig_hang_up(idle);
    rig_stop(rig);
}

TEST(connections_are_kept_and_each_request_is_judged)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_connect(rig);
    AUTO_FREE
    char *text = mem_printf(
        MESSAGES "x-api-key: %s\r\nContent-Length: 3\r\n\r\nabc" MESSAGES
                 "x-api-key: wrong\r\nContent-Length: 0\r\n\r\n"
                 "GET /proxy/anthropic/v1/models HTTP/1.1\r\nHost: p\r\nx-api-key: %s\r\n\r\n",
        rig->token, rig->token);

    rig_send(client, text);
    RIG_UNTIL(rig, rig->decision_count == 3);
    RIG_UNTIL(rig, client->in.len > 0 && strstr(strstr(buf_text(&client->in), "bad_token") != NULL
                                                    ? strstr(buf_text(&client->in), "bad_token")
                                                    : "",
                                                "hi") != NULL);
    CHECK_STR(rig->decisions[0].reason, "ok");
    CHECK_STR(rig->decisions[1].reason, "bad_token");
    CHECK_STR(rig->decisions[2].reason, "ok");
    CHECK_STR(rig->decisions[2].path, "/v1/models");
    CHECK_EQ(rig->requests, 2);
    CHECK_EQ(rig->upstream_count, 1);
    CHECK_EQ(rig->upstreams[0]->answered, 2);
    CHECK(!client->ended);
    CHECK_EQ(proxy_requests(rig->proxy, "run_1"), 1);
    rig_hang_up(client);
    rig_stop(rig);
}

/* Back-pressure
 * ------------------------------------------------------------------------------------------------------
 */

#define BIG (64u << 20)

static void say_much(struct rig_upstream *upstream, const char *request)
{
    AUTO_FREE
    char *body = mem_new_zero(1, BIG);

    (void)request;
    rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
    stream_write(upstream->stream, body, BIG);
}

TEST(a_stopped_reader_stops_the_upstream)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;
    size_t stuck = 0;

    rig->script = say_much;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, client->in.len > 0);
    stream_pause(client->stream);
    /* Until the upstream moves no more. */
    for (int quiet = 0; quiet < 200;) {
        size_t left = stream_queued(rig->upstreams[0]->stream);

        uv_run(&rig->loop, UV_RUN_NOWAIT);
        quiet = left == stuck ? quiet + 1 : 0;
        stuck = left;
    }
    /* What isn't with the sender lies in two pairs of kernel buffers and in our queue of some
     * hundred KiB. */
    CHECK(stuck > BIG / 2);
    CHECK_EQ(rig->decision_count, 0);
    stream_resume(client->stream);
    RIG_UNTIL(rig, rig->decision_count == 1 && client->in.len > BIG);
    CHECK_EQ(rig_last(rig)->response_bytes, BIG);
    CHECK_STR(rig_last(rig)->reason, "ok");
    rig_hang_up(client);
    rig_stop(rig);
}

static void stop_reading(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    stream_pause(upstream->stream);
}

TEST(a_stopped_upstream_stops_the_upload)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;
    AUTO_FREE
    char *body = mem_new_zero(1, BIG);
    size_t stuck = 0;

    rig->raw_upload = true;
    rig->script = stop_reading;
    client = begin(rig, "Content-Length: 67108864\r\n\r\n");
    CHECK(stream_write(client->stream, body, BIG));
    RIG_UNTIL(rig, rig->seen.len > 0);
    for (int quiet = 0; quiet < 200;) {
        size_t left = stream_queued(client->stream);

        uv_run(&rig->loop, UV_RUN_NOWAIT);
        quiet = left == stuck ? quiet + 1 : 0;
        stuck = left;
    }
    CHECK(stuck > BIG / 2);
    rig->raw_upload = false;
    rig->script = rig_default_script;
    stream_resume(rig->upstreams[0]->stream);
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK_EQ(rig_last(rig)->request_bytes, BIG);
    CHECK_STR(rig_last(rig)->reason, "ok");
    rig_hang_up(client);
    rig_stop(rig);
}

/* Upstream's misbehaviour
 * ------------------------------------------------------------------------------------------- */

static const char *fixed_answer;

static void say_fixed(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, fixed_answer);
}

TEST(malformed_answers_become_502_and_nothing_of_them_passes)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil",
        "HTTP/1.1 200 OK\r\nContent-Length: +4\r\nX-Evil: 1\r\n\r\nevil",
        "HTTP/1.1 200 OK\r\nX-Evil: a\rb\r\nContent-Length: 4\r\n\r\nevil",
        "HTTP/1.1 200 OK\nX-Evil: 1\nContent-Length: 4\n\nevil",
        "HTTP/1.1 200 OK\r\nX-Evil: a\r\n folded\r\nContent-Length: 4\r\n\r\nevil",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\nConnection: upgrade\r\n\r\nevil",
        "HTTP/1.1 200 OK\r\nX-Evil\r\nContent-Length: 4\r\n\r\nevil",
        "evil\r\n\r\n",
    };
    struct rig *rig = rig_start(NULL);

    rig->script = say_fixed;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        AUTO_FREE
        char *answer = NULL;

        fixed_answer = answers[i];
        answer = rig_ask(rig, MESSAGES "x-api-key: %T\r\n" NO_BODY);
        if (strstr(answer, "HTTP/1.1 502 ") == NULL)
            CHECK_STR(answers[i], answer);
        CHECK(strcasestr(answer, "evil") == NULL);
        CHECK_STR(rig_last(rig)->reason, "upstream_bad_response");
        CHECK_EQ(rig_last(rig)->status, 502);
    }
    rig_stop(rig);
}

TEST(a_flood_of_interim_or_header_lines_is_refused)
{
    struct rig *rig = rig_start(NULL);
    AUTO_BUF struct buf flood;

    buf_init(&flood, 1u << 20);
    for (int i = 0; i < 40; i++)
        buf_append_str(&flood, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
    buf_append_str(&flood, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    rig->script = say_fixed;
    fixed_answer = buf_text(&flood);
    AUTO_FREE
    char *first = rig_ask(rig, MESSAGES "x-api-key: %T\r\n" NO_BODY);
    CHECK_HAS(first, "HTTP/1.1 502 ");

    buf_clear(&flood);
    buf_append_str(&flood, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
    for (int i = 0; i < 500; i++)
        buf_append_str(&flood, "X-Many: 1\r\n");
    buf_append_str(&flood, "\r\nhi");
    fixed_answer = buf_text(&flood);
    AUTO_FREE
    char *second = rig_ask(rig, MESSAGES "x-api-key: %T\r\n" NO_BODY);
    CHECK_HAS(second, "HTTP/1.1 502 ");
    rig_stop(rig);
}

TEST(an_answer_is_cleaned_before_it_goes_on)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *upstream_answer =
        mem_printf("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
                   "HTTP/1.1 429 Too Many\r\nRetry-After: 99999\r\nretry-after-ms: "
                   "12\r\nSet-Cookie: login=1\r\n"
                   "Alt-Svc: h3=\":443\"\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nWarning: "
                   "a\r\nWarning: b\r\n"
                   "Location: http://127.0.0.1:%u/new/place\r\nContent-Length: 2\r\n\r\nno",
                   rig->upstream_port);

    rig->script = say_fixed;
    fixed_answer = upstream_answer;
    AUTO_FREE
    char *answer = rig_ask(rig, MESSAGES "x-api-key: %T\r\n" NO_BODY);
    CHECK(strncmp(answer, "HTTP/1.1 429 ", 13) == 0);
    CHECK_HAS(answer, "Retry-After: 60\r\n");
    CHECK_HAS(answer, "retry-after-ms: 12\r\n");
    CHECK_HAS(answer, "Warning: a\r\nWarning: b\r\n");
    CHECK_HAS(answer, "Location: http://127.0.0.1:4999/proxy/anthropic/new/place\r\n");
    CHECK(strcasestr(answer, "cookie") == NULL);
    CHECK(strcasestr(answer, "alt-svc") == NULL);
    CHECK(strcasestr(answer, "x-hop") == NULL);
    CHECK(strcasestr(answer, "connection: close") == NULL);
    CHECK(strstr(answer, "103") == NULL);
    CHECK_EQ(proxy_requests(rig->proxy, "run_1"), 0);
    rig_stop(rig);
}

TEST(bodiless_answers_stay_in_step)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *head = NULL;
    AUTO_FREE
    char *none = NULL;

    rig->script = say_fixed;
    fixed_answer = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    head = rig_ask(rig, "HEAD /proxy/anthropic/ HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n");
    CHECK_HAS(head, "Content-Length: 1000\r\n");
    CHECK_STR(rig_last(rig)->reason, "ok");
    fixed_answer = "HTTP/1.1 204 No Content\r\n\r\n";
    none = rig_ask(rig, "DELETE /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n");
    CHECK_HAS(none, "HTTP/1.1 204 ");
    CHECK_HAS(buf_text(&rig->seen), "DELETE /x HTTP/1.1\r\n");
    CHECK(strstr(none, "Transfer-Encoding") == NULL);
    rig_stop(rig);
}

static void answer_twice(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
}

TEST(an_answer_that_nobody_asked_for_is_never_delivered)
{
    for (int turns = 0; turns < 3; turns++) {
        struct rig *rig = rig_start(NULL);
        struct rig_client *client;

        rig->script = answer_twice;
        client = begin(rig, NO_BODY);
        RIG_UNTIL(rig, rig->decision_count == 1 && strstr(buf_text(&client->in), "good") != NULL);
        rig_say(rig->upstreams[0], "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL");
        /* Seen by the poll, or only by the look before the next request. */
        for (int i = 0; i < turns; i++)
            uv_run(&rig->loop, UV_RUN_NOWAIT);
        AUTO_FREE
        char *text = mem_printf(MESSAGES "x-api-key: %s\r\n" NO_BODY, rig->token);
        rig_send(client, text);
        RIG_UNTIL(rig, rig->decision_count == 2);
        RIG_UNTIL(rig, strstr(strstr(buf_text(&client->in), "good") + 1, "good") != NULL);
        CHECK(strstr(buf_text(&client->in), "EVIL") == NULL);
        CHECK_EQ(rig->upstream_count, 2);
        rig_hang_up(client);
        rig_stop(rig);
    }
}

static void say_nothing(struct rig_upstream *upstream, const char *request)
{
    (void)upstream;
    (void)request;
}

TEST(a_silent_upstream_times_out)
{
    const struct proxy_options options = { .upstream_idle_ms = 100 };
    struct rig *rig = rig_start(&options);

    rig->script = say_nothing;
    AUTO_FREE
    char *answer = rig_ask(rig, MESSAGES "x-api-key: %T\r\n" NO_BODY);
    CHECK_HAS(answer, "HTTP/1.1 504 ");
    CHECK_STR(rig_last(rig)->reason, "upstream_timeout");
    RIG_UNTIL(rig, rig->upstreams[0]->ended);

    rig->script = first_event;
    struct rig_client *client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, client->ended);
    CHECK(client->reset);
    CHECK_STR(rig_last(rig)->reason, "upstream_timeout");
    CHECK_EQ(rig_last(rig)->status, 0);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(an_upstream_that_is_not_there_is_a_502)
{
    struct rig *rig = rig_start(NULL);

    listener_close(rig->upstream_listener, rig_count_closed, rig);
    RIG_UNTIL(rig, rig->closed == 1);
    AUTO_FREE
    char *answer = rig_ask(rig, MESSAGES "x-api-key: %T\r\n" NO_BODY);
    CHECK_HAS(answer, "HTTP/1.1 502 ");
    CHECK_STR(rig_last(rig)->reason, "upstream_connect");
    CHECK(strstr(answer, "do not retry") == NULL);
    rig->upstream_listener = NULL;
    rig_stop(rig);
}

TEST(a_name_that_leads_to_a_private_address_is_refused)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *answer = NULL;

    if (rig->private_name == NULL) {
        rig_stop(rig);
        test_skip("no name for a private address but localhost");
    }
    answer = rig_ask(rig, "GET /proxy/private/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n");
    CHECK_HAS(answer, "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "address_not_allowed");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

TEST(continue_comes_after_the_judgement)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = begin(rig, "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");

    RIG_UNTIL(rig, client->in.len > 0);
    CHECK_STR(buf_text(&client->in), "HTTP/1.1 100 Continue\r\n\r\n");
    rig_send(client, "abc");
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "hi") != NULL);
    rig_hang_up(client);
    client = rig_connect(rig);
    rig_send(client, MESSAGES "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    RIG_UNTIL(rig, client->ended);
    CHECK(strstr(buf_text(&client->in), "100 Continue") == NULL);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 403 ");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_broken_request_body_aborts_the_upstream)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = begin(rig, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");

    RIG_UNTIL(rig, strstr(buf_text(&rig->seen), "hello") != NULL);
    rig_send(client, "XX");
    RIG_UNTIL(rig, client->ended && rig->upstreams[0]->ended);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 400 ");
    CHECK_EQ(rig->decision_count, 1);
    CHECK_STR(rig_last(rig)->reason, "bad_chunk");
    CHECK_EQ(rig_last(rig)->status, 400);
    CHECK_EQ(rig->requests, 0);
    rig_hang_up(client);
    rig_stop(rig);
}

static void refuse_early(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    if (upstream->stream == NULL || upstream->answered++ > 0)
        return;
    rig_say(upstream,
            "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
}

TEST(an_early_answer_to_an_upload_arrives)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;
    AUTO_FREE
    char *body = mem_new_zero(1, 4u << 20);

    rig->raw_upload = true;
    rig->script = refuse_early;
    client = begin(rig, "Content-Length: 67108864\r\n\r\n");
    CHECK(stream_write(client->stream, body, 4u << 20));
    RIG_UNTIL(rig, client->in.len > 0 && rig->decision_count == 1);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 413 ");
    CHECK_HAS(buf_text(&client->in), "Connection: close\r\n");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_token_given_out_before_a_restart_still_serves_its_run)
{
    struct rig *rig = rig_start(NULL);
    struct proxy_grant grant = { .run_id = "run_1" };
    struct error err = ERROR_INIT;
    uint8_t other[PROXY_TOKEN_HASH_SIZE] = { 1 };
    struct rig_client *client;
    int fd;

    proxy_revoke(rig->proxy, "run_1");
    CHECK_EQ(proxy_restore_run(rig->proxy, &grant, rig->hash, &err), 0);
    CHECK_EQ(proxy_restore_run(rig->proxy, &grant, other, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    fd = listener_tcp_socket("127.0.0.1", 0, &rig->proxy_port, &err);
    CHECK_EQ(proxy_attach(rig->proxy, "run_1", fd, &err), 0);
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, client->in.len > 0 && rig->decision_count > 0);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 ");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_token_serves_its_own_run_only)
{
    struct rig *rig = rig_start(NULL);
    const char *const only[] = { "github" };
    struct proxy_grant grant = { .run_id = "run_2", .services = only, .service_count = 1 };
    char other[PROXY_TOKEN_SIZE];
    uint8_t hash[PROXY_TOKEN_HASH_SIZE];
    struct error err = ERROR_INIT;

    CHECK_EQ(proxy_grant_run(rig->proxy, &grant, other, hash, &err), 0);
    CHECK_EQ(proxy_grant_run(rig->proxy, &grant, other, hash, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    AUTO_FREE
    char *request = mem_printf(MESSAGES "x-api-key: %s\r\n" NO_BODY, other);
    AUTO_FREE
    char *answer = rig_ask(rig, request);
    CHECK_HAS(answer, "bad_token");
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

TEST(attaching_twice_or_without_a_grant_fails)
{
    struct rig *rig = rig_start(NULL);
    struct error err = ERROR_INIT;

    CHECK_EQ(
        proxy_attach(rig->proxy, "run_1", listener_tcp_socket("127.0.0.1", 0, NULL, &err), &err),
        -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    CHECK_EQ(
        proxy_attach(rig->proxy, "run_9", listener_tcp_socket("127.0.0.1", 0, NULL, &err), &err),
        -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    rig_stop(rig);
}

TEST(connections_over_the_limit_wait)
{
    const struct proxy_options options = { .connections_per_run = 2 };
    struct rig *rig = rig_start(&options);
    struct rig_client *one = rig_connect(rig);
    struct rig_client *two = rig_connect(rig);
    struct rig_client *three;

    for (int i = 0; i < 10; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    three = rig_connect(rig);
    rig_send(three, "GET / HTTP/1.1\r\nHost: p\r\n\r\n");
    for (int i = 0; i < 20; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    CHECK_EQ(rig->decision_count, 0);
    rig_hang_up(one);
    RIG_UNTIL(rig, rig->decision_count == 1);
    rig_hang_up(two);
    rig_hang_up(three);
    rig_stop(rig);
}

TEST(closing_the_proxy_cuts_what_is_under_way)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = first_event;
    client = begin(rig, NO_BODY);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "{\"a\"}") != NULL);
    stream_close(client->stream, rig_free_client, client);
    client = begin(rig, "Content-Length: 100\r\n\r\nabc");
    RIG_UNTIL(rig, rig->upstream_count == 2);
    stream_close(client->stream, rig_free_client, client);
    rig_stop(rig);
}

static void echo(struct rig_upstream *upstream, const char *request)
{
    AUTO_FREE
    char *answer =
        mem_printf("HTTP/1.1 200 OK\r\nX-Echo: " RIG_SECRET "\r\nContent-Length: %zu\r\n\r\n",
                   strlen(request));

    rig_say(upstream, answer);
    /* Cut where the credential is likeliest to be cut. */
    for (size_t at = 0, len = strlen(request); at < len; at += 5)
        stream_write(upstream->stream, request + at, len - at < 5 ? len - at : 5);
}

TEST(an_upstream_that_gives_the_credential_back_shows_asterisks)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *answer = NULL;

    rig->script = echo;
    answer = rig_ask(rig, MESSAGES "x-api-key: %T\r\nX-Mine: yes\r\nContent-Length: 4\r\n\r\nabcd");
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK(strstr(answer, "canary") == NULL);
    CHECK_HAS(answer, "X-Echo: ****");
    CHECK_HAS(answer, "X-Mine: yes\r\n");
    CHECK_HAS(answer, "x-api-key: ****");
    CHECK_HAS(answer, "\r\n\r\nabcd");
    rig_stop(rig);
}

#define PUSH_IDS                                                                                   \
    "0000000000000000000000000000000000000000 1111111111111111111111111111111111111111 "
#define PUSH_CAPS " report-status side-band-64k"

/* A push of REF, SIZE bytes of pack behind it, to REPOSITORY; the answer. */
static char *push(struct rig *rig, const char *repository, const char *ref, size_t size)
{
    AUTO_FREE
    char *plain = mem_printf("user:%s", rig->token);
    AUTO_BUF struct buf head = BUF_INIT(4096);
    AUTO_FREE
    char *pack = mem_new_zero(1, size + 1);
    struct rig_client *client = rig_connect(rig);
    unsigned before = rig->decision_count;
    size_t line = 4 + strlen(PUSH_IDS) + strlen(ref) + 1 + strlen(PUSH_CAPS);
    char basic[200];

    memset(pack, 'p', size);
    sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)plain, strlen(plain),
                      sodium_base64_VARIANT_ORIGINAL);
    buf_printf(&head,
               "POST /proxy/github%s/git-receive-pack HTTP/1.1\r\nHost: p\r\nAuthorization: Basic "
               "%s\r\nExpect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
               repository, basic, line + 4 + size);
    rig_send(client, buf_text(&head));
    buf_clear(&head);
    buf_printf(&head, "%04zx%s%s%c%s0000", line, PUSH_IDS, ref, '\0', PUSH_CAPS);
    RIG_UNTIL(rig, client->ended || strstr(buf_text(&client->in), "HTTP/1.1 ") != NULL);
    if (strstr(buf_text(&client->in), "100 Continue") != NULL) {
        CHECK(stream_write(client->stream, head.data, head.len));
        stream_write(client->stream, pack, size);
    }
    RIG_UNTIL(rig, rig->decision_count > before);
    for (int i = 0; i < 20 && !client->ended; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    /* Zero bytes would end the text early. */
    for (size_t i = 0; i < client->in.len; i++)
        if (client->in.data[i] == '\0' || client->in.data[i] == 1 || client->in.data[i] == 2)
            client->in.data[i] = '#';
    char *answer = mem_strndup(buf_text(&client->in), client->in.len);
    rig_hang_up(client);
    return answer;
}

static void take_push(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-receive-pack-result\r\n"
                      "Content-Length: 53\r\n\r\n"
                      "0031\x01"
                      "000eunpack ok\n001aok refs/heads/agent/x\n00000000");
}

TEST(a_push_is_judged_before_anything_goes_upstream)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *refused = push(rig, "/o/r.git", "refs/heads/main", 3u << 20);

    CHECK_HAS(refused, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(refused, "content-type: application/x-git-receive-pack-result\r\n");
    CHECK_HAS(refused, "ng refs/heads/main sandbox: not a ref that this run may push\n");
    CHECK_HAS(refused, "Refs that may be pushed: agent/...");
    CHECK_EQ(rig->upstream_count, 0);
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    CHECK_STR(rig_last(rig)->reason, "push_ref_not_allowed");
    CHECK_STR(rig_last(rig)->detail, "refs/heads/main 0000000000..1111111111");
    CHECK_EQ(rig_last(rig)->status, 200);

    AUTO_FREE
    char *foreign = push(rig, "/o/r2.git", "refs/heads/agent/x", 10);
    CHECK_HAS(foreign, "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "repository_not_allowed");
    CHECK_EQ(rig->upstream_count, 0);
    CHECK_STR(rig->pushed, "");
    rig_stop(rig);
}

TEST(a_push_that_may_pass_arrives_whole_and_is_remembered)
{
    const size_t size = 3u << 20;
    struct rig *rig = rig_start(NULL);

    rig->script = take_push;
    AUTO_FREE
    char *answer = push(rig, "/O/R", "refs/heads/agent/x", size);
    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(answer, "ok refs/heads/agent/x");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ALLOW);
    CHECK_STR(rig_last(rig)->detail, "refs/heads/agent/x 0000000000..1111111111");
    CHECK_EQ(rig->requests, 1);
    CHECK_HAS(buf_text(&rig->seen), "POST /o/r.git/git-receive-pack HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "authorization: Basic ");
    const char *body = strstr(buf_text(&rig->seen), "\r\n\r\n") + 4;
    CHECK(memcmp(body + rig->seen.len - (size_t)(body - rig->seen.data) - 4, "pppp", 4) == 0);
    CHECK_STR(rig->pushed,
              "github/o/r.git refs/heads/agent/x 1111111111111111111111111111111111111111\n");
    rig_stop(rig);
}

/* A run may take days. */
TEST(a_token_holds_as_long_as_its_run)
{
    struct rig *rig = rig_start(NULL);

    rig->script = take_push;
    for (int day = 0; day < 8; day++) {
        AUTO_FREE
        char *answer = push(rig, "/o/r.git", "refs/heads/agent/x", 10);

        CHECK_HAS(answer, "ok refs/heads/agent/x");
        CHECK_EQ(rig_last(rig)->verdict, AUDIT_ALLOW);
        rig->clock.ahead_ms += UINT64_C(24) * 3600 * 1000;
    }
    proxy_revoke(rig->proxy, "run_1");
    rig_stop(rig);
}

TEST(other_repositories_are_read_without_the_credential)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *plain = mem_printf("user:%s", rig->token);
    char basic[200];

    sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)plain, strlen(plain),
                      sodium_base64_VARIANT_ORIGINAL);
    AUTO_FREE
    char *request = mem_printf("GET /proxy/github/o/r2/info/refs?service=git-upload-pack "
                               "HTTP/1.1\r\nHost: p\r\nAuthorization: Basic %s\r\n\r\n",
                               basic);
    AUTO_FREE
    char *answer = rig_ask(rig, request);

    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK(strcasestr(buf_text(&rig->seen), "authorization") == NULL);
    rig_stop(rig);
}

#define GZIP_MAX 4096u

/* An answer that gives the key back, compressed though that was not asked for. */
static void reflect_gzip(struct rig_upstream *upstream, const char *request)
{
    static const char body[] = "{\"headers\":{\"x-api-key\":\"" RIG_SECRET "\"}}";
    unsigned char packed[GZIP_MAX];
    z_stream zlib = { 0 };
    AUTO_FREE
    char *copy = mem_strdup(body);

    (void)request;
    CHECK_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    zlib.next_in = (Bytef *)copy;
    zlib.avail_in = sizeof(body) - 1;
    zlib.next_out = packed;
    zlib.avail_out = sizeof(packed);
    CHECK_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
    deflateEnd(&zlib);
    size_t len = sizeof(packed) - zlib.avail_out;
    AUTO_FREE
    char *head =
        mem_printf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", len);
    rig_say(upstream, head);
    stream_write(upstream->stream, packed, len);
}

static void reflect_unknown(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream,
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, br\r\nContent-Length: 5\r\n\r\nhello");
}

static void reflect_lie(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream,
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello");
}

TEST(a_reflected_key_is_hidden_in_a_compressed_answer_too)
{
    struct rig *rig = rig_start(NULL);

    rig->script = reflect_gzip;
    AUTO_FREE
    char *answer = rig_ask(rig, MESSAGES "x-api-key: %T\r\nContent-Length: 0\r\n\r\n");
    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(answer, "\"x-api-key\":\"********************************\"}}");
    CHECK(strcasestr(answer, "content-encoding") == NULL);
    CHECK(strstr(answer, RIG_SECRET) == NULL);
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK_STR(rig_last(rig)->detail, "reflected_secret");
    rig_stop(rig);
}

TEST(an_answer_that_cannot_be_searched_is_not_passed_on)
{
    struct rig *rig = rig_start(NULL);

    rig->script = reflect_unknown;
    AUTO_FREE
    char *unknown = rig_ask(rig, MESSAGES "x-api-key: %T\r\nContent-Length: 0\r\n\r\n");
    CHECK_HAS(unknown, "HTTP/1.1 502 ");
    CHECK_HAS(unknown, "\"code\":\"upstream_encoding\"");
    CHECK(strstr(unknown, "hello") == NULL);
    rig->script = reflect_lie;
    AUTO_FREE
    char *lie = rig_ask(rig, MESSAGES "x-api-key: %T\r\nContent-Length: 0\r\n\r\n");
    CHECK(strstr(lie, "hello") == NULL);
    CHECK_STR(rig_last(rig)->reason, "upstream_encoding");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ERROR);
    /* Without a credential there is nothing to hide. */
    rig->script = reflect_unknown;
    AUTO_FREE
    char *plain = rig_ask(rig, "GET /proxy/plain/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n");
    CHECK_HAS(plain, "hello");
    rig_stop(rig);
}

static void tell_the_query(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 302 Found\r\nLocation: /x?key=" RIG_QUERY_ESCAPED
                      "\r\nContent-Length: 31\r\n\r\n" RIG_QUERY_SECRET);
}

TEST(a_key_goes_into_the_query_where_the_service_wants_it)
{
    static const struct {
        const char *sent;
        const char *seen; /* of the target upstream, NULL: refused */
        const char *reason;
    } cases[] = {
        { "/v1/x?key=%T", "/v1/x?key=" RIG_QUERY_ESCAPED " ", "ok" },
        { "/v1/x?a=b&key=%T", "/v1/x?a=b&key=" RIG_QUERY_ESCAPED " ", "ok" },
        { "/v1/x?key=%T&a=b", "/v1/x?a=b&key=" RIG_QUERY_ESCAPED " ", "ok" },
        { "/v1/x?a=b&key=%T&c", "/v1/x?a=b&c&key=" RIG_QUERY_ESCAPED " ", "ok" },
        { "/v1/x", NULL, "no_token" },
        { "/v1/x?key=", NULL, "bad_token" },
        { "/v1/x?key=other", NULL, "bad_token" },
        { "/v1/x?key=%T&key=%T", NULL, "token_misplaced" },
        { "/v1/x?key=%T&key=a", NULL, "token_repeated" },
        { "/v1/x?Key=%T", NULL, "token_misplaced" },
        { "/v1/x?akey=%T", NULL, "token_misplaced" },
        { "/v1/%T?key=%T", NULL, "token_misplaced" },
        { "/v1/x?key=%T&b=%T", NULL, "token_misplaced" },
    };
    struct rig *rig = rig_start(NULL);

    rig->script = tell_the_query;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_FREE
        char *format =
            mem_printf("GET /proxy/queried%s HTTP/1.1\r\nHost: p\r\n\r\n", cases[i].sent);
        AUTO_FREE
        char *request = rig_fill(rig, format);
        AUTO_FREE
        char *answer = rig_ask(rig, request);

        CHECK_STR(rig_last(rig)->reason, cases[i].reason);
        CHECK(strstr(answer, RIG_QUERY_SECRET) == NULL &&
              strstr(answer, RIG_QUERY_ESCAPED) == NULL);
        if (cases[i].seen != NULL)
            CHECK_HAS(buf_text(&rig->seen), cases[i].seen);
        else
            CHECK_EQ(rig->seen.len, 0);
        CHECK(strstr(buf_text(&rig->seen), rig->token) == NULL);
        buf_clear(&rig->seen);
    }
    rig_stop(rig);
}
