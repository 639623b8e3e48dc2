/* policy_token.c: where a run's token belongs in a request, and whether it is the right one. */
#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/policy_internal.h"
#include "proxy/url_path.h"

#define BASIC_MAX 512 /* decoded bytes of a Basic credential */

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
bool policy_is_token_place(const struct service *service, const char *name)
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
size_t policy_find_parameter(const struct service *service, const char *target, const char **at,
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
        if (target[i] == '%' && len - i >= 3 && str_hex_value(target[i + 1]) >= 0 &&
            str_hex_value(target[i + 2]) >= 0) {
            decoded[to++] =
                (char)(str_hex_value(target[i + 1]) << 4 | str_hex_value(target[i + 2]));
            i += 2;
        } else {
            decoded[to++] = target[i];
        }
    }
    return token_occurs(decoded, to);
}

bool policy_token_misplaced(const struct http_request *request, const struct service *service)
{
    const char *place = NULL;
    size_t place_len = 0;

    if (service != NULL &&
        policy_find_parameter(service, request->target, &place, &place_len) > 0) {
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
        if ((service == NULL || !policy_is_token_place(service, header->name)) &&
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
    return policy_refuse(out, out->challenge ? 401 : 403, reason, message);
}

/* The same where the key belongs into the query. */
static bool check_query_token(const struct http_request *request, const struct policy_grant *grant,
                              struct policy_decision *out)
{
    const char *place = NULL;
    size_t len = 0;
    size_t count = policy_find_parameter(out->service, request->target, &place, &len);
    size_t name_len = strlen(out->service->inject_query) + 1;

    if (count == 0)
        return refuse_token(out, "no_token", "the run's token is missing");
    if (count > 1)
        return policy_refuse(out, 403, "token_repeated",
                             "the parameter of the key was sent more than once");
    if (!token_matches(&grant->token, place + name_len, len - name_len))
        return refuse_token(out, "bad_token", "this is not the run's token");
    return true;
}

bool policy_check_token(const struct http_request *request, const struct policy_grant *grant,
                        struct policy_decision *out)
{
    const char *value = NULL;
    size_t places = 0;

    if (policy_token_misplaced(request, out->service))
        return policy_refuse(out, 403, "token_misplaced",
                             "the run's token belongs only where the service's key does");
    if (out->service->inject == INJECT_QUERY)
        return check_query_token(request, grant, out);
    for (size_t i = 0; i < request->headers.count; i++)
        if (policy_is_token_place(out->service, request->headers.items[i].name)) {
            value = request->headers.items[i].value;
            places++;
        }
    if (places == 0)
        return refuse_token(out, "no_token", "the run's token is missing");
    if (places > 1)
        return policy_refuse(out, 403, "token_repeated",
                             "the header of the service's key was sent more than once");
    if (!place_matches(out->service, grant, value))
        return refuse_token(out, "bad_token", "this is not the run's token");
    return true;
}

/* A tunnel, or a request in the clear for a host: who may use the proxy at all. */
bool policy_check_proxy_token(const struct http_request *request, const struct policy_grant *grant,
                              struct policy_decision *out)
{
    const char *value = http_headers_get(&request->headers, "proxy-authorization");

    if (value == NULL && grant->open_listener)
        return true;
    if (value == NULL)
        return policy_refuse(out, 407, "no_token", "the run's token is missing");
    if (http_headers_count_of(&request->headers, "proxy-authorization") > 1)
        return policy_refuse(out, 403, "token_repeated", "the run's token was sent more than once");
    if (!basic_matches(grant, value) && !affixed_matches(grant, value, "Bearer ", ""))
        return policy_refuse(out, 407, "bad_token", "this is not the run's token");
    return true;
}
