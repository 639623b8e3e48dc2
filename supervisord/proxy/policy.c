/* policy.c: checks from the outside in: entry, service, path, token, grant, rules. */
#include "proxy/policy.h"

#include <sodium.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/entry.h"
#include "proxy/forge_rules.h"

#define BASIC_MAX 512 /* decoded bytes of a Basic credential */

/* Paths
 * ---------------------------------------------------------------------------------------------------------
 */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_unreserved(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

/* pchar of RFC 3986 and the slash. */
static bool is_path_char(unsigned char c)
{
    return is_unreserved(c) || (c != '\0' && strchr("!$&'()*+,;=:@/", c) != NULL);
}

/* What to make of a slash that is escaped. */
enum escaped_slash { SLASH_REFUSED, SLASH_KEPT };

/* Why an escaped byte must not be in a path, or NULL. */
static const char *escaped_reason(unsigned char c, const char *behind, size_t left,
                                  enum escaped_slash slash)
{
    if (c == '/' && slash == SLASH_KEPT)
        return NULL;
    if (c == '/' || c == '\\')
        return "encoded_slash";
    if (c == '.')
        return "encoded_dot";
    if (c < 0x20 || c == 0x7f)
        return "encoded_control";
    if (c == '%' && left >= 2 && hex_value(behind[0]) >= 0 && hex_value(behind[1]) >= 0)
        return "double_encoding";
    return NULL;
}

/* One segment without its slashes. */
static const char *segment_reason(const char *segment, size_t len)
{
    size_t name = 0;

    while (name < len && segment[name] != ';')
        name++;
    if ((name == 1 && segment[0] == '.') || (name == 2 && segment[0] == '.' && segment[1] == '.'))
        return "dot_segment";
    return NULL;
}

static const char *segments_reason(const char *path, size_t len)
{
    size_t at = 1;

    while (at <= len) {
        const char *slash = at < len ? memchr(path + at, '/', len - at) : NULL;
        size_t end = slash != NULL ? (size_t)(slash - path) : len;
        const char *reason = segment_reason(path + at, end - at);

        if (reason != NULL)
            return reason;
        if (end == at && slash != NULL)
            return "empty_segment";
        at = end + 1;
    }
    return NULL;
}

/* Writes the canonical form to OUT and the decoded bytes to DECODED, both with room for LEN + 1. */
static const char *canonicalise(const char *path, size_t len, enum escaped_slash slash, char *out,
                                char *decoded)
{
    size_t to = 0;
    size_t plain = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];
        const char *reason;

        if (c != '%') {
            if (!is_path_char(c))
                return "bad_path";
            out[to++] = decoded[plain++] = (char)c;
            continue;
        }
        if (len - i < 3 || hex_value(path[i + 1]) < 0 || hex_value(path[i + 2]) < 0)
            return "bad_path";
        c = (unsigned char)(hex_value(path[i + 1]) << 4 | hex_value(path[i + 2]));
        reason = escaped_reason(c, path + i + 3, len - i - 3, slash);
        if (reason != NULL)
            return reason;
        decoded[plain++] = (char)c;
        if (is_unreserved(c)) {
            out[to++] = (char)c;
        } else {
            static const char digits[] = "0123456789ABCDEF";

            out[to++] = '%';
            out[to++] = digits[c >> 4];
            out[to++] = digits[c & 15];
        }
        i += 2;
    }
    out[to] = '\0';
    if (!str_is_utf8(decoded, plain))
        return "bad_utf8";
    /* With a slash kept escaped, the other reading must be harmless as well. */
    if (slash == SLASH_KEPT && segments_reason(decoded, plain) != NULL)
        return segments_reason(decoded, plain);
    return segments_reason(out, to);
}

static char *canonical(const char *path, size_t len, enum escaped_slash slash, const char **reason)
{
    AUTO_FREE
    char *out = mem_new_zero(1, len + 1);
    AUTO_FREE
    char *decoded = mem_new_zero(1, len + 1);

    *reason =
        len == 0 || path[0] != '/' ? "bad_path" : canonicalise(path, len, slash, out, decoded);
    return *reason == NULL ? STEAL(out) : NULL;
}

