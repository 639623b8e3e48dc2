/* forge_rules.h: what a run may ask of a forge's API when the configuration says nothing: read its
 * session's repository. Without this, the API would be a way round the rules for pushes. Pure. */
#ifndef PROXY_FORGE_RULES_H
#define PROXY_FORGE_RULES_H

enum forge_verdict {
    FORGE_REFUSED,
    FORGE_ALLOWED,
    FORGE_ANONYMOUS, /* as anybody may: without the credential */
};

/* PATH is canonical, REPOSITORY the session's ("/owner/name.git", "" for none). *REASON and
 * *MESSAGE are set when it is refused. */
enum forge_verdict forge_judge_github(const char *method, const char *path, const char *repository,
                                      const char **reason, const char **message);

#endif
