/* trouble.c: a model that fails. The proxy sees every request and what the provider answers,
 * whatever the agent makes of it; so from its account come the count that views show while the
 * agent tries again, the name and the words of a failure, and the decision that it is tried no
 * longer. */
#include "run/internal.h"

#include <inttypes.h>
#include <string.h>

#include "common/failure.h"
#include "common/json.h"
#include "common/json_write.h"
#include "common/str.h"

#define TEXT_MAX 1200

/* What no provider could say, since nothing of it came. */
static const struct {
    const char *reason;
    const char *code;
    const char *words;
} without_words[] = {
    { "upstream_connect", "model_unreachable", "the provider can't be reached" },
    { "upstream_resolve", "model_unreachable", "the provider's name has no address" },
    { "upstream_proxy", "model_unreachable",
      "the proxy on the way to the provider refused or can't be reached" },
    { "upstream_tls", "model_unreachable", "the provider's certificate is not trusted" },
    { "upstream_timeout", "model_unreachable", "the provider took too long to answer" },
    { "upstream_cut", "model_unreachable", "the provider broke the connection" },
    { "upstream_incomplete", "model_unreachable", "the provider's answer broke off" },
    { "upstream_bad_response", "model_error", "the provider's answer is malformed" },
    { "upstream_error", "model_error", "the request to the provider failed" },
    { "address_not_allowed", "model_unreachable", "the provider's address is not a public one" },
    { "secret_missing", "model_auth", "the provider's key is not in the vault" },
    { "secret_unusable", "model_auth", "the provider's key can't be used" },
};

static void describe(struct run_trouble *trouble, const struct proxy_model_news *news)
{
    const char *code = failure_of_words(news->words);
    const char *words = news->words;

    if (code == NULL)
        code = failure_of_status(news->status);
    if (code == NULL)
        code = failure_of_symptom(news->type);
    for (size_t i = 0; i < ARRAY_LEN(without_words); i++) {
        if (!str_equal(without_words[i].reason, news->reason))
            continue;
        code = without_words[i].code;
        words = without_words[i].words;
    }
    trouble->code = code != NULL ? code : "model_error";
    trouble->status = news->status >= 400 ? news->status : 0;
    if (words[0] == '\0')
        (void)snprintf(trouble->words, sizeof(trouble->words),
                       "the provider answered with status %u", (unsigned)news->status);
    else
        str_copy(trouble->words, sizeof(trouble->words), words);
}

/* {"failures","status"?,"message","nextAt"?}: what views show, and the event's data. */
static void write_view(struct run_trouble *trouble)
{
    AUTO_BUF struct buf text = BUF_INIT(4 * TEXT_MAX);
    struct json_writer writer;

    json_write_init(&writer, &text);
    json_write_object(&writer);
    json_member_u64(&writer, "failures", trouble->failures);
    json_member_u64_opt(&writer, "status", trouble->status);
    json_member_string(&writer, "message", trouble->words);
    json_member_u64_opt(&writer, "nextAt", trouble->next_ms);
    json_write_object_end(&writer);
    free(trouble->view);
    trouble->view = mem_strdup(text.failed ? "{}" : buf_text(&text));
}

static void tell(struct run *run)
{
    struct run_trouble *trouble = &run->trouble;
    char status[16] = "";

    if (trouble->status > 0)
        (void)snprintf(status, sizeof(status), "%u ", (unsigned)trouble->status);
    write_view(trouble);
    free(trouble->text);
    trouble->text = mem_printf("retrying: the model failed, %u in a row: %s%s",
                               (unsigned)trouble->failures, status, trouble->words);
    events_note(run, RUN_NOTE_RETRY, trouble->text, trouble->view);
}

static void over(struct run *run)
{
    struct run_trouble *trouble = &run->trouble;

    trouble->failures = 0;
    trouble->next_ms = 0;
    trouble->retry_at_ms = 0;
    trouble->by_agent = false;
    trouble_finish(run);
    events_wake(run->runs, &run->record);
}

void runs_proxy_model(struct runs *runs, const struct proxy_model_news *news)
{
    struct run *run = registry_find(runs, news->run_id);
    struct run_trouble *trouble;

    if (run == NULL)
        return;
    trouble = &run->trouble;
    if (news->good) {
        run->at_length = news->at_length;
        if (trouble->failures > 0 && !trouble->by_agent)
            over(run);
        return;
    }
    run->record.usage.failed_requests++;
    trouble->failures = news->failures;
    trouble->by_agent = false;
    trouble->retry_at_ms = trouble->next_ms = news->retry_at_ms;
    describe(trouble, news);
    tell(run);
    if (news->exhausted == NULL || trouble->exhausted != NULL)
        return;
    trouble->exhausted = news->exhausted;
    events_tick_soon(runs, 0); /* it is ended from there, not from inside the proxy's call */
}

/* What a run has used up, for good, by the proxy's word for it. */
static void tell_requests(const struct run *run, struct buf *out)
{
    buf_printf(out,
               "the run has made %" PRIu64 " model requests, model.requestsPerRun allows no more",
               run->runs->options.model_requests);
}

static void tell_tokens(const struct run *run, struct buf *out)
{
    buf_printf(out,
               "the run has used %" PRIu64
               " tokens, and its next request might have used more than "
               "model.tokensPerRun (%" PRIu64 ") leaves",
               run->record.usage.counted_tokens, run->runs->options.model_tokens);
}

