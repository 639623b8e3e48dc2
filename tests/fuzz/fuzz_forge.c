// links: supervisor_forge supervisor_workspace
/* A forge's answers, and what git in a sandbox prints, may be anything: what is read of them is
 * what was promised, and nothing is read beyond them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "forge/forge.h"
#include "workspace/publish.h"

#define INPUT_MAX (1u << 18)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pull(const struct forge_pull *pull)
{
    if (pull->number == 0)
        return;
    BUG_ON(!str_starts(pull->url, "http://") && !str_starts(pull->url, "https://"));
    BUG_ON(pull->url[strcspn(pull->url, " \"'<>\r\n\x1b")] != '\0');
    BUG_ON(pull->head[strcspn(pull->head, "\r\n\x1b")] != '\0');
}

static void check_forge(const struct forge *forge, const char *text, size_t len, int status)
{
    const struct forge_answer answer = { status, text, len, "" };
    struct forge_problem problem = { .code = NULL };
    struct forge_pull pull;
    bool more;

    if (forge_read_pull(forge, &answer, &pull, &problem) < 0)
        BUG_ON(problem.code == NULL || problem.message[strcspn(problem.message, "\n\x1b")] != '\0');
    check_pull(&pull);
    forge_pull_finish(&pull);
    if (forge_read_list(forge, &answer, "agent/x", &pull, &more, &problem) == 0)
        BUG_ON(pull.number != 0 && !str_equal(pull.head, "agent/x"));
    check_pull(&pull);
    forge_pull_finish(&pull);
}

static void check_git(const char *text, size_t len)
{
    struct buf output = { .data = (char *)(uintptr_t)text, .len = len, .cap = len, .max = len };
    struct publish_look look;
    struct publish_changes changes;
    char branch[256];
    char object[65];

    if (publish_read_look(&output, &look))
        BUG_ON(strlen(look.head) != 40 && strlen(look.head) != 64);
    BUG_ON(look.branch[strcspn(look.branch, " \n\x1b~^:?*[\\")] != '\0' || look.branch[0] == '-');
    publish_look_finish(&look);
    publish_read_changes(&output, &changes);
    publish_changes_finish(&changes);
    if (publish_read_default(&output, branch))
        BUG_ON(branch[0] == '-' || branch[0] == '\0');
    if (publish_read_branch(&output, "main", object))
        BUG_ON(strlen(object) != 40 && strlen(object) != 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const services[] = { "github", "gitlab", "gitea" };
    static const int statuses[] = { 200, 201, 301, 401, 403, 409, 422, 500 };
    AUTO_BUF struct buf words = BUF_INIT(4096);
    char *text;

    if (size == 0 || size > INPUT_MAX)
        return 0;
    text = malloc(size); /* the last byte is NUL, as behind every buffer */
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_forge(forge_find(services[data[0] % 3]), text, size - 1, statuses[data[0] / 3 % 8]);
    check_git(text, size - 1);
    publish_read_refusal(&(struct buf){ .data = text, .len = size - 1 }, text, &words);
    free(text);
    return 0;
}
