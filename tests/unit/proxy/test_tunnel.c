/* Tunnels, TLS that ends in the proxy, hosts that are no services, and WebSockets. */
#include "unit/proxy/rig.h"

#include <fcntl.h>

#define INSIDE "Host: localhost:%S\r\n"

static void ask_inside(struct rig *rig, struct rig_client *client, const char *request)
{
    unsigned before = rig->decision_count;

    buf_clear(&client->in);
    rig_say_filled(rig, client, request);
    RIG_UNTIL(rig, rig->decision_count > before);
    for (int i = 0; i < 20 && !client->ended; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    RIG_UNTIL(rig, client->ended || client->in.len > 0);
}

TEST(a_service_is_reached_by_its_own_address)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);

    CHECK_EQ(rig->decision_count, 1);
    CHECK_STR(rig_last(rig)->method, "CONNECT");
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK_EQ(rig->upstream_count, 0);
    for (unsigned i = 1; i <= 3; i++) {
        ask_inside(rig, client,
                   "POST /api/v1/things?a=b HTTP/1.1\r\n" INSIDE
                   "Authorization: Bearer %T\r\nContent-Length: 4\r\n\r\nabcd");
        CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 OK\r\n");
        CHECK_HAS(buf_text(&client->in), "\r\n\r\nhi");
        CHECK_EQ(rig->requests, i);
        CHECK_STR(rig_last(rig)->service, "secure");
        CHECK_STR(rig_last(rig)->path, "/v1/things");
    }
    CHECK_HAS(buf_text(&rig->seen), "POST /api/v1/things?a=b HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "authorization: Bearer " RIG_SECRET "\r\n");
    CHECK(strstr(buf_text(&rig->seen), rig->token) == NULL);
    CHECK(strcasestr(buf_text(&rig->seen), "proxy-authorization") == NULL);
    CHECK_EQ(rig->upstream_count, 1); /* one connection for the three */
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(what_is_refused_in_a_tunnel_goes_nowhere)
{
    static const struct {
        const char *request;
        const char *line;
        const char *code;
    } cases[] = {
        { "GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 421 ", "host_mismatch" },
        { "GET /api/x HTTP/1.1\r\nHost: other:%S\r\n\r\n", "HTTP/1.1 421 ", "host_mismatch" },
        { "GET /api/x HTTP/1.1\r\n" INSIDE "\r\n", "HTTP/1.1 403 ", "no_token" },
        { "GET /api/x HTTP/1.1\r\n" INSIDE "Authorization: Bearer no\r\n\r\n", "HTTP/1.1 403 ",
          "bad_token" },
        { "GET /api/x HTTP/1.1\r\n" INSIDE "X-Other: %T\r\n\r\n", "HTTP/1.1 403 ",
          "token_misplaced" },
        { "GET /api/x?k=%T HTTP/1.1\r\n" INSIDE "\r\n", "HTTP/1.1 403 ", "token_misplaced" },
        { "GET /other HTTP/1.1\r\n" INSIDE "Authorization: Bearer %T\r\n\r\n", "HTTP/1.1 403 ",
          "request_not_allowed" },
        { "GET /files/../api/x HTTP/1.1\r\n" INSIDE "\r\n", "HTTP/1.1 400 ", "dot_segment" },
        { "GET /files/%2e%2e/api/x HTTP/1.1\r\n" INSIDE "\r\n", "HTTP/1.1 400 ", "encoded_dot" },
        { "GET /files/a HTTP/1.1\r\n" INSIDE "X-Key: %T\r\n\r\n", "HTTP/1.1 403 ",
          "token_misplaced" },
        { "POST /files/a HTTP/1.1\r\n" INSIDE "Content-Length: 0\r\n\r\n", "HTTP/1.1 403 ",
          "request_not_allowed" },
        { "TRACE /files/a HTTP/1.1\r\n" INSIDE "\r\n", "HTTP/1.1 405 ", "method_not_allowed" },
        { "CONNECT localhost:%S HTTP/1.1\r\n" INSIDE "\r\n", "HTTP/1.1 403 ",
          "connect_not_allowed" },
        { "GET http://localhost/files/a HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400 ",
          "bad_target" },
        { "GET /proxy/anthropic/x HTTP/1.1\r\n" INSIDE "x-api-key: %T\r\n\r\n", "HTTP/1.1 403 ",
          "request_not_allowed" },
        { "GET /files/a HTTP/1.1\r\n" INSIDE "Transfer-Encoding: chunked\r\nContent-Length: "
          "3\r\n\r\n",
          "HTTP/1.1 400 ", "length_and_encoding" },
        { "GET /files/a HTTP/1.1\r\n" INSIDE INSIDE "\r\n", "HTTP/1.1 400 ", "duplicate_host" },
    };
    struct rig *rig = rig_start(NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig_client *client =
            rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);
        AUTO_FREE
        char *code = mem_printf("\"code\":\"%s\"", cases[i].code);

        ask_inside(rig, client, cases[i].request);
        CHECK_HAS(buf_text(&client->in), cases[i].line);
        CHECK_HAS(buf_text(&client->in), code);
        CHECK_STR(rig_last(rig)->reason, cases[i].code);
        CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
        rig_hang_up(client);
    }
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

#define PUSH_IDS                                                                                   \
    "0000000000000000000000000000000000000000 1111111111111111111111111111111111111111 "

/* A push of REF, and the proxy's decision about it. */
static void push_inside(struct rig *rig, struct rig_client *client, const char *ref)
{
    static const char capabilities[] = " report-status side-band-64k";
    AUTO_BUF struct buf body = BUF_INIT(4096);
    size_t line = 4 + strlen(PUSH_IDS) + strlen(ref) + 1 + strlen(capabilities);
    unsigned before = rig->decision_count;

    buf_printf(&body, "%04zx%s%s%c%s0000PACK", line, PUSH_IDS, ref, '\0', capabilities);
    AUTO_FREE
    char *head = mem_printf("%s%zu\r\n\r\n",
                            "POST /scm/o/r.git/git-receive-pack HTTP/1.1\r\n" INSIDE
                            "Authorization: Basic %C\r\nContent-Length: ",
                            body.len);
    rig_say_filled(rig, client, head);
    CHECK(stream_write(client->stream, body.data, body.len));
    RIG_UNTIL(rig, rig->decision_count > before);
}

TEST(a_push_in_a_tunnel_is_judged_before_anything_goes_upstream)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);

    push_inside(rig, client, "refs/heads/main");
    CHECK_STR(rig_last(rig)->reason, "push_ref_not_allowed");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    CHECK_EQ(rig->upstream_count, 0);
    rig_hang_up(client);

    client = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);
    push_inside(rig, client, "refs/heads/agent/x");
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK_STR(rig_last(rig)->service, "scm");
    CHECK_STR(rig_last(rig)->detail, "refs/heads/agent/x 0000000000..1111111111");
    CHECK_HAS(buf_text(&rig->seen), "POST /scm/o/r.git/git-receive-pack HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "authorization: Basic ");
    CHECK(strstr(buf_text(&rig->seen), rig->token) == NULL);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_rule_for_requests_reads_without_a_credential)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel_tls(rig, "LOCALHOST:%S", "localhost", rig->tls_client);

    ask_inside(rig, client,
               "GET /files/a%20b HTTP/1.1\r\n" INSIDE
               "Authorization: Bearer own\r\nRange: bytes=0-1\r\nCookie: a=b\r\n"
               "Accept-Encoding: gzip\r\n\r\n");
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 OK\r\n");
    CHECK_STR(rig_last(rig)->service, "");
    CHECK_STR(rig_last(rig)->path, "/files/a%20b");
    CHECK_HAS(buf_text(&rig->seen), "GET /files/a%20b HTTP/1.1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Authorization: Bearer own\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Range: bytes=0-1\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Cookie: a=b\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Accept-Encoding: gzip\r\n");
    CHECK(strstr(buf_text(&rig->seen), RIG_SECRET) == NULL);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(an_escaped_slash_is_kept_where_no_rule_is_about_paths)
{
    static const struct {
        const char *target;
        const char *reason;
    } cases[] = {
        { "/@scope%2fname", "ok" },         { "/@scope/name", "ok" },
        { "/a%2f..%2fb", "encoded_slash" }, { "/a%2f%2fb", "encoded_slash" },
        { "/a%5cb", "encoded_slash" },      { "/a%252fb", "double_encoding" },
    };
    struct rig *rig = rig_start(NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_FREE
        char *format = mem_printf("GET http://127.0.0.1:%%P%s HTTP/1.1\r\nHost: 127.0.0.1:%%P\r\n"
                                  "Proxy-Authorization: Basic %%C\r\n\r\n",
                                  cases[i].target);
        AUTO_FREE
        char *request = rig_fill(rig, format);
        AUTO_FREE
        char *answer = rig_ask(rig, request);

        CHECK_HAS(answer, "HTTP/1.1 ");
        CHECK_STR(rig_last(rig)->reason, cases[i].reason);
    }
    CHECK_HAS(buf_text(&rig->seen), "GET /@scope%2Fname HTTP/1.1\r\n");
    CHECK_EQ(rig->requests, 2);
    rig_stop(rig);
}