static void tell_cost(const struct run *run, struct buf *out)
{
    buf_printf(out,
               "the run has cost $%.4f, and its next request might have cost more than "
               "model.centsPerRun ($%.2f) leaves",
               (double)run->record.usage.counted_microdollars / 1e6,
               (double)run->runs->options.model_microdollars / 1e6);
}

static const struct used_up {
    const char *reason;
    void (*tell)(const struct run *run, struct buf *out);
} used_up[] = {
    { "model_requests", tell_requests },
    { "model_tokens", tell_tokens },
    { "model_cost", tell_cost },
};

static const struct used_up *find_used_up(const char *reason)
{
    for (size_t i = 0; i < ARRAY_LEN(used_up); i++) {
        if (str_equal(used_up[i].reason, reason))
            return &used_up[i];
    }
    return NULL;
}

uint32_t run_model_retries(const struct run *run)
{
    return run->driver->asks_once ? run->runs->options.model_retries : 0;
}

void runs_proxy_refused_model(struct run *run, const char *reason)
{
    const struct used_up *found = find_used_up(reason);

    if (found == NULL || run->trouble.exhausted != NULL)
        return;
    run->trouble.exhausted = found->reason;
    events_tick_soon(run->runs, 0);
}

/* An agent may find fault with an answer that the proxy takes for a good one. */
void trouble_on_agent_retry(struct run *run, const struct agent_event *event)
{
    struct run_trouble *trouble = &run->trouble;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;
    const char *data = event->data != NULL ? event->data : "{}";
    uint64_t attempt = 1;
    uint64_t next = 0;
    const char *code;

    if (json_parse(&doc, data, strlen(data), strlen(data), &ignored) == 0) {
        attempt = json_u64(json_get(json_root(doc), "attempt"), 1);
        next = json_u64(json_get(json_root(doc), "next"), 0);
    }
    trouble->next_ms = next;
    if (trouble->failures > 0 && !trouble->by_agent) {
        write_view(trouble); /* told already, by the proxy's account */
        return;
    }
    code = failure_of_symptom(event->text);
    trouble->by_agent = true;
    trouble->failures = attempt > UINT32_MAX ? UINT32_MAX : (uint32_t)attempt;
    trouble->status = 0;
    trouble->code = code != NULL ? code : "model_error";
    str_copy(trouble->words, sizeof(trouble->words), event->text);
    for (char *c = trouble->words; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    }
    tell(run);
    if (run->runs->options.model_failures == 0 ||
        trouble->failures < run->runs->options.model_failures || trouble->exhausted != NULL)
        return;
    trouble->exhausted = "model_failures";
    events_tick_soon(run->runs, 0);
}

void trouble_on_progress(struct run *run)
{
    if (run->trouble.by_agent)
        over(run);
}

void trouble_finish(struct run *run)
{
    free(STEAL(run->trouble.view));
    free(STEAL(run->trouble.text));
}

/* Naming --------------------------------------------------------------------------------------- */

/* The provider's words come first: they are what a person looks for. */
static void write_message(const struct run *run, struct buf *out)
{
    const struct run_trouble *trouble = &run->trouble;
    char time[CLOCK_TEXT_SIZE];

    buf_append_str(out, trouble->words);
    if (trouble->failures > 1)
        buf_printf(out, " (%u requests in a row failed)", (unsigned)trouble->failures);
    if (trouble->retry_at_ms > 0) {
        clock_format(trouble->retry_at_ms, time);
        buf_printf(out, "; the provider wants to be asked again at %s", time);
    }
}

/* A request that the provider finds wrong, for a reason without a name, will be wrong again. */
static bool is_wrong_request(const struct run_trouble *trouble)
{
    return trouble->status >= 400 && trouble->status < 500 &&
           failure_of_status(trouble->status) == NULL;
}

bool trouble_explain(struct run *run)
{
    struct run_trouble *trouble = &run->trouble;
    AUTO_BUF struct buf message = BUF_INIT(TEXT_MAX);
    const struct failure_kind *kind;

    if (trouble->failures == 0 || run->record.outcome != RUN_OUTCOME_NONE ||
        run->record.error.code[0] != '\0')
        return false;
    kind = failure_find(trouble->code);
    if (kind == NULL)
        return false;
    write_message(run, &message);
    run_note_error(run, kind->code, buf_text(&message), kind->hint,
                   kind->retryable && !is_wrong_request(trouble));
    run->record.error.retry_at_ms = trouble->retry_at_ms;
    return true;
}

/* The end -------------------------------------------------------------------------------------- */

static void give_up(struct run *run)
{
    const struct failure_kind *kind = failure_find("budget_exhausted");
    const struct used_up *found = find_used_up(run->trouble.exhausted);
    AUTO_BUF struct buf message = BUF_INIT(TEXT_MAX);

    if (run->agent != NULL && !run->agent_closing && !run->agent_done)
        run->driver->abort(run->agent);
    if (found == NULL && trouble_explain(run)) {
        run_apply(run, RUN_EV_STEP_FAILED);
        return;
    }
    (found != NULL ? found->tell : tell_requests)(run, &message);
    run_fail(run, kind->code, buf_text(&message), kind->hint, kind->retryable);
}

void trouble_tick(struct runs *runs)
{
    LIST_EACH(&runs->live, link) {
        struct run *run = LIST_ENTRY(link, struct run, link);

        if (run->trouble.exhausted == NULL || run->trouble.told)
            continue;
        run->trouble.told = true;
        if (run->record.outcome == RUN_OUTCOME_NONE)
            give_up(run);
    }
}
