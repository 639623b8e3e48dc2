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

static void ask_for(struct rig *rig, const char *request, const char *expected)
{
    AUTO_FREE
    char *answer = rig_ask(rig, request);

    CHECK_HAS(answer, expected);
}

static void ask(struct rig *rig, const char *expected)
{
    ask_for(rig, ASK, expected);
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

/* F20: in an event stream a line of its own would be an event. */
static void busy_in_lines(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 529 x\r\nContent-Length: 59\r\n\r\n"
                      "{\"error\":{\"message\":\"Busy\\r\\n\\ndata: {\\\"evil\\\":1}\\n\\n\"}}   ");
}

TEST(words_of_an_upstream_make_no_line_of_their_own)
{
    struct rig *rig = begin((struct budget_limits){ .failures = 1 });
    AUTO_FREE
    char *answer = NULL;

    rig->script = busy_in_lines;
    ask(rig, "HTTP/1.1 529 ");
    answer = rig_ask(rig, ASK);
    CHECK_HAS(answer, "HTTP/1.1 403 ");
    CHECK_HAS(answer, "Busy data: {\\\"evil\\\":1}");
    CHECK(strpbrk(strstr(answer, "\r\n\r\n") + 4, "\r\n") == NULL);
    rig_stop(rig);
}

/* Tokens and money ------------------------------------------------------------------------------
 */

static const struct price prices[] = { { "brain/small", 1000000, 2000000, 0, 0 } };

static struct rig *measure(struct budget_limits limits)
{
    const struct proxy_options options = {
        .model_limits = limits, .on_model = on_model, .prices = prices, .price_count = 1
    };

    news_count = 0;
    return rig_start(&options);
}

/* A body of exactly a hundred bytes. */
static char *think_request(const struct rig *rig, const char *model, unsigned max)
{
    AUTO_FREE
    char *start = mem_printf("{\"model\":\"%s\",\"max_tokens\":%u,\"x\":\"", model, max);

    return mem_printf(
        "POST /proxy/brain/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: "
        "%s\r\nContent-Length: 100\r\n\r\n%s%*s\"}",
        rig->token, start, 98 - (int)strlen(start), "");
}

static void think(struct rig *rig, const char *model, unsigned max, const char *expected)
{
    AUTO_FREE
    char *request = think_request(rig, model, max);
    AUTO_FREE
    char *answer = rig_ask(rig, request);

    CHECK_HAS(answer, expected);
}

static void used_some(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 x\r\nContent-Length: 48\r\n\r\n"
                      "{\"usage\":{\"input_tokens\":30,\"output_tokens\":70}}");
}

static void used_unsaid(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 x\r\nContent-Length: 7\r\n\r\n{\"a\":1}");
}

TEST(tokens_are_settled_by_what_the_provider_says)
{
    struct rig *rig = measure((struct budget_limits){ .tokens = 300 });

    rig->script = used_some;
    think(rig, "any", 100, "HTTP/1.1 200 "); /* 100 bytes and 100 tokens fit into 300 */
    CHECK_EQ(rig_last(rig)->input_tokens, 30u);
    CHECK_EQ(rig_last(rig)->output_tokens, 70u);
    CHECK_STR(rig_last(rig)->detail, "");
    think(rig, "any", 100, "HTTP/1.1 200 "); /* and into the 200 that are left */
    think(rig, "any", 1, "HTTP/1.1 403 ");   /* but not into 100 */
    CHECK_STR(rig_last(rig)->reason, "model_tokens");
    CHECK_EQ(rig_last(rig)->input_tokens, 0u);
    think(rig, "any", 1, "\"code\":\"model_tokens\"");
    CHECK_EQ(rig->requests, 2);
    CHECK_EQ(news_count, 2);
    rig_stop(rig);
}