TEST(tunnels_to_other_hosts_are_refused)
{
    static const struct {
        const char *host;
        const char *line;
        const char *code;
    } cases[] = {
        { "example.com:443", "HTTP/1.1 403 ", "host_not_allowed" },
        { "localhost:1", "HTTP/1.1 403 ", "host_not_allowed" },
        { "localhost:%P", "HTTP/1.1 403 ", "host_not_allowed" },
        { "169.254.169.254:80", "HTTP/1.1 403 ", "host_not_allowed" },
        { "[::1]:%S", "HTTP/1.1 403 ", "host_not_allowed" },
        { "[::ffff:127.0.0.1]:%S", "HTTP/1.1 403 ", "host_not_allowed" },
        { "127.0.0.2:%S", "HTTP/1.1 403 ", "host_not_allowed" },
        { "localhost.:%S", "HTTP/1.1 400 ", "bad_host" },
        { "127.1:%S", "HTTP/1.1 400 ", "bad_host" },
        { "2130706433:%S", "HTTP/1.1 400 ", "bad_host" },
        { "0x7f.0.0.1:%S", "HTTP/1.1 400 ", "bad_host" },
        { "nowhere.invalid:%P", "HTTP/1.1 502 ", "upstream_resolve" },
    };
    struct rig *rig = rig_start(NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig_client *client = rig_tunnel(rig, cases[i].host);
        AUTO_FREE
        char *code = mem_printf("\"code\":\"%s\"", cases[i].code);

        CHECK_HAS(buf_text(&client->in), cases[i].line);
        CHECK_HAS(buf_text(&client->in), code);
        CHECK_STR(rig_last(rig)->reason, cases[i].code);
        rig_hang_up(client);
    }
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

TEST(a_tunnel_needs_the_token_and_one_host)
{
    static const struct {
        const char *request;
        const char *line;
        const char *code;
    } cases[] = {
        { "CONNECT 127.0.0.1:%S HTTP/1.1\r\nHost: 127.0.0.1:%S\r\n\r\n", "HTTP/1.1 407 ",
          "no_token" },
        { "CONNECT 127.0.0.1:%S HTTP/1.1\r\nHost: 127.0.0.1:%S\r\nProxy-Authorization: Basic "
          "dTpu\r\n\r\n",
          "HTTP/1.1 407 ", "bad_token" },
        { "CONNECT 127.0.0.1:%S HTTP/1.1\r\nHost: 127.0.0.1:%S\r\nProxy-Authorization: Basic "
          "%C\r\nProxy-Authorization: Basic %C\r\n\r\n",
          "HTTP/1.1 403 ", "token_repeated" },
        { "CONNECT 127.0.0.1:%S HTTP/1.1\r\nHost: 127.0.0.1:%S\r\nX: %T\r\n\r\n", "HTTP/1.1 403 ",
          "token_misplaced" },
        { "CONNECT 127.0.0.1:%S HTTP/1.1\r\nHost: localhost:%S\r\nProxy-Authorization: Basic "
          "%C\r\n\r\n",
          "HTTP/1.1 400 ", "host_mismatch" },
        { "CONNECT 127.0.0.1:%S HTTP/1.1\r\nHost: 127.0.0.1:%S\r\nProxy-Authorization: Basic "
          "%C\r\nContent-Length: 3\r\n\r\nabc",
          "HTTP/1.1 400 ", NULL },
    };
    struct rig *rig = rig_start(NULL);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_FREE
        char *request = rig_fill(rig, cases[i].request);
        AUTO_FREE
        char *answer = rig_ask(rig, request);

        CHECK_HAS(answer, cases[i].line);
        if (cases[i].code != NULL)
            CHECK_STR(rig_last(rig)->reason, cases[i].code);
        if (strstr(cases[i].line, "407") != NULL)
            CHECK_HAS(answer, "proxy-authenticate: Basic ");
    }
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

TEST(an_opaque_tunnel_is_the_hosts_own_tls)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->tls_name = "other.localhost";
    client = rig_tunnel_tls(rig, "other.localhost:%S", "other.localhost", rig->tls_direct);

    rig_say_filled(rig, client, "GET /any HTTP/1.1\r\nHost: whatever\r\nX: y\r\n\r\n");
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "\r\n\r\nhi") != NULL);
    CHECK_HAS(buf_text(&rig->seen), "GET /any HTTP/1.1\r\nHost: whatever\r\n");
    CHECK_EQ(rig->decision_count, 0); /* told when it is over */
    stream_end(client->stream);
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK_STR(rig_last(rig)->method, "CONNECT");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ALLOW);
    CHECK(rig_last(rig)->request_bytes > 100);
    CHECK(rig_last(rig)->response_bytes > 100);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(an_opaque_tunnel_is_for_its_host_too)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client =
        rig_tunnel_tls(rig, "other.localhost:%S", "localhost", rig->tls_direct);

    RIG_UNTIL(rig, rig->decision_count == 1 && client->ended);
    CHECK_STR(rig_last(rig)->reason, "sni_mismatch");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    CHECK_EQ(rig->seen.len, 0);
    rig_hang_up(client);
    rig_stop(rig);
}

