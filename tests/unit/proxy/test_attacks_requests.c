/* What clients try: framing, targets, tokens and headers. */
#include "unit/http/cases.h"
#include "unit/proxy/catalogue.h"

#define ASK(path) "GET /proxy/" path " HTTP/1.1\r\nHost: p\r\n"
#define SAY(path) "POST /proxy/" path " HTTP/1.1\r\nHost: p\r\n"
#define KEY "x-api-key: %T\r\n"
#define BEARER "Authorization: Bearer %T\r\n"
#define BASIC "Authorization: Basic %C\r\n"
#define END "\r\n"
#define EMPTY "Content-Length: 0\r\n\r\n"
#define INSIDE "Host: localhost:%S\r\n"
#define NO_TOKEN_43 "sbx_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static const struct attack framing[] = {
    ATTACK("A16", ATTACK_BYTES,
           "GET /proxy/anthropic/one HTTP/1.1\r\nHost: p\r\n" KEY
           "Content-Length: 5\r\n\r\nhello" ASK("anthropic/two") KEY END,
           "ok", 200, .reached = 2, .records = 2, .sent = "GET /two HTTP/1.1\r\n"),
    ATTACK("A17", ATTACK_BYTES, ASK("anthropic/one") KEY END ASK("corp/models/x") KEY END,
           "token_misplaced", 403, .reached = 1, .records = 2, .unsent = "models"),
    ATTACK("A17", ATTACK_BYTES, ASK("anthropic/one") KEY END ASK("anthropic/two") END, "no_token",
           403, .reached = 1, .records = 2, .unsent = "two"),
    ATTACK("A23", ATTACK_BYTES,
           SAY("anthropic/x") "x-api-key: no\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
           "bad_token", 403, .hasnot = "100 Continue"),
    ATTACK("A25", ATTACK_BYTES,
           ASK("anthropic/x") KEY "Connection: close, x-hop\r\nX-Hop: 1\r\n" END, "ok", 200,
           .reached = 1, .unsent = "x-hop", .sent = "x-api-key: " RIG_SECRET "\r\n"),
    ATTACK("A25", ATTACK_BYTES, ASK("anthropic/x") KEY "Connection: x-api-key\r\n" END,
           "bad_connection", 400),
    ATTACK("A27", ATTACK_BYTES, "TRACE /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\n" KEY END,
           "method_not_allowed", 405),
    ATTACK("A27", ATTACK_BYTES, "TRACK /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\n" KEY END,
           "bad_request", 400),
    ATTACK("A27", ATTACK_BYTES, ASK("anthropic/x") KEY "Max-Forwards: 0\r\n" END, "ok", 200,
           .reached = 1, .unsent = "max-forwards"),
    ATTACK("A28", ATTACK_BYTES,
           SAY("anthropic/x") KEY "X-HTTP-Method-Override: DELETE\r\nX-Method-Override: DELETE\r\n"
                                  "X-HTTP-Method: DELETE\r\n" EMPTY,
           "ok", 200, .reached = 1, .unsent = "DELETE"),
    ATTACK("A29", ATTACK_BYTES,
           "GET /proxy/corp/chat/completions HTTP/1.1\r\nHost: p\r\n" BEARER
           "Content-Length: 2\r\n\r\n{}",
           "request_not_allowed", 403),
    ATTACK("A29", ATTACK_BYTES, "HEAD /proxy/corp/models/x HTTP/1.1\r\nHost: p\r\n" BEARER END,
           "request_not_allowed", 403),
    ATTACK("A29", ATTACK_BYTES, "QUERY /proxy/corp/models/x HTTP/1.1\r\nHost: p\r\n" BEARER END,
           NULL, 400),
    ATTACK("A29", ATTACK_BYTES, "PROPFIND /proxy/corp/models/x HTTP/1.1\r\nHost: p\r\n" BEARER END,
           "method_not_allowed", 405),
};

