/* price.h: what models cost, by the configuration's table, and what an answer came to. Pure. */
#ifndef PROXY_PRICE_H
#define PROXY_PRICE_H

#include <stddef.h>
#include <stdint.h>

/* Microdollars for a million tokens of each kind. */
struct price {
    /* "SERVICE/MODEL" as a run names it; with a star at the end: all that begin so. */
    const char *model;
    uint64_t input;
    uint64_t output;
    uint64_t cache_read;
    uint64_t cache_write;
};

/* Dear enough for any model; below it no sum overflows. */
#define PRICE_MAX UINT64_C(1000000000)

/* What one request used, each token in one of the kinds. */
struct price_tokens {
    uint64_t input; /* that no cache had to do with */
    uint64_t output;
    uint64_t cache_read;
    uint64_t cache_write;
};

struct price_table {
    struct price *rows; /* owned, like their texts */
    size_t count;
};

/* A copy of ROWS. */
void price_table_init(struct price_table *table, const struct price *rows, size_t count);
void price_table_finish(struct price_table *table);
/* The row with the longest name that means the model MODEL of SERVICE; NULL: none does. */
const struct price *price_find(const struct price_table *table, const char *service,
                               const char *model);
/* In microdollars, rounded up. */
uint64_t price_cost(const struct price *price, const struct price_tokens *tokens);

#endif
