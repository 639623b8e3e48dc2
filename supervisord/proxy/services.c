/* services.c: targets and templates are checked here, at start, so that a request never meets a bad
 * one. */
#include "proxy/services.h"

#include <ctype.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "http/http.h"
#include "proxy/forge_rules.h"
#include "proxy/git_rules.h"
#include "proxy/url_path.h"

#define NAME_MAX_LEN 64

static bool name_valid(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

    return len > 0 && len <= NAME_MAX_LEN && name[len] == '\0' && name[0] != '.';
}

static int bad(struct error *err, const struct proxy_service *from, const char *what)
{
    return error_argument(err, "services", "service %s: %s", from->name, what);
}

/* "example.com", "example.com:8443" as in a Host header. */
static char *host_header(const struct host *host, uint16_t default_port)
{
    char text[HOST_TEXT_SIZE];

    host_format(host, text);
    if (host->port == default_port)
        *strrchr(text, ':') = '\0';
    return mem_strdup(text);
}

static int parse_target(struct service *service, const struct proxy_service *from,
                        struct error *err)
{
    const char *rest;
    uint16_t default_port;
    size_t len;

    if (strncasecmp(from->target, "https://", 8) == 0) {
        service->scheme = mem_strdup("https");
        default_port = 443;
        rest = from->target + 8;
    } else if (strncasecmp(from->target, "http://", 7) == 0) {
        service->scheme = mem_strdup("http");
        default_port = 80;
        rest = from->target + 7;
    } else {
        return bad(err, from, "the target is no http or https address");
    }
    len = strcspn(rest, "/?#");
    if (!host_parse(rest, len, default_port, &service->where))
        return bad(err, from, "the target's host is not valid");
    addr_exception_parse(service->where.name, &service->exception);
    service->exception.private = from->private;
    service->origin = mem_printf("%s://%.*s", service->scheme, (int)len, rest);
    service->host = host_header(&service->where, default_port);
    rest += len;
    len = strlen(rest);
    while (len > 0 && rest[len - 1] == '/')
        len--;
    if (len > 0 && !url_path_plain(rest, len))
        return bad(err, from, "the target's path is not plain");
    service->prefix = mem_strndup(rest, len);
    return 0;
}

/* "Bearer {NAME}", "Basic {NAME:basic:user}", or a text without a secret. */
static int parse_template(struct service *service, const struct proxy_service *from,
                          struct error *err)
{
    const char *open = strchr(from->inject_value, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    const char *colon;
    size_t name_len;

    if (!http_value_valid(from->inject_value, strlen(from->inject_value)))
        return bad(err, from, "the header value holds control characters");
    if (open == NULL || close == NULL || strchr(open + 1, '{') != NULL ||
        strchr(close + 1, '}') != NULL)
        return bad(err, from, "the header value needs exactly one {SECRET}");
    service->inject_before = mem_strndup(from->inject_value, (size_t)(open - from->inject_value));
    service->inject_after = mem_strdup(close + 1);
    AUTO_FREE
    char *inside = mem_strndup(open + 1, (size_t)(close - open - 1));
    colon = strchr(inside, ':');
    name_len = colon != NULL ? (size_t)(colon - inside) : strlen(inside);
    service->secret = mem_strndup(inside, name_len);
    if (!vault_name_valid(service->secret))
        return bad(err, from, "the name in braces is no secret's name");
    if (from->secret != NULL && from->secret[0] != '\0' &&
        strcmp(from->secret, service->secret) != 0)
        return bad(err, from, "the secret and the name in braces differ");
    service->inject = INJECT_VALUE;
    if (colon == NULL)
        return 0;
    if (strncmp(colon, ":basic:", 7) != 0 || colon[7] == '\0' || strchr(colon + 7, ':') != NULL)
        return bad(err, from, "the only form behind a secret's name is :basic:USER");
    service->inject = INJECT_BASIC;
    service->basic_user = mem_strdup(colon + 7);
    return 0;
}

static int parse_query(struct service *service, const struct proxy_service *from, struct error *err)
{
    static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    if (service->inject_header[0] != '\0')
        return bad(err, from, "a credential goes into a header or into the query, not both");
    if (service->inject_query[strspn(service->inject_query, bytes)] != '\0')
        return bad(err, from, "the parameter's name is not valid");
    if (from->inject_value == NULL)
        return bad(err, from, "the parameter has no value");
    if (parse_template(service, from, err) < 0)
        return -1;
    if (service->inject != INJECT_VALUE || service->inject_before[0] != '\0' ||
        service->inject_after[0] != '\0')
        return bad(err, from, "in the query the value is just {SECRET}");
    service->inject = INJECT_QUERY;
    return 0;
}

static int parse_inject(struct service *service, const struct proxy_service *from,
                        struct error *err)
{
    const char *header = from->inject_header != NULL ? from->inject_header : "";

