// links: sandbox_common
/* What json_parse accepts, json_append writes so that it is accepted again and comes out the same;
 * and nothing that a peer sends brings the field tables down. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"

#define INPUT_MAX (1u << 20)
#define OUTPUT_MAX (16u << 20) /* an escape is at most six times its character */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    const char *task;
    bool follow;
    uint32_t limit;
    uint64_t after;
    int status;
    const struct json_value *extra;
};

static const char *const status_names[] = { "queued", "running", "failed", NULL };

static const struct json_field fields[] = {
    JSON_STRING_FIELD(struct target, task, JSON_OPTIONAL, 1, 16, NULL),
    JSON_BOOL_FIELD(struct target, follow, JSON_OPTIONAL, NULL),
    JSON_U32_FIELD(struct target, limit, JSON_OPTIONAL, 1, 100, NULL),
    JSON_U64_FIELD(struct target, after, JSON_OPTIONAL, 0, UINT64_C(1) << 53, NULL),
    JSON_ENUM_FIELD(struct target, status, JSON_OPTIONAL, status_names, NULL),
    JSON_VALUE_FIELD(struct target, extra, JSON_OPTIONAL, NULL),
    JSON_FIELD_LAST,
};

static void read_fields(const struct json_value *value, enum json_mode mode)
{
    struct target target = { .limit = 10 };
    struct error err = ERROR_INIT;

    if (json_read(value, fields, mode, &target, &err) < 0) {
        BUG_ON(err.code != ERR_INVALID || !err.text[0]);
        return;
    }
    BUG_ON(target.limit < 1 || target.limit > 100 || target.status < 0 || target.status > 2);
    BUG_ON(target.task && str_utf8_length(target.task) > 16);
}

static void check_round_trip(const struct json_doc *doc)
{
    AUTO_BUF struct buf first = BUF_INIT(OUTPUT_MAX);
    AUTO_BUF struct buf second = BUF_INIT(OUTPUT_MAX);
    AUTO_JSON struct json_doc *again = NULL;
    struct error err = ERROR_INIT;

    json_append(&first, json_root(doc));
    BUG_ON(first.failed || !str_is_utf8(first.data, first.len) || strchr(first.data, '\n'));
    if (json_parse(&again, first.data, first.len, OUTPUT_MAX, &err) < 0)
        BUG(err.text);
    json_append(&second, json_root(again));
    BUG_ON(!str_equal(buf_text(&first), buf_text(&second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_JSON struct json_doc *doc = NULL;
    AUTO_JSON struct json_doc *commented = NULL;
    struct error err = ERROR_INIT;
    const char *text = (const char *)data;

    if (json_parse_commented(&commented, text, size, INPUT_MAX, &err) < 0)
        BUG_ON(err.code != ERR_INVALID && err.code != ERR_LIMIT);
    else
        BUG_ON(json_line(json_root(commented)) < 1);
    err = (struct error)ERROR_INIT;
    if (json_parse(&doc, text, size, INPUT_MAX, &err) < 0) {
        BUG_ON((err.code != ERR_INVALID && err.code != ERR_LIMIT) || !err.text[0]);
        return 0;
    }
    BUG_ON(!commented); /* comments only add to what is accepted */
    check_round_trip(doc);
    read_fields(json_root(doc), JSON_STRICT);
    read_fields(json_root(doc), JSON_LENIENT);
    return 0;
}
