#include "proto/envelope.h"

#include <string.h>

#include "proto/frame.h"
#include "tests/harness/test.h"

static struct json_doc *doc;
static struct envelope envelope;
static struct error err;

static void free_doc(void *data)
{
    (void)data;
    json_free(doc);
    doc = NULL;
}

static int read_text(const char *text)
{
    free_doc(NULL);
    test_defer(free_doc, NULL);
    err = (struct error)ERROR_INIT;
    CHECK_EQ(json_parse(&doc, text, strlen(text), FRAME_JSON_MAX, &err), 0);
    return envelope_read(doc, &envelope, &err);
}

static int read_frame(struct buf *buf)
{
    struct frame frame;
    AUTO_BUF struct buf text = BUF_INIT(FRAME_JSON_MAX);

    CHECK_EQ(frame_parse(buf->data, buf->len, &frame, &err), (long)buf->len);
    buf_append(&text, frame.data, frame.len);
    return read_text(buf_text(&text));
}

TEST(a_request_is_read_back)
{
    AUTO_BUF struct buf buf = BUF_INIT(1000);

    CHECK_EQ(envelope_append_request(&buf, 7, "run.get", "{\"runId\":\"x\"}", &err), 0);
    CHECK_EQ(read_frame(&buf), 0);
    CHECK_EQ((int)envelope.kind, ENVELOPE_REQUEST);
    CHECK_EQ(envelope.id, 7);
    CHECK_STR(envelope.method, "run.get");
    CHECK_STR(json_string(json_get(envelope.body, "runId")), "x");
}

TEST(replies_events_and_ends_are_read_back)
{
    static int (*const append[])(struct buf *, uint64_t, const char *,
                                 struct error *) = { envelope_append_reply, envelope_append_event,
                                                     envelope_append_end };
    static const enum envelope_kind kinds[] = { ENVELOPE_REPLY, ENVELOPE_EVENT, ENVELOPE_END };

    for (int i = 0; i < 3; i++) {
        AUTO_BUF struct buf buf = BUF_INIT(1000);

        CHECK_EQ(append[i](&buf, UINT64_C(1) << 53, NULL, &err), 0);
        CHECK_EQ(read_frame(&buf), 0);
        CHECK_EQ((int)envelope.kind, kinds[i]);
        CHECK_EQ(envelope.id, UINT64_C(1) << 53);
        CHECK_EQ((int)json_kind(envelope.body), JSON_KIND_OBJECT);
    }
}

TEST(an_error_keeps_code_text_and_argument)
{
    AUTO_BUF struct buf buf = BUF_INIT(1000);
    struct error sent = ERROR_INIT;

    error_argument(&sent, "runId", "is not an \"id\"");
    CHECK_EQ(envelope_append_error(&buf, 3, &sent, &err), 0);
    CHECK_EQ(read_frame(&buf), 0);
    CHECK_EQ((int)envelope.kind, ENVELOPE_ERROR);
    CHECK_EQ((int)envelope.error.code, ERR_INVALID);
    CHECK_STR(envelope.error.argument, "runId");
    CHECK_STR(envelope.error.text, "runId: is not an \"id\"");
}

TEST(a_cancel_is_read_back)
{
    AUTO_BUF struct buf buf = BUF_INIT(1000);

    CHECK_EQ(envelope_append_cancel(&buf, 12, &err), 0);
    CHECK_EQ(read_frame(&buf), 0);
    CHECK_EQ((int)envelope.kind, ENVELOPE_CANCEL);
    CHECK_EQ(envelope.id, 12);
}

TEST(params_may_be_left_out)
{
    CHECK_EQ(read_text("{\"id\":1,\"method\":\"system.status\"}"), 0);
    CHECK(envelope.body == NULL);
}

TEST(an_unknown_code_of_an_error_is_a_bug)
{
    CHECK_EQ(read_text("{\"id\":1,\"error\":{\"code\":\"new\",\"message\":\"m\",\"more\":1}}"), 0);
    CHECK_EQ((int)envelope.error.code, ERR_BUG);
    CHECK_STR(envelope.error.text, "m");
}

