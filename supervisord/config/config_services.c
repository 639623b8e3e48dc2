#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum { SERVICES_MAX = 256, ALLOW_MAX = 256, MODELS_MAX = 256, REFS_MAX = 64, TEXT_MAX = 2048 };

static const char lower_letters[] = "abcdefghijklmnopqrstuvwxyz";
#define PATH_BYTES CONFIG_UPPER CONFIG_LOWER CONFIG_DIGITS "-._~!$&'()*+,;=:@%/"

/* The built-in ones. A file's entry of the same name replaces single fields. Those without a target
 * are there once the file gives them one. */
static const struct builtin {
    const char *name;
    const char *target;
    const char *header;
    const char *value;
    const char *npm;
    const char *path;
    const char *probe; /* answered differently to who has no key */
} builtins[] = {
    { "anthropic", "https://api.anthropic.com", "x-api-key", "{ANTHROPIC_API_KEY}",
      "@ai-sdk/anthropic", "/v1", "/v1/models" },
    { "openai", "https://api.openai.com", "authorization", "Bearer {OPENAI_API_KEY}",
      "@ai-sdk/openai", "/v1", "/v1/models" },
    { "google", "https://generativelanguage.googleapis.com", "x-goog-api-key", "{GOOGLE_API_KEY}",
      "@ai-sdk/google", "/v1beta", "/v1beta/models" },
    /* its list of models is for everybody */
    { "openrouter", "https://openrouter.ai", "authorization", "Bearer {OPENROUTER_API_KEY}",
      "@openrouter/ai-sdk-provider", "/api/v1", "/api/v1/key" },
    /* Its target is the resource's own: https://NAME.openai.azure.com */
    { "azure-openai", "", "api-key", "{AZURE_OPENAI_API_KEY}", "@ai-sdk/azure", "/openai",
      "/openai/models?api-version=2024-10-21" },
    /* git over HTTPS: base64("x-access-token:" + secret). Its probe is the forge's own example,
     * public to all but to those who come with a false password. */
    { "github", "https://github.com", "authorization", "Basic {GITHUB_TOKEN:basic:x-access-token}",
      "", "", "/octocat/Hello-World.git/info/refs?service=git-upload-pack" },
    /* its API: to read the session's repository; its uploads only where rules allow them */
    { "github-api", "https://api.github.com", "authorization", "Bearer {GITHUB_TOKEN}", "", "",
      "/user" },
    { "github-uploads", "https://uploads.github.com", "authorization", "Bearer {GITHUB_TOKEN}", "",
      "", "" },
    { "gitlab", "https://gitlab.com", "authorization", "Basic {GITLAB_TOKEN:basic:oauth2}", "", "",
      "/gitlab-org/gitlab-test.git/info/refs?service=git-upload-pack" },
    { "gitlab-api", "https://gitlab.com/api/v4", "private-token", "{GITLAB_TOKEN}", "", "",
      "/user" },
    { "gitea", "", "authorization", "Basic {GITEA_TOKEN:basic:oauth2}", "", "", "" },
    /* Its target ends in /api/v1. */
    { "gitea-api", "", "authorization", "token {GITEA_TOKEN}", "", "", "/user" },
};

/* Headers that frame a message or name its receiver are the proxy's own. */
static const char *const reserved_headers[] = {
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "content-type",
    "content-encoding",
    NULL,
};

static void service_finish(struct config_service *service)
{
    free(service->name);
    free(service->target);
    free(service->inject_header);
    free(service->inject_query);
    free(service->inject_value);
    free(service->secret);
    free(service->provider_npm);
    free(service->provider_path);
    free(service->probe);
    config_list_free(service->allow, service->allow_count);
    config_list_free(service->push_refs, service->push_ref_count);
    config_list_free(service->git_repositories, service->git_repository_count);
    config_list_free(service->provider_models, service->provider_model_count);
}

/* The array is made with its final room, so that pointers into it stay. */
static struct config_service *service_add(struct config *config, const char *name)
{
    struct config_service *service = &config->services[config->service_count++];

    service->name = mem_strdup(name);
    service->target = mem_strdup("");
    service->inject_header = mem_strdup("");
    service->inject_query = mem_strdup("");
    service->inject_value = mem_strdup("");
    service->secret = mem_strdup("");
    service->provider_npm = mem_strdup("");
    service->provider_path = mem_strdup("");
    service->probe = mem_strdup("");
    return service;
}