TEST(what_a_provider_does_not_say_is_estimated)
{
    struct rig *rig = measure((struct budget_limits){ .tokens = 400 });

    rig->script = used_unsaid;
    think(rig, "any", 100, "HTTP/1.1 200 ");
    CHECK_EQ(rig_last(rig)->input_tokens, 100u); /* its bytes */
    CHECK_EQ(rig_last(rig)->output_tokens, 7u);  /* the answer's */
    CHECK_STR(rig_last(rig)->detail, "tokens estimated");
    rig->script = overloaded;
    think(rig, "any", 100, "HTTP/1.1 529 ");
    CHECK_EQ(rig_last(rig)->input_tokens, 0u); /* refused: nothing was used */
    rig->script = used_some;
    think(rig, "any", 100, "HTTP/1.1 200 ");
    rig_stop(rig);
}

/* Nobody needs to know what isn't limited. */
TEST(without_a_limit_tokens_are_read_and_nothing_is_estimated)
{
    struct rig *rig = measure((struct budget_limits){ 0 });

    rig->script = used_some;
    think(rig, "any", 100, "HTTP/1.1 200 ");
    CHECK_EQ(rig_last(rig)->output_tokens, 70u);
    rig->script = used_unsaid;
    think(rig, "any", 100, "HTTP/1.1 200 ");
    CHECK_EQ(rig_last(rig)->input_tokens, 0u);
    CHECK_STR(rig_last(rig)->detail, "");
    rig_stop(rig);
}

TEST(money_needs_a_price)
{
    struct rig *rig = measure((struct budget_limits){ .microdollars = 500 });

    rig->script = used_some;
    CHECK(proxy_model_priced(rig->proxy, "brain/small"));
    CHECK(!proxy_model_priced(rig->proxy, "brain/large"));
    think(rig, "large", 100, "\"code\":\"model_price_unknown\"");
    CHECK_EQ(rig_last(rig)->status, 403u);
    CHECK_EQ(rig->requests, 0);
    think(rig, "small", 200, "HTTP/1.1 200 "); /* at most 100 + 2 * 200 */
    CHECK_EQ(rig_last(rig)->microdollars, 30u + 140);
    think(rig, "small", 116, "HTTP/1.1 403 "); /* 332 are not left */
    CHECK_STR(rig_last(rig)->reason, "model_cost");
    CHECK_EQ(rig->requests, 1);
    rig_stop(rig);
}

TEST(what_cannot_be_measured_is_refused)
{
    static const struct {
        const char *request;
        const char *code;
    } rows[] = {
        { "POST /proxy/brain/v1/messages/batches HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: "
          "%T\r\nContent-Length: 2\r\n\r\n{}",
          "model_unmeasured" },
        { "POST /proxy/brain/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: "
          "%T\r\nContent-Length: 2\r\n\r\n[]",
          "model_request_unclear" },
        { "POST /proxy/brain/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: "
          "%T\r\n\r\n",
          "model_request_unclear" },
        { "POST /proxy/brain/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: "
          "%T\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
          "model_request_unclear" },
    };
    struct rig *rig = measure((struct budget_limits){ .tokens = 100000 });

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ask_for(rig, rows[i].request, rows[i].code);
        CHECK_STR(rig_last(rig)->reason, rows[i].code);
        CHECK_EQ(rig_last(rig)->verdict, AUDIT_DENY);
    }
    CHECK_EQ(rig->requests, 0);
    CHECK_EQ(news_count, 0);
    ask_for(rig,
            "POST /proxy/brain/v1/messages/count_tokens HTTP/1.1\r\nHost: 127.0.0.1:4999\r\n"
            "x-api-key: %T\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 ");
    ask_for(rig,
            "GET /proxy/brain/v1/models HTTP/1.1\r\nHost: 127.0.0.1:4999\r\nx-api-key: %T\r\n\r\n",
            "HTTP/1.1 200 ");
    rig_stop(rig);
}

