/* forge_rules.h: what a run may ask of a forge's API when the configuration says nothing: read its
 * session's repository. Without this, the API would be a way round the rules for pushes. Pure. */
#ifndef PROXY_FORGE_RULES_H
#define PROXY_FORGE_RULES_H

#include <stdbool.h>

enum forge_verdict {
    FORGE_REFUSED,
    FORGE_ALLOWED,
    FORGE_ANONYMOUS, /* as anybody may: without the credential */
};

struct forge_rule;

/* A service that is a forge's API. */
struct forge_api {
    const char *service;
    const char *git_service; /* whose repositories it tells of */
    const struct forge_rule *reads;
    bool escaped_slash; /* a repository is one segment: owner%2Fname */
};

/* NULL for services that are none. */
const struct forge_api *forge_api_of(const char *service);
/* PATH is canonical, REPOSITORY the session's ("/owner/name.git", "" for none). *REASON and
 * *MESSAGE are set when it is refused. */
enum forge_verdict forge_judge(const struct forge_api *forge, const char *method, const char *path,
                               const char *repository, const char **reason, const char **message);

#endif
