/* git_rules.c: endpoints, repositories, refs and the judging of a push. */
#include "proxy/git_rules.h"

#include <strings.h>

#include "common/mem.h"
#include "common/str.h"

#define REF_MAX 255u

/* Endpoints
 * ---------------------------------------------------------------------------------------------- */

struct endpoint {
    const char *method; /* NULL: any */
    const char *end;
    const char *query; /* NULL: any */
    enum git_endpoint endpoint;
};

static const struct endpoint endpoints[] = {
    { "GET", "/info/refs", "?service=git-upload-pack", GIT_ENDPOINT_READ },
    { "POST", "/git-upload-pack", "", GIT_ENDPOINT_READ },
    { "GET", "/info/refs", "?service=git-receive-pack", GIT_ENDPOINT_PUSH_REFS },
    { "POST", "/git-receive-pack", "", GIT_ENDPOINT_PUSH },
};

/* /OWNER/REPO: at least two names; more owners (GitLab's groups) are fine. */
static bool names_repository(const char *path, size_t len)
{
    size_t slashes = 0;

    for (size_t i = 0; i < len; i++)
        slashes += path[i] == '/' ? 1 : 0;
    return len > 0 && slashes >= 2 && path[len - 1] != '/';
}

static enum git_endpoint lfs_endpoint(const char *method, const char *below, const char *query)
{
    if (query[0] == '\0' && str_equal(method, "POST") && str_equal(below, "objects/batch"))
        return GIT_ENDPOINT_LFS_BATCH;
    return query[0] == '\0' && str_starts(below, "transfer/") ? GIT_ENDPOINT_LFS_PLACE
                                                              : GIT_ENDPOINT_LFS;
}

struct git_place git_place_of(const char *method, const char *path, const char *query)
{
    size_t len = strlen(path);
    const char *lfs = strcasestr(path, "/info/lfs/");

    if (lfs != NULL && names_repository(path, (size_t)(lfs - path)))
        return (struct git_place){ lfs_endpoint(method, lfs + strlen("/info/lfs/"), query),
                                   (size_t)(lfs - path) };
    for (size_t i = 0; i < ARRAY_LEN(endpoints); i++) {
        const struct endpoint *one = &endpoints[i];
        size_t end_len = strlen(one->end);

        if (str_equal(one->method, method) && str_equal(one->query, query) && len > end_len &&
            str_ends(path, one->end) && names_repository(path, len - end_len))
            return (struct git_place){ one->endpoint, len - end_len };
    }
    return (struct git_place){ GIT_ENDPOINT_NONE, 0 };
}

/* Without slashes and ".git" at the end. */
static size_t bare_len(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len > 4 && strncasecmp(path + len - 4, ".git", 4) == 0 && path[len - 5] != '/')
        len -= 4;
    return len;
}

bool git_repository_same(const char *a, size_t a_len, const char *b, size_t b_len)
{
    a_len = bare_len(a, a_len);
    b_len = bare_len(b, b_len);
    return a_len == b_len && a_len > 0 && strncasecmp(a, b, a_len) == 0;
}

bool git_repository_listed(const char *const *list, size_t count, const char *path, size_t len)
{
    if (len == 0 || path[0] != '/')
        return false;
    path++;
    len--;
    for (size_t i = 0; i < count; i++) {
        size_t listed = strlen(list[i]);

        if (str_equal(list[i], "..."))
            return true;
        if (str_ends(list[i], "/...")) {
            if (len > listed - 3 && memcmp(path, list[i], listed - 3) == 0)
                return true;
            continue;
        }
        if (bare_len(path, len) == bare_len(list[i], listed) &&
            memcmp(path, list[i], bare_len(path, len)) == 0)
            return true;
    }
    return false;
}

/* Refs
 * -----------------------------------------------------------------------------------------------
 */

/* One name between slashes. */
static bool component_valid(const char *name, size_t len)
{
    return len > 0 && name[0] != '.' && name[0] != '-' && name[len - 1] != '.' &&
           !(len >= 5 && strncasecmp(name + len - 5, ".lock", 5) == 0);
}

bool git_ref_valid(const char *ref, size_t len)
{
    size_t start = 0;

    if (len < 6 || len > REF_MAX || memcmp(ref, "refs/", 5) != 0)
        return false;
    for (size_t i = 0; i <= len; i++) {
        unsigned char c = i < len ? (unsigned char)ref[i] : '/';

        if (c <= 0x20 || c >= 0x7f || strchr("~^:?*[\\", c) != NULL)
            return false;
        if (i > 0 && i < len &&
            ((c == '.' && ref[i - 1] == '.') || (c == '{' && ref[i - 1] == '@')))
            return false;
        if (c != '/')
            continue;
        if (!component_valid(ref + start, i - start))
            return false;
        start = i + 1;
    }
    return true;
}