/* More than may be queued at once, to a service that isn't connected yet. */
TEST(large_requests_are_held_and_arrive_whole)
{
    struct rig *rig = measure((struct budget_limits){ .tokens = 10000000 });
    const char start[] = "{\"model\":\"any\",\"max_tokens\":5,\"x\":\"";
    size_t size = 4u << 20;
    char *body = mem_new_zero(size + 1, 1);

    memset(body, 'x', size);
    memcpy(body, start, strlen(start));
    memcpy(body + size - 2, "\"}", 2);
    AUTO_FREE
    char *request = mem_printf("POST /proxy/brain/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\n"
                               "x-api-key: %s\r\nContent-Length: %zu\r\n\r\n%s",
                               rig->token, size, body);
    rig->script = used_some;
    ask_for(rig, request, "HTTP/1.1 200 ");
    CHECK_EQ(rig->requests, 1);
    CHECK(memmem(rig->seen.data, rig->seen.len, body, size) != NULL);
    CHECK_EQ(rig_last(rig)->request_bytes, size);
    free(body);
    rig_stop(rig);
}

static struct rig_upstream *held[20];
static unsigned held_count;

static void hold(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    held[held_count++] = upstream;
}

/* Of twenty at the same time one goes, and each other one when its turn has come. */
TEST(requests_at_the_same_time_wait_for_what_is_set_aside)
{
    struct rig *rig = measure((struct budget_limits){ .tokens = 550 });
    struct rig_client *clients[6];
    unsigned answered = 0;

    held_count = 0;
    rig->script = hold;
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        AUTO_FREE
        char *request = think_request(rig, "any", 150);

        clients[i] = rig_connect(rig);
        rig_send(clients[i], request);
    }
    RIG_UNTIL(rig, held_count == 2); /* 250 each */
    for (int i = 0; i < 50; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    CHECK_EQ(held_count, 2);
    /* One that waits goes away; its turn passes. */
    rig_hang_up(clients[2]);
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK_STR(rig_last(rig)->reason, "client_abort");
    CHECK_EQ(rig_last(rig)->input_tokens, 0u);
    for (unsigned i = 0; i < held_count; i++) {
        used_some(held[i], NULL); /* a hundred */
        answered++;
        RIG_UNTIL(rig, rig->decision_count >= 1 + answered);
        for (int k = 0; k < 50; k++)
            uv_run(&rig->loop, UV_RUN_NOWAIT);
    }
    /* 100 each: after three of them 250 are left, after four only 150. */
    CHECK_EQ(rig->requests, 4);
    RIG_UNTIL(rig, rig->decision_count == 6);
    CHECK_STR(rig_last(rig)->reason, "model_tokens");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        if (i != 2)
            rig_hang_up(clients[i]);
    rig_stop(rig);
}

/* A run that ends takes those with it that wait. */
TEST(what_waits_is_cut_with_its_run)
{
    struct rig *rig = measure((struct budget_limits){ .tokens = 300 });
    struct rig_client *clients[2];

    held_count = 0;
    rig->script = hold;
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        AUTO_FREE
        char *request = think_request(rig, "any", 150);

        clients[i] = rig_connect(rig);
        rig_send(clients[i], request);
        RIG_UNTIL(rig, held_count == 1);
    }
    for (int i = 0; i < 50; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    proxy_revoke(rig->proxy, "run_1");
    RIG_UNTIL(rig, rig->decision_count == 2);
    RIG_UNTIL(rig, clients[0]->ended && clients[1]->ended);
    CHECK_EQ(rig->requests, 1);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        rig_hang_up(clients[i]);
    rig_stop(rig);
}

