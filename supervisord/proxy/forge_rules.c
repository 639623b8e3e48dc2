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

struct forge_rule {
    const char *path; /* a slash at the end: everything below; NULL ends the list */
    enum scope scope;
};

/* To read; nothing may be written: refs, contents, merges, releases and workflows could all be
 * changed behind the back of the rules for pushes, and pull requests are the host's to open. */
static const struct forge_rule github_reads[] = {
    { "/repos/", SCOPE_REPOSITORY }, { "/rate_limit", SCOPE_NOBODY }, { "/meta", SCOPE_NOBODY },
    { "/versions", SCOPE_NOBODY },   { "/emojis", SCOPE_NOBODY },     { "/licenses", SCOPE_NOBODY },
    { "/licenses/", SCOPE_NOBODY },  { "/gitignore/", SCOPE_NOBODY }, { "/zen", SCOPE_NOBODY },
    { NULL, SCOPE_NOBODY },
};
static const struct forge_rule gitlab_reads[] = {
    { "/projects/", SCOPE_REPOSITORY },
    { NULL, SCOPE_NOBODY },
};
static const struct forge_rule gitea_reads[] = {
    { "/repos/", SCOPE_REPOSITORY },
    { "/version", SCOPE_NOBODY },
    { NULL, SCOPE_NOBODY },
};
static const struct forge_rule nothing[] = { { NULL, SCOPE_NOBODY } };

static const struct forge_api apis[] = {
    { "github-api", "github", github_reads, false },
    { "github-uploads", "github", nothing, false },
    { "gitlab-api", "gitlab", gitlab_reads, true },
    { "gitea-api", "gitea", gitea_reads, false },
};

const struct forge_api *forge_api_of(const char *service)
{
    for (size_t i = 0; i < ARRAY_LEN(apis); i++)
        if (str_equal(apis[i].service, service))
            return &apis[i];
    return NULL;
}

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

/* "owner%2Fname" behind /projects/ as "/owner/name"; heap. An id that is a number names nobody. */
static char *project_of(const char *named)
{
    size_t len = strcspn(named + 1, "/");
    char *text = mem_printf("/%.*s", (int)len, named + 1);
    char *to = text;

    for (const char *at = text; *at != '\0'; at++)
        if (strncmp(at, "%2F", 3) == 0) {
            *to++ = '/';
            at += 2;
        } else {
            *to++ = *at;
        }
    *to = '\0';
    return text;
}

static enum forge_verdict judge_repository(const struct forge_api *forge, const char *named,
                                           const char *repository, const char **reason,
                                           const char **message)
{
    AUTO_FREE
    char *project = forge->escaped_slash ? project_of(named) : NULL;
    const char *name = project != NULL ? project : named;
    size_t len = project != NULL ? strlen(project) : repository_len(named);

    if (len < 2)
        return refuse("request_not_allowed", "no repository is named", reason, message);
    return git_repository_same(name, len, repository, strlen(repository)) ? FORGE_ALLOWED
                                                                          : FORGE_ANONYMOUS;
}

enum forge_verdict forge_judge(const struct forge_api *forge, const char *method, const char *path,
                               const char *repository, const char **reason, const char **message)
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
    for (const struct forge_rule *rule = forge->reads; rule->path != NULL; rule++) {
        size_t len = strlen(rule->path);
        bool matches = str_ends(rule->path, "/") ? strncmp(path, rule->path, len) == 0
                                                 : str_equal(path, rule->path);

        if (!matches)
            continue;
        return rule->scope == SCOPE_REPOSITORY
                   ? judge_repository(forge, path + len - 1, repository, reason, message)
                   : FORGE_ANONYMOUS;
    }
    return refuse("request_not_allowed", "only repositories can be read from the API", reason,
                  message);
}
