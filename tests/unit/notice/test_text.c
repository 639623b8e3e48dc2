/* What is sent, against the example of the Standard Webhooks specification among others. */
#include "notice/internal.h"

#include <string.h>

#include "common/json.h"
#include "harness/test.h"

static struct notice example(void)
{
    return (struct notice){ .run_id = "run_01",
                            .session_id = "ses_01",
                            .number = 7,
                            .status = "failed",
                            .title = "Fix\nit",
                            .repository = "",
                            .verdict = "incomplete",
                            .code = "timeout",
                            .text = "no\033[2J time",
                            .url = "",
                            .time_ms = 1 };
}

TEST(a_signature_is_the_one_of_the_specification)
{
    const char *key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    AUTO_BUF struct buf body = BUF_INIT(1024);
    AUTO_BUF struct buf out = BUF_INIT(1024);

    buf_append_str(&body, "{\"test\": 2432232314}");
    CHECK_EQ(notice_sign(key, strlen(key), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, &body, &out),
             0);
    CHECK_STR(buf_text(&out), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(a_key_that_says_base64_and_is_not_is_refused)
{
    AUTO_BUF struct buf body = BUF_INIT(16);
    AUTO_BUF struct buf out = BUF_INIT(1024);

    CHECK_EQ(notice_sign("whsec_!", 7, "a", 1, &body, &out), -1);
    CHECK_EQ(out.len, 0u);
}

TEST(json_holds_what_there_is)
{
    struct notice notice = example();
    AUTO_BUF struct buf out = BUF_INIT(NOTICE_BODY_MAX);
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;

    notice_json(&notice, &out);
    CHECK_EQ(json_parse(&doc, out.data, out.len, NOTICE_BODY_MAX, &err), 0);
    CHECK_STR(json_string(json_get(json_root(doc), "event")), "run.failed");
    CHECK_STR(json_string(json_get(json_root(doc), "id")), "run_01-7");
    CHECK(json_get(json_root(doc), "repository") == NULL);
}

TEST(the_longest_text_fits)
{
    struct notice notice = example();
    AUTO_BUF struct buf out = BUF_INIT(NOTICE_BODY_MAX);
    char text[8000];

    /* Each byte is six when it is written. */
    memset(text, '\001', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    notice.text = text;
    notice.title = text;
    notice_json(&notice, &out);
    CHECK(!out.failed);
    buf_clear(&out);
    notice_text(&notice, &out);
    CHECK(!out.failed);
}

TEST(people_see_one_plain_line_and_no_escapes)
{
    struct notice notice = example();
    AUTO_BUF struct buf title = BUF_INIT(1024);
    AUTO_BUF struct buf text = BUF_INIT(8192);
    AUTO_BUF struct buf header = BUF_INIT(1024);

    notice_title(&notice, &title);
    CHECK_STR(buf_text(&title), "Failed: Fix");
    notice_text(&notice, &text);
    CHECK(memchr(text.data, '\033', text.len) == NULL);
    notice_header("a\r\nb\xc3\xa9\x7f", &header);
    CHECK_STR(buf_text(&header), "a??b??");
}