static struct config_service *service_find(struct config *config, const char *name)
{
    for (size_t i = 0; i < config->service_count; i++) {
        if (str_equal(config->services[i].name, name))
            return &config->services[i];
    }
    return NULL;
}

void config_services_finish(struct config *config)
{
    for (size_t i = 0; i < config->service_count; i++)
        service_finish(&config->services[i]);
    free(config->services);
    config->services = NULL;
    config->service_count = 0;
}

/* Rules of single values: each sets err->text without the value's name. ----------------------- */

/* No empty, "." or ".." segment, so that what is compared is what is sent. */
static bool valid_path(const char *path)
{
    if (path[0] != '/' || path[strspn(path, PATH_BYTES)] != '\0')
        return false;
    for (const char *at = path; *at != '\0';) {
        size_t len = strcspn(++at, "/");

        if (len == 0 && at[0] != '\0')
            return false;
        if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += len;
    }
    return strstr(path, "%2e") == NULL && strstr(path, "%2E") == NULL &&
           strstr(path, "%2f") == NULL && strstr(path, "%2F") == NULL;
}

static bool is_loopback(const char *host)
{
    unsigned char address[4];

    if (str_equal(host, "localhost") || str_equal(host, "[::1]"))
        return true;
    return inet_pton(AF_INET, host, address) == 1 && address[0] == 127;
}

static bool valid_host(const char *host)
{
    unsigned char address[16];
    size_t len = strlen(host);

    if (host[0] == '[') {
        if (len < 4 || host[len - 1] != ']')
            return false;
        AUTO_FREE
        char *inside = mem_strndup(host + 1, len - 2);
        return inet_pton(AF_INET6, inside, address) == 1;
    }
    return len <= 253 && config_only(host, len, CONFIG_LOWER CONFIG_DIGITS ".-") &&
           host[0] != '.' && host[0] != '-' && host[len - 1] != '.' && host[len - 1] != '-' &&
           strstr(host, "..") == NULL;
}

static bool valid_port(const char *port)
{
    uint64_t number;

    return str_parse_u64(port, 65535, &number) && number > 0;
}

/* Splits AUTHORITY at its port, which stays behind the colon; false when either is wrong. */
static bool valid_authority(const char *authority, char **host)
{
    const char *port = strrchr(authority, ':');

    if (port != NULL && strchr(port, ']') != NULL)
        port = NULL;
    *host =
        port != NULL ? mem_strndup(authority, (size_t)(port - authority)) : mem_strdup(authority);
    return valid_host(*host) && (port == NULL || valid_port(port + 1));
}

static void lower(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = lower_letters[*text - 'A'];
    }
}

/* Normalises *TARGET: scheme and host in lower case, no slash at the end. */
static int check_target(char **target, bool plain_http, struct error *err)
{
    static const char form[] =
        "must be an http or https URL: scheme, host, optional port and path, nothing else";
    const char *rest = strstr(*target, "://");

    if (rest == NULL)
        return error_set(err, ERR_INVALID, 0, "%s", form);
    AUTO_FREE
    char *scheme = mem_strndup(*target, (size_t)(rest - *target));
    AUTO_FREE
    char *authority = mem_strndup(rest + 3, strcspn(rest + 3, "/"));
    AUTO_FREE
    char *path = mem_strdup(rest + 3 + strlen(authority));
    AUTO_FREE
    char *host = NULL;
    lower(scheme);
    lower(authority);
    if (path[0] != '\0' && path[strlen(path) - 1] == '/')
        path[strlen(path) - 1] = '\0';
    bool plain = str_equal(scheme, "http");
    if ((!plain && !str_equal(scheme, "https")) || !valid_authority(authority, &host) ||
        (path[0] != '\0' && !valid_path(path)))
        return error_set(err, ERR_INVALID, 0, "%s", form);
    if (plain && !plain_http && !is_loopback(host))
        return error_set(
            err, ERR_INVALID, 0,
            "must be https, since the credential would cross the network in the clear; "
            "\"plainHttp\": true allows it");
    config_replace(target, mem_printf("%s://%s%s", scheme, authority, path));
    return 0;
}

