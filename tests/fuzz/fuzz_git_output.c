// links: supervisor_workspace
/* What git prints in a sandbox or on behalf of a remote: any bytes, in any pieces, mean something
 * or nothing, and what is taken for a name is one that git takes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "workspace/workspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remote(const char *bytes, size_t len, size_t step, const char *wanted)
{
    struct git_remote remote;
    struct git_base base;
    struct error err = ERROR_INIT;

    git_remote_init(&remote, wanted);
    for (size_t at = 0; at < len; at += step)
        git_remote_feed(&remote, bytes + at, len - at < step ? len - at : step);
    if (git_remote_base(&remote, &base, &err) == 0) {
        if (branch_check(base.name, &err) < 0 || base.source[0] == '-' || base.name[0] == '\0')
            abort();
    } else if (err.text[0] == '\0') {
        abort();
    }
    git_base_finish(&base);
    git_remote_finish(&remote);
}

static void others(const char *bytes, size_t len)
{
    struct buf text = BUF_INIT(1u << 20);
    struct git_kinds kinds;
    struct git_progress progress;
    struct git_stat stat;
    char object[65];

    buf_append(&text, bytes, len);
    git_parse_object(&text, object);
    git_parse_shortstat(&text, &stat);
    git_parse_count(&text);
    if (git_parse_progress(buf_text(&text), &progress) && progress.percent > 100)
        abort();
    git_kinds_init(&kinds);
    git_kinds_feed(&kinds, bytes, len);
    git_kinds_finish(&kinds);
    buf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;

    if (size < 2 || size > 1u << 20)
        return 0;
    remote(bytes + 1, size - 1, data[0] % 50 + 1u, "");
    remote(bytes + 1, size - 1, data[0] % 50 + 1u, "main");
    others(bytes + 1, size - 1);
    return 0;
}