TEST(an_answer_that_breaks_off_counts_by_what_came)
{
    struct rig *rig = measure((struct budget_limits){ .tokens = 1000 });
    struct rig_client *client = rig_connect(rig);
    AUTO_FREE
    char *request = think_request(rig, "any", 200);

    held_count = 0;
    rig->script = hold;
    rig_send(client, request);
    RIG_UNTIL(rig, held_count == 1);
    rig_say(held[0], "HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\n\r\n"
                     "data: {\"usage\":{\"input_tokens\":33,\"output_tokens\":1}}\n\n");
    RIG_UNTIL(rig, client->in.len > 100);
    rig_hang_up(client);
    RIG_UNTIL(rig, rig->decision_count == 1);
    CHECK_STR(rig_last(rig)->reason, "client_abort");
    CHECK_EQ(rig_last(rig)->input_tokens, 33u);
    CHECK_EQ(rig_last(rig)->output_tokens, 55u); /* its bytes */
    CHECK_STR(rig_last(rig)->detail, "tokens estimated");
    rig_stop(rig);
}

/* Asking again ----------------------------------------------------------------------------------
 */

/* The run anew, for clients that don't ask a busy model again by themselves. */
static struct rig *patient(struct budget_limits limits, uint32_t retries)
{
    struct rig *rig = measure(limits);
    const struct proxy_grant grant = { .run_id = "run_1", .model_retries = retries };
    struct error err = ERROR_INIT;
    int fd = listener_tcp_socket("127.0.0.1", 0, &rig->proxy_port, &err);

    proxy_revoke(rig->proxy, "run_1");
    CHECK_EQ(proxy_grant_run(rig->proxy, &grant, rig->token, rig->hash, &err), 0);
    CHECK_EQ(proxy_attach(rig->proxy, "run_1", fd, &err), 0);
    return rig;
}

static unsigned busy_answers;

#define BUSY(status, wait)                                                                         \
    "HTTP/1.1 " status " x\r\nRetry-After-Ms: " wait "\r\nContent-Length: 61\r\n\r\n"              \
    "{\"error\":{\"message\":\"Busy " RIG_SECRET "\"}}"

static void busy_twice(struct rig_upstream *upstream, const char *request)
{
    CHECK_HAS(request, "\"max_tokens\":100");
    CHECK_HAS(request, "x-api-key: " RIG_SECRET);
    if (busy_answers++ < 2)
        rig_say(upstream, busy_answers == 1 ? BUSY("429", "10") : BUSY("529", "10"));
    else
        used_some(upstream, request);
}

static void always_busy(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, BUSY("429", "5"));
}

static void busy_for_long(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, BUSY("429", "31000"));
}

static void busy_and_hanging(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    if (busy_answers++ == 0)
        rig_say(upstream, "HTTP/1.1 429 x\r\nRetry-After-Ms: 20\r\nContent-Length: 500\r\n\r\n{");
    else
        used_some(upstream, request);
}

/* For longer than the test takes: whole, and in the midst of its body. */
static void busy_later(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, BUSY("429", "20000"));
}

