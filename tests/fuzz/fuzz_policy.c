// links: supervisor_proxy
/* Whatever a sandbox asks for: a refusal has a reason, and what is allowed has one reading, stays
 * below its service and carries no token. Input: "METHOD TARGET\nname: value\n…"; "%T" is the run's
 * token, "%B" the same as a Basic credential. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/inject.h"
#include "proxy/policy.h"
#include "proxy/url_path.h"

#define TEXT_MAX (256u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const corp_allow[] = { "POST /chat/completions", "GET /models/..." };
static const struct proxy_service list[] = {
    { .name = "anthropic",
      .target = "https://api.anthropic.com",
      .inject_header = "x-api-key",
      .inject_value = "{KEY}" },
    { .name = "github",
      .target = "https://github.com",
      .inject_header = "authorization",
      .inject_value = "Basic {KEY:basic:u}" },
    { .name = "corp",
      .target = "https://corp.example/base/v1",
      .inject_header = "authorization",
      .inject_value = "Bearer {KEY}",
      .allow = corp_allow,
      .allow_count = 2 },
    { .name = "plain", .target = "https://plain.example", .inject_header = "" },
    { .name = "secretive",
      .target = "https://s.example",
      .inject_header = "x-api-key",
      .inject_value = "{KEY}" },
};
static const bool granted[] = { true, true, true, true, false };

/* Puts the token in; heap. */
static char *expand(const char *data, size_t size, const char *token)
{
    AUTO_FREE
    char *plain = mem_printf("u:%s", token);
    char basic[200];
    struct buf text;

    sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)plain, strlen(plain),
                      sodium_base64_VARIANT_ORIGINAL);
    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\0')
            break;
        if (data[i] == '%' && i + 1 < size && (data[i + 1] == 'T' || data[i + 1] == 'B'))
            buf_append_str(&text, data[++i] == 'T' ? token : basic);
        else
            buf_append_char(&text, data[i]);
    }
    return text.len > 0 && !text.failed ? buf_steal(&text) : (buf_finish(&text), mem_strdup(""));
}

static void add_header(struct http_headers *headers, char *line)
{
    char *colon = strchr(line, ':');

    if (colon == NULL)
        return;
    *colon = '\0';
    colon += 1 + strspn(colon + 1, " ");
    if (headers->count < HTTP_HEADERS_MAX && http_token_valid(line, strlen(line)) &&
        http_value_valid(colon, strlen(colon)))
        http_headers_add(headers, line, colon);
}

/* The target as the http layer would let it pass. */
static bool target_passes(const char *target)
{
    size_t len = strlen(target);

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)target[i];

        if (c <= 0x20 || c >= 0x7f || c == '#' || c == '\\')
            return false;
        if (c == '%' && (len - i < 3 || !strchr("0123456789abcdefABCDEF", target[i + 1]) ||
                         !strchr("0123456789abcdefABCDEF", target[i + 2])))
            return false;
    }
    return target[0] == '/';
}

static void check_path(const char *path)
{
    size_t len = strcspn(path, "?");
    static const char *const never[] = { "//",  "/../", "/./", "%2F", "%2f", "%5C",
                                         "%5c", "%2E",  "%2e", "%00", "\\",  "#" };
    AUTO_FREE
    char *only = mem_strndup(path, len);

    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        BUG_ON(strstr(only, never[i]) != NULL);
    BUG_ON(str_ends(only, "/..") || str_ends(only, "/."));
    BUG_ON(!url_path_plain(path, len));
}

static void check_allowed(const struct policy_decision *decision, const char *token)
{
    const struct service *service = decision->service;
    size_t prefix_len = strlen(service->prefix);

    BUG_ON(strcmp(decision->reason, "ok") != 0 || strcmp(service->name, "secretive") == 0);
    BUG_ON(strncmp(decision->upstream_path, service->prefix, prefix_len) != 0 ||
           decision->upstream_path[prefix_len] != '/');
    BUG_ON(strstr(decision->upstream_path, token) != NULL);
    check_path(decision->upstream_path);
}

static void decide(const struct policy_grant *grant, struct http_request *request,
                   const char *token)
{
    struct policy_decision decision;

    policy_decide(request, grant, &decision);
    BUG_ON(decision.reason == NULL || decision.path == NULL);
    if (decision.allowed)
        check_allowed(&decision, token);
    else
        BUG_ON(decision.message == NULL || decision.status < 400 || decision.status > 405 ||
               decision.upstream_path != NULL);
    policy_decision_finish(&decision);
}

static void check_canonical(const char *path)
{
    const char *reason;
    AUTO_FREE
    char *once = url_path_canonical(path, strlen(path), &reason);

    BUG_ON((once == NULL) != (reason != NULL));
    if (once == NULL)
        return;
    AUTO_FREE
    char *twice = url_path_canonical(once, strlen(once), &reason);
    BUG_ON(!str_equal(once, twice));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct services services;
    struct policy_grant grant = { .services = &services, .granted = granted };
    struct http_request request = { .minor = 1 };
    char token[TOKEN_LEN + 1];
    struct error err = ERROR_INIT;
    char *save = NULL;
    char *line;

    if (sodium_init() < 0 || services_init(&services, list, ARRAY_LEN(list), &err) < 0)
        abort();
    token_make(token, &grant.token);
    AUTO_FREE
    char *text = expand((const char *)data, size, token);
    line = strtok_r(text, "\n", &save);
    char *space = line != NULL ? strchr(line, ' ') : NULL;
    if (space != NULL && space != line) {
        *space = '\0';
        check_canonical(space + 1);
        request.method = mem_strdup(line);
        request.target = mem_strdup(space + 1);
        request.host = mem_strdup("127.0.0.1");
        while ((line = strtok_r(NULL, "\n", &save)) != NULL)
            add_header(&request.headers, line);
        if (target_passes(request.target))
            decide(&grant, &request, token);
    }
    http_request_finish(&request);
    services_finish(&services);
    return 0;
}
