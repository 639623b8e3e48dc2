/* budget.h: how much of a model one run may use, and how long a model that fails is asked again.
 * Agents retry by rules of their own, some for ever, so the limits lie here. Pure. */
#ifndef PROXY_BUDGET_H
#define PROXY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct budget_limits {
    uint32_t failures; /* model requests that fail in a row; 0: no limit */
    uint64_t wait_ms;  /* from the first of them to the end of the last one's wait; 0: no limit */
    uint64_t requests; /* model requests in all; 0: no limit */
};

struct budget {
    uint64_t requests;
    uint32_t failures; /* in a row */
    uint64_t since_ms; /* when the first of them failed */
    unsigned answers;  /* that are coming in at this moment */
    /* NULL, or for good why no further request is passed on: "model_failures", "model_wait",
     * "model_requests". */
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

#endif