static void answer_after_end(struct rig_upstream *upstream, const char *request)
{
    if (strstr(request, "whole") != NULL)
        rig_say(upstream, "seen");
}

TEST(half_of_a_tunnel_may_end)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = answer_after_end;
    rig->raw_upload = true;
    client = rig_tunnel(rig, "127.0.0.1:%P");
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 ");
    buf_clear(&client->in);
    rig_send(client, "a part");
    RIG_UNTIL(rig, strstr(buf_text(&rig->seen), "a part") != NULL);
    rig_send(client, ", and the whole");
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "seen") != NULL);
    /* The upstream's half first: the other one goes on. */
    stream_end(rig->upstreams[0]->stream);
    RIG_UNTIL(rig, client->ended);
    CHECK(!client->reset);
    CHECK_EQ(rig->decision_count, 0);
    rig_send(client, ", and more");
    RIG_UNTIL(rig, strstr(buf_text(&rig->seen), "and more") != NULL);
    rig_hang_up(client);
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK_STR(rig_last(rig)->reason, "ok");
    rig_stop(rig);
}

static void cut_at_once(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_upstream_cut(upstream);
}

TEST(a_cut_tunnel_looks_cut)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->script = cut_at_once;
    rig->raw_upload = true;
    client = rig_tunnel(rig, "127.0.0.1:%P");
    rig_send(client, "x");
    RIG_UNTIL(rig, client->ended);
    CHECK(client->reset);
    CHECK_STR(rig_last(rig)->reason, "upstream_cut");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ERROR);
    CHECK_EQ(rig_last(rig)->status, 0);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(revoking_cuts_tunnels_of_every_kind)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *opaque;
    struct rig_client *looked_into;

    rig->raw_upload = true;
    rig->script = answer_after_end;
    opaque = rig_tunnel(rig, "127.0.0.1:%P");
    looked_into = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);
    rig_send(opaque, "x");
    RIG_UNTIL(rig, rig->seen.len > 0);
    rig_say_filled(rig, looked_into, "GET /files/a HTTP/1.1\r\n" INSIDE "\r\n");
    RIG_UNTIL(rig, strstr(buf_text(&rig->seen), "GET /files/a") != NULL);
    proxy_revoke(rig->proxy, "run_1");
    RIG_UNTIL(rig, opaque->ended && looked_into->ended && rig->upstreams[0]->ended &&
                       rig->upstreams[1]->ended);
    CHECK(opaque->reset && looked_into->reset);
    CHECK_EQ(rig->decision_count, 3);
    CHECK_STR(rig->decisions[1].reason, "revoked");
    CHECK_STR(rig->decisions[2].reason, "revoked");
    rig_hang_up(opaque);
    rig_hang_up(looked_into);
    rig_stop(rig);
}

