/* policy_service.c: a request for a service: token, grant, rules, and what git and forges need. */
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/forge_rules.h"
#include "proxy/policy_internal.h"

static bool rule_matches(const struct allow_rule *rule, const char *method, const char *path)
{
    if (strcmp(rule->method, method) != 0)
        return false;
    return rule->below ? str_starts(path, rule->path) : strcmp(path, rule->path) == 0;
}

/* Of an API only what leads round no other rule. The session's repositories are those of the
 * forge's git service. */
static bool check_forge(const struct http_request *request, const struct policy_grant *grant,
                        struct policy_decision *out)
{
    const struct forge_api *forge = out->service->forge;
    const char *reason = NULL;
    const char *message = NULL;
    enum forge_verdict verdict =
        forge_judge(forge, request->method, out->path, "", &reason, &message);

    for (size_t i = 0; i < grant->repository_count && verdict == FORGE_ANONYMOUS; i++)
        if (str_equal(grant->repositories[i].service->name, forge->git_service))
            verdict = forge_judge(forge, request->method, out->path, grant->repositories[i].path,
                                  &reason, &message);
    if (verdict == FORGE_REFUSED)
        return policy_refuse(out, 403, reason, message);
    out->anonymous = verdict == FORGE_ANONYMOUS;
    return true;
}

static bool check_rules(const struct http_request *request, const struct policy_grant *grant,
                        struct policy_decision *out)
{
    const struct service *service = out->service;

    if (out->git == GIT_ENDPOINT_LFS)
        return policy_refuse(out, 403, "lfs_not_allowed",
                             "of Git LFS only objects are served to sandboxes, no locks");
    if (service->git && out->git != GIT_ENDPOINT_NONE)
        return true;
    out->graphql = service->forge != NULL && strncasecmp(out->path, "/graphql", 8) == 0;
    if (service->forge != NULL && service->rule_count == 0)
        return check_forge(request, grant, out);
    if (!service->git && service->rule_count == 0)
        return true;
    for (size_t i = 0; i < service->rule_count; i++)
        if (rule_matches(&service->rules[i], request->method, out->path))
            return true;
    return policy_refuse(out, 403, "request_not_allowed",
                         "this method and path are not allowed for the service");
}

/* Which repository and what git wants of it. A way to push that isn't recognised here would not be
 * judged, so there is none. */
static bool find_repository(const struct http_request *request, const char *query,
                            struct policy_decision *out)
{
    struct git_place place;

    if (!out->service->pushes)
        return true;
    place = git_place_of(request->method, out->path, query);
    out->git = place.endpoint;
    out->repository_len = place.repository_len;
    if (place.endpoint == GIT_ENDPOINT_NONE && strcasestr(out->path, "git-receive-pack") != NULL)
        return policy_refuse(out, 403, "request_not_allowed", "this is not how git pushes");
    return true;
}

static const struct policy_repository *own_repository(const struct policy_grant *grant,
                                                      const struct policy_decision *decision)
{
    for (size_t i = 0; i < grant->repository_count; i++) {
        const struct policy_repository *own = &grant->repositories[i];

        if (own->service == decision->service &&
            git_repository_same(decision->path, decision->repository_len, own->path,
                                strlen(own->path)))
            return own;
    }
    return NULL;
}

/* The session's repositories, in their own spelling; those of the configuration; others without
 * credential, and never to push. */
static bool check_repository(const struct policy_grant *grant, struct policy_decision *out)
{
    const struct service *service = out->service;

    if (out->git == GIT_ENDPOINT_NONE)
        return true;
    out->repository = own_repository(grant, out);
    if (out->repository != NULL) {
        char *path = mem_printf("%s%s", out->repository->path, out->path + out->repository_len);

        free(out->path);
        out->path = path;
        out->repository_len = strlen(out->repository->path);
        return true;
    }
    if (git_repository_listed((const char *const *)service->repositories, service->repository_count,
                              out->path, out->repository_len))
        return true;
    if (out->git == GIT_ENDPOINT_PUSH_REFS || out->git == GIT_ENDPOINT_PUSH)
        return policy_refuse(out, 403, "repository_not_allowed",
                             "this run may push to its session's own repositories only");
    out->anonymous = true;
    return true;
}

static bool is_granted(const struct policy_grant *grant, const struct service *service)
{
    return grant->granted[service - grant->services->items];
}

/* The endpoints of the known model interfaces, whatever stands before them. */
static bool is_model_request(const struct http_request *request, const char *path)
{
    return strcmp(request->method, "POST") == 0 &&
           (str_ends(path, "/messages") || str_ends(path, "/chat/completions") ||
            str_ends(path, "/completions") || str_ends(path, "/responses") ||
            str_ends(path, ":streamGenerateContent") || str_ends(path, ":generateContent"));
}

/* The query without the run's token; heap. */
static char *query_without_token(const struct service *service, const char *query)
{
    const char *at = NULL;
    size_t len = 0;

    if (policy_find_parameter(service, query, &at, &len) == 0)
        return mem_strdup(query);
    if (at[len] == '&')
        return mem_printf("%.*s%s", (int)(at - query), query, at + len + 1);
    return mem_printf("%.*s", (int)(at - query) - 1, query); /* with what stood before it */
}

void policy_allow(const struct http_request *request, const struct entry *entry,
                  struct policy_decision *out)
{
    const struct service *service = out->service;
    AUTO_FREE
    char *query = query_without_token(service, entry->query);

    out->allowed = true;
    out->reason = "ok";
    out->action = entry->websocket ? POLICY_UPGRADE : POLICY_FORWARD;
    out->model = !service->egress && !service->git && !out->graphql &&
                 (is_model_request(request, out->path) || (entry->websocket && service->model));
    out->upstream_path = mem_printf("%s%s%s", service->prefix, out->path, query);
}

/* Git and forges are judged by what their requests say, and models are counted by request, unless a
 * rule of the configuration's own lets the handshake through. */
static bool may_upgrade(const struct service *service)
{
    return !service->pushes && service->forge == NULL &&
           (!service->model || service->rule_count > 0);
}

/* The very request that the service's row names, whatever the rules say of others. */
static bool is_probe(const struct http_request *request, const struct entry *entry,
                     const struct policy_decision *out)
{
    const char *probe = out->service->probe;
    size_t len = strcspn(probe, "?");

    return strcmp(request->method, "GET") == 0 && !entry->websocket && len > 0 &&
           strlen(out->path) == len && memcmp(out->path, probe, len) == 0 &&
           str_starts(entry->query, probe + len);
}

/* A request for a service, whose path below it is in OUT already. */
void policy_judge_service(const struct http_request *request, const struct entry *entry,
                          const struct policy_grant *grant, struct policy_decision *out)
{
    if (!policy_check_token(request, grant, out))
        return;
    if (!is_granted(grant, out->service)) {
        policy_refuse(out, 403, "service_not_granted", "this run may not use the service");
        return;
    }
    if (grant->probes && is_probe(request, entry, out)) {
        policy_allow(request, entry, out);
        return;
    }
    if (!find_repository(request, entry->query, out) || !check_rules(request, grant, out) ||
        !check_repository(grant, out))
        return;
    if (entry->websocket && !may_upgrade(out->service)) {
        policy_refuse(out, 403, "upgrade_not_allowed",
                      "nothing of a WebSocket could be judged or counted here; use requests");
        return;
    }
    policy_allow(request, entry, out);
}