char *policy_path_canonical(const char *path, size_t len, const char **reason)
{
    return canonical(path, len, SLASH_REFUSED, reason);
}

char *policy_path_slashes(const char *path, size_t len, const char **reason)
{
    return canonical(path, len, SLASH_KEPT, reason);
}

bool policy_path_plain(const char *path, size_t len)
{
    const char *reason;
    AUTO_FREE
    char *canonical = policy_path_canonical(path, len, &reason);

    return canonical != NULL && strlen(canonical) == len && memcmp(canonical, path, len) == 0;
}

/* Decisions
 * ------------------------------------------------------------------------------------------------------
 */

static bool refuse(struct policy_decision *out, int status, const char *reason, const char *message)
{
    out->allowed = false;
    out->status = status;
    out->reason = reason;
    out->message = message;
    return false;
}

/* The path below the service, in the one form that is judged and sent. */
static bool set_path(const struct entry *entry, struct policy_decision *out)
{
    const char *reason;

    free(out->path);
    out->path = policy_path_canonical(entry->path, entry->path_len, &reason);
    if (out->path != NULL)
        return true;
    out->path = mem_strdup("");
    return refuse(out, 400, reason, "the path can be read in more than one way");
}

static bool find_named(const struct entry *entry, const struct policy_grant *grant,
                       struct policy_decision *out)
{
    out->service = services_find(grant->services, entry->name, entry->name_len);
    if (out->service == NULL || entry->path_len == 0)
        return refuse(out, 404, "unknown_service", "no service of this name is configured");
    return set_path(entry, out);
}

/* Tokens
 * ---------------------------------------------------------------------------------------------------------
 */

