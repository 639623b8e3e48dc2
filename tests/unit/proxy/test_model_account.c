/* A run's account of its model requests, through the whole proxy over real sockets. */
#include "common/str.h"
#include "unit/proxy/rig.h"

#define ASK                                                                                        \
    "POST /proxy/anthropic/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: "            \
    "%T\r\nContent-Length: 0\r\n\r\n"
#define NEWS_MAX 16

/* The last word on each model request. */
static struct news {
    bool good;
    uint32_t status;
    char reason[32];
    char words[PROXY_MODEL_WORDS_MAX];
    uint64_t retry_at_ms;
    uint32_t failures;
    char exhausted[32];
} news[NEWS_MAX];
static unsigned news_count;

static void on_model(void *data, const struct proxy_model_news *from)
{
    struct news *to = &news[news_count++];

    (void)data;
    CHECK(news_count <= NEWS_MAX);
    *to = (struct news){ .good = from->good,
                         .status = from->status,
                         .retry_at_ms = from->retry_at_ms,
                         .failures = from->failures };
    str_copy(to->reason, sizeof(to->reason), from->reason);
    str_copy(to->words, sizeof(to->words), from->words);
    str_copy(to->exhausted, sizeof(to->exhausted), from->exhausted != NULL ? from->exhausted : "");
}

static struct rig *begin(struct budget_limits limits)
{
    const struct proxy_options options = {
        .model_limits = limits, .on_model = on_model, .model_head_ms = 200, .model_silence_ms = 200
    };

    news_count = 0;
    return rig_start(&options);
}

static void overloaded(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream,
            "HTTP/1.1 529 x\r\nContent-Type: application/json\r\nContent-Length: 87\r\n\r\n"
            "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Busy " RIG_SECRET "\"}}");
}

static void late(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 429 x\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n");
}

static void broken_stream(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream,
            "HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            "data: {\"error\":{\"message\":\"in the middle\"}}\n\n");
    rig_upstream_close(upstream);
}

static void no_end(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream,
            "HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            "data: {\"type\":\"message_start\"}\n\n");
    rig_upstream_close(upstream);
}

static void say_nothing(struct rig_upstream *upstream, const char *request)
{
    (void)upstream;
    (void)request;
}

static void ask(struct rig *rig, const char *expected)
{
    AUTO_FREE
    char *answer = rig_ask(rig, ASK);

    CHECK_HAS(answer, expected);
}

TEST(failures_in_a_row_are_told_and_end_in_a_refusal)
{
    struct rig *rig = begin((struct budget_limits){ .failures = 2 });

    rig->script = overloaded;
    ask(rig, "HTTP/1.1 529 ");
    rig->script = rig_default_script;
    ask(rig, "HTTP/1.1 200 ");
    rig->script = overloaded;
    ask(rig, "HTTP/1.1 529 ");
    ask(rig, "HTTP/1.1 529 ");
    ask(rig, "HTTP/1.1 403 ");
    CHECK_EQ(rig->requests, 4);
    CHECK_STR(rig_last(rig)->reason, "model_failures");
    CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    CHECK_EQ(news_count, 4);
    CHECK_EQ(news[0].status, 529);
    CHECK_EQ(news[0].failures, 1);
    CHECK_STR(news[0].exhausted, "");
    CHECK_EQ(news[1].good, true);
    CHECK_EQ(news[2].failures, 1);
    CHECK_STR(news[3].reason, "status");
    CHECK_STR(news[3].exhausted, "model_failures");
    /* In the provider's words, without what it reflects. */
    CHECK_HAS(news[3].words, "Busy ");
    CHECK(strstr(news[3].words, RIG_SECRET) == NULL);
    rig_stop(rig);
}

TEST(a_wait_that_is_too_long_is_told_with_its_time)
{
    struct rig *rig = begin((struct budget_limits){ .wait_ms = 60000 });
    uint64_t now = clock_wall_ms(clock_system());

    rig->script = late;
    ask(rig, "HTTP/1.1 429 ");
    CHECK_STR(news[0].exhausted, "model_wait");
    CHECK(news[0].retry_at_ms >= now + 3590000 && news[0].retry_at_ms <= now + 3700000);
    ask(rig, "HTTP/1.1 403 ");
    CHECK_EQ(rig->requests, 1);
    rig_stop(rig);
}

TEST(requests_end_with_their_number)
{
    struct rig *rig = begin((struct budget_limits){ .requests = 2 });

    ask(rig, "HTTP/1.1 200 ");
    ask(rig, "HTTP/1.1 200 ");
    ask(rig, "HTTP/1.1 403 ");
    CHECK_STR(rig_last(rig)->reason, "model_requests");
    CHECK_EQ(news_count, 2);
    rig_stop(rig);
}

TEST(every_broken_answer_is_a_failure)
{
    static const struct {
        void (*script)(struct rig_upstream *upstream, const char *request);
        const char *reason;
        const char *words;
    } rows[] = {
        { broken_stream, "error_event", "in the middle" },
        { no_end, "upstream_incomplete", "" },
        { say_nothing, "upstream_timeout", "" },
    };
    struct rig *rig = begin((struct budget_limits){ 0 });

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rig->script = rows[i].script;
        free(rig_ask(rig, ASK));
        RIG_UNTIL(rig, news_count == i + 1);
        CHECK_STR(news[i].reason, rows[i].reason);
        CHECK_STR(news[i].words, rows[i].words);
        CHECK_EQ(news[i].failures, i + 1);
    }
    rig_stop(rig);
}
