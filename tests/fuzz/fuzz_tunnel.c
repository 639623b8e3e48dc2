// links: supervisor_proxy
/* Tunnels, what is asked inside of them, and hosts in the clear: a refusal has a reason, and what
 * is allowed is what a rule or a service says. Input: "MODE METHOD TARGET HOST\nname: value\n…";
 * MODE is o for no tunnel, t for TLS in one to svc.example:443, c for the clear in it; "%T" is the
 * run's token. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "proxy/policy.h"

#define TEXT_MAX (256u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const allow[] = { "POST /chat" };
static const struct proxy_service list[] = {
    { .name = "svc",
      .target = "https://svc.example/api",
      .inject_header = "x-api-key",
      .inject_value = "{KEY}",
      .allow = allow,
      .allow_count = 1 },
};
static const bool granted[] = { true };
static const char *const rules[] = { "GET svc.example:443/files/...", "open.example:443",
                                     "*.wide.example:443", "GET,HEAD clear.example:80" };

static char *expand(const char *data, size_t size, const char *token)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < size && data[i] != '\0'; i++) {
        if (data[i] == '%' && i + 1 < size && data[i + 1] == 'T')
            buf_append_str(&text, token), i++;
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

static bool text_passes(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

static bool holds_token(const struct http_request *request, const char *but, const char *token)
{
    for (size_t i = 0; i < request->headers.count; i++)
        if (strcasecmp(request->headers.items[i].name, but) != 0 &&
            strcasecmp(request->headers.items[i].name, "proxy-authorization") != 0 &&
            strstr(request->headers.items[i].value, token) != NULL)
            return true;
    return strstr(request->target, token) != NULL;
}

static void check_allowed(const struct http_request *request,
                          const struct policy_decision *decision, bool tunnelled, const char *token)
{
    const char *host = decision->host.name;
    bool wide = str_ends(host, ".wide.example");

    if (decision->action == POLICY_TUNNEL) {
        BUG_ON(tunnelled || decision->host.port != 443);
        BUG_ON(strcmp(host, "open.example") != 0 && !wide);
        return;
    }
    if (decision->action == POLICY_INTERCEPT) {
        BUG_ON(tunnelled || decision->host.port != 443 || strcmp(host, "svc.example") != 0);
        return;
    }
    BUG_ON(decision->upstream_path[0] != '/');
    if (!decision->service->egress) {
        BUG_ON(holds_token(request, "x-api-key", token));
        BUG_ON(strcmp(request->method, "POST") != 0);
        BUG_ON(strncmp(decision->upstream_path, "/api/chat", 9) != 0);
        return;
    }
    BUG_ON(holds_token(request, "", token));
    BUG_ON(decision->service->inject != INJECT_NONE);
    if (strcmp(host, "svc.example") == 0) {
        BUG_ON(strcmp(request->method, "GET") != 0);
        BUG_ON(strncmp(decision->upstream_path, "/files/", 7) != 0 ||
               strstr(decision->upstream_path, "/../") != NULL);
    } else if (strcmp(host, "clear.example") == 0) {
        BUG_ON(strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0);
    } else {
        BUG_ON(strcmp(host, "open.example") != 0 && !wide);
    }
}

static void decide(const struct policy_grant *grant, struct http_request *request, char mode,
                   const char *token)
{
    struct entry_tunnel tunnel = { .clear = mode == 'c' };
    struct policy_decision decision;

    BUG_ON(!host_parse("svc.example:443", 15, 0, &tunnel.host));
    policy_decide_inside(request, grant, mode == 'o' ? NULL : &tunnel, &decision);
    BUG_ON(decision.reason == NULL || decision.path == NULL);
    if (decision.allowed)
        check_allowed(request, &decision, mode != 'o', token);
    else
        BUG_ON(decision.message == NULL || decision.status < 400 || decision.status > 421 ||
               decision.upstream_path != NULL);
    policy_decision_finish(&decision);
}

static enum http_target_kind kind_of(const char *method, const char *target)
{
    if (strcmp(method, "CONNECT") == 0)
        return HTTP_TARGET_AUTHORITY;
    if (strncasecmp(target, "http://", 7) == 0)
        return HTTP_TARGET_ABSOLUTE;
    return target[0] == '*' ? HTTP_TARGET_ASTERISK : HTTP_TARGET_ORIGIN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct services services;
    struct egress egress;
    struct policy_grant grant = { .services = &services,
                                  .granted = granted,
                                  .egress = &egress,
                                  .intercepts = true,
                                  .open_listener = size % 2 == 0 };
    struct http_request request = { .minor = 1 };
    char token[TOKEN_LEN + 1];
    struct error err = ERROR_INIT;

    if (sodium_init() < 0 || services_init(&services, list, ARRAY_LEN(list), &err) < 0 ||
        egress_init(&egress, rules, ARRAY_LEN(rules), &err) < 0)
        abort();
    token_make(token, &grant.token);
    AUTO_FREE
    char *text = expand((const char *)data, size, token);
    char *rest = text;
    char *line = strsep(&rest, "\n");
    const char *words[4] = { NULL };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        words[i] = strsep(&line, " ");
    if (words[3] != NULL && words[0][0] != '\0' && strchr("otc", words[0][0]) != NULL &&
        text_passes(words[2]) && words[2][0] != '\0' && text_passes(words[3])) {
        request.method = mem_strdup(words[1]);
        request.target = mem_strdup(words[2]);
        request.host = mem_strdup(words[3]);
        request.target_kind = kind_of(words[1], words[2]);
        while ((line = strsep(&rest, "\n")) != NULL)
            add_header(&request.headers, line);
        if (request.target_kind != HTTP_TARGET_ORIGIN || request.target[0] == '/')
            decide(&grant, &request, words[0][0], token);
    }
    http_request_finish(&request);
    services_finish(&services);
    egress_finish(&egress);
    return 0;
}