TEST(what_is_in_the_clear_in_a_tunnel_is_judged_as_that)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel(rig, "localhost:%S");

    /* The service is reached by TLS alone, and so is its key. */
    ask_inside(rig, client, "GET /api/x HTTP/1.1\r\n" INSIDE "Authorization: Bearer %T\r\n\r\n");
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "request_not_allowed");
    ask_inside(rig, client, "GET /files/x HTTP/1.1\r\n" INSIDE "X: %T\r\n\r\n");
    CHECK_STR(rig_last(rig)->reason, "token_misplaced");
    CHECK_EQ(rig->upstream_count, 0);
    ask_inside(rig, client, "GET /files/x HTTP/1.1\r\n" INSIDE "\r\n");
    CHECK_EQ(rig->upstream_count, 1);
    CHECK(strstr(buf_text(&rig->seen), RIG_SECRET) == NULL);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_tunnel_may_be_asked_for_in_the_old_way)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_connect(rig);
    struct error err = ERROR_INIT;

    rig_say_filled(rig, client,
                   "CONNECT localhost:%S HTTP/1.0\r\nProxy-Authorization: Basic %C\r\n\r\n");
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "\r\n\r\n") != NULL);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 ");
    buf_clear(&client->in);
    CHECK_EQ(tls_connect(client->stream, rig->tls_client, "localhost", false, &err), 0);
    ask_inside(rig, client, "GET /files/a HTTP/1.1\r\n" INSIDE "\r\n");
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 OK\r\n");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(names_must_agree)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel_tls(rig, "localhost:%S", "other", rig->tls_client);

    RIG_UNTIL(rig, rig->decision_count == 2 && client->ended);
    CHECK_STR(rig_last(rig)->reason, "sni_mismatch");
    CHECK_STR(rig_last(rig)->host, "localhost");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_client_that_rejects_the_authority_is_told_apart)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_direct);

    RIG_UNTIL(rig, rig->decision_count == 2 && client->ended);
    CHECK_STR(rig_last(rig)->reason, "client_rejects_ca");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_ERROR);
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(bytes_before_the_answer_are_no_tls)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_connect(rig);

    rig_say_filled(rig, client,
                   "CONNECT localhost:%S HTTP/1.1\r\n" INSIDE
                   "Proxy-Authorization: Basic %C\r\n\r\n\x16\x03\x01");
    RIG_UNTIL(rig, client->ended);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 400 ");
    CHECK_STR(rig->decisions[0].reason, "early_data");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(the_upstreams_certificate_must_be_for_its_name)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;

    rig->tls_name = "other.example";
    client = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);
    ask_inside(rig, client, "GET /api/x HTTP/1.1\r\n" INSIDE "Authorization: Bearer %T\r\n\r\n");
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 502 ");
    CHECK_STR(rig_last(rig)->reason, "upstream_tls");
    CHECK_EQ(rig->seen.len, 0);
    rig_hang_up(client);
    rig_stop(rig);
}

