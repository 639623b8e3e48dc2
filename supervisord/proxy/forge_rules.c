#include "proxy/forge_rules.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/git_rules.h"

/* Whose data an endpoint gives. */
enum scope {
    SCOPE_REPOSITORY, /* of the repository named behind it */
    SCOPE_NOBODY,     /* nothing that the credential opens */
};

struct rule {
    const char *path; /* a slash at the end: everything below */
    enum scope scope;
};

/* To read; nothing may be written: refs, contents, merges, releases and workflows could all be
 * changed behind the back of the rules for pushes, and pull requests are the host's to open. */
static const struct rule github_reads[] = {
    { "/repos/", SCOPE_REPOSITORY }, { "/rate_limit", SCOPE_NOBODY }, { "/meta", SCOPE_NOBODY },
    { "/versions", SCOPE_NOBODY },   { "/emojis", SCOPE_NOBODY },     { "/licenses", SCOPE_NOBODY },
    { "/licenses/", SCOPE_NOBODY },  { "/gitignore/", SCOPE_NOBODY }, { "/zen", SCOPE_NOBODY },
};

static enum forge_verdict refuse(const char *why, const char *what, const char **reason,
                                 const char **message)
{
    *reason = why;
    *message = what;
    return FORGE_REFUSED;
}

/* Length of "/owner/name", which TEXT begins with; 0 without both. */
static size_t repository_len(const char *text)
{
    size_t owner = text[0] == '/' ? strcspn(text + 1, "/") : 0;
    size_t name;

    if (owner == 0 || text[1 + owner] != '/')
        return 0;
    name = strcspn(text + owner + 2, "/");
    return name > 0 ? owner + 2 + name : 0;
}

static enum forge_verdict judge_repository(const char *path, const char *repository,
                                           const char **reason, const char **message)
{
    const char *named = path + strlen("/repos");
    size_t len = repository_len(named);

    if (len == 0)
        return refuse("request_not_allowed", "no repository is named", reason, message);
    return git_repository_same(named, len, repository, strlen(repository)) ? FORGE_ALLOWED
                                                                           : FORGE_ANONYMOUS;
}

enum forge_verdict forge_judge_github(const char *method, const char *path, const char *repository,
                                      const char **reason, const char **message)
{
    if (strncasecmp(path, "/graphql", 8) == 0)
        return refuse("graphql_not_allowed",
                      "GraphQL reads and writes whatever the credential can; ask the REST API for "
                      "the session's repository instead",
                      reason, message);
    if (!str_equal(method, "GET") && !str_equal(method, "HEAD"))
        return refuse("api_write_not_allowed",
                      "the API is there to read: changes go into commits that are pushed with git, "
                      "and pull requests are opened by the host",
                      reason, message);
    for (size_t i = 0; i < ARRAY_LEN(github_reads); i++) {
        const struct rule *rule = &github_reads[i];
        bool matches =
            str_ends(rule->path, "/") ? str_starts(path, rule->path) : str_equal(path, rule->path);

        if (!matches)
            continue;
        return rule->scope == SCOPE_REPOSITORY ? judge_repository(path, repository, reason, message)
                                               : FORGE_ANONYMOUS;
    }
    return refuse("request_not_allowed", "only repositories can be read from the API", reason,
                  message);
}
