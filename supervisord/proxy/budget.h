/* budget.h: how much of a model one run may use, and how long a model that fails is asked again.
 * Agents retry by rules of their own, some for ever, so the limits lie here. Tokens and money are
 * set aside for a request before it goes on, by the most that it may use, and settled when it is
 * over: so requests at the same time can't use together what each of them alone might. Pure. */
#ifndef PROXY_BUDGET_H
#define PROXY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct budget_limits {
    uint32_t failures; /* model requests that fail in a row; 0: no limit */
    uint64_t wait_ms;  /* from the first of them to the end of the last one's wait; 0: no limit */
    uint64_t requests; /* model requests in all; 0: no limit */
    uint64_t tokens;   /* in and out, also those from a cache; 0: no limit */
    uint64_t microdollars; /* 0: no limit */
};

struct budget_amount {
    uint64_t tokens;
    uint64_t microdollars;
};

struct budget {
    uint64_t requests;
    uint32_t failures; /* in a row */
    uint64_t since_ms; /* when the first of them failed */
    unsigned answers;  /* that are coming in at this moment */
    struct budget_amount used;
    struct budget_amount aside; /* for requests that are under way */
    /* NULL, or for good why no further request is passed on: "model_failures", "model_wait",
     * "model_requests", "model_tokens", "model_cost". */
    const char *exhausted;
};

/* A request wants to go on. NULL, and it is counted; or why it must not. */
const char *budget_ask(struct budget *budget, const struct budget_limits *limits);
void budget_answer_begins(struct budget *budget);
void budget_answer_ends(struct budget *budget);
void budget_succeeded(struct budget *budget);
/* RETRY_AFTER_MS: what the provider wants to be waited for; 0: it says nothing. While another
 * answer comes in the model is not failing, so nothing is counted then: false. */
bool budget_failed(struct budget *budget, const struct budget_limits *limits, uint64_t now_ms,
                   uint64_t retry_after_ms);

/* Whether tokens or money are limited. */
bool budget_measures(const struct budget_limits *limits);

enum budget_verdict {
    BUDGET_GO,   /* MOST is set aside */
    BUDGET_WAIT, /* it may fit when a request under way turns out to use less */
    BUDGET_OVER, /* it doesn't fit: exhausted says why */
};
/* A request that uses MOST at most. */
enum budget_verdict budget_set_aside(struct budget *budget, const struct budget_limits *limits,
                                     const struct budget_amount *most);
/* It is over, and has used USED. ASIDE is what was set aside for it, all 0 nothing. */
void budget_settle(struct budget *budget, const struct budget_amount *aside,
                   const struct budget_amount *used);

#endif