bool git_ref_matches(const char *pattern, const char *ref)
{
    size_t len = strlen(pattern);

    if (!str_starts(pattern, "refs/")) {
        if (!str_starts(ref, "refs/heads/"))
            return false;
        ref += strlen("refs/heads/");
    }
    if (len >= 4 && str_ends(pattern, "/..."))
        return strncmp(ref, pattern, len - 3) == 0 && ref[len - 3] != '\0';
    return strcmp(ref, pattern) == 0;
}

bool git_ref_pattern_valid(const char *pattern)
{
    size_t len = strlen(pattern);
    AUTO_FREE
    char *whole = NULL;

    if (len >= 4 && str_ends(pattern, "/..."))
        len -= 4;
    whole = str_starts(pattern, "refs/") ? mem_strndup(pattern, len)
                                         : mem_printf("refs/heads/%.*s", (int)len, pattern);
    return git_ref_valid(whole, strlen(whole));
}

/* Pushes
 * --------------------------------------------------------------------------------------------- */

static const char other_reason[] = "push_other_refused";

static const struct refusal {
    const char *reason;
    const char *message;
} refusals[] = {
    { "push_malformed", "the list of refs can't be read" },
    { "push_too_large", "too many refs in one push" },
    { "push_certificate", "signed pushes are not allowed" },
    { "push_options", "push options are not allowed" },
    { "push_encoding", "a push must not be compressed as a whole" },
    { "push_ref_name", "this is no valid name of a ref" },
    { "push_ref_not_allowed", "not a ref that this run may push" },
    { "push_duplicate", "this ref is named twice" },
    { "push_delete", "only what this session pushed itself may be deleted" },
    { "push_overwrite", "it exists, and this session didn't push what it points to" },
    { other_reason, "not pushed, since another ref of this push is refused" },
};

const char *git_refusal_message(const char *reason)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (str_equal(refusals[i].reason, reason))
            return refusals[i].message;
    return "not allowed";
}

void git_push_head_finish(struct git_push_head *head)
{
    for (size_t i = 0; i < head->count; i++)
        free(head->commands[i].ref);
    free(head->commands);
    *head = (struct git_push_head){ 0 };
}

static bool all_zero(const char *id)
{
    return id[strspn(id, "0")] == '\0';
}

static bool is_zero_or_equal(const char *id, const char *known)
{
    return all_zero(id) || (known != NULL && strcmp(id, known) == 0);
}

static const char *judge(const struct git_command *command, const struct git_push_rules *rules,
                         const char *tip)
{
    bool allowed = rules->branch[0] != '\0' && str_starts(command->ref, "refs/heads/") &&
                   strcmp(command->ref + strlen("refs/heads/"), rules->branch) == 0;

    if (!git_ref_valid(command->ref, strlen(command->ref)))
        return "push_ref_name";
    if (rules->only != NULL && strcmp(command->ref, rules->only) != 0)
        return "push_ref_not_allowed";
    for (size_t i = 0; i < rules->ref_count && !allowed; i++)
        allowed = git_ref_matches(rules->refs[i], command->ref);
    if (!allowed)
        return "push_ref_not_allowed";
    if (rules->overwrite)
        return NULL;
    if (all_zero(command->new_id))
        return tip != NULL && strcmp(command->old_id, tip) == 0 ? NULL : "push_delete";
    return is_zero_or_equal(command->old_id, tip) ? NULL : "push_overwrite";
}

static bool is_duplicate(const struct git_push_head *head, size_t at)
{
    for (size_t i = 0; i < head->count; i++)
        if (i != at && strcasecmp(head->commands[i].ref, head->commands[at].ref) == 0)
            return true;
    return false;
}

bool git_push_judge(struct git_push_head *head, const struct git_push_rules *rules,
                    git_tip_lookup tip, void *data)
{
    bool all = true;

    for (size_t i = 0; i < head->count; i++) {
        struct git_command *command = &head->commands[i];

        command->refusal = judge(command, rules, tip(data, command->ref));
        if (command->refusal == NULL && is_duplicate(head, i))
            command->refusal = "push_duplicate";
        if (command->refusal == NULL && head->options)
            command->refusal = "push_options";
        all = all && command->refusal == NULL;
    }
    for (size_t i = 0; i < head->count && !all; i++)
        if (head->commands[i].refusal == NULL)
            head->commands[i].refusal = other_reason;
    return all;
}

const char *git_push_reason(const struct git_push_head *head)
{
    for (size_t i = 0; i < head->count; i++)
        if (head->commands[i].refusal != NULL && head->commands[i].refusal != other_reason)
            return head->commands[i].refusal;
    return "push_malformed";
}