TEST(what_is_no_envelope_is_refused)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"id\":1}",
        "{\"id\":0,\"method\":\"a\"}",
        "{\"id\":\"1\",\"method\":\"a\"}",
        "{\"id\":1.5,\"method\":\"a\"}",
        "{\"id\":9007199254740994,\"method\":\"a\"}",
        "{\"method\":\"a\"}",
        "{\"id\":1,\"method\":\"\"}",
        "{\"id\":1,\"method\":\"a\",\"params\":[]}",
        "{\"id\":1,\"method\":\"a\",\"params\":null}",
        "{\"id\":1,\"method\":\"a\",\"extra\":1}",
        "{\"id\":1,\"method\":\"a\",\"result\":{}}",
        "{\"id\":1,\"result\":{},\"params\":{}}",
        "{\"id\":1,\"result\":{},\"error\":{\"code\":\"bug\",\"message\":\"\"}}",
        "{\"id\":1,\"result\":1}",
        "{\"id\":1,\"error\":{}}",
        "{\"id\":1,\"error\":{\"code\":\"bug\"}}",
        "{\"id\":1,\"cancel\":1}",
        "{\"cancel\":0}",
        "{\"cancel\":\"1\"}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (read_text(bad[i]) == 0)
            CHECK_FAILED(bad[i]);
        CHECK_EQ((int)err.code, ERR_INVALID);
    }
}

TEST(a_body_too_large_for_a_frame_is_a_limit)
{
    AUTO_BUF struct buf body = BUF_INIT(FRAME_JSON_MAX + 100);
    AUTO_BUF struct buf buf = BUF_INIT(2 * FRAME_JSON_MAX);
    char *to = buf_reserve(&body, FRAME_JSON_MAX);

    memset(to, ' ', FRAME_JSON_MAX);
    to[0] = '{';
    to[FRAME_JSON_MAX - 1] = '}';
    buf_commit(&body, FRAME_JSON_MAX);
    CHECK_EQ(envelope_append_reply(&buf, 1, body.data, &err), -1);
    CHECK_EQ((int)err.code, ERR_LIMIT);
    CHECK_EQ(buf.len, 0);
}

static uint64_t peeked(const char *text, const char **body, size_t *len)
{
    uint64_t id = 0;

    return envelope_peek_reply(text, strlen(text), &id, body, len) ? id : 0;
}

TEST(a_reply_is_known_without_reading_its_body)
{
    AUTO_BUF struct buf buf = BUF_INIT(1024);
    const char *body = NULL;
    size_t len = 0;

    err = (struct error)ERROR_INIT;
    CHECK_EQ(envelope_append_reply(&buf, 12, "{\"a\":{}}", &err), 0);
    CHECK_EQ(peeked(buf.data + FRAME_HEAD_SIZE, &body, &len), 12);
    CHECK_EQ(len, 8);
    CHECK_EQ(memcmp(body, "{\"a\":{}}", len), 0);
    CHECK_EQ(peeked("{\"id\":9007199254740992,\"result\":{}}", &body, &len), 9007199254740992);
}

TEST(everything_else_is_left_to_be_read_as_a_whole)
{
    static const char *const others[] = {
        "",
        "{\"id\":",
        "{\"id\":7",
        "{\"id\":7,\"result\":",
        "{\"id\":7,\"result\":{",
        "{\"id\":7,\"result\":{}",
        "{\"id\":7,\"result\":[]}",
        "{\"id\":0,\"result\":{}}",
        "{\"id\":07,\"result\":{}}",
        "{\"id\":-7,\"result\":{}}",
        "{\"id\":9007199254740993,\"result\":{}}",
        "{\"id\":99999999999999999999,\"result\":{}}",
        "{\"id\":7,\"error\":{}}",
        "{\"id\":7,\"event\":{}}",
        "{ \"id\":7,\"result\":{}}",
        "{\"result\":{},\"id\":7}",
    };
    const char *body = NULL;
    size_t len = 0;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK_EQ(peeked(others[i], &body, &len), 0);
}