/* A token of RFC 9110 section 5.6.2, in lower case. */
static int check_header(char **header, struct error *err)
{
    lower(*header);
    if (strlen(*header) > 128 ||
        !config_only(*header, strlen(*header), CONFIG_LOWER CONFIG_DIGITS "!#$%&'*+-.^_`|~"))
        return error_set(err, ERR_INVALID, 0, "must be the name of an HTTP header");
    for (size_t i = 0; reserved_headers[i] != NULL; i++) {
        if (str_equal(*header, reserved_headers[i]))
            return error_set(err, ERR_INVALID, 0, "must not be \"%s\", which the proxy sets itself",
                             *header);
    }
    return 0;
}

/* Length of NAME in "{NAME}" or "{NAME:basic:user}", or 0 when what stands between the braces is
 * neither. */
static size_t secret_length(const char *inside, size_t len)
{
    static const char basic[] = ":basic:";
    const size_t basic_len = sizeof(basic) - 1;
    size_t name_len = strspn(inside, CONFIG_UPPER CONFIG_DIGITS "_");

    if (name_len == 0 || name_len > 64 || name_len > len || strspn(inside, CONFIG_UPPER) == 0)
        return 0;
    if (name_len == len)
        return name_len;
    if (len - name_len <= basic_len || strncmp(inside + name_len, basic, basic_len) != 0)
        return 0;
    /* RFC 7617: a user id holds no colon. */
    if (memchr(inside + name_len + basic_len, ':', len - name_len - basic_len) != NULL)
        return 0;
    return name_len;
}

/* Sets *SECRET to the name inside the braces. */
static int check_template(const char *value, char **secret, struct error *err)
{
    static const char form[] =
        "must hold exactly one {NAME} or {NAME:basic:user}, where NAME is a secret's name in "
        "capital letters, digits and underscores";
    const char *open = strchr(value, '{');
    const char *shut = strchr(value, '}');

    if (open == NULL || shut == NULL || shut < open || strchr(open + 1, '{') != NULL ||
        strchr(shut + 1, '}') != NULL)
        return error_set(err, ERR_INVALID, 0, "%s", form);
    for (const char *at = value; *at != '\0'; at++) {
        if (*at < 0x20 || *at > 0x7e)
            return error_set(err, ERR_INVALID, 0, "must be printable ASCII");
    }
    size_t len = secret_length(open + 1, (size_t)(shut - open - 1));
    if (len == 0)
        return error_set(err, ERR_INVALID, 0, "%s", form);
    config_replace(secret, mem_strndup(open + 1, len));
    return 0;
}

static int check_rule(const char *rule, struct error *err)
{
    const char *space = strchr(rule, ' ');
    AUTO_FREE
    char *path = NULL;

    if (space == NULL || space - rule > 20 ||
        !config_only(rule, (size_t)(space - rule), CONFIG_UPPER))
        return error_set(err, ERR_INVALID, 0,
                         "must be \"METHOD /path\", such as \"GET /models/...\"");
    path = mem_strdup(space + 1);
    size_t len = strlen(path);
    if (str_ends(path, "..."))
        path[len - 3] = '\0';
    else if (str_ends(path, "*"))
        path[len - 1] = '\0';
    if (!valid_path(path) || strchr(path, '*') != NULL || strstr(path, "...") != NULL)
        return error_set(
            err, ERR_INVALID, 0,
            "must be \"METHOD /path\" with \"...\" or \"*\" at the end of the path or nowhere");
    return 0;
}

static bool valid_service_name(const char *name)
{
    size_t len = strlen(name);

    return len <= 64 && config_only(name, len, CONFIG_LOWER CONFIG_DIGITS "-_") && name[0] != '-' &&
           name[0] != '_';
}

/* npm's rule for names, without versions. */
static bool valid_npm(const char *text)
{
    return text[0] == '\0' ||
           (strlen(text) <= 214 &&
            config_only(text, strlen(text), CONFIG_LOWER CONFIG_UPPER CONFIG_DIGITS "@/-._~"));
}

/* Reading ------------------------------------------------------------------------------------- */

/* Where we are in the file, for messages. */
struct place {
    const char *file;
    const char *service;
};