/* Every head and body that the judges of http refuse, now before a whole proxy and with a token. */
TEST(nothing_that_can_be_framed_in_two_ways_is_sent_on)
{
    static const char plain[] = "POST / HTTP/1.1\r\nHost: a\r\n";
    size_t count = 0;
    struct attack *list = mem_new_zero(
        ARRAY_LEN(framing) + ARRAY_LEN(head_cases) + ARRAY_LEN(body_cases), sizeof(*list));

    for (size_t i = 0; i < ARRAY_LEN(framing); i++)
        list[count++] = framing[i];
    for (size_t i = 0; i < ARRAY_LEN(head_cases); i++)
        /* What has a NUL, or ends early, is left to the judge's own tests. */
        if (head_cases[i].status != 0 && strlen(head_cases[i].data) == head_cases[i].len)
            list[count++] = (struct attack)ATTACK("A1-A30", ATTACK_BYTES, head_cases[i].data,
                                                  head_cases[i].code, head_cases[i].status);
    for (size_t i = 0; i < ARRAY_LEN(body_cases); i++) {
        const struct http_case *body = &body_cases[i];

        if (body->status == 0 || strlen(body->data) != body->len)
            continue;
        list[count++] = (struct attack)ATTACK(
            "A11-A14", ATTACK_BYTES,
            mem_printf(SAY("anthropic/x") "x-api-key: %%T\r\n%s", body->data + strlen(plain)),
            body->code, body->status);
    }
    catalogue_run(list, count, NULL);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].id, "A11-A14") == 0)
            free((void *)(uintptr_t)list[i].input);
    free(list);
}

