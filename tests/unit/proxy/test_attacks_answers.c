/* What upstreams try: to give the credential away, to be read in two ways, to end without an end.
 */
#include "unit/proxy/catalogue.h"

#define ASK "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n"
#define HEAD "HEAD /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n"
#define TALK                                                                                       \
    "POST /proxy/anthropic/v1/messages HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n"                   \
    "Content-Length: 2\r\n\r\n{}"
#define OK "HTTP/1.1 200 OK\r\n"
#define HIDDEN "********************************"
#define SOCKET                                                                                     \
    "GET /proxy/secure/live HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer %T\r\n"                   \
    "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define STREAM OK "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

static const struct attack reflections[] = {
    ATTACK("F1", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Content-Length: 52\r\n\r\n{\"x-api-key\":\"%K\",  1}",
           .has = "{\"x-api-key\":\"" HIDDEN "\",  1}"),
    ATTACK("F2", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer =
               OK "Transfer-Encoding: chunked\r\n\r\n1\r\nA\r\n20\r\n%K\r\n1\r\nB\r\n0\r\n\r\n",
           .has = HIDDEN),
    ATTACK("F4", ATTACK_BYTES, ASK, "upstream_encoding", 502, .reached = 1,
           .answer = OK "Content-Encoding: compress\r\nContent-Length: 32\r\n\r\n%K"),
    ATTACK("F4", ATTACK_BYTES, ASK, "upstream_encoding", 502, .reached = 1,
           .answer = OK "Content-Encoding: gzip, br\r\nContent-Length: 32\r\n\r\n%K"),
    ATTACK("F4", ATTACK_BYTES, ASK, "upstream_encoding", 502, .reached = 1,
           .answer =
               OK "Content-Encoding: gzip\r\nContent-Encoding: br\r\nContent-Length: 32\r\n\r\n%K"),
    ATTACK("F4", ATTACK_BYTES, ASK, "upstream_encoding", 0, .reached = 1,
           .answer = OK "Content-Encoding: gzip\r\nContent-Length: 32\r\n\r\n%K", .reset = true),
    ATTACK("F5", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "X-Echo: a %K b\r\nContent-Length: 2\r\n\r\nhi",
           .has = "X-Echo: a " HIDDEN " b\r\n"),
    ATTACK("F5", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "X-%K: 1\r\nContent-Length: 2\r\n\r\nhi", .has = "X-" HIDDEN ": 1\r\n"),
    ATTACK("F5", ATTACK_BYTES, ASK, "ok", 401, .reached = 1,
           .answer = "HTTP/1.1 401 bad key %K\r\nWWW-Authenticate: Bearer error=\"%K\"\r\n"
                     "Link: <https://a/%K>; rel=next\r\nLocation: https://a/?k=%K\r\n"
                     "Set-Cookie: k=%K\r\nContent-Length: 2\r\n\r\nno",
           .has = "Location: https://a/?k=" HIDDEN),
    ATTACK("F5", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = "HTTP/1.1 103 Early Hints\r\nLink: <https://a/%K>\r\n\r\n" OK
                     "Content-Length: 2\r\n\r\nhi",
           .hasnot = "early"),
    ATTACK("F5", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Transfer-Encoding: chunked\r\nTrailer: X-Key\r\n\r\n2\r\nhi\r\n0\r\n"
                        "X-Key: %K\r\n\r\n",
           .hasnot = "x-key"),
    ATTACK("F6", ATTACK_BYTES, ASK, "ok", 401, .reached = 1,
           .answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 45\r\n\r\ninvalid key %K.",
           .has = "invalid key " HIDDEN "."),
    ATTACK("F7", ATTACK_BYTES,
           "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\nRange: "
           "bytes=0-9\r\nIf-Range: x\r\n\r\n",
           "ok", 200, .reached = 1, .unsent = "range"),
    ATTACK("F22", ATTACK_BYTES,
           "GET /proxy/github/o/r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: "
           "p\r\nAuthorization: Basic %C\r\n\r\n",
           "ok", 200, .reached = 1, .answer = OK "Content-Length: 66\r\n\r\n[%B]", .has = "[***"),
    ATTACK("I6", ATTACK_BYTES, SOCKET, "upgrade_refused", 502, .reached = 1,
           .answer = OK "Content-Length: 32\r\n\r\n%K"),
    ATTACK("I3", ATTACK_BYTES, SOCKET, "upgrade_refused", 403, .reached = 1,
           .answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 32\r\n\r\n%K"),
    ATTACK("I3", ATTACK_BYTES, SOCKET, "upgrade_refused", 502, .reached = 1,
           .answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
                     "upgrade\r\nSec-WebSocket-Accept: d3Jvbmc=\r\n\r\n%K"),
};

TEST(a_credential_that_comes_back_is_hidden_wherever_it_is)
{
    catalogue_run(reflections, ARRAY_LEN(reflections), NULL);
}

#define BAD(text)                                                                                  \
    ATTACK("F8", ATTACK_BYTES, ASK, "upstream_bad_response", 502, .reached = 1, .answer = text,    \
           .hasnot = "evil")

static const struct attack framing[] = {
    BAD(OK "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"),
    BAD(OK "Content-Length: 4\r\nContent-Length: 5\r\n\r\nevil"),
    BAD(OK "Content-Length: 4\r\nContent-Length: 4\r\n\r\nevil"),
    BAD(OK "Content-Length: 4, 4\r\n\r\nevil"),
    BAD(OK "Content-Length: +4\r\n\r\nevil"),
    BAD(OK "Content-Length: -4\r\n\r\nevil"),
    BAD(OK "Content-Length: 18446744073709551617\r\n\r\nevil"),
    BAD(OK "Transfer-Encoding: xchunked\r\n\r\nevil"),
    BAD(OK
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"),
    BAD(OK "X-Evil: a\rb\r\nContent-Length: 4\r\n\r\nevil"),
    BAD("HTTP/1.1 200 OK\nContent-Length: 4\n\nevil"),
    BAD(OK "X-Evil: a\r\n folded\r\nContent-Length: 4\r\n\r\nevil"),
    BAD(OK "X-Evil : a\r\nContent-Length: 4\r\n\r\nevil"),
    BAD(OK "X-Evil\r\nContent-Length: 4\r\n\r\nevil"),
    BAD("HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
    BAD("HTTP/1.1 20 OK\r\nContent-Length: 4\r\n\r\nevil"),
    BAD("evil\r\n\r\n"),
    ATTACK("F9", ATTACK_BYTES, ASK, "upstream_cut", 200, .reached = 1,
           .answer = OK "Content-Length: 100\r\n\r\nhalf", .cut = true, .has = "half",
           .reset = true),
    ATTACK("F9", ATTACK_BYTES, ASK, "upstream_cut", 200, .reached = 1,
           .answer = OK "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", .cut = true,
           .has = "half", .hasnot = "\r\n0\r\n", .reset = true),
    ATTACK("F10", ATTACK_BYTES, ASK, "ok", 200, .reached = 1, .answer = OK "\r\nwhole", .cut = true,
           .has = "Transfer-Encoding: chunked\r\n"),
    ATTACK("F10", ATTACK_BYTES,
           "GET /proxy/anthropic/x HTTP/1.0\r\nHost: p\r\nx-api-key: %T\r\n\r\n", "ok", 200,
           .reached = 1, .answer = OK "\r\nwhole", .cut = true, .has = "\r\n\r\nwhole",
           .hasnot = "transfer-encoding"),
    ATTACK("F11", ATTACK_BYTES, HEAD, "ok", 200, .reached = 1,
           .answer = OK "Content-Length: 1000\r\n\r\n", .has = "Content-Length: 1000\r\n"),
    ATTACK("F11", ATTACK_BYTES, ASK ASK, "ok", 204, .reached = 2, .records = 2,
           .answer = "HTTP/1.1 204 No Content\r\n\r\n"),
    ATTACK("F11", ATTACK_BYTES, ASK, "ok", 304, .reached = 1,
           .answer = "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", .hasnot = "evil"),
    ATTACK("F12", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
                     "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nhi",
           .hasnot = "Link"),
    ATTACK("F13", ATTACK_BYTES, ASK, "upstream_bad_response", 502, .reached = 1,
           .answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\nConnection: "
                     "upgrade\r\n\r\nevil",
           .hasnot = "evil"),
    ATTACK("F14", ATTACK_BYTES, ASK, "ok", 302, .reached = 1,
           .answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%E/evil\r\nContent-Length: "
                     "0\r\n\r\n",
           .has = "/evil\r\n"),
    ATTACK("F14", ATTACK_BYTES, ASK, "ok", 302, .reached = 1,
           .answer = "HTTP/1.1 302 Found\r\nLocation: //evil/\r\nContent-Length: 0\r\n\r\n",
           .has = "Location: //evil/\r\n"),
    ATTACK("F14", ATTACK_BYTES, ASK, "ok", 302, .reached = 1,
           .answer = "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: "
                     "0\r\n\r\n"),
    ATTACK("F14", ATTACK_BYTES, TALK, "ok", 307, .reached = 1,
           .answer = "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%E/\r\n"
                     "Content-Length: 0\r\n\r\n"),
    ATTACK("F15", ATTACK_BYTES, ASK, "ok", 302, .reached = 1,
           .answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%P/repositories/1\r\n"
                     "Content-Length: 0\r\n\r\n",
           .has = "Location: http://p/proxy/anthropic/repositories/1\r\n"),
    ATTACK("F15", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Link: <http://127.0.0.1:%P/a?page=2>; rel=\"next\", "
                        "<http://127.0.0.1:%P/a?page=9>; rel=\"last\", <http://other/a>; "
                        "rel=\"up\"\r\nContent-Length: 2\r\n\r\nhi",
           .has = "Link: <http://p/proxy/anthropic/a?page=2>; rel=\"next\", "
                  "<http://p/proxy/anthropic/a?page=9>; rel=\"last\", <http://other/a>; "
                  "rel=\"up\"\r\n"),
    ATTACK("F17", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Warning: a\r\nWarning: b\r\nWWW-Authenticate: c\r\nWWW-Authenticate: "
                        "d\r\nContent-Length: 2\r\n\r\nhi",
           .has = "Warning: a\r\nWarning: b\r\nWWW-Authenticate: c\r\nWWW-Authenticate: d\r\n"),
    ATTACK("F18", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
           .has = "\r\n0\r\n\r\n"),
    ATTACK("C14", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Alt-Svc: h3=\":443\"; ma=99\r\nStrict-Transport-Security: "
                        "max-age=9\r\nContent-Length: 2\r\n\r\nhi",
           .hasnot = "alt-svc"),
    ATTACK("D18", ATTACK_BYTES, ASK, "ok", 200, .reached = 1,
           .answer = OK "Set-Cookie: session=1\r\nContent-Length: 2\r\n\r\nhi",
           .hasnot = "set-cookie"),
    ATTACK("G3", ATTACK_BYTES, TALK, "upstream_cut", 200, .reached = 1,
           .answer = STREAM "10\r\nevent: a\ndata: b\r\n", .cut = true, .reset = true),
    ATTACK("G3", ATTACK_BYTES, TALK, "upstream_incomplete", 200, .reached = 1,
           .answer = STREAM "12\r\nevent: a\ndata: b\n\n\r\n0\r\n\r\n", .reset = true),
    ATTACK("L7", ATTACK_BYTES, ASK, "ok", 429, .reached = 1,
           .answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 99999\r\nContent-Length: "
                     "0\r\n\r\n",
           .has = "Retry-After: 60\r\n"),
    ATTACK("L7", ATTACK_BYTES, ASK, "ok", 529, .reached = 1,
           .answer = "HTTP/1.1 529 Overloaded\r\nRetry-After: Mon, 30 Nov 2099 00:00:00 "
                     "GMT\r\nContent-Length: 0\r\n\r\n",
           .has = "Retry-After: 60\r\n"),
};

TEST(an_answer_is_read_in_one_way_and_its_end_is_true)
{
    catalogue_run(framing, ARRAY_LEN(framing), NULL);
}
