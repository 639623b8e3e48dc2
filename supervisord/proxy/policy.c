/* policy.c: checks from the outside in: entry, then policy_service.c or policy_host.c. */
#include "proxy/policy_internal.h"

#include <string.h>

#include "common/mem.h"
#include "proxy/forge_rules.h"
#include "proxy/url_path.h"

bool policy_refuse(struct policy_decision *out, int status, const char *reason, const char *message)
{
    out->allowed = false;
    out->status = status;
    out->reason = reason;
    out->message = message;
    return false;
}

bool policy_keeps_slashes(const struct service *service)
{
    return service != NULL && service->forge != NULL && service->forge->escaped_slash;
}

/* The path below the service, in the one form that is judged and sent. */
bool policy_set_path(const struct entry *entry, struct policy_decision *out)
{
    const char *reason;

    free(out->path);
    out->path = url_path_canonical(entry->path, entry->path_len, &reason);
    if (out->path == NULL && strcmp(reason, "encoded_slash") == 0 &&
        policy_keeps_slashes(out->service))
        out->path = url_path_slashes(entry->path, entry->path_len, &reason);
    if (out->path != NULL)
        return true;
    out->path = mem_strdup("");
    return policy_refuse(out, 400, reason, "the path can be read in more than one way");
}

static bool find_named(const struct entry *entry, const struct policy_grant *grant,
                       struct policy_decision *out)
{
    out->service = services_find(grant->services, entry->name, entry->name_len);
    if (out->service == NULL || entry->path_len == 0)
        return policy_refuse(out, 404, "unknown_service", "no service of this name is configured");
    return policy_set_path(entry, out);
}

void policy_decide_inside(const struct http_request *request, const struct policy_grant *grant,
                          const struct entry_tunnel *inside, struct policy_decision *out)
{
    struct entry_fault fault;
    struct entry entry;

    *out = (struct policy_decision){ .path = mem_strdup("") };
    if (!entry_read(request, inside, &entry, &fault)) {
        policy_refuse(out, fault.status, fault.reason, fault.message);
        return;
    }
    switch (entry.kind) {
    case ENTRY_BASE_URL:
        if (find_named(&entry, grant, out))
            policy_judge_service(request, &entry, grant, out);
        break;
    case ENTRY_CONNECT:
        policy_judge_tunnel(request, &entry, grant, out);
        break;
    case ENTRY_ABSOLUTE:
    case ENTRY_INTERCEPTED:
        policy_judge_host(request, &entry, grant, out);
        break;
    }
}

void policy_decide(const struct http_request *request, const struct policy_grant *grant,
                   struct policy_decision *out)
{
    policy_decide_inside(request, grant, NULL, out);
}

void policy_decision_finish(struct policy_decision *decision)
{
    free(decision->path);
    free(decision->upstream_path);
    service_host_free(decision->made);
    *decision = (struct policy_decision){ 0 };
}