static bool basic_matches(const struct policy_grant *grant, const char *value)
{
    char decoded[BASIC_MAX];
    const char *colon;
    size_t len = 0;
    bool matches;

    if (strncasecmp(value, "Basic ", 6) != 0)
        return false;
    value += 6 + strspn(value + 6, " ");
    if (sodium_base642bin((unsigned char *)decoded, sizeof(decoded), value, strlen(value), NULL,
                          &len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        return false;
    colon = memchr(decoded, ':', len);
    matches = colon != NULL &&
              token_matches(&grant->token, colon + 1, len - (size_t)(colon + 1 - decoded));
    sodium_memzero(decoded, sizeof(decoded));
    return matches;
}

/* VALUE is BEFORE, the token, AFTER; a scheme such as "Bearer " may be in any case. */
static bool affixed_matches(const struct policy_grant *grant, const char *value, const char *before,
                            const char *after)
{
    size_t len = strlen(value);
    size_t before_len = strlen(before);
    size_t after_len = strlen(after);

    if (len != before_len + TOKEN_LEN + after_len || strncasecmp(value, before, before_len) != 0 ||
        strcmp(value + len - after_len, after) != 0)
        return false;
    return token_matches(&grant->token, value + before_len, TOKEN_LEN);
}

/* The header in which a service's clients put the token, or NULL when this one isn't it. */
static bool is_token_place(const struct service *service, const char *name)
{
    if (service->inject == INJECT_NONE)
        return strcasecmp(name, "authorization") == 0 || strcasecmp(name, "x-api-key") == 0;
    return strcasecmp(name, service->inject_header) == 0;
}

static bool place_matches(const struct service *service, const struct policy_grant *grant,
                          const char *value)
{
    switch (service->inject) {
    case INJECT_NONE:
        return affixed_matches(grant, value, "", "") ||
               affixed_matches(grant, value, "Bearer ", "") || basic_matches(grant, value);
    case INJECT_VALUE:
        return affixed_matches(grant, value, service->inject_before, service->inject_after);
    case INJECT_BASIC:
        return basic_matches(grant, value);
    case INJECT_QUERY:
        break; /* no header is its place */
    }
    return false;
}

/* Parameters of the query whose name is the service's, as "NAME=value" between & or ends. *AT is
 * the first, *LEN its length. */
static size_t find_parameter(const struct service *service, const char *target, const char **at,
                             size_t *len)
{
    const char *part = strchr(target, '?');
    size_t name_len = strlen(service->inject_query);
    size_t count = 0;

    while (service->inject_query[0] != '\0' && part != NULL) {
        size_t part_len = strcspn(++part, "&");

        if (part_len > name_len && strncmp(part, service->inject_query, name_len) == 0 &&
            part[name_len] == '=' && count++ == 0) {
            *at = part;
            *len = part_len;
        }
        part = strchr(part, '&');
    }
    return count;
}

/* A token in the query or path, also percent-encoded. */
static bool target_holds_token(const char *target, size_t len)
{
    AUTO_FREE
    char *decoded = mem_new_zero(1, len + 1);
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        if (target[i] == '%' && len - i >= 3 && hex_value(target[i + 1]) >= 0 &&
            hex_value(target[i + 2]) >= 0) {
            decoded[to++] = (char)(hex_value(target[i + 1]) << 4 | hex_value(target[i + 2]));
            i += 2;
        } else {
            decoded[to++] = target[i];
        }
    }
    return token_occurs(decoded, to);
}

static bool token_misplaced(const struct http_request *request, const struct service *service)
{
    const char *place = NULL;
    size_t place_len = 0;

    if (service != NULL && find_parameter(service, request->target, &place, &place_len) > 0) {
        if (target_holds_token(request->target, (size_t)(place - request->target)) ||
            target_holds_token(place + place_len, strlen(place + place_len)))
            return true;
    } else if (target_holds_token(request->target, strlen(request->target))) {
        return true;
    }
    for (size_t i = 0; i < request->headers.count; i++) {
        const struct http_header *header = &request->headers.items[i];

        if (token_occurs(header->name, strlen(header->name)))
            return true;
        if ((service == NULL || !is_token_place(service, header->name)) &&
            strcasecmp(header->name, "proxy-authorization") != 0 &&
            token_occurs(header->value, strlen(header->value)))
            return true;
    }
    return false;
}

static bool refuse_token(struct policy_decision *out, const char *reason, const char *message)
{
    /* Git sends its password only when it was asked for it; the agents' libraries would retry a 401
     * for minutes. */
    out->challenge = out->service->inject == INJECT_BASIC;
    return refuse(out, out->challenge ? 401 : 403, reason, message);
}

/* The same where the key belongs into the query. */
static bool check_query_token(const struct http_request *request, const struct policy_grant *grant,
                              struct policy_decision *out)
{
    const char *place = NULL;
    size_t len = 0;
    size_t count = find_parameter(out->service, request->target, &place, &len);
    size_t name_len = strlen(out->service->inject_query) + 1;

    if (count == 0)
        return refuse_token(out, "no_token", "the run's token is missing");
    if (count > 1)
        return refuse(out, 403, "token_repeated",
                      "the parameter of the key was sent more than once");
    if (!token_matches(&grant->token, place + name_len, len - name_len))
        return refuse_token(out, "bad_token", "this is not the run's token");
    return true;
}

static bool check_token(const struct http_request *request, const struct policy_grant *grant,
                        struct policy_decision *out)
{
    const char *value = NULL;
    size_t places = 0;

    if (token_misplaced(request, out->service))
        return refuse(out, 403, "token_misplaced",
                      "the run's token belongs only where the service's key does");
    if (out->service->inject == INJECT_QUERY)
        return check_query_token(request, grant, out);
    for (size_t i = 0; i < request->headers.count; i++)
        if (is_token_place(out->service, request->headers.items[i].name)) {
            value = request->headers.items[i].value;
            places++;
        }
    if (places == 0)
        return refuse_token(out, "no_token", "the run's token is missing");
    if (places > 1)
        return refuse(out, 403, "token_repeated",
                      "the header of the service's key was sent more than once");
    if (!place_matches(out->service, grant, value))
        return refuse_token(out, "bad_token", "this is not the run's token");
    return true;
}

/* Rules
 * ----------------------------------------------------------------------------------------------------------
 */

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
    const char *reason = NULL;
    const char *message = NULL;
    enum forge_verdict verdict =
        forge_judge_github(request->method, out->path, "", &reason, &message);

    for (size_t i = 0; i < grant->repository_count && verdict == FORGE_ANONYMOUS; i++)
        if (str_equal(grant->repositories[i].service->name, "github"))
            verdict = forge_judge_github(request->method, out->path, grant->repositories[i].path,
                                         &reason, &message);
    if (verdict == FORGE_REFUSED)
        return refuse(out, 403, reason, message);
    out->anonymous = verdict == FORGE_ANONYMOUS;
    return true;
}