static const struct attack targets[] = {
    ATTACK("B1", ATTACK_BYTES,
           "GET http://127.0.0.1:%E/a HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n" KEY END, "host_mismatch",
           400),
    ATTACK("B1", ATTACK_BYTES,
           "GET http://127.0.0.1:%P/a HTTP/1.1\r\nHost: 127.0.0.1:%E\r\n" KEY END, "host_mismatch",
           400),
    ATTACK("B2", ATTACK_BYTES,
           "GET http://127.0.0.1:%P@127.0.0.1:%E/ HTTP/1.1\r\nHost: 127.0.0.1:%E\r\n" KEY END,
           "bad_target", 400),
    ATTACK("B4", ATTACK_BYTES,
           "GET http://127.0.0.1:%P/base/v1/secret HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" BEARER END,
           "request_not_allowed", 403),
    ATTACK("B4", ATTACK_BYTES,
           "GET http://127.0.0.1:%P/base/v1/models/x HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" BEARER END,
           "ok", 200, .reached = 1, .sent = "Bearer " RIG_SECRET "\r\n",
           .unsent = "proxy-authorization"),
    ATTACK("B5", ATTACK_BYTES, ASK("github/../anthropic/v1/x") KEY END, "dot_segment", 400),
    ATTACK("B5", ATTACK_BYTES, ASK("anthropic/./x") KEY END, "dot_segment", 400),
    ATTACK("B5", ATTACK_BYTES, "GET /../x HTTP/1.1\r\nHost: p\r\n" KEY END, "unknown_path", 404),
    ATTACK("B5", ATTACK_BYTES, ASK("anthropic/a/b/../../../x") KEY END, "dot_segment", 400),
    ATTACK("B5", ATTACK_BYTES, ASK("anthropic/a/..") KEY END, "dot_segment", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/%2e%2e/x") BEARER END, "encoded_dot", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/.%2e/x") BEARER END, "encoded_dot", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/%252e%252e/x") BEARER END, "double_encoding", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/..%2fx") BEARER END, "encoded_slash", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/..%5cx") BEARER END, "encoded_slash", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/..;/x") BEARER END, "dot_segment", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/..;x=y/x") BEARER END, "dot_segment", 400),
    ATTACK("B6", ATTACK_BYTES, ASK("corp/models/%c0%ae%c0%ae/x") BEARER END, "bad_utf8", 400),
    ATTACK("B7", ATTACK_BYTES, "GET //proxy/anthropic/x HTTP/1.1\r\nHost: p\r\n" KEY END,
           "unknown_path", 404),
    ATTACK("B7", ATTACK_BYTES, ASK("/anthropic/x") KEY END, "unknown_service", 404),
    ATTACK("B7", ATTACK_BYTES, ASK("ANTHROPIC/x") KEY END, "unknown_service", 404),
    ATTACK("B7", ATTACK_BYTES, ASK("anthropic%2fx") KEY END, "unknown_service", 404),
    ATTACK("B7", ATTACK_BYTES, ASK("anthropic") KEY END, "unknown_service", 404),
    ATTACK("B7", ATTACK_BYTES, ASK("") KEY END, "unknown_service", 404),
    ATTACK("B8", ATTACK_BYTES,
           "GET http://127.0.0.1:%P/@scope%2fname HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "ok", 200, .reached = 1, .sent = "GET /@scope%2Fname HTTP/1.1\r\n"),
    ATTACK("B9", ATTACK_BYTES, ASK("anthropic/repos/me%2f..%2fother/x") KEY END, "encoded_slash",
           400),
    ATTACK("B9", ATTACK_BYTES,
           "GET http://127.0.0.1:%P/repos/me%2f..%2fother/x HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "encoded_slash", 400),
    ATTACK("B9", ATTACK_TUNNEL, "GET /files/a%2f..%2f..%2fapi/x HTTP/1.1\r\n" INSIDE END,
           "encoded_slash", 400),
    ATTACK("B10", ATTACK_BYTES, ASK("corp/chat/completions") BEARER END, "request_not_allowed",
           403),
    ATTACK("B10", ATTACK_BYTES, SAY("corp/CHAT/completions") BEARER EMPTY, "request_not_allowed",
           403),
    ATTACK("B10", ATTACK_BYTES, SAY("corp/chat/completions/") BEARER EMPTY, "request_not_allowed",
           403),
    ATTACK("B10", ATTACK_BYTES, SAY("corp/chat/completions;x") BEARER EMPTY, "request_not_allowed",
           403),
    ATTACK("B10", ATTACK_BYTES, SAY("corp/chat/completions%00") BEARER EMPTY, "encoded_control",
           400),
    ATTACK("B10", ATTACK_BYTES, SAY("corp/chat/completions?a#b") BEARER EMPTY, "bad_target", 400),
    ATTACK("B10", ATTACK_BYTES, SAY("corp/chat/completion%73") BEARER EMPTY, "ok", 200,
           .reached = 1, .sent = "POST /base/v1/chat/completions HTTP/1.1\r\n"),
    ATTACK("B14", ATTACK_TUNNEL, "GET /files/a HTTP/1.1\r\nHost: other.localhost:%S\r\n" END,
           "host_mismatch", 421),
    ATTACK("B14", ATTACK_TUNNEL, "GET /files/a HTTP/1.1\r\nHost: localhost:%P\r\n" END,
           "host_mismatch", 421),
    ATTACK("B16", ATTACK_TUNNEL, "SSH-2.0-OpenSSH_9.2\r\n\r\n", NULL, 400),
    ATTACK("C1", ATTACK_BYTES,
           "CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\nProxy-Authorization: Basic "
           "%C\r\n" END,
           "host_not_allowed", 403),
    ATTACK("C3", ATTACK_BYTES,
           "CONNECT 127.1:%P HTTP/1.1\r\nHost: 127.1:%P\r\nProxy-Authorization: Basic %C\r\n" END,
           "bad_host", 400),
    ATTACK("C3", ATTACK_BYTES,
           "GET http://2130706433:%P/ HTTP/1.1\r\nHost: 2130706433:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "bad_host", 400),
    ATTACK("C3", ATTACK_BYTES,
           "GET http://0x7f.1:%P/ HTTP/1.1\r\nHost: 0x7f.1:%P\r\nProxy-Authorization: Basic "
           "%C\r\n" END,
           "bad_host", 400),
    ATTACK("C3", ATTACK_BYTES,
           "GET http://0177.0.0.1:%P/ HTTP/1.1\r\nHost: 0177.0.0.1:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "bad_host", 400),
    ATTACK("C3", ATTACK_BYTES,
           "GET http://0.0.0.0:%P/ HTTP/1.1\r\nHost: 0.0.0.0:%P\r\nProxy-Authorization: Basic "
           "%C\r\n" END,
           "host_not_allowed", 403),
    ATTACK("C4", ATTACK_BYTES,
           "GET http://[::ffff:127.0.0.1]:%P/ HTTP/1.1\r\nHost: [::ffff:127.0.0.1]:%P\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "host_not_allowed", 403),
    ATTACK("C4", ATTACK_BYTES,
           "GET http://[fe80::1%25eth0]/ HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "bad_target", 400),
};

TEST(a_target_is_read_in_one_way_or_refused)
{
    catalogue_run(targets, ARRAY_LEN(targets), NULL);
}

static const struct attack placements[] = {
    ATTACK("D1", ATTACK_BYTES, ASK("anthropic/x") KEY "Cookie: a=%T\r\n" END, "token_misplaced",
           403),
    ATTACK("D1", ATTACK_BYTES, ASK("anthropic/x") KEY "Referer: http://a/%T\r\n" END,
           "token_misplaced", 403),
    ATTACK("D1", ATTACK_BYTES, ASK("anthropic/x") KEY "User-Agent: %T\r\n" END, "token_misplaced",
           403),
    ATTACK("D1", ATTACK_BYTES, ASK("anthropic/x") KEY "X-Forwarded-For: %T\r\n" END,
           "token_misplaced", 403),
    ATTACK("D1", ATTACK_BYTES, ASK("anthropic/%T/x") KEY END, "token_misplaced", 403),
    ATTACK("D1", ATTACK_BYTES, ASK("anthropic/x?a=%T") KEY END, "token_misplaced", 403),
    ATTACK("D1", ATTACK_BYTES, SAY("anthropic/x") KEY "X-%T: 1\r\n" EMPTY, "token_misplaced", 403),
    ATTACK("D2", ATTACK_BYTES, ASK("anthropic/x") KEY KEY END, "token_repeated", 403),
    ATTACK("D2", ATTACK_BYTES, ASK("corp/models/x") BEARER "authorization: Bearer other\r\n" END,
           "token_repeated", 403),
    ATTACK("D2", ATTACK_BYTES, ASK("corp/models/x") "Authorization: Bearer %T %T\r\n" END,
           "bad_token", 403),
    ATTACK("D3", ATTACK_BYTES, ASK("corp/models/x") KEY END, "token_misplaced", 403),
    ATTACK("D3", ATTACK_BYTES,
           "GET http://127.0.0.1:%E/ HTTP/1.1\r\nHost: 127.0.0.1:%E\r\n"
           "Proxy-Authorization: Basic %C\r\n" BEARER END,
           "token_misplaced", 403),
    ATTACK("D3", ATTACK_BYTES,
           "GET http://127.0.0.1:%E/ HTTP/1.1\r\nHost: 127.0.0.1:%E\r\n"
           "Proxy-Authorization: Basic %C\r\n" END,
           "ok", 200, .has = "evil"),
    ATTACK("D6", ATTACK_BYTES, ASK("github/o/r.git/info/refs?service=git-upload-pack") BASIC END,
           "ok", 200, .reached = 1, .sent = "authorization: Basic "),
    ATTACK(
        "D6", ATTACK_BYTES,
        ASK("github/o/r.git/info/refs?service=git-upload-pack") "Authorization: Basic %%C\r\n" END,
        "bad_token", 401, .has = "Basic realm="),
    ATTACK(
        "D6", ATTACK_BYTES,
        ASK("github/o/r.git/info/refs?service=git-upload-pack") "Authorization: Basic %C=\r\n" END,
        "bad_token", 401),
    ATTACK("D6", ATTACK_BYTES,
           ASK("github/o/r.git/info/refs?service=git-upload-pack") "Authorization: Basic\r\n" END,
           "bad_token", 401),
    ATTACK(
        "D6", ATTACK_BYTES,
        ASK("github/o/r.git/info/refs?service=git-upload-pack") "Authorization: Basic %T\r\n" END,
        "bad_token", 401),
    ATTACK("D7", ATTACK_BYTES, ASK("anthropic/x") "x-api-key: sk-ant-api03-mine\r\n" END,
           "bad_token", 403),
    ATTACK("D7", ATTACK_BYTES, ASK("anthropic/x") KEY "Authorization: Bearer sk-ant-mine\r\n" END,
           "ok", 200, .reached = 1, .unsent = "sk-ant-mine"),
    ATTACK("D10", ATTACK_BYTES, ASK("anthropic/x") KEY "X-Odd: a%0d%0aX-Key: b\xc3\xa9\r\n" END,
           "ok", 200, .reached = 1, .sent = "X-Odd: a%0d%0aX-Key: b\xc3\xa9\r\n"),
    ATTACK("D11", ATTACK_BYTES,
           ASK("anthropic/x") KEY
           "Proxy-Authorization: Basic %C\r\nProxy-Connection: keep-alive\r\n" END,
           "ok", 200, .reached = 1, .unsent = "\r\nproxy-"),
    ATTACK("D11", ATTACK_TUNNEL,
           "GET /api/x HTTP/1.1\r\n" INSIDE BEARER "Proxy-Authorization: Basic %C\r\n" END, "ok",
           200, .reached = 1, .unsent = "\r\nproxy-"),
    ATTACK("D12", ATTACK_BYTES, ASK("queried/x?a=b&key=%T") END, "ok", 200, .reached = 1,
           .sent = "GET /x?a=b&key=" RIG_QUERY_ESCAPED " HTTP/1.1"),
    ATTACK("D12", ATTACK_BYTES, ASK("queried/x?key=%T&key=%T") END, "token_misplaced", 403),
    ATTACK("D12", ATTACK_BYTES, ASK("%T/anthropic/x") KEY END, "unknown_service", 404),
    ATTACK("D13", ATTACK_BYTES,
           ASK("anthropic/x") KEY
           "X-Forwarded-For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nVia: 1.1 9.9.9.9"
           "\r\nX-Real-IP: 9.9.9.9\r\nCF-Connecting-IP: 9.9.9.9\r\n"
           "True-Client-IP: 9.9.9.9\r\n" END,
           "ok", 200, .reached = 1, .unsent = "9.9.9.9"),
    ATTACK("D14", ATTACK_BYTES,
           ASK("anthropic/x") KEY "anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\n"
                                  "openai-organization: o\r\nAccept: a/b\r\nUser-Agent: me\r\n"
                                  "X-Unknown: 1\r\n" END,
           "ok", 200, .reached = 1,
           .sent = "anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\nopenai-organization: "
                   "o\r\nAccept: a/b\r\nUser-Agent: me\r\nX-Unknown: 1\r\n"),
    ATTACK("D15", ATTACK_BYTES, SAY("anthropic/x") KEY "Content-Length: 2\r\n\r\nhi", "ok", 200,
           .reached = 1, .unsent = "content-type"),
    ATTACK("D15", ATTACK_BYTES, SAY("anthropic/x") KEY "Content-Length: 2\r\n\r\nhi", "ok", 200,
           .reached = 1, .unsent = "\r\naccept:"),
    ATTACK("D16", ATTACK_BYTES,
           SAY("anthropic/x") KEY "Content-Type: a/b\r\nContent-Type: c/d\r\n" EMPTY, "ok", 200,
           .reached = 1, .sent = "Content-Type: a/b\r\nContent-Type: c/d\r\n"),
    ATTACK("D18", ATTACK_BYTES, ASK("anthropic/x") KEY "Cookie: session=1\r\n" END, "ok", 200,
           .reached = 1, .unsent = "cookie"),
    ATTACK("D22", ATTACK_TUNNEL, "GET /files/a HTTP/1.1\r\n" INSIDE END, "ok", 200, .reached = 1,
           .unsent = "authorization"),
    ATTACK("D23", ATTACK_BYTES,
           ASK("anthropic/x?a=%73bx_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") KEY END,
           "token_misplaced", 403),
    ATTACK("D23", ATTACK_BYTES,
           ASK("anthropic/%73bx_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") KEY END,
           "token_misplaced", 403),
    ATTACK("D24", ATTACK_BYTES,
           ASK("anthropic/x") KEY "Authorization: Bearer mine-1\r\napi-key: mine-1\r\n"
                                  "x-goog-api-key: mine-1\r\ncookie: mine-1\r\n" END,
           "ok", 200, .reached = 1, .unsent = "mine-1"),
    ATTACK("E1", ATTACK_BYTES, ASK("anthropic/x") END, "no_token", 403),
    ATTACK("E1", ATTACK_BYTES, ASK("anthropic/x") "x-api-key:\r\n" END, "bad_token", 403),
    ATTACK("E1", ATTACK_BYTES, ASK("anthropic/x") "x-api-key: " NO_TOKEN_43 "\r\n" END, "bad_token",
           403),
    ATTACK("E1", ATTACK_BYTES, ASK("github/o/r.git/info/refs?service=git-upload-pack") END,
           "no_token", 401, .has = "www-authenticate: Basic realm="),
    ATTACK("E1", ATTACK_BYTES, "CONNECT localhost:%S HTTP/1.1\r\nHost: localhost:%S\r\n" END,
           "no_token", 407, .has = "proxy-authenticate: Basic realm="),
    ATTACK(
        "E3", ATTACK_BYTES,
        ASK("corp/models/x") "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJydW4iOiIqIn0.\r\n" END,
        "bad_token", 403),
    ATTACK("E3", ATTACK_BYTES,
           ASK("corp/models/x") "Authorization: Bearer a.b.c.d.e.f.g.h.i.j\r\n" END, "bad_token",
           403),
    ATTACK("I1", ATTACK_BYTES,
           ASK("brain/v1/realtime") KEY "Connection: upgrade\r\nUpgrade: websocket\r\n"
                                        "Sec-WebSocket-Version: 13\r\n"
                                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" END,
           "upgrade_not_allowed", 403),
    ATTACK("I2", ATTACK_BYTES, ASK("secure/x") BEARER "Connection: upgrade\r\nUpgrade: h2c\r\n" END,
           "ok", 200, .reached = 1, .unsent = "h2c"),
    ATTACK("I2", ATTACK_BYTES,
           ASK("secure/x") BEARER "Connection: notupgrade\r\nUpgrade: websocketx\r\n" END, "ok",
           200, .reached = 1, .unsent = "websocketx"),
    ATTACK("I13", ATTACK_BYTES,
           ASK("secure/x") BEARER
           "Connection: upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
           "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.%T\r\n" END,
           "token_misplaced", 403),
    ATTACK("J17", ATTACK_BYTES, SAY("github/o/r.git/git-receive-pack/x") BASIC EMPTY,
           "request_not_allowed", 403),
    ATTACK("J19", ATTACK_BYTES, ASK("github/o/r.git/objects/info/packs") BASIC END,
           "request_not_allowed", 403),
    ATTACK("K11", ATTACK_BYTES, ASK("keyless/x") KEY END, "secret_missing", 403),
};

TEST(the_token_opens_its_own_place_only_and_never_leaves)
{
    catalogue_run(placements, ARRAY_LEN(placements), NULL);
}