static int wrong(const struct place *place, const struct json_value *member, const char *name,
                 struct error *err)
{
    error_wrap(err, "services.%s%s%s", place->service, name[0] != '\0' ? "." : "", name);
    return config_at(err, place->file, json_line(member));
}

static int wrong_type(const struct place *place, const struct json_value *member, const char *name,
                      const char *type, struct error *err)
{
    error_set(err, ERR_INVALID, 0, "must be %s", type);
    return wrong(place, member, name, err);
}

static int unknown_member(const struct place *place, const struct json_value *member,
                          const char *section, const char *known, struct error *err)
{
    AUTO_BUF struct buf name = { 0 };
    const char *text = json_name(member);

    buf_init(&name, 256);
    str_append_escaped(&name, text, strlen(text), 40);
    error_set(err, ERR_INVALID, 0, "unknown setting \"%s\"; known here: %s", buf_text(&name),
              known);
    return wrong(place, member, section, err);
}

static int read_text(const struct place *place, const struct json_value *member, const char *name,
                     char **to, struct error *err)
{
    const char *text = json_string(member);

    if (text == NULL)
        return wrong_type(place, member, name, "a text", err);
    if (strlen(text) > TEXT_MAX)
        return wrong_type(place, member, name, "at most 2048 bytes", err);
    config_replace(to, mem_strdup(text));
    return 0;
}

static int read_list(const struct place *place, const struct json_value *member, const char *name,
                     size_t max, char ***to, size_t *to_count, struct error *err)
{
    size_t count = json_count(member);

    if (json_kind(member) != JSON_KIND_ARRAY || count == 0 || count > max)
        return wrong_type(place, member, name,
                          "a list of texts with at least one entry; leave it out for no limit",
                          err);
    char **list = mem_new_zero(count, sizeof(*list));
    size_t at = 0;
    for (const struct json_value *item = json_first(member); item != NULL;
         item = json_next(item), at++) {
        if (read_text(place, item, name, &list[at], err) < 0) {
            config_list_free(list, count);
            return -1;
        }
    }
    config_list_free(*to, *to_count);
    *to = list;
    *to_count = count;
    return 0;
}

static bool valid_parameter(const char *text)
{
    return strlen(text) <= 64 &&
           config_only(text, strlen(text), CONFIG_LOWER CONFIG_UPPER CONFIG_DIGITS "-_");
}

/* The value is {NAME} and nothing else. */
static bool is_bare_secret(const struct config_service *service)
{
    AUTO_FREE
    char *bare = mem_printf("{%s}", service->secret);

    return str_equal(service->inject_value, bare);
}

/* null takes the credential of a built-in service away. */
static int read_inject(struct config_service *service, const struct place *place,
                       const struct json_value *inject, struct error *err)
{
    if (json_kind(inject) == JSON_KIND_NULL) {
        config_replace(&service->inject_header, mem_strdup(""));
        config_replace(&service->inject_query, mem_strdup(""));
        config_replace(&service->inject_value, mem_strdup(""));
        config_replace(&service->secret, mem_strdup(""));
        return 0;
    }
    if (json_kind(inject) != JSON_KIND_OBJECT)
        return wrong_type(place, inject, "inject",
                          "an object with header or query, and value; or null", err);
    for (const struct json_value *member = json_first(inject); member != NULL;
         member = json_next(member)) {
        if (str_equal(json_name(member), "header")) {
            if (read_text(place, member, "inject.header", &service->inject_header, err) < 0)
                return -1;
            if (check_header(&service->inject_header, err) < 0)
                return wrong(place, member, "inject.header", err);
            config_replace(&service->inject_query, mem_strdup(""));
        } else if (str_equal(json_name(member), "query")) {
            if (read_text(place, member, "inject.query", &service->inject_query, err) < 0)
                return -1;
            if (!valid_parameter(service->inject_query))
                return wrong_type(place, member, "inject.query",
                                  "the name of a parameter: letters, digits, dashes, underscores",
                                  err);
            config_replace(&service->inject_header, mem_strdup(""));
        } else if (str_equal(json_name(member), "value")) {
            if (read_text(place, member, "inject.value", &service->inject_value, err) < 0)
                return -1;
            if (check_template(service->inject_value, &service->secret, err) < 0)
                return wrong(place, member, "inject.value", err);
        } else {
            return unknown_member(place, member, "inject", "header, query, value", err);
        }
    }
    if ((service->inject_header[0] == '\0' && service->inject_query[0] == '\0') ||
        service->inject_value[0] == '\0')
        return wrong_type(place, inject, "inject", "an object with header or query, and value",
                          err);
    if (service->inject_query[0] != '\0' && !is_bare_secret(service))
        return wrong_type(place, inject, "inject.value", "just {NAME} where it goes into the query",
                          err);
    return 0;
}

