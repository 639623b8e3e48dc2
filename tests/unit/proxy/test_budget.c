#include "proxy/budget.h"

#include "harness/test.h"

static const struct budget_limits limits = { .failures = 3, .wait_ms = 10000, .requests = 5 };

TEST(failures_in_a_row_use_the_budget_up)
{
    struct budget budget = { 0 };

    CHECK(budget_failed(&budget, &limits, 1000, 0));
    CHECK(budget_failed(&budget, &limits, 1100, 0));
    CHECK(budget.exhausted == NULL);
    budget_succeeded(&budget);
    for (uint64_t i = 0; i < 2; i++)
        CHECK(budget_failed(&budget, &limits, 20000 + i, 0));
    CHECK(budget.exhausted == NULL);
    CHECK(budget_ask(&budget, &limits) == NULL);
    CHECK(budget_failed(&budget, &limits, 20002, 0));
    CHECK_STR(budget.exhausted, "model_failures");
    CHECK_STR(budget_ask(&budget, &limits), "model_failures");
    /* For good, also when an answer that was under way comes to its end. */
    budget_succeeded(&budget);
    CHECK_STR(budget_ask(&budget, &limits), "model_failures");
}

TEST(a_wait_beyond_the_limit_is_not_begun)
{
    struct budget budget = { 0 };

    CHECK(budget_failed(&budget, &limits, 5000, 10000));
    CHECK(budget.exhausted == NULL);
    budget = (struct budget){ 0 };
    CHECK(budget_failed(&budget, &limits, 5000, 10001));
    CHECK_STR(budget.exhausted, "model_wait");
    /* What was waited already counts too. */
    budget = (struct budget){ 0 };
    CHECK(budget_failed(&budget, &limits, 5000, 4000));
    CHECK(budget_failed(&budget, &limits, 9000, 6001));
    CHECK_STR(budget.exhausted, "model_wait");
}

TEST(requests_are_counted_and_end)
{
    struct budget budget = { .requests = 3 };
    const struct budget_limits none = { 0 };

    CHECK(budget_ask(&budget, &limits) == NULL);
    CHECK(budget_ask(&budget, &limits) == NULL);
    CHECK_STR(budget_ask(&budget, &limits), "model_requests");
    CHECK_EQ(budget.requests, 5u);
    budget = (struct budget){ .requests = 1u << 30 };
    CHECK(budget_ask(&budget, &none) == NULL);
    for (int i = 0; i < 100; i++)
        CHECK(budget_failed(&budget, &none, (uint64_t)i * 100000, 1u << 30));
    CHECK(budget.exhausted == NULL);
}

TEST(nothing_fails_while_another_answer_comes_in)
{
    struct budget budget = { 0 };

    budget_answer_begins(&budget);
    for (int i = 0; i < 10; i++)
        CHECK(!budget_failed(&budget, &limits, 100000, 0));
    CHECK(budget.exhausted == NULL);
    budget_answer_ends(&budget);
    CHECK(budget_failed(&budget, &limits, 100000, 0));
    CHECK_EQ(budget.failures, 1u);
}

static const struct budget_limits measured = { .tokens = 1000, .microdollars = 500 };

TEST(what_a_request_may_use_is_set_aside_until_it_is_over)
{
    struct budget budget = { 0 };
    const struct budget_amount most = { 900, 100 };
    const struct budget_amount used = { 50, 10 };

    CHECK_EQ(budget_set_aside(&budget, &measured, &most), BUDGET_GO);
    /* Twenty at the same time: one passes. */
    for (int i = 0; i < 19; i++)
        CHECK_EQ(budget_set_aside(&budget, &measured, &most), BUDGET_WAIT);
    CHECK(budget.exhausted == NULL);
    budget_settle(&budget, &most, &used);
    CHECK_EQ(budget.used.tokens, 50u);
    CHECK_EQ(budget.aside.tokens, 0u);
    CHECK_EQ(budget_set_aside(&budget, &measured, &most), BUDGET_GO);
    budget_settle(&budget, &most, &most);
    CHECK_EQ(budget_set_aside(&budget, &measured, &most), BUDGET_OVER);
    CHECK_STR(budget.exhausted, "model_tokens");
    CHECK_STR(budget_ask(&budget, &measured), "model_tokens");
}

TEST(money_is_limited_as_tokens_are)
{
    struct budget budget = { .used = { 0, 450 } };
    const struct budget_amount dear = { 1, 51 };
    const struct budget_amount cheap = { 1, 50 };

    CHECK_EQ(budget_set_aside(&budget, &measured, &cheap), BUDGET_GO);
    CHECK_EQ(budget_set_aside(&budget, &measured, &cheap), BUDGET_WAIT);
    CHECK_EQ(budget_set_aside(&budget, &measured, &dear), BUDGET_OVER);
    CHECK_STR(budget.exhausted, "model_cost");
}

/* Nothing wraps around. */
TEST(more_than_was_set_aside_may_turn_out_to_be_used)
{
    struct budget budget = { 0 };
    const struct budget_amount most = { 1000, 0 };
    const struct budget_amount used = { 5000, 900 };
    const struct budget_amount huge = { UINT64_MAX, UINT64_MAX };

    CHECK_EQ(budget_set_aside(&budget, &measured, &most), BUDGET_GO);
    budget_settle(&budget, &most, &used);
    CHECK_EQ(budget_set_aside(&budget, &measured, &most), BUDGET_OVER);
    budget = (struct budget){ 0 };
    CHECK_EQ(budget_set_aside(&budget, &measured, &huge), BUDGET_OVER);
    CHECK(!budget_measures(&limits));
    CHECK(budget_measures(&measured));
}