/* In the clear ---------------------------------------------------------------------------------
 */

TEST(hosts_in_the_clear_are_judged_too)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *allowed = rig_fill(rig, "GET http://127.0.0.1:%P/a?b HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n"
                                  "Proxy-Authorization: Basic %C\r\nUpgrade: h2c\r\n"
                                  "Connection: upgrade, http2-settings\r\nHTTP2-Settings: "
                                  "x\r\n\r\n");
    AUTO_FREE
    char *first = rig_ask(rig, allowed);
    AUTO_FREE
    char *refused = rig_fill(rig, "GET http://localhost:%P/a HTTP/1.1\r\nHost: localhost:%P\r\n"
                                  "Proxy-Authorization: Basic %C\r\n\r\n");
    AUTO_FREE
    char *second = rig_ask(rig, refused);

    CHECK_HAS(first, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(buf_text(&rig->seen), "GET /a?b HTTP/1.1\r\n");
    CHECK(strcasestr(buf_text(&rig->seen), "proxy-authorization") == NULL);
    CHECK(strcasestr(buf_text(&rig->seen), "upgrade") == NULL);
    CHECK_HAS(second, "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "host_not_allowed");
    CHECK_EQ(rig->requests, 1);
    rig_stop(rig);
}

TEST(a_name_that_leads_to_a_private_address_is_refused)
{
    struct rig *rig = rig_start(NULL);

    if (rig->private_name == NULL) {
        rig_stop(rig);
        return;
    }
    AUTO_FREE
    char *host = mem_printf("%s:%%P", rig->private_name);
    struct rig_client *client = rig_tunnel(rig, host);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "address_not_allowed");
    rig_hang_up(client);
    AUTO_FREE
    char *format = mem_printf("GET http://%s:%%P/ HTTP/1.1\r\nHost: %s:%%P\r\n"
                              "Proxy-Authorization: Basic %%C\r\n\r\n",
                              rig->private_name, rig->private_name);
    AUTO_FREE
    char *request = rig_fill(rig, format);
    AUTO_FREE
    char *answer = rig_ask(rig, request);
    CHECK_HAS(answer, "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "address_not_allowed");
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

/* WebSockets -----------------------------------------------------------------------------------
 */

#define HANDSHAKE                                                                                  \
    "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"       \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"                                              \
    "Sec-WebSocket-Extensions: permessage-deflate\r\n"
#define ACCEPTED                                                                                   \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"            \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

static void accept_socket(struct rig_upstream *upstream, const char *request)
{
    if (strstr(request, "\r\n\r\nping") != NULL)
        rig_say(upstream, "pong " RIG_SECRET);
    else if (strstr(request, "\r\n\r\n") != NULL)
        rig_say(upstream, ACCEPTED "early");
}

static void open_socket(struct rig *rig, struct rig_client *client, const char *request)
{
    rig->raw_upload = true;
    rig->script = accept_socket;
    rig_say_filled(rig, client, request);
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "early") != NULL);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 101 ");
    CHECK_HAS(buf_text(&client->in), "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    CHECK_HAS(buf_text(&rig->seen), "Bearer " RIG_SECRET "\r\n");
    CHECK(strcasestr(buf_text(&rig->seen), "permessage") == NULL);
    CHECK(strstr(buf_text(&rig->seen), rig->token) == NULL);
    rig_send(client, "ping");
    RIG_UNTIL(rig, strstr(buf_text(&client->in), "pong") != NULL);
    stream_end(client->stream);
    RIG_UNTIL(rig, rig->upstreams[0]->ended);
    RIG_UNTIL(rig, client->ended);
    CHECK_HAS(buf_text(&client->in), "pong ********************************");
    CHECK_STR(rig_last(rig)->service, "secure");
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK_EQ(rig_last(rig)->status, 101);
}

TEST(a_websocket_is_relayed_after_its_handshake_was_judged)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_connect(rig);

    open_socket(rig, client,
                "GET /proxy/secure/live HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer "
                "%T\r\n" HANDSHAKE "\r\n");
    CHECK_HAS(buf_text(&rig->seen), "GET /api/live HTTP/1.1\r\nHost: localhost:");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(a_websocket_goes_through_a_tunnel)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client = rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client);

    open_socket(rig, client,
                "GET /api/live HTTP/1.1\r\n" INSIDE "Authorization: Bearer %T\r\n" HANDSHAKE
                "\r\n");
    rig_hang_up(client);
    rig_stop(rig);
}

