#include "proxy/price.h"

#include "common/mem.h"
#include "harness/test.h"

static const struct price prices[] = {
    { "a/big", 3000000, 15000000, 300000, 3750000 },
    { "a/big-*", 1, 1, 1, 1 },
    { "a/big-2*", 2, 2, 2, 2 },
    { "b/*", 1000000, 1000000, 1000000, 1000000 },
};

TEST(the_longest_name_that_means_a_model_prices_it)
{
    struct price_table table;

    price_table_init(&table, prices, ARRAY_LEN(prices));
    CHECK_STR(price_find(&table, "a", "big")->model, "a/big");
    CHECK_STR(price_find(&table, "a", "big-1")->model, "a/big-*");
    CHECK_STR(price_find(&table, "a", "big-20250101")->model, "a/big-2*");
    CHECK_STR(price_find(&table, "b", "anything/at:all")->model, "b/*");
    CHECK(price_find(&table, "a", "small") == NULL);
    CHECK(price_find(&table, "c", "big") == NULL);
    CHECK(price_find(&table, "a", "") == NULL);
    price_table_finish(&table);
}

TEST(each_token_is_priced_once_and_what_is_left_rounds_up)
{
    const struct price_tokens none = { 0 };
    const struct price_tokens all = { 1000, 100, 10000, 2000 };
    const struct price_tokens one = { .cache_read = 1 };
    const struct price_tokens many = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
    const struct price dear = { "", PRICE_MAX, PRICE_MAX, PRICE_MAX, PRICE_MAX };

    CHECK_EQ(price_cost(&prices[0], &none), 0u);
    CHECK_EQ(price_cost(&prices[0], &all), 3000u + 1500 + 3000 + 7500);
    CHECK_EQ(price_cost(&prices[0], &one), 1u);
    CHECK_EQ(price_cost(&dear, &many), 4000000000000u);
}
