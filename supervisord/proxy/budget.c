#include "proxy/budget.h"

#include <stddef.h>

const char *budget_ask(struct budget *budget, const struct budget_limits *limits)
{
    if (budget->exhausted != NULL)
        return budget->exhausted;
    if (limits->requests > 0 && budget->requests >= limits->requests)
        return budget->exhausted = "model_requests";
    budget->requests++;
    return NULL;
}

void budget_answer_begins(struct budget *budget)
{
    budget->answers++;
}

void budget_answer_ends(struct budget *budget)
{
    budget->answers -= budget->answers > 0 ? 1 : 0;
}

void budget_succeeded(struct budget *budget)
{
    budget->failures = 0;
}

bool budget_failed(struct budget *budget, const struct budget_limits *limits, uint64_t now_ms,
                   uint64_t retry_after_ms)
{
    if (budget->answers > 0)
        return false;
    if (budget->failures++ == 0)
        budget->since_ms = now_ms;
    if (budget->exhausted != NULL)
        return true;
    if (limits->wait_ms > 0 && now_ms - budget->since_ms + retry_after_ms > limits->wait_ms)
        budget->exhausted = "model_wait";
    else if (limits->failures > 0 && budget->failures >= limits->failures)
        budget->exhausted = "model_failures";
    return true;
}

bool budget_measures(const struct budget_limits *limits)
{
    return limits->tokens > 0 || limits->microdollars > 0;
}

static bool fits(uint64_t limit, uint64_t used, uint64_t more)
{
    return limit == 0 || (used <= limit && more <= limit - used);
}

enum budget_verdict budget_set_aside(struct budget *budget, const struct budget_limits *limits,
                                     const struct budget_amount *most)
{
    const struct budget_amount *used = &budget->used;
    const struct budget_amount *aside = &budget->aside;

    if (budget->exhausted != NULL)
        return BUDGET_OVER;
    if (!fits(limits->tokens, used->tokens, most->tokens))
        budget->exhausted = "model_tokens";
    else if (!fits(limits->microdollars, used->microdollars, most->microdollars))
        budget->exhausted = "model_cost";
    if (budget->exhausted != NULL)
        return BUDGET_OVER;
    if (!fits(limits->tokens, used->tokens + aside->tokens, most->tokens) ||
        !fits(limits->microdollars, used->microdollars + aside->microdollars, most->microdollars))
        return BUDGET_WAIT;
    budget->aside.tokens += most->tokens;
    budget->aside.microdollars += most->microdollars;
    return BUDGET_GO;
}

void budget_settle(struct budget *budget, const struct budget_amount *aside,
                   const struct budget_amount *used)
{
    budget->aside.tokens -= aside->tokens;
    budget->aside.microdollars -= aside->microdollars;
    budget->used.tokens += used->tokens;
    budget->used.microdollars += used->microdollars;
}