static int read_provider(struct config_service *service, const struct place *place,
                         const struct json_value *provider, struct error *err)
{
    if (json_kind(provider) != JSON_KIND_OBJECT)
        return wrong_type(place, provider, "provider", "an object with npm, path and models", err);
    for (const struct json_value *member = json_first(provider); member != NULL;
         member = json_next(member)) {
        if (str_equal(json_name(member), "npm")) {
            if (read_text(place, member, "provider.npm", &service->provider_npm, err) < 0)
                return -1;
            if (!valid_npm(service->provider_npm))
                return wrong_type(place, member, "provider.npm", "the name of an npm package", err);
        } else if (str_equal(json_name(member), "path")) {
            if (read_text(place, member, "provider.path", &service->provider_path, err) < 0)
                return -1;
            if (service->provider_path[0] != '\0' &&
                (!valid_path(service->provider_path) || str_ends(service->provider_path, "/")))
                return wrong_type(place, member, "provider.path",
                                  "empty or a path such as /v1, without a slash at the end", err);
        } else if (str_equal(json_name(member), "models")) {
            if (read_list(place, member, "provider.models", MODELS_MAX, &service->provider_models,
                          &service->provider_model_count, err) < 0)
                return -1;
        } else {
            return unknown_member(place, member, "provider", "npm, path, models", err);
        }
    }
    return 0;
}

static int read_allow(struct config_service *service, const struct place *place,
                      const struct json_value *allow, struct error *err)
{
    size_t at = 0;

    if (read_list(place, allow, "allow", ALLOW_MAX, &service->allow, &service->allow_count, err) <
        0)
        return -1;
    for (const struct json_value *item = json_first(allow); item != NULL;
         item = json_next(item), at++) {
        if (check_rule(service->allow[at], err) < 0)
            return wrong(place, item, "allow", err);
    }
    return 0;
}

static int read_flag(const struct place *place, const struct json_value *member, bool *to,
                     struct error *err)
{
    if (json_kind(member) != JSON_KIND_BOOL)
        return wrong_type(place, member, json_name(member), "true or false", err);
    *to = json_bool(member, false);
    return 0;
}

/* Plain names of git. */
bool config_push_ref_valid(const char *ref)
{
    size_t len = strlen(ref);

    if (str_ends(ref, "/..."))
        len -= 4;
    return len <= 200 &&
           config_only(ref, len, CONFIG_LOWER CONFIG_UPPER CONFIG_DIGITS "-_./+=,@#%!") &&
           ref[0] != '/' && ref[0] != '-' && ref[0] != '.' && ref[len - 1] != '/' &&
           ref[len - 1] != '.' && memmem(ref, len, "..", 2) == NULL &&
           memmem(ref, len, "//", 2) == NULL && memmem(ref, len, "/.", 2) == NULL &&
           !str_ends(ref, ".lock");
}

static int read_push(struct config_service *service, const struct place *place,
                     const struct json_value *push, struct error *err)
{
    if (json_kind(push) != JSON_KIND_OBJECT)
        return wrong_type(place, push, "push", "an object with refs and overwrite", err);
    for (const struct json_value *member = json_first(push); member != NULL;
         member = json_next(member)) {
        if (str_equal(json_name(member), "refs")) {
            if (read_list(place, member, "push.refs", REFS_MAX, &service->push_refs,
                          &service->push_ref_count, err) < 0)
                return -1;
            for (size_t i = 0; i < service->push_ref_count; i++)
                if (!config_push_ref_valid(service->push_refs[i]))
                    return wrong_type(place, member, "push.refs",
                                      "branches such as \"agent/...\" or refs such as "
                                      "\"refs/tags/agent/...\"",
                                      err);
        } else if (str_equal(json_name(member), "overwrite")) {
            if (json_kind(member) != JSON_KIND_BOOL)
                return wrong_type(place, member, "push.overwrite", "true or false", err);
            service->push_overwrite = json_bool(member, false);
        } else {
            return unknown_member(place, member, "push", "refs, overwrite", err);
        }
    }
    return 0;
}

