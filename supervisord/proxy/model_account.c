#include "proxy/model_account.h"

#include <curl/curl.h>

#include "common/mem.h"
#include "common/str.h"

#define RETRY_AFTER_MAX_MS (UINT64_C(366) * 24 * 3600 * 1000)

const char *model_account_ask(struct model_account *account, struct run *run)
{
    const char *reason = budget_ask(&run->budget, &run->proxy->options.model_limits);

    account->asked = reason == NULL;
    account->number = run->budget.requests;
    return reason;
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
