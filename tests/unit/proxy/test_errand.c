/* Requests of the supervisor's own, over real sockets. */
#include "proxy/errand.h"

#include <string.h>

#include "common/str.h"
#include "rig.h"

struct told {
    unsigned times;
    int status;
    char body[4096];
    char kept[300];
    struct error err;
};

static void on_done(void *data, const struct errand_answer *answer, const struct error *err)
{
    struct told *told = data;

    told->times++;
    if (err != NULL) {
        told->err = *err;
        return;
    }
    told->status = answer->status;
    str_copy(told->body, sizeof(told->body), answer->body);
    str_copy(told->kept, sizeof(told->kept), answer->kept);
}

static const char *const kept[] = { "x-first", "x-second" };

static const struct errand_options plain = { .run_id = "run_1",
                                             .service = "anthropic",
                                             .method = "GET",
                                             .path = "/a/b?c=d",
                                             .answer_max = 1000,
                                             .timeout_ms = 5000,
                                             .kept = kept,
                                             .kept_count = 2 };

static void go(struct rig *rig, const struct errand_options *options, struct told *told)
{
    struct errand *errand;
    struct error err = ERROR_INIT;

    *told = (struct told){ .times = 0 };
    CHECK_EQ(errand_start(&errand, rig->proxy, options, on_done, told, &err), 0);
    CHECK_STR(err.text, "");
    RIG_UNTIL(rig, told->times > 0);
}

TEST(the_credential_goes_along_in_the_services_own_form_or_in_another)
{
    struct rig *rig = rig_start(NULL);
    struct errand_options posted = plain;
    struct told told;

    go(rig, &plain, &told);
    CHECK_EQ(told.status, 200);
    CHECK_STR(told.body, "hi");
    CHECK(strstr(buf_text(&rig->seen), "GET /a/b?c=d HTTP/1.1\r\n") != NULL);
    CHECK(strstr(buf_text(&rig->seen), "x-api-key: " RIG_SECRET "\r\n") != NULL);
    posted.service = "scm";
    posted.prefix = "/api/v9";
    posted.header = "authorization";
    posted.before = "Bearer ";
    posted.method = "PATCH";
    posted.body = "{\"a\":1}";
    posted.body_len = 7;
    buf_clear(&rig->seen);
    go(rig, &posted, &told);
    CHECK_EQ(told.status, 200);
    CHECK(strstr(buf_text(&rig->seen), "/api/v9/a/b?c=d HTTP/1.1\r\n") != NULL);
    CHECK(strstr(buf_text(&rig->seen), "authorization: Bearer " RIG_SECRET "\r\n") != NULL);
    CHECK(strstr(buf_text(&rig->seen), "\r\n\r\n{\"a\":1}") != NULL);
    CHECK_EQ(rig->decision_count, 2u);
    CHECK_STR(rig->decisions[1].service, "scm");
    CHECK_STR(rig->decisions[1].reason, "ok");
    rig_stop(rig);
}

static void say_redirect(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nX-Second: two\r\n"
                      "Content-Length: 0\r\n\r\n");
}

static void say_secret(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 403 No\r\nX-First: is " RIG_SECRET "\r\nX-Second: two\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n");
    rig_say(upstream, "40\r\n");
    AUTO_FREE
    char *text = mem_printf("%-64.64s", "key " RIG_SECRET " is it");
    rig_say(upstream, text);
    rig_say(upstream, "\r\n0\r\n\r\n");
}

static void say_much(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 300; i++)
        rig_say(upstream, "a\r\n0123456789\r\n");
}

static void say_nothing(struct rig_upstream *upstream, const char *request)
{
    (void)upstream;
    (void)request;
}

static void say_nonsense(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!");
}

TEST(answers_are_bounded_hidden_and_not_followed)
{
    struct rig *rig = rig_start(NULL);
    struct errand_options hurried = plain;
    struct told told;

    rig->script = say_redirect;
    go(rig, &plain, &told);
    CHECK_EQ(told.status, 302);
    CHECK_STR(told.kept, "two");
    CHECK(strstr(buf_text(&rig->seen), "elsewhere") == NULL);
    rig->script = say_secret;
    go(rig, &plain, &told);
    CHECK_EQ(told.status, 403);
    CHECK(strstr(told.body, RIG_SECRET) == NULL && strstr(told.body, "key ***") != NULL);
    CHECK(strstr(told.kept, RIG_SECRET) == NULL && str_starts(told.kept, "is ***"));
    rig->script = say_much;
    go(rig, &plain, &told);
    CHECK_EQ(told.err.code, ERR_LIMIT);
    rig->script = say_nonsense;
    go(rig, &plain, &told);
    CHECK_EQ(told.err.code, ERR_UNAVAILABLE);
    rig->script = say_nothing;
    hurried.timeout_ms = 50;
    go(rig, &hurried, &told);
    CHECK_EQ(told.err.code, ERR_TIMEOUT);
    CHECK_EQ(rig->decision_count, 5u);
    rig_stop(rig);
}

TEST(without_service_or_credential_nothing_is_sent)
{
    struct rig *rig = rig_start(NULL);
    struct errand_options options = plain;
    struct errand *errand;
    struct error err = ERROR_INIT;
    struct told told = { .times = 0 };

    options.service = "absent";
    CHECK_EQ(errand_start(&errand, rig->proxy, &options, on_done, &told, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
    options.service = "keyless";
    CHECK_EQ(errand_start(&errand, rig->proxy, &options, on_done, &told, &err), -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    /* One that is cancelled, and one that the proxy's end finds under way. */
    rig->script = say_nothing;
    CHECK_EQ(errand_start(&errand, rig->proxy, &plain, on_done, &told, &err), 0);
    errand_cancel(errand);
    CHECK_EQ(errand_start(&errand, rig->proxy, &plain, on_done, &told, &err), 0);
    rig_stop(rig);
    CHECK_EQ(told.times, 1u);
    CHECK_EQ(told.err.code, ERR_UNAVAILABLE);
}
