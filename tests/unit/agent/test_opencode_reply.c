#include "agent/opencode/opencode_reply.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

/* Feeds TEXT in pieces; "state status body" or the error's text. */
static void read_reply(const char *text, size_t piece, struct buf *out)
{
    struct opencode_reply reply;
    AUTO_BUF struct buf body = { 0 };
    struct error err = ERROR_INIT;
    size_t len = strlen(text);

    opencode_reply_init(&reply);
    buf_init(&body, 1000);
    buf_clear(out);
    for (size_t at = 0; at < len && err.code == ERR_NONE; at += piece)
        (void)opencode_reply_feed(&reply, text + at, len - at < piece ? len - at : piece, &body,
                                  &err);
    if (err.code == ERR_NONE)
        (void)opencode_reply_end(&reply, &err);
    if (err.code != ERR_NONE)
        buf_append_str(out, err.text);
    else
        buf_printf(out, "%d%s%s %s", reply.status, reply.is_json ? " json" : "",
                   reply.is_event_stream ? " events" : "", buf_text(&body));
    opencode_reply_finish(&reply);
}

static const struct {
    const char *text;
    const char *wanted;
} cases[] = {
    { "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}more",
      "200 json {}" },
    { "HTTP/1.1 200 OK\r\ncontent-type:text/event-stream;charset=utf-8\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
      "200 events abc0123456789" },
    { "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", "204 " },
    { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
      "401 " },
    { "HTTP/1.0 200 OK\n\nuntil the end", "200 until the end" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
      "the connection ended in the middle of the response" },
    { "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", "not an HTTP response: length" },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
      "not an HTTP response: transfer encoding" },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
      "not an HTTP response: chunk size" },
    { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
      "not an HTTP response: end of chunk" },
    { "SSH-2.0-x\r\n", "not an HTTP response: status line" },
    { "HTTP/1.1 2x0 OK\r\n", "not an HTTP response: status" },
    { "", "the connection ended in the middle of the response" },
};

TEST(a_response_is_read_the_same_however_it_is_split)
{
    AUTO_BUF struct buf out = { 0 };

    buf_init(&out, 10000);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t piece = 1; piece < 40; piece += 6) {
            read_reply(cases[i].text, piece, &out);
            CHECK_STR(buf_text(&out), cases[i].wanted);
        }
    }
}

TEST(an_endless_head_is_refused)
{
    AUTO_BUF struct buf out = { 0 };
    AUTO_BUF struct buf text = { 0 };

    buf_init(&out, 10000);
    buf_init(&text, 1 << 20);
    buf_append_str(&text, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 300; i++)
        buf_append_str(&text, "X: y\r\n");
    read_reply(buf_text(&text), 1000, &out);
    CHECK_STR(buf_text(&out), "not an HTTP response: too many headers");
    buf_clear(&text);
    for (int i = 0; i < 20000; i++)
        buf_append_char(&text, 'x');
    read_reply(buf_text(&text), 1000, &out);
    CHECK_HAS(buf_text(&out), "too long");
}