TEST(half_a_handshake_is_refused)
{
    static const char *const heads[] = {
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        "Connection: close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: short\r\n",
        "Connection: upgrade\r\nUpgrade: websocket, h2c\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 1\r\n",
    };
    struct rig *rig = rig_start(NULL);

    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        AUTO_FREE
        char *request = mem_printf("GET /proxy/secure/live HTTP/1.1\r\nHost: p\r\nAuthorization: "
                                   "Bearer %%T\r\n%s\r\n",
                                   heads[i]);
        AUTO_FREE
        char *answer = rig_ask(rig, request);

        CHECK_HAS(answer, "HTTP/1.1 400 ");
        CHECK_STR(rig_last(rig)->reason, "bad_upgrade");
    }
    CHECK_EQ(rig->upstream_count, 0);
    rig_stop(rig);
}

static const char *socket_answer;

static void answer_socket(struct rig_upstream *upstream, const char *request)
{
    if (strstr(request, "\r\n\r\n") != NULL)
        rig_say(upstream, socket_answer);
}

TEST(only_the_right_answer_opens_a_websocket)
{
    static const struct {
        const char *answer;
        const char *line;
        const char *reason;
    } cases[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 502 ", "upgrade_refused" },
        { "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 403 ", "upgrade_refused" },
        { "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
          "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
          "HTTP/1.1 502 ", "upgrade_refused" },
        { "HTTP/1.1 101 Yes\r\nUpgrade: other\r\nConnection: upgrade\r\n"
          "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
          "HTTP/1.1 502 ", "upgrade_refused" },
        { "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
          "Sec-WebSocket-Extensions: permessage-deflate\r\n"
          "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
          "HTTP/1.1 502 ", "upgrade_refused" },
        { "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
          "Sec-WebSocket-Protocol: unasked\r\n"
          "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
          "HTTP/1.1 502 ", "upgrade_refused" },
        { "HTTP/1.1 101 Yes\nUpgrade: websocket\n\r\n\r\n", "HTTP/1.1 502 ",
          "upstream_bad_response" },
        { "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 502 ", "upstream_bad_response" },
        { "nonsense\r\n\r\n", "HTTP/1.1 502 ", "upstream_bad_response" },
    };
    struct rig *rig = rig_start(NULL);

    rig->raw_upload = true;
    rig->script = answer_socket;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        socket_answer = cases[i].answer;
        AUTO_FREE
        char *answer = rig_ask(rig, "GET /proxy/secure/live HTTP/1.1\r\nHost: p\r\nAuthorization: "
                                    "Bearer %T\r\n" HANDSHAKE "\r\n");

        CHECK_HAS(answer, cases[i].line);
        CHECK_STR(rig_last(rig)->reason, cases[i].reason);
    }
    rig_stop(rig);
}

