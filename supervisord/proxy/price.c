#include "proxy/price.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define TOKENS_MAX UINT64_C(1000000000) /* of one kind; more than any model takes */
#define MILLION UINT64_C(1000000)

void price_table_init(struct price_table *table, const struct price *rows, size_t count)
{
    table->rows = mem_new_zero(count + 1, sizeof(*table->rows));
    table->count = count;
    for (size_t i = 0; i < count; i++) {
        table->rows[i] = rows[i];
        table->rows[i].model = mem_strdup(rows[i].model);
    }
}

void price_table_finish(struct price_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free((void *)(uintptr_t)table->rows[i].model);
    free(table->rows);
}

static bool means(const char *pattern, const char *name)
{
    size_t len = strlen(pattern);

    if (len > 0 && pattern[len - 1] == '*')
        return strncmp(pattern, name, len - 1) == 0;
    return str_equal(pattern, name);
}

const struct price *price_find(const struct price_table *table, const char *service,
                               const char *model)
{
    AUTO_FREE
    char *name = mem_printf("%s/%s", service, model);
    const struct price *best = NULL;

    for (size_t i = 0; i < table->count; i++) {
        const struct price *row = &table->rows[i];

        if (means(row->model, name) && (best == NULL || strlen(row->model) > strlen(best->model)))
            best = row;
    }
    return best;
}

static uint64_t part(uint64_t tokens, uint64_t price)
{
    return (tokens < TOKENS_MAX ? tokens : TOKENS_MAX) * price;
}

uint64_t price_cost(const struct price *price, const struct price_tokens *tokens)
{
    uint64_t sum = part(tokens->input, price->input) + part(tokens->output, price->output) +
                   part(tokens->cache_read, price->cache_read) +
                   part(tokens->cache_write, price->cache_write);

    return (sum + MILLION - 1) / MILLION;
}
