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