/* Back-pressure --------------------------------------------------------------------------------
 */

#define FLOOD (32u << 20)

static void flood(struct rig_upstream *upstream, const char *request)
{
    AUTO_FREE
    char *bytes = mem_new_zero(1, FLOOD);

    (void)request;
    memset(bytes, 'x', FLOOD);
    stream_write(upstream->stream, bytes, FLOOD);
    upstream->rig->script = answer_after_end;
}

TEST(a_tunnels_slow_reader_holds_its_upstream_back)
{
    struct rig *rig = rig_start(NULL);
    struct rig_client *client;
    size_t left;

    rig->raw_upload = true;
    rig->script = flood;
    client = rig_tunnel(rig, "127.0.0.1:%P");
    buf_clear(&client->in);
    stream_pause(client->stream);
    rig_send(client, "go");
    RIG_UNTIL(rig, rig->upstream_count == 1 && rig->script == answer_after_end);
    /* Until nothing moves: the kernel's buffers and the proxy's are full. */
    do {
        left = stream_queued(rig->upstreams[0]->stream);
        for (int i = 0; i < 200; i++)
            uv_run(&rig->loop, UV_RUN_NOWAIT);
    } while (stream_queued(rig->upstreams[0]->stream) < left);
    CHECK(left > FLOOD / 4);
    stream_resume(client->stream);
    RIG_UNTIL(rig, client->in.len == FLOOD);
    rig_hang_up(client);
    rig_stop(rig);
}
