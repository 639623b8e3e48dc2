// links: supervisor_proxy
/* What a model's request asks for against the strict reader of all JSON, and what its answer has
 * used, whole against in pieces. The first byte chooses. */
#include <stdint.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"
#include "proxy/model_request.h"
#include "proxy/model_usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What both understand they understand alike. */
static void try_request(const char *text, size_t len)
{
    struct model_request request;
    AUTO_JSON struct json_doc *doc = NULL;
    struct error err = ERROR_INIT;
    const struct json_value *root;
    const char *model;

    if (!model_request_read("/v1/messages", text, len, &request) ||
        json_parse(&doc, text, len, len, &err) < 0)
        return;
    root = json_root(doc);
    BUG_ON(json_kind(root) != JSON_KIND_OBJECT);
    model = json_string(json_get(root, "model"));
    BUG_ON(!str_equal(model != NULL ? model : "", request.model));
    BUG_ON(json_u64(json_get(root, "max_tokens"), 0) > request.max_output);
    BUG_ON(json_bool(json_get(root, "background"), false));
}

static void try_usage(const char *text, size_t len)
{
    struct model_usage whole = { .seen = false };
    struct model_usage pieces = { .seen = false };

    model_usage_feed(&whole, text, len);
    for (size_t i = 0; i < len; i++)
        model_usage_feed(&pieces, text + i, 1);
    model_usage_end(&whole);
    model_usage_end(&pieces);
    BUG_ON(memcmp(whole.counts, pieces.counts, sizeof(whole.counts)) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (data[0] % 2 == 0)
        try_request((const char *)data + 1, size - 1);
    else
        try_usage((const char *)data + 1, size - 1);
    return 0;
}
