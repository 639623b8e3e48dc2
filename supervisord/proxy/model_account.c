#include "proxy/model_account.h"

#include <curl/curl.h>

#include "common/mem.h"
#include "common/str.h"

#define RETRY_AFTER_MAX_MS (UINT64_C(366) * 24 * 3600 * 1000)

/* What a request that names no greatest length is taken to answer at most. */
#define OUTPUT_DEFAULT 32768u

const char *model_account_ask(struct run *run)
{
    return budget_ask(&run->budget, &run->proxy->options.model_limits);
}

void model_account_pass(struct model_account *account, const struct run *run)
{
    account->asked = true;
    account->number = run->budget.requests;
}

static uint64_t sum_of(const struct price_tokens *tokens)
{
    return tokens->input + tokens->output + tokens->cache_read + tokens->cache_write;
}

/* A byte is a token at most. All of them may be new, and some of these written to a cache. */
static uint64_t most_cost(const struct price *price, const struct price_tokens *most)
{
    struct price_tokens written = { .output = most->output, .cache_write = most->input };
    uint64_t plain_cost = price_cost(price, most);
    uint64_t written_cost = price_cost(price, &written);

    return plain_cost > written_cost ? plain_cost : written_cost;
}

enum budget_verdict model_account_set_aside(struct model_account *account, struct run *run,
                                            const struct model_wish *wish, const char **reason)
{
    const struct budget_limits *limits = &run->proxy->options.model_limits;
    const struct model_request *request = wish->request;
    enum budget_verdict verdict;
    struct budget_amount most;

    account->price = price_find(&run->proxy->prices, wish->service, request->model);
    if (account->price == NULL && limits->microdollars > 0) {
        *reason = "model_price_unknown";
        return BUDGET_OVER;
    }
    account->most = (struct price_tokens){
        .input = wish->body_bytes,
        .output = request->max_output > 0 ? request->max_output : OUTPUT_DEFAULT,
    };
    most = (struct budget_amount){
        .tokens = sum_of(&account->most),
        .microdollars = account->price != NULL ? most_cost(account->price, &account->most) : 0,
    };
    verdict = budget_set_aside(&run->budget, limits, &most);
    if (verdict == BUDGET_GO)
        account->aside = most;
    *reason = run->budget.exhausted;
    return verdict;
}

/* Nothing of the request can have reached the model. */
static bool is_unsent(const struct model_account *account, const struct proxy_decision *decision)
{
    static const char *const reasons[] = { "upstream_resolve",    "upstream_connect",
                                           "upstream_tls",        "upstream_proxy",
                                           "address_not_allowed", "secret_missing",
                                           "secret_unusable" };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (str_equal(reasons[i], decision->reason))
            return true;
    return !account->asked;
}

/* A provider that refuses or fails to begin an answer has used nothing. */
static bool is_refused(const struct model_account *account)
{
    return account->watched && !account->answering;
}

/* What an answer without an end, or without a word about its tokens, has used at most. */
static void estimate(const struct model_account *account, const struct proxy_decision *decision,
                     struct price_tokens *used)
{
    /* Who goes away before a byte of an answer may have had all of it made. */
    uint64_t output =
        decision->response_bytes > 0 ? decision->response_bytes : account->most.output;

    if (account->most.output > 0 && output > account->most.output)
        output = account->most.output;
    if (used->input + used->cache_read + used->cache_write == 0)
        used->input = decision->request_bytes;
    if (used->output < output)
        used->output = output;
}

void model_account_settle(struct model_account *account, struct run *run,
                          struct proxy_decision *decision)
{
    struct price_tokens used = { 0 };
    struct budget_amount amount;

    if (!is_unsent(account, decision) && !is_refused(account)) {
        model_usage_end(&account->usage);
        model_usage_tokens(&account->usage, &used);
        decision->estimated = sum_of(&account->most) > 0 &&
                              (decision->verdict != AUDIT_ALLOW || !account->usage.seen);
    }
    if (decision->estimated)
        estimate(account, decision, &used);
    amount.tokens = sum_of(&used);
    amount.microdollars = account->price != NULL ? price_cost(account->price, &used) : 0;
    decision->input_tokens = amount.tokens - used.output;
    decision->output_tokens = used.output;
    decision->microdollars = amount.microdollars;
    budget_settle(&run->budget, &account->aside, &amount);
    account->aside = (struct budget_amount){ 0 };
}