static bool check_rules(const struct http_request *request, const struct policy_grant *grant,
                        struct policy_decision *out)
{
    const struct service *service = out->service;

    if (out->git == GIT_ENDPOINT_LFS)
        return refuse(out, 403, "lfs_not_allowed",
                      "Git LFS is not served to sandboxes: its storage is reached with credentials "
                      "of its own");
    if (service->git && out->git != GIT_ENDPOINT_NONE)
        return true;
    out->graphql = service->forge && strncasecmp(out->path, "/graphql", 8) == 0;
    if (service->forge && service->rule_count == 0)
        return check_forge(request, grant, out);
    if (!service->git && service->rule_count == 0)
        return true;
    for (size_t i = 0; i < service->rule_count; i++)
        if (rule_matches(&service->rules[i], request->method, out->path))
            return true;
    return refuse(out, 403, "request_not_allowed",
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
        return refuse(out, 403, "request_not_allowed", "this is not how git pushes");
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
    if (out->git != GIT_ENDPOINT_READ)
        return refuse(out, 403, "repository_not_allowed",
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

    if (find_parameter(service, query, &at, &len) == 0)
        return mem_strdup(query);
    if (at[len] == '&')
        return mem_printf("%.*s%s", (int)(at - query), query, at + len + 1);
    return mem_printf("%.*s", (int)(at - query) - 1, query); /* with what stood before it */
}

static void allow(const struct http_request *request, const struct entry *entry,
                  struct policy_decision *out)
{
    const struct service *service = out->service;
    AUTO_FREE
    char *query = query_without_token(service, entry->query);

    out->allowed = true;
    out->reason = "ok";
    out->action = entry->websocket ? POLICY_UPGRADE : POLICY_FORWARD;
    out->model = !service->egress && !service->git && is_model_request(request, out->path);
    out->upstream_path = mem_printf("%s%s%s", service->prefix, out->path, query);
}

/* A request for a service, whose path below it is in OUT already. */
static void judge_service(const struct http_request *request, const struct entry *entry,
                          const struct policy_grant *grant, struct policy_decision *out)
{
    if (!check_token(request, grant, out))
        return;
    if (!is_granted(grant, out->service)) {
        refuse(out, 403, "service_not_granted", "this run may not use the service");
        return;
    }
    if (!find_repository(request, entry->query, out) || !check_rules(request, grant, out) ||
        !check_repository(grant, out))
        return;
    if (entry->websocket && (out->service->pushes || out->service->forge)) {
        refuse(out, 403, "upgrade_not_allowed", "nothing of a WebSocket could be judged here");
        return;
    }
    allow(request, entry, out);
}

/* Hosts
 * ----------------------------------------------------------------------------------------------------------
 */

#define NOT_REACHED "this host can't be reached from the sandbox"

/* A tunnel, or a request in the clear for a host: who may use the proxy at all. */
static bool check_proxy_token(const struct http_request *request, const struct policy_grant *grant,
                              struct policy_decision *out)
{
    const char *value = http_headers_get(&request->headers, "proxy-authorization");

    if (value == NULL && grant->open_listener)
        return true;
    if (value == NULL)
        return refuse(out, 407, "no_token", "the run's token is missing");
    if (http_headers_count_of(&request->headers, "proxy-authorization") > 1)
        return refuse(out, 403, "token_repeated", "the run's token was sent more than once");
    if (!basic_matches(grant, value) && !affixed_matches(grant, value, "Bearer ", ""))
        return refuse(out, 407, "bad_token", "this is not the run's token");
    return true;
}

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

static void judge_tunnel(const struct http_request *request, const struct entry *entry,
                         const struct policy_grant *grant, struct policy_decision *out)
{
    enum egress_reach reach = reach_of(grant, &entry->host);
    bool service = has_service(grant, &entry->host);

    if (token_misplaced(request, NULL)) {
        refuse(out, 403, "token_misplaced", "the run's token belongs into another header");
        return;
    }
    if (!check_proxy_token(request, grant, out))
        return;
    if (reach == EGRESS_CLOSED && !service) {
        refuse(out, 403, "host_not_allowed", NOT_REACHED);
        return;
    }
    if ((service || reach == EGRESS_JUDGED) && !grant->intercepts) {
        refuse(out, 403, "connect_not_allowed", "tunnels to this host are not allowed");
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

    if (find_parameter(service, request->target, &place, &len) > 0)
        return true;
    for (size_t i = 0; i < request->headers.count; i++)
        if (is_token_place(service, request->headers.items[i].name))
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
        refuse(out, 403, "host_not_allowed", NOT_REACHED);
    } else if (rule == NULL) {
        refuse(out, 403, "request_not_allowed",
               "this method and path are not allowed for the host");
    } else if (token_misplaced(request, NULL)) {
        refuse(out, 403, "token_misplaced",
               "the run's token has no place in requests to this host");
    } else {
        out->made =
            service_host_new(&entry->host, entry->clear ? "http" : "https", &rule->exception);
        out->service = out->made;
        allow(request, entry, out);
    }
}

/* Registries have names such as /@scope%2fname. A path that was refused for that is allowed after
 * all when a rule for the whole host allows the request. */
static void judge_escaped_slash(const struct http_request *request, const struct entry *entry,
                                const struct policy_grant *grant, struct policy_decision *out)
{
    const char *reason;
    const struct egress_rule *rule = rule_for(request, entry, grant, NULL);
    AUTO_FREE
    char *path = policy_path_slashes(entry->path, entry->path_len, &reason);

    if (path == NULL || rule == NULL || strcmp(out->reason, "encoded_slash") != 0)
        return;
    free(out->path);
    out->path = STEAL(path);
    judge_egress(request, entry, grant, rule, out);
}

/* A request that names its host: for the service there, else by the rules for hosts. What a service
 * does not allow, or was not asked for with the token, a rule may still allow without a credential.
 */
static void judge_host(const struct http_request *request, const struct entry *entry,
                       const struct policy_grant *grant, struct policy_decision *out)
{
    const struct egress_rule *rule;
    const struct service *service;

    out->host = entry->host;
    if (entry->kind == ENTRY_ABSOLUTE && !check_proxy_token(request, grant, out))
        return;
    if (!set_path(entry, out)) {
        judge_escaped_slash(request, entry, grant, out);
        return;
    }
    service = service_at(grant, &entry->host, entry->clear ? "http" : "https", out->path);
    rule = rule_for(request, entry, grant, out->path);
    if (service == NULL || (!brings_token(request, service) && rule != NULL)) {
        judge_egress(request, entry, grant, rule, out);
        return;
    }
    out->service = service;
    AUTO_FREE
    char *below = mem_strdup(out->path + strlen(service->prefix));
    free(out->path);
    out->path = STEAL(below);
    judge_service(request, entry, grant, out);
}

void policy_decide_inside(const struct http_request *request, const struct policy_grant *grant,
                          const struct entry_tunnel *inside, struct policy_decision *out)
{
    struct entry_fault fault;
    struct entry entry;

    *out = (struct policy_decision){ .path = mem_strdup("") };
    if (!entry_read(request, inside, &entry, &fault)) {
        refuse(out, fault.status, fault.reason, fault.message);
        return;
    }
    switch (entry.kind) {
    case ENTRY_BASE_URL:
        if (find_named(&entry, grant, out))
            judge_service(request, &entry, grant, out);
        break;
    case ENTRY_CONNECT:
        judge_tunnel(request, &entry, grant, out);
        break;
    case ENTRY_ABSOLUTE:
    case ENTRY_INTERCEPTED:
        judge_host(request, &entry, grant, out);
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