static void busy_and_waiting(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 429 x\r\nRetry-After-Ms: 20000\r\nContent-Length: 500\r\n\r\n{");
}

TEST(a_busy_model_is_asked_again_for_who_waits)
{
    struct rig *rig = patient((struct budget_limits){ .tokens = 300 }, 3);

    busy_answers = 0;
    rig->script = busy_twice;
    think(rig, "any", 100, "HTTP/1.1 200 ");
    CHECK_EQ(rig->requests, 3);
    CHECK_EQ(rig->decision_count, 3);
    CHECK_STR(rig->decisions[0].reason, "model_retry");
    CHECK_EQ(rig->decisions[0].status, 429u);
    CHECK_EQ(rig->decisions[1].status, 529u);
    CHECK_STR(rig->decisions[2].reason, "ok");
    CHECK_EQ(rig->decisions[2].output_tokens, 70u);
    CHECK_EQ(news_count, 3);
    CHECK_HAS(news[0].words, "Busy ");
    CHECK(strstr(news[0].words, RIG_SECRET) == NULL);
    CHECK_EQ(news[1].failures, 2u);
    CHECK(news[2].good);
    /* What was set aside was so once, and is given back. */
    think(rig, "any", 100, "HTTP/1.1 200 ");
    rig_stop(rig);
}

TEST(a_model_that_stays_busy_has_the_last_word)
{
    struct rig *rig = patient((struct budget_limits){ 0 }, 2);

    rig->script = always_busy;
    think(rig, "any", 100, "HTTP/1.1 429 ");
    CHECK_EQ(rig->requests, 3);
    CHECK_STR(rig_last(rig)->reason, "ok");
    CHECK_EQ(news_count, 3);
    CHECK_EQ(news[2].failures, 3u);
    rig_stop(rig);
}

TEST(who_may_not_be_asked_again_is_not)
{
    struct rig *rig = patient((struct budget_limits){ 0 }, 0);

    rig->script = always_busy;
    think(rig, "any", 100, "HTTP/1.1 429 ");
    CHECK_EQ(rig->requests, 1);
    rig_stop(rig);
    /* Longer waits are the client's. */
    rig = patient((struct budget_limits){ 0 }, 3);
    rig->script = busy_for_long;
    think(rig, "any", 100, "HTTP/1.1 429 ");
    CHECK_EQ(rig->requests, 1);
    CHECK_EQ(news_count, 1);
    rig_stop(rig);
    /* The run's own limit comes first. */
    rig = patient((struct budget_limits){ .failures = 2 }, 3);
    rig->script = always_busy;
    think(rig, "any", 100, "\"code\":\"model_failures\"");
    CHECK_EQ(rig->requests, 2);
    CHECK_STR(rig_last(rig)->reason, "model_failures");
    rig_stop(rig);
}

TEST(large_requests_are_not_kept)
{
    struct rig *rig = patient((struct budget_limits){ 0 }, 3);
    size_t size = (1u << 20) + 1;
    char *body = mem_new_zero(size + 1, 1);

    memset(body, 'x', size);
    AUTO_FREE
    char *request = mem_printf("POST /proxy/brain/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:4999\r\n"
                               "x-api-key: %s\r\nContent-Length: %zu\r\n\r\n%s",
                               rig->token, size, body);
    rig->script = always_busy;
    ask_for(rig, request, "HTTP/1.1 429 ");
    CHECK_EQ(rig->requests, 1);
    free(body);
    rig_stop(rig);
}

/* An answer that is dropped is not waited for. */
TEST(a_busy_answer_without_an_end_costs_nothing)
{
    struct rig *rig = patient((struct budget_limits){ 0 }, 3);

    busy_answers = 0;
    rig->script = busy_and_hanging;
    think(rig, "any", 100, "HTTP/1.1 200 ");
    CHECK_EQ(rig->decision_count, 2);
    rig_stop(rig);
}

TEST(who_waits_for_a_busy_model_may_go_or_be_cut)
{
    for (int cut = 0; cut < 2; cut++) {
        struct rig *rig = patient((struct budget_limits){ .tokens = 300 }, 3);
        struct rig_client *client = rig_connect(rig);
        AUTO_FREE
        char *request = think_request(rig, "any", 100);

        busy_answers = 1;
        rig->script = cut == 0 ? busy_later : busy_and_waiting;
        rig_send(client, request);
        RIG_UNTIL(rig, rig->requests == 1);
        for (int i = 0; i < 50; i++)
            uv_run(&rig->loop, UV_RUN_NOWAIT);
        if (cut == 0) {
            rig_hang_up(client);
        } else {
            proxy_revoke(rig->proxy, "run_1");
            RIG_UNTIL(rig, client->ended);
            rig_hang_up(client);
        }
        RIG_UNTIL(rig, rig->decision_count >= 1 && rig_last(rig)->status == 0);
        CHECK_STR(rig_last(rig)->reason, cut == 0 ? "client_abort" : "revoked");
        CHECK_EQ(rig->requests, 1);
        rig_stop(rig);
    }
}