/* "owner/name", "owner/...", "..." */
static int read_repositories(struct config_service *service, const struct place *place,
                             const struct json_value *list, struct error *err)
{
    if (read_list(place, list, "repositories", ALLOW_MAX, &service->git_repositories,
                  &service->git_repository_count, err) < 0)
        return -1;
    for (size_t i = 0; i < service->git_repository_count; i++) {
        AUTO_FREE
        char *path = mem_printf("/%s", service->git_repositories[i]);

        if (str_ends(path, "/..."))
            path[strlen(path) - 4] = '\0';
        if (path[0] != '\0' && !valid_path(path))
            return wrong_type(place, list, "repositories",
                              "names such as \"owner/name\", \"owner/...\" or \"...\"", err);
    }
    return 0;
}

/* A path, perhaps with a query. */
static int read_probe(struct config_service *service, const struct place *place,
                      const struct json_value *member, struct error *err)
{
    if (read_text(place, member, "probe", &service->probe, err) < 0)
        return -1;
    AUTO_FREE
    char *path = mem_strndup(service->probe, strcspn(service->probe, "?"));
    const char *query = service->probe + strlen(path);
    if (service->probe[0] == '\0' ||
        (valid_path(path) && query[strspn(query, PATH_BYTES "?")] == '\0'))
        return 0;
    return wrong_type(place, member, "probe", "a path such as /v1/models, or empty", err);
}

static int read_member(struct config_service *service, const struct place *place,
                       const struct json_value *member, struct error *err)
{
    const char *name = json_name(member);

    if (str_equal(name, "target"))
        return read_text(place, member, name, &service->target, err);
    if (str_equal(name, "inject"))
        return read_inject(service, place, member, err);
    if (str_equal(name, "allow"))
        return read_allow(service, place, member, err);
    if (str_equal(name, "provider"))
        return read_provider(service, place, member, err);
    if (str_equal(name, "push"))
        return read_push(service, place, member, err);
    if (str_equal(name, "repositories"))
        return read_repositories(service, place, member, err);
    if (str_equal(name, "probe"))
        return read_probe(service, place, member, err);
    if (str_equal(name, "plainHttp"))
        return read_flag(place, member, &service->plain_http, err);
    if (str_equal(name, "private"))
        return read_flag(place, member, &service->private, err);
    return unknown_member(
        place, member, "",
        "target, inject, allow, push, repositories, plainHttp, private, probe, provider", err);
}

static int read_service(struct config_service *service, const struct place *place,
                        const struct json_value *entry, struct error *err)
{
    if (json_kind(entry) != JSON_KIND_OBJECT)
        return wrong_type(place, entry, "", "an object { … }", err);
    for (const struct json_value *member = json_first(entry); member != NULL;
         member = json_next(member)) {
        if (read_member(service, place, member, err) < 0)
            return -1;
    }
    /* Whoever serves models lists them. */
    if (service->probe[0] == '\0' && json_get(entry, "probe") == NULL &&
        service->provider_npm[0] != '\0')
        config_replace(&service->probe, mem_printf("%s/models", service->provider_path));
    const struct json_value *target = json_get(entry, "target");
    if (service->target[0] == '\0')
        return wrong_type(place, target != NULL ? target : entry, "target",
                          "given: the service's URL", err);
    /* Last, because plainHttp may stand behind it. */
    if (check_target(&service->target, service->plain_http, err) < 0)
        return wrong(place, target != NULL ? target : entry, "target", err);
    return 0;
}

static struct config_service *add_builtin(struct config *config, const struct builtin *builtin)
{
    struct config_service *service = service_add(config, builtin->name);
    struct error err;

    config_replace(&service->target, mem_strdup(builtin->target));
    config_replace(&service->inject_header, mem_strdup(builtin->header));
    config_replace(&service->inject_value, mem_strdup(builtin->value));
    BUG_ON(check_template(builtin->value, &service->secret, &err) < 0);
    config_replace(&service->provider_npm, mem_strdup(builtin->npm));
    config_replace(&service->provider_path, mem_strdup(builtin->path));
    config_replace(&service->probe, mem_strdup(builtin->probe));
    service->builtin = true;
    return service;
}