    service->inject_header = mem_strdup(header);
    service->inject_query = mem_strdup(from->inject_query != NULL ? from->inject_query : "");
    if (service->inject_query[0] != '\0')
        return parse_query(service, from, err);
    if (header[0] == '\0') {
        service->secret = mem_strdup("");
        return 0;
    }
    if (!http_token_valid(header, strlen(header)))
        return bad(err, from, "the header's name is not valid");
    for (char *c = service->inject_header; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    if (from->inject_value == NULL)
        return bad(err, from, "the header has no value");
    return parse_template(service, from, err);
}

/* "POST /v1/messages", "GET /models/..." */
static int parse_rule(struct allow_rule *rule, const struct proxy_service *from, const char *text,
                      struct error *err)
{
    const char *space = strchr(text, ' ');
    size_t len;

    if (space == NULL || !http_token_valid(text, (size_t)(space - text)) || space[1] != '/')
        return bad(err, from, "a rule must read METHOD /path");
    rule->method = mem_strndup(text, (size_t)(space - text));
    len = strlen(space + 1);
    rule->below = len >= 4 && (str_ends(space + 1, "/...") || str_ends(space + 1, "/\xe2\x80\xa6"));
    if (rule->below)
        len -= 3;
    rule->path = mem_strndup(space + 1, len);
    if (!url_path_plain(rule->path, len))
        return bad(err, from, "a rule's path is not plain");
    return 0;
}

static int parse_git(struct service *service, const struct proxy_service *from, struct error *err)
{
    static const char *const default_refs[] = { "agent/..." };
    bool given = from->push_refs != NULL;

    service->push_ref_count = given ? from->push_ref_count : ARRAY_LEN(default_refs);
    service->push_refs =
        str_list_copy(given ? from->push_refs : default_refs, service->push_ref_count);
    service->push_overwrite = from->push_overwrite;
    service->repositories = str_list_copy(from->repositories, from->repository_count);
    service->repository_count = from->repository_count;
    for (size_t i = 0; i < service->push_ref_count; i++)
        if (!git_ref_pattern_valid(service->push_refs[i]))
            return bad(err, from, "a ref to push must read agent/... or refs/heads/name");
    return 0;
}

static int parse_service(struct service *service, const struct proxy_service *from,
                         struct error *err)
{
    if (from->name == NULL || !name_valid(from->name))
        return error_argument(err, "services", "a service's name is not valid");
    service->name = mem_strdup(from->name);
    if (parse_target(service, from, err) < 0 || parse_inject(service, from, err) < 0)
        return -1;
    service->rules = mem_new_zero(from->allow_count + 1, sizeof(*service->rules));
    for (size_t i = 0; i < from->allow_count; i++) {
        service->rule_count++;
        if (parse_rule(&service->rules[i], from, from->allow[i], err) < 0)
            return -1;
    }
    service->git = service->rule_count == 0 &&
                   (strcmp(service->name, "github") == 0 || strcmp(service->name, "gitlab") == 0 ||
                    strcmp(service->name, "gitea") == 0);
    service->forge = forge_api_of(service->name);
    service->model = from->model;
    service->probe = mem_strdup(from->probe != NULL ? from->probe : "");
    service->pushes = service->git || service->inject == INJECT_BASIC;
    return parse_git(service, from, err);
}

static void service_finish(struct service *service)
{
    for (size_t i = 0; i < service->rule_count; i++) {
        free(service->rules[i].method);
        free(service->rules[i].path);
    }
    free(service->rules);
    str_list_free(service->push_refs, service->push_ref_count);
    str_list_free(service->repositories, service->repository_count);
    free(service->name);
    free(service->scheme);
    free(service->origin);
    free(service->host);
    free(service->prefix);
    free(service->inject_header);
    free(service->inject_query);
    free(service->inject_before);
    free(service->inject_after);
    free(service->basic_user);
    free(service->secret);
    free(service->probe);
}

struct service *service_host_new(const struct host *host, const char *scheme,
                                 const struct addr_exception *exception)
{
    struct service *service = NEW(struct service);
    char text[HOST_TEXT_SIZE];

    host_format(host, text);
    service->name = mem_strdup("");
    service->scheme = mem_strdup(scheme);
    service->origin = mem_printf("%s://%s", scheme, text);
    service->host = host_header(host, strcmp(scheme, "https") == 0 ? 443 : 80);
    service->where = *host;
    service->prefix = mem_strdup("");
    service->exception = *exception;
    service->inject_header = mem_strdup("");
    service->inject_query = mem_strdup("");
    service->secret = mem_strdup("");
    service->probe = mem_strdup("");
    service->egress = true;
    return service;
}

void service_host_free(struct service *service)
{
    if (service == NULL)
        return;
    service_finish(service);
    free(service);
}

int services_init(struct services *services, const struct proxy_service *list, size_t count,
                  struct error *err)
{
    services->items = mem_new_zero(count + 1, sizeof(*services->items));
    services->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct service *service = &services->items[services->count++];

        if (parse_service(service, &list[i], err) < 0) {
            services_finish(services);
            return -1;
        }
    }
    return 0;
}

void services_finish(struct services *services)
{
    for (size_t i = 0; i < services->count; i++)
        service_finish(&services->items[i]);
    free(services->items);
    *services = (struct services){ 0 };
}

const struct service *services_find(const struct services *services, const char *name, size_t len)
{
    for (size_t i = 0; i < services->count; i++)
        if (strlen(services->items[i].name) == len &&
            memcmp(services->items[i].name, name, len) == 0)
            return &services->items[i];
    return NULL;
}
