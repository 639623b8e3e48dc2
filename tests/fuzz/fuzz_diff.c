// links: supervisor_view
/* A diff comes from a sandbox: taking it apart reads nothing beyond it, the list of files is always
 * JSON, and what is shown is a part of the diff. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"
#include "view/diff.h"

#define INPUT_MAX (1u << 20)
#define OUTPUT_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t len, const char *path, size_t max)
{
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    AUTO_BUF struct buf files = BUF_INIT(OUTPUT_MAX);
    AUTO_JSON struct json_doc *doc = NULL;
    struct diff_options options = { .path = path, .max_bytes = max };
    struct error err = ERROR_INIT;
    struct json_writer writer;
    bool truncated;

    json_write_init(&writer, &files);
    truncated = diff_write(text, len, &options, &out, &writer);
    BUG_ON(files.failed || out.failed);
    BUG_ON(json_parse(&doc, files.data, files.len, OUTPUT_MAX, &err) < 0);
    BUG_ON(json_count(json_root(doc)) > DIFF_FILES_MAX);
    BUG_ON(!truncated && out.len > (max < len ? max : len));
    BUG_ON(truncated && out.len > max + 200);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size > INPUT_MAX)
        return 0;
    /* Exactly as long as the input, so that reading behind it is noticed. */
    text = malloc(size != 0 ? size : 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    check(text, size, NULL, SIZE_MAX);
    check(text, size, NULL, size / 2);
    check(text, size, "src", 100);
    free(text);
    return 0;
}