void config_services_init(struct config *config)
{
    config->services = mem_new_zero(ARRAY_LEN(builtins) + SERVICES_MAX, sizeof(*config->services));
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (builtins[i].target[0] != '\0')
            add_builtin(config, &builtins[i]);
}

/* The one of this name, also one that waits for a target; else a new one. */
static struct config_service *find_or_add(struct config *config, const char *name)
{
    struct config_service *service = service_find(config, name);

    for (size_t i = 0; service == NULL && i < ARRAY_LEN(builtins); i++)
        if (str_equal(builtins[i].name, name))
            service = add_builtin(config, &builtins[i]);
    return service != NULL ? service : service_add(config, name);
}

int config_services_read(struct config *config, const struct json_value *services, const char *file,
                         struct error *err)
{
    if (json_kind(services) != JSON_KIND_OBJECT || json_count(services) > SERVICES_MAX) {
        error_set(err, ERR_INVALID, 0, "services must be an object of at most %d services",
                  SERVICES_MAX);
        return config_at(err, file, json_line(services));
    }
    for (const struct json_value *entry = json_first(services); entry != NULL;
         entry = json_next(entry)) {
        AUTO_BUF struct buf shown = { 0 };
        const char *name = json_name(entry);

        buf_init(&shown, 256);
        str_append_escaped(&shown, name, strlen(name), 64);
        struct place place = { file, buf_text(&shown) };
        if (!valid_service_name(name))
            return wrong_type(
                &place, entry, "",
                "named with 1 to 64 lower-case letters, digits, dashes and underscores", err);
        struct config_service *service = find_or_add(config, name);
        service->builtin = false;
        if (read_service(service, &place, entry, err) < 0)
            return -1;
    }
    return 0;
}

/* Print --------------------------------------------------------------------------------------- */

static void print_list(struct json_writer *writer, const char *name, char *const *list,
                       size_t count)
{
    if (count == 0)
        return;
    json_write_name(writer, name);
    json_write_array(writer);
    for (size_t i = 0; i < count; i++)
        json_write_string(writer, list[i]);
    json_write_array_end(writer);
}

static void print_service(struct json_writer *writer, const struct config_service *service)
{
    json_write_object(writer);
    json_member_string(writer, "target", service->target);
    if (service->inject_value[0] != '\0') {
        bool query = service->inject_query[0] != '\0';

        json_write_name(writer, "inject");
        json_write_object(writer);
        json_member_string(writer, query ? "query" : "header",
                           query ? service->inject_query : service->inject_header);
        json_member_string(writer, "value", service->inject_value);
        json_write_object_end(writer);
    }
    print_list(writer, "allow", service->allow, service->allow_count);
    if (service->push_ref_count > 0 || service->push_overwrite) {
        json_write_name(writer, "push");
        json_write_object(writer);
        print_list(writer, "refs", service->push_refs, service->push_ref_count);
        if (service->push_overwrite)
            json_member_bool(writer, "overwrite", true);
        json_write_object_end(writer);
    }
    print_list(writer, "repositories", service->git_repositories, service->git_repository_count);
    if (service->plain_http)
        json_member_bool(writer, "plainHttp", true);
    if (service->private)
        json_member_bool(writer, "private", true);
    if (service->probe[0] != '\0')
        json_member_string(writer, "probe", service->probe);
    if (service->provider_npm[0] != '\0') {
        json_write_name(writer, "provider");
        json_write_object(writer);
        json_member_string(writer, "npm", service->provider_npm);
        json_member_string_opt(writer, "path", service->provider_path);
        print_list(writer, "models", service->provider_models, service->provider_model_count);
        json_write_object_end(writer);
    }
    json_write_object_end(writer);
}

void config_services_print(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config->service_count; i++) {
        const struct config_service *service = &config->services[i];
        struct json_writer writer;

        buf_printf(out, "services.%s = ", service->name);
        json_write_init(&writer, out);
        print_service(&writer, service);
        buf_printf(out, "  # %s\n", service->builtin ? "default: built in" : "file");
    }
}
