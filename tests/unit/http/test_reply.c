/* What an upstream's connection may say: the answer read off it, however it is cut into pieces. */
#include "http/http.h"

#include "common/mem.h"
#include "harness/test.h"

struct seen {
    struct buf body;
    int status;
};

static void on_head(void *data, const struct http_response_head *head)
{
    struct seen *seen = data;

    seen->status = head->status;
}

static void on_body(void *data, const char *bytes, size_t len)
{
    struct seen *seen = data;

    buf_append(&seen->body, bytes, len);
}

static const struct {
    const char *name;
    const char *method;
    const char *text;
    int status; /* 0: refused before the final head; negative: after it */
    const char *body;
    bool done;
    bool kept;
    size_t rest; /* bytes behind the answer */
} cases[] = {
    { "length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", true, true,
      0 },
    { "empty", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true, true, 0 },
    { "more than the length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", 200, "a",
      true, true, 2 },
    { "too short", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", 200, "abc", false,
      true, 0 },
    { "chunks", "GET",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: "
      "u\r\n\r\n",
      200, "abc", true, true, 0 },
    { "chunks, and another answer", "GET",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 200,
      "", true, true, 19 },
    { "a chunk without its end", "GET",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", -200, "ab", false, true,
      0 },
    { "a chunk with a bare LF", "GET",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n", -200, "", false, true, 0 },
    { "until the end", "GET", "HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", false, false, 0 },
    { "close", "GET", "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", 200, "",
      true, false, 0 },
    { "1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true, false, 0 },
    { "HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 200, "", true, true, 3 },
    { "204", "GET", "HTTP/1.1 204 No\r\n\r\n", 204, "", true, true, 0 },
    { "304", "GET", "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", 304, "", true, true, 0 },
    { "interim", "GET",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 201 C\r\n"
      "Content-Length: 1\r\n\r\na",
      201, "a", true, true, 0 },
    { "an upgrade nobody asked for", "GET", "HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n", 0, "", false,
      false, 0 },
    { "bare LF", "GET", "HTTP/1.1 200 OK\nContent-Length: 1\n\na", 0, "", false, false, 0 },
    { "one bare LF", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\na", 0, "", false, false, 0 },
    { "both framings", "GET",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, "",
      false, false, 0 },
    { "two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 0,
      "", false, false, 0 },
    { "another protocol", "GET", "SSH-2.0-x\r\n", 0, "", false, false, 0 },
    { "HTTP/2", "GET", "HTTP/2 200\r\n\r\n", 0, "", false, false, 0 },
};

/* STEP bytes at a time. */
static void run(size_t which, size_t step)
{
    struct seen seen = { .body = BUF_INIT(1024) };
    const char *text = cases[which].text;
    size_t len = strlen(text);
    struct error err = ERROR_INIT;
    struct http_reply reply;
    int status = 0;
    size_t at = 0;

    http_reply_init(&reply, cases[which].method);
    reply.on_head = on_head;
    reply.on_body = on_body;
    reply.data = &seen;
    while (at < len && status == 0 && !reply.done) {
        size_t used = 0;

        status = http_reply_feed(&reply, text + at, len - at < step ? len - at : step, &used, &err);
        at += used;
    }
    if (seen.status != abs(cases[which].status) || (status < 0) != (cases[which].status <= 0))
        CHECK_STR(cases[which].name, err.text);
    CHECK_STR(buf_text(&seen.body), cases[which].body);
    CHECK_EQ(reply.done, cases[which].done);
    if (status == 0) {
        CHECK_EQ(reply.kept, cases[which].kept);
        CHECK_EQ(len - at, cases[which].rest);
        CHECK_EQ(http_reply_end(&reply), cases[which].done || reply.body == HTTP_REPLY_UNTIL_END);
    }
    http_reply_finish(&reply);
    buf_finish(&seen.body);
}

TEST(answers_are_read_the_same_in_any_pieces)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 200; step += step < 8 ? 1 : 50)
            run(i, step);
}

TEST(an_upgrade_that_was_asked_for_is_an_answer_and_what_follows_is_not)
{
    static const char text[] = "HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\nHTTP/1.1 ";
    struct seen seen = { .body = BUF_INIT(1024) };
    struct error err = ERROR_INIT;
    struct http_reply reply;
    size_t used = 0;

    http_reply_init(&reply, "GET");
    reply.on_head = on_head;
    reply.on_body = on_body;
    reply.data = &seen;
    reply.takes_upgrade = true;
    CHECK_EQ(http_reply_feed(&reply, text, sizeof(text) - 1, &used, &err), 0);
    CHECK_EQ(seen.status, 101);
    CHECK(reply.done);
    CHECK_STR(text + used, "HTTP/1.1 ");
    CHECK_EQ(seen.body.len, 0u);
    http_reply_finish(&reply);
}

TEST(a_head_and_a_flood_of_interim_ones_have_a_limit)
{
    struct seen seen = { .body = BUF_INIT(1024) };
    struct error err = ERROR_INIT;
    struct http_reply reply;
    size_t used;
    int status = 0;

    http_reply_init(&reply, "GET");
    reply.on_head = on_head;
    reply.on_body = on_body;
    reply.data = &seen;
    CHECK_EQ(http_reply_feed(&reply, "HTTP/1.1 200 OK\r\n", 17, &used, &err), 0);
    for (size_t i = 0; i < HTTP_HEAD_MAX && status == 0; i += 6)
        status = http_reply_feed(&reply, "a: b\r\n", 6, &used, &err);
    CHECK_EQ(status, -1);
    CHECK_STR(err.argument, "head_too_large");
    http_reply_finish(&reply);

    http_reply_init(&reply, "GET");
    status = 0;
    for (size_t i = 0; i < 100 && status == 0; i++)
        status = http_reply_feed(&reply, "HTTP/1.1 100 C\r\n\r\n", 18, &used, &err);
    CHECK_EQ(status, -1);
    CHECK_EQ(seen.status, 0);
    http_reply_finish(&reply);
}
