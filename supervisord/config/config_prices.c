/* config_prices.c: what models cost. Providers change their prices and tell no program of it, so
 * the table is the operator's; the built-in rows are for the default model and the small one that
 * agents use beside it. */
#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum { PRICES_MAX = 1000, MODEL_MAX = 200, DOLLARS_MAX = 1000 };

/* The provider's list as it was in 2025. */
static const struct config_price builtins[] = {
    { .model = (char[]){ "anthropic/claude-sonnet-4-5*" },
      .input = 3000000,
      .output = 15000000,
      .cache_read = 300000,
      .cache_write = 3750000 },
    { .model = (char[]){ "anthropic/claude-haiku-4-5*" },
      .input = 1000000,
      .output = 5000000,
      .cache_read = 100000,
      .cache_write = 1250000 },
};

static const struct member {
    const char *name;
    size_t offset;
    bool needed;
} members[] = {
    { "input", offsetof(struct config_price, input), true },
    { "output", offsetof(struct config_price, output), true },
    { "cacheRead", offsetof(struct config_price, cache_read), false },
    { "cacheWrite", offsetof(struct config_price, cache_write), false },
};

static uint64_t *value_of(struct config_price *price, const struct member *member)
{
    return (uint64_t *)(void *)((char *)price + member->offset);
}

static struct config_price *find_or_add(struct config *config, const char *model)
{
    for (size_t i = 0; i < config->price_count; i++)
        if (str_equal(config->prices[i].model, model))
            return &config->prices[i];
    config->prices[config->price_count].model = mem_strdup(model);
    return &config->prices[config->price_count++];
}

void config_prices_init(struct config *config)
{
    config->prices = mem_new_zero(ARRAY_LEN(builtins) + PRICES_MAX, sizeof(*config->prices));
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++) {
        struct config_price *price = &config->prices[config->price_count++];

        *price = builtins[i];
        price->model = mem_strdup(builtins[i].model);
        price->builtin = true;
    }
}

void config_prices_finish(struct config *config)
{
    for (size_t i = 0; i < config->price_count; i++)
        free(config->prices[i].model);
    free(config->prices);
}

/* Reading ------------------------------------------------------------------------------------- */

static int wrong(const char *file, const struct json_value *at, const char *model, const char *must,
                 struct error *err)
{
    AUTO_BUF struct buf shown = BUF_INIT(512);

    str_append_escaped(&shown, model, strlen(model), 100);
    error_set(err, ERR_INVALID, 0, "prices.\"%s\" must be %s", buf_text(&shown), must);
    return config_at(err, file, json_line(at));
}

/* One service, a slash, a model; a star at the end or nowhere. */
static bool model_valid(const char *model)
{
    const char *star = strchr(model, '*');
    size_t service = strspn(model, CONFIG_LOWER CONFIG_DIGITS "-_");

    return service > 0 && model[service] == '/' && model[service + 1] != '\0' &&
           strlen(model) <= MODEL_MAX && (star == NULL || star[1] == '\0') &&
           model[strcspn(model, " \t\r\n\"\\")] == '\0';
}

static const struct member *find_member(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (str_equal(members[i].name, name))
            return &members[i];
    return NULL;
}

/* What a cache has, or gets, costs what other input does unless the file says otherwise. */
static void fill_price(struct config_price *price, const struct json_value *entry)
{
    price->builtin = false;
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const struct json_value *given = json_get(entry, members[i].name);

        *value_of(price, &members[i]) =
            given != NULL ? (uint64_t)(json_number(given, 0) * 1e6 + 0.5) : price->input;
    }
}

static int read_price(struct config *config, const struct json_value *entry, const char *file,
                      struct error *err)
{
    static const char form[] =
        "an object of input, output, cacheRead and cacheWrite: US dollars from 0 to 1000 for a "
        "million tokens; the first two are needed";
    const char *model = json_name(entry);
    size_t known = 0;

    if (!model_valid(model))
        return wrong(file, entry, model,
                     "named SERVICE/MODEL, with a star at its end for all that begin so", err);
    if (json_kind(entry) != JSON_KIND_OBJECT)
        return wrong(file, entry, model, form, err);
    for (const struct json_value *member = json_first(entry); member != NULL;
         member = json_next(member)) {
        const struct member *row = find_member(json_name(member));
        double dollars = json_number(member, -1);

        if (row == NULL || json_kind(member) != JSON_KIND_NUMBER || !(dollars >= 0) ||
            dollars > DOLLARS_MAX)
            return wrong(file, member, model, form, err);
        known += row->needed;
    }
    if (known != 2)
        return wrong(file, entry, model, form, err);
    fill_price(find_or_add(config, model), entry);
    return 0;
}

int config_prices_read(struct config *config, const struct json_value *prices, const char *file,
                       struct error *err)
{
    if (json_kind(prices) != JSON_KIND_OBJECT || json_count(prices) > PRICES_MAX) {
        error_set(err, ERR_INVALID, 0, "prices must be an object of at most %d models", PRICES_MAX);
        return config_at(err, file, json_line(prices));
    }
    for (const struct json_value *entry = json_first(prices); entry != NULL;
         entry = json_next(entry))
        if (read_price(config, entry, file, err) < 0)
            return -1;
    return 0;
}

void config_prices_print(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config->price_count; i++) {
        struct config_price *price = &config->prices[i];
        struct json_writer writer;

        buf_append_str(out, "prices.");
        json_write_init(&writer, out);
        json_write_string(&writer, price->model);
        buf_append_str(out, " = ");
        json_write_init(&writer, out);
        json_write_object(&writer);
        for (size_t k = 0; k < ARRAY_LEN(members); k++)
            json_member_double(&writer, members[k].name,
                               (double)*value_of(price, &members[k]) / 1e6);
        json_write_object_end(&writer);
        buf_printf(out, "  # %s\n", price->builtin ? "default: built in" : "file");
    }
}
