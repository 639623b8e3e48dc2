/* policy_host.c: tunnels, and requests that name their host. */
#include <string.h>

#include "common/mem.h"
#include "proxy/policy_internal.h"
#include "proxy/url_path.h"

#define NOT_REACHED "this host can't be reached from the sandbox"

static enum egress_reach reach_of(const struct policy_grant *grant, const struct host *host)
{
    return grant->egress != NULL ? egress_reach(grant->egress, host) : EGRESS_CLOSED;
}

static bool has_service(const struct policy_grant *grant, const struct host *host)
{
    for (size_t i = 0; i < grant->services->count; i++) {
        const struct service *service = &grant->services->items[i];

        if (grant->granted[i] && strcmp(service->scheme, "https") == 0 &&
            host_equal(&service->where, host))
            return true;
    }
    return false;
}

void policy_judge_tunnel(const struct http_request *request, const struct entry *entry,
                         const struct policy_grant *grant, struct policy_decision *out)
{
    enum egress_reach reach = reach_of(grant, &entry->host);
    bool service = has_service(grant, &entry->host);

    if (policy_token_misplaced(request, NULL)) {
        policy_refuse(out, 403, "token_misplaced", "the run's token belongs into another header");
        return;
    }
    if (!policy_check_proxy_token(request, grant, out))
        return;
    if (reach == EGRESS_CLOSED && !service) {
        policy_refuse(out, 403, "host_not_allowed", NOT_REACHED);
        return;
    }
    if ((service || reach == EGRESS_JUDGED) && !grant->intercepts) {
        policy_refuse(out, 403, "connect_not_allowed", "tunnels to this host are not allowed");
        return;
    }
    out->allowed = true;
    out->reason = "ok";
    out->host = entry->host;
    out->action = service || reach == EGRESS_JUDGED ? POLICY_INTERCEPT : POLICY_TUNNEL;
    if (out->action == POLICY_TUNNEL)
        out->exception = egress_find(grant->egress, &entry->host, request->method, NULL)->exception;
}

/* The service with the longest prefix that PATH is below. */
static const struct service *service_at(const struct policy_grant *grant, const struct host *host,
                                        const char *scheme, const char *path)
{
    const struct service *found = NULL;

    for (size_t i = 0; i < grant->services->count; i++) {
        const struct service *service = &grant->services->items[i];
        size_t len = strlen(service->prefix);

        if (grant->granted[i] && strcmp(service->scheme, scheme) == 0 &&
            host_equal(&service->where, host) && strncmp(path, service->prefix, len) == 0 &&
            path[len] == '/' && (found == NULL || len > strlen(found->prefix)))
            found = service;
    }
    return found;
}

static bool brings_token(const struct http_request *request, const struct service *service)
{
    const char *place;
    size_t len;

    if (policy_find_parameter(service, request->target, &place, &len) > 0)
        return true;
    for (size_t i = 0; i < request->headers.count; i++)
        if (policy_is_token_place(service, request->headers.items[i].name))
            return true;
    return false;
}

/* The rule for the request. One about paths is out of the question when a path has two readings. */
static const struct egress_rule *rule_for(const struct http_request *request,
                                          const struct entry *entry,
                                          const struct policy_grant *grant, const char *path)
{
    return grant->egress != NULL ? egress_find(grant->egress, &entry->host, request->method, path)
                                 : NULL;
}

static void judge_egress(const struct http_request *request, const struct entry *entry,
                         const struct policy_grant *grant, const struct egress_rule *rule,
                         struct policy_decision *out)
{
    if (rule == NULL && reach_of(grant, &entry->host) == EGRESS_CLOSED) {
        policy_refuse(out, 403, "host_not_allowed", NOT_REACHED);
    } else if (rule == NULL) {
        policy_refuse(out, 403, "request_not_allowed",
                      "this method and path are not allowed for the host");
    } else if (policy_token_misplaced(request, NULL)) {
        policy_refuse(out, 403, "token_misplaced",
                      "the run's token has no place in requests to this host");
    } else {
        out->made =
            service_host_new(&entry->host, entry->clear ? "http" : "https", &rule->exception);
        out->service = out->made;
        policy_allow(request, entry, out);
    }
}

/* OUT->path begins with SERVICE's prefix. */
static void judge_at(const struct service *service, const struct http_request *request,
                     const struct entry *entry, const struct policy_grant *grant,
                     struct policy_decision *out)
{
    char *below = mem_strdup(out->path + strlen(service->prefix));

    out->service = service;
    free(out->path);
    out->path = below;
    policy_judge_service(request, entry, grant, out);
}

/* Registries have names such as /@scope%2fname. A path that was refused for that is allowed after
 * all when a rule for the whole host allows the request, or where a service has such names. */
static void judge_escaped_slash(const struct http_request *request, const struct entry *entry,
                                const struct policy_grant *grant, struct policy_decision *out)
{
    const char *reason;
    const struct egress_rule *rule = rule_for(request, entry, grant, NULL);
    AUTO_FREE
    char *path = url_path_slashes(entry->path, entry->path_len, &reason);
    const struct service *service;

    if (path == NULL || strcmp(out->reason, "encoded_slash") != 0)
        return;
    service = service_at(grant, &entry->host, entry->clear ? "http" : "https", path);
    if (policy_keeps_slashes(service) && brings_token(request, service)) {
        free(out->path);
        out->path = STEAL(path);
        judge_at(service, request, entry, grant, out);
    } else if (rule != NULL) {
        free(out->path);
        out->path = STEAL(path);
        judge_egress(request, entry, grant, rule, out);
    }
}

/* A request that names its host: for the service there, else by the rules for hosts. What a service
 * does not allow, or was not asked for with the token, a rule may still allow without a credential.
 */
void policy_judge_host(const struct http_request *request, const struct entry *entry,
                       const struct policy_grant *grant, struct policy_decision *out)
{
    const struct egress_rule *rule;
    const struct service *service;

    out->host = entry->host;
    if (entry->kind == ENTRY_ABSOLUTE && !policy_check_proxy_token(request, grant, out))
        return;
    if (!policy_set_path(entry, out)) {
        judge_escaped_slash(request, entry, grant, out);
        return;
    }
    service = service_at(grant, &entry->host, entry->clear ? "http" : "https", out->path);
    rule = rule_for(request, entry, grant, out->path);
    if (service == NULL || (!brings_token(request, service) && rule != NULL))
        judge_egress(request, entry, grant, rule, out);
    else
        judge_at(service, request, entry, grant, out);
}