/* How long the provider wants to be left alone from now on; 0: it says nothing of it. */
static uint64_t read_retry_after(uint64_t now_ms, const struct http_response_head *head)
{
    const char *ms = http_headers_get(&head->headers, "retry-after-ms");
    const char *after = http_headers_get(&head->headers, "retry-after");
    uint64_t number;
    time_t date;

    if (ms != NULL && str_parse_u64(ms, RETRY_AFTER_MAX_MS, &number))
        return number;
    if (after == NULL)
        return 0;
    if (str_parse_u64(after, RETRY_AFTER_MAX_MS / 1000, &number))
        return number * 1000;
    date = curl_getdate(after, NULL);
    number = date > 0 ? (uint64_t)date * 1000 : 0;
    number = number > now_ms ? number - now_ms : 0;
    return number < RETRY_AFTER_MAX_MS ? number : RETRY_AFTER_MAX_MS;
}

void model_account_head(struct model_account *account, struct run *run,
                        const struct http_response_head *head, bool event_stream)
{
    account->watched = true;
    model_watch_init(&account->watch, head->status, event_stream);
    if (head->status >= 400)
        account->retry_after_ms = read_retry_after(clock_wall_ms(run->proxy->clock), head);
    account->answering = head->status < 300;
    if (account->answering)
        budget_answer_begins(&run->budget);
}

void model_account_body(struct model_account *account, const char *bytes, size_t len)
{
    if (account->watched)
        model_watch_feed(&account->watch, bytes, len);
    if (account->answering)
        model_usage_feed(&account->usage, bytes, len);
}

bool model_account_whole(struct model_account *account)
{
    if (!account->watched)
        return true;
    model_watch_end(&account->watch);
    return !account->watch.stream || account->watch.end.seen;
}

/* Whether the run's last word of its model was cut off. An answer to what was asked later makes up
 * for it: the agent has gone on. */
static bool ends_at_length(const struct model_account *account, struct run *run)
{
    if (account->watched && account->watch.stream && account->watch.end.at_length)
        run->cut_at = run->budget.requests;
    else if (account->number > run->cut_at)
        run->cut_at = 0;
    return run->cut_at != 0;
}

/* False: it tells nothing of the model. */
static bool count(const struct model_account *account, struct run *run,
                  struct proxy_model_news *news)
{
    if (news->good) {
        budget_succeeded(&run->budget);
        news->at_length = ends_at_length(account, run);
        return true;
    }
    if (!budget_failed(&run->budget, &run->proxy->options.model_limits,
                       clock_mono_ms(run->proxy->clock), account->retry_after_ms))
        return false;
    str_copy(run->model_words, sizeof(run->model_words), news->words);
    if (account->retry_after_ms > 0)
        news->retry_at_ms = clock_wall_ms(run->proxy->clock) + account->retry_after_ms;
    return true;
}

static void tell(struct model_account *account, struct run *run, struct inject_veil *veil,
                 struct proxy_model_news *news)
{
    const struct proxy_options *options = &run->proxy->options;

    if (account->watched) {
        inject_veil_text(veil, account->watch.words);
        news->words = account->watch.words;
        news->type = account->watch.type;
    }
    if (!count(account, run, news))
        return;
    news->failures = run->budget.failures;
    news->exhausted = run->budget.exhausted;
    if (options->on_model != NULL)
        options->on_model(options->data, news);
}

/* Ends that the client or the run wanted. */
static bool is_own_will(const char *reason)
{
    return str_equal(reason, "client_abort") || str_equal(reason, "revoked");
}

void model_account_close(struct model_account *account, struct run *run, struct inject_veil *veil,
                         enum audit_verdict verdict, const char *reason, int status)
{
    bool error = account->watched && account->watch.error;
    struct proxy_model_news news = { .run_id = run->id,
                                     .status = (uint32_t)status,
                                     .reason = reason,
                                     .good = verdict == AUDIT_ALLOW && !error,
                                     .words = "",
                                     .type = "" };

    if (verdict == AUDIT_ALLOW && error)
        news.reason = status >= 400 ? "status" : "error_event";
    if (account->answering)
        budget_answer_ends(&run->budget);
    if (account->asked && !is_own_will(reason))
        tell(account, run, veil, &news);
    if (account->watched)
        model_watch_finish(&account->watch);
    *account = (struct model_account){ 0 };
}

void model_account_unwatch(struct model_account *account)
{
    if (account->watched)
        model_watch_finish(&account->watch);
    account->watched = false;
    account->retry_after_ms = 0;
}

void model_account_again(struct model_account *account, struct run *run, struct inject_veil *veil,
                         int status)
{
    struct proxy_model_news news = {
        .run_id = run->id, .status = (uint32_t)status, .reason = "status", .words = "", .type = ""
    };

    model_watch_end(&account->watch);
    tell(account, run, veil, &news);
    model_account_unwatch(account);
    account->asked = false;
}
