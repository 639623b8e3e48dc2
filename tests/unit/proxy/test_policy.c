#include "proxy/policy.h"

#include <sodium.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"

static const char *const corp_allow[] = { "POST /chat/completions", "GET /models/..." };
static const char *const gitlab_repositories[] = { "team/..." };
static const struct proxy_service list[] = {
    { .name = "anthropic",
      .target = "https://api.anthropic.com",
      .inject_header = "x-api-key",
      .inject_value = "{KEY}" },
    { .name = "openai",
      .target = "https://api.openai.com",
      .inject_header = "authorization",
      .inject_value = "Bearer {KEY}" },
    { .name = "google",
      .target = "https://g.example",
      .inject_header = "x-goog-api-key",
      .inject_value = "{KEY}" },
    { .name = "github",
      .target = "https://github.com",
      .inject_header = "authorization",
      .inject_value = "Basic {KEY:basic:u}" },
    { .name = "gitlab",
      .target = "https://gitlab.com",
      .inject_header = "authorization",
      .inject_value = "Basic {KEY:basic:u}",
      .repositories = gitlab_repositories,
      .repository_count = 1 },
    { .name = "github-api",
      .target = "https://api.github.com",
      .inject_header = "authorization",
      .inject_value = "Bearer {KEY}" },
    { .name = "github-uploads",
      .target = "https://uploads.github.com",
      .inject_header = "authorization",
      .inject_value = "Bearer {KEY}" },
    { .name = "gitlab-api",
      .target = "https://gitlab.com/api/v4",
      .inject_header = "private-token",
      .inject_value = "{KEY}" },
    { .name = "gitea-api",
      .target = "https://git.example/api/v1",
      .inject_header = "authorization",
      .inject_value = "token {KEY}" },
    { .name = "forge",
      .target = "https://forge.example/scm",
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

struct rig {
    struct services services;
    bool granted[ARRAY_LEN(list)];
    struct policy_grant grant;
    struct policy_repository own[3];
    char own_path[16];
    char other_path[16];
    char project_path[24];
    char no_branch[1];
    char token[TOKEN_LEN + 1];
};

static void stop(void *data)
{
    struct rig *rig = data;

    services_finish(&rig->services);
    free(rig);
}

static struct rig *start(void)
{
    struct rig *rig = NEW(struct rig);
    struct error err = ERROR_INIT;

    CHECK(sodium_init() >= 0);
    CHECK_EQ(services_init(&rig->services, list, ARRAY_LEN(list), &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        rig->granted[i] = strcmp(list[i].name, "secretive") != 0;
    rig->grant.services = &rig->services;
    rig->grant.granted = rig->granted;
    rig->own[0] = (struct policy_repository){ .service = services_find(&rig->services, "github", 6),
                                              .path = rig->other_path,
                                              .branch = rig->no_branch };
    rig->own[1] = (struct policy_repository){ .service = services_find(&rig->services, "github", 6),
                                              .path = rig->own_path,
                                              .branch = rig->no_branch };
    str_copy(rig->other_path, sizeof(rig->other_path), "/o/second");
    str_copy(rig->own_path, sizeof(rig->own_path), "/o/r.git");
    rig->grant.repositories = rig->own;
    rig->own[2] = (struct policy_repository){ .service = services_find(&rig->services, "gitlab", 6),
                                              .path = rig->project_path,
                                              .branch = rig->no_branch };
    str_copy(rig->project_path, sizeof(rig->project_path), "/group/sub/x.git");
    rig->grant.repository_count = 3;
    token_make(rig->token, &rig->grant.token);
    test_defer(stop, rig);
    return rig;
}

/* HEADERS: pairs up to NULL; "%T" in a value is the token, "%B" is base64("u:token"). */
static void add_headers(const struct rig *rig, struct http_headers *headers,
                        const char *const *pairs)
{
    for (; pairs[0] != NULL; pairs += 2) {
        const char *mark = strchr(pairs[1], '%');
        AUTO_FREE
        char *plain = mem_printf("u:%s", rig->token);
        char base64[200];

        sodium_bin2base64(base64, sizeof(base64), (const unsigned char *)plain, strlen(plain),
                          sodium_base64_VARIANT_ORIGINAL);
        AUTO_FREE
        char *value = mark == NULL ? mem_strdup(pairs[1])
                                   : mem_printf("%.*s%s%s", (int)(mark - pairs[1]), pairs[1],
                                                mark[1] == 'T' ? rig->token : base64, mark + 2);
        http_headers_add(headers, pairs[0], value);
    }
}

static enum http_target_kind kind_of(const char *method, const char *target)
{
    if (strcmp(method, "CONNECT") == 0)
        return HTTP_TARGET_AUTHORITY;
    if (target[0] == '/')
        return HTTP_TARGET_ORIGIN;
    return target[0] == '*' ? HTTP_TARGET_ASTERISK : HTTP_TARGET_ABSOLUTE;
}

/* INSIDE is the host of an intercepted tunnel, or NULL. */
static void decide_inside(struct rig *rig, const char *inside, const char *method,
                          const char *target, const char *const *pairs, struct policy_decision *out)
{
    struct entry_tunnel tunnel = { 0 };
    struct http_request request = {
        .method = mem_strdup(method),
        .target = mem_strdup(target),
        .host = mem_strdup(inside != NULL                   ? inside
                           : strcmp(method, "CONNECT") == 0 ? target
                                                            : "127.0.0.1:1"),
        .target_kind = kind_of(method, target),
        .minor = 1,
    };

    add_headers(rig, &request.headers, pairs);
    if (inside != NULL)
        CHECK(host_parse(inside, strlen(inside), 443, &tunnel.host));
    policy_decide_inside(&request, &rig->grant, inside != NULL ? &tunnel : NULL, out);
    http_request_finish(&request);
}

static void decide(struct rig *rig, const char *method, const char *target,
                   const char *const *pairs, struct policy_decision *out)
{
    decide_inside(rig, NULL, method, target, pairs, out);
}

struct rule_case {
    const char *method;
    const char *target;
    const char *headers[9];
    const char *reason;
    const char *upstream; /* path sent, when allowed */
};

#define KEY                                                                                        \
    {                                                                                              \
        "x-api-key", "%T", NULL                                                                    \
    }
#define BEARER                                                                                     \
    {                                                                                              \
        "Authorization", "Bearer %T", NULL                                                         \
    }
#define BASIC                                                                                      \
    {                                                                                              \
        "Authorization", "Basic %B", NULL                                                          \
    }

static const struct rule_case cases[] = {
    { "POST", "/proxy/anthropic/v1/messages", KEY, "ok", "/v1/messages" },
    { "POST", "/proxy/anthropic/v1/messages?beta=true", KEY, "ok", "/v1/messages?beta=true" },
    { "HEAD", "/proxy/anthropic/", KEY, "ok", "/" },
    { "POST", "/proxy/openai/v1/responses", BEARER, "ok", "/v1/responses" },
    { "POST",
      "/proxy/openai/v1/responses",
      { "authorization", "bearer %T", NULL },
      "ok",
      "/v1/responses" },
    { "POST",
      "/proxy/google/v1beta/models/m:streamGenerateContent?alt=sse",
      { "X-Goog-Api-Key", "%T", NULL },
      "ok",
      "/v1beta/models/m:streamGenerateContent?alt=sse" },
    { "GET", "/proxy/plain/x", BEARER, "ok", "/x" },
    { "GET", "/proxy/plain/x", KEY, "ok", "/x" },
    { "GET", "/proxy/plain/x", BASIC, "ok", "/x" },
    { "GET", "/proxy/plain/x", { NULL }, "no_token", NULL },

    /* Forms. */
    { "CONNECT", "api.anthropic.com:443", { NULL }, "no_token", NULL },
    { "GET", "http://example.com/", { NULL }, "no_token", NULL },
    { "OPTIONS", "*", { NULL }, "bad_target", NULL },
    { "GET",
      "/proxy/anthropic/x",
      { "x-api-key", "%T", "Upgrade", "websocket", "Connection", "upgrade", NULL },
      "bad_upgrade",
      NULL },
    { "TRACE", "/proxy/anthropic/x", KEY, "method_not_allowed", NULL },
    { "PROPFIND", "/proxy/anthropic/x", KEY, "method_not_allowed", NULL },

    /* Paths. */
    { "GET", "/", { NULL }, "unknown_path", NULL },
    { "GET", "/proxy", { NULL }, "unknown_path", NULL },
    { "GET", "/proxy/", { NULL }, "unknown_service", NULL },
    { "GET", "/proxy/anthropic", KEY, "unknown_service", NULL },
    { "GET", "/proxy/anthropic?x", KEY, "unknown_service", NULL },
    { "GET", "/proxy/nope/x", KEY, "unknown_service", NULL },
    { "GET", "/proxy/ANTHROPIC/x", KEY, "unknown_service", NULL },
    { "GET", "/PROXY/anthropic/x", KEY, "unknown_path", NULL },
    { "GET", "//proxy/anthropic/x", KEY, "unknown_path", NULL },
    { "GET", "/proxy//anthropic/x", KEY, "unknown_service", NULL },
    { "GET", "/proxy/anthropic%2fx", KEY, "unknown_service", NULL },
    { "GET", "/proxy/%61nthropic/x", KEY, "unknown_service", NULL },
    { "GET", "/x/../proxy/anthropic/x", KEY, "unknown_path", NULL },
    { "GET", "/proxy/github/../anthropic/v1/messages", BASIC, "dot_segment", NULL },
    { "GET", "/proxy/anthropic/./x", KEY, "dot_segment", NULL },
    { "GET", "/proxy/anthropic/../x", KEY, "dot_segment", NULL },
    { "GET", "/proxy/anthropic/a/..", KEY, "dot_segment", NULL },
    { "GET", "/proxy/anthropic/..;/x", KEY, "dot_segment", NULL },
    { "GET", "/proxy/anthropic/..;x=y/x", KEY, "dot_segment", NULL },
    { "GET", "/proxy/anthropic/%2e%2e/x", KEY, "encoded_dot", NULL },
    { "GET", "/proxy/anthropic/.%2E/x", KEY, "encoded_dot", NULL },
    { "GET", "/proxy/anthropic/%252e%252e/x", KEY, "double_encoding", NULL },
    { "GET", "/proxy/anthropic/..%2fx", KEY, "encoded_slash", NULL },
    { "GET", "/proxy/anthropic/a%5cb", KEY, "encoded_slash", NULL },
    { "GET", "/proxy/anthropic/x%00", KEY, "encoded_control", NULL },
    { "GET", "/proxy/anthropic/x%0d%0ay", KEY, "encoded_control", NULL },
    { "GET", "/proxy/anthropic/%c0%ae%c0%ae/x", KEY, "bad_utf8", NULL },
    { "GET", "/proxy/anthropic/%ff", KEY, "bad_utf8", NULL },
    { "GET", "/proxy/anthropic//x", KEY, "empty_segment", NULL },
    { "GET", "/proxy/anthropic/a//x", KEY, "empty_segment", NULL },
    { "GET", "/proxy/anthropic/a//", KEY, "empty_segment", NULL },
    { "GET", "/proxy/anthropic/a/", KEY, "ok", "/a/" },
    { "GET", "/proxy/anthropic/a{b}", KEY, "bad_path", NULL },
    { "GET", "/proxy/anthropic/a|b", KEY, "bad_path", NULL },
    { "GET", "/proxy/anthropic/%4D%65%c3%a9", KEY, "ok", "/Me%C3%A9" },
    { "GET", "/proxy/anthropic/a%20b", KEY, "ok", "/a%20b" },
    { "GET", "/proxy/anthropic/...", KEY, "ok", "/..." },
    { "GET", "/proxy/anthropic/a?b=/../c&d=%2e%2e", KEY, "ok", "/a?b=/../c&d=%2e%2e" },

    /* Tokens. */
    { "POST", "/proxy/anthropic/v1/messages", { NULL }, "no_token", NULL },
    { "POST", "/proxy/anthropic/v1/messages", { "x-api-key", "", NULL }, "bad_token", NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "sk-ant-own", NULL },
      "bad_token",
      NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "sbx_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", NULL },
      "bad_token",
      NULL },
    { "POST", "/proxy/anthropic/v1/messages", { "x-api-key", "%T ", NULL }, "bad_token", NULL },
    { "POST", "/proxy/anthropic/v1/messages", { "x-api-key", "%Tx", NULL }, "bad_token", NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "Bearer %T", NULL },
      "bad_token",
      NULL },
    { "POST", "/proxy/anthropic/v1/messages", BEARER, "token_misplaced", NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "%T", "x-api-key", "%T", NULL },
      "token_repeated",
      NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "%T", "X-Api-Key", "other", NULL },
      "token_repeated",
      NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "%T", "Referer", "http://a/?t=%T", NULL },
      "token_misplaced",
      NULL },
    { "POST",
      "/proxy/anthropic/v1/messages",
      { "x-api-key", "%T", "Cookie", "t=%T", NULL },
      "token_misplaced",
      NULL },
    { "POST", "/proxy/openai/v1/responses", KEY, "token_misplaced", NULL },
    { "POST", "/proxy/openai/v1/responses", { "authorization", "%T", NULL }, "bad_token", NULL },
    { "POST", "/proxy/openai/v1/responses", BASIC, "bad_token", NULL },
    { "POST",
      "/proxy/openai/v1/responses",
      { "authorization", "Bearer  %T", NULL },
      "bad_token",
      NULL },
    { "POST", "/proxy/github/o/r.git/git-upload-pack", BEARER, "bad_token", NULL },
    { "POST",
      "/proxy/github/o/r.git/git-upload-pack",
      { "authorization", "Basic !!!", NULL },
      "bad_token",
      NULL },
    { "POST",
      "/proxy/github/o/r.git/git-upload-pack",
      { "authorization", "Basic", NULL },
      "bad_token",
      NULL },

    /* Grants and rules. */
    { "POST", "/proxy/secretive/x", KEY, "service_not_granted", NULL },
    { "POST", "/proxy/corp/chat/completions", BEARER, "ok", "/base/v1/chat/completions" },
    { "POST", "/proxy/corp/chat/completions?x=1", BEARER, "ok", "/base/v1/chat/completions?x=1" },
    { "POST", "/proxy/corp/chat%2Dcompletions", BEARER, "request_not_allowed", NULL },
    { "POST", "/proxy/corp/%63hat/completions", BEARER, "ok", "/base/v1/chat/completions" },
    { "GET", "/proxy/corp/chat/completions", BEARER, "request_not_allowed", NULL },
    { "POST", "/proxy/corp/chat/completions/", BEARER, "request_not_allowed", NULL },
    { "POST", "/proxy/corp/chat/completions;x", BEARER, "request_not_allowed", NULL },
    { "POST", "/proxy/corp/Chat/completions", BEARER, "request_not_allowed", NULL },
    { "GET", "/proxy/corp/models/a/b", BEARER, "ok", "/base/v1/models/a/b" },
    { "GET", "/proxy/corp/models", BEARER, "request_not_allowed", NULL },
    { "HEAD", "/proxy/corp/models/a", BEARER, "request_not_allowed", NULL },
    { "GET", "/proxy/github/o/r.git/info/refs?service=git-upload-pack", BASIC, "ok",
      "/o/r.git/info/refs?service=git-upload-pack" },
    /* Other spellings lead to the one that was granted. */
    { "GET", "/proxy/github/o/r/info/refs?service=git-receive-pack", BASIC, "ok",
      "/o/r.git/info/refs?service=git-receive-pack" },
    { "POST", "/proxy/github/O/R.Git/git-receive-pack", BASIC, "ok", "/o/r.git/git-receive-pack" },
    { "POST", "/proxy/github/%6F/%72.git/git-receive-pack", BASIC, "ok",
      "/o/r.git/git-receive-pack" },
    { "POST", "/proxy/github/o/r.git//git-receive-pack", BASIC, "empty_segment", NULL },
    { "POST", "/proxy/github/o/%2e%2e/git-receive-pack", BASIC, "encoded_dot", NULL },
    { "POST", "/proxy/github/o%2Fr/git-receive-pack", BASIC, "encoded_slash", NULL },
    { "POST", "/proxy/github/o/r.git/git-receive-pack/", BASIC, "request_not_allowed", NULL },
    { "POST", "/proxy/github/o/r.git/git-receive-pack?x", BASIC, "request_not_allowed", NULL },
    { "POST", "/proxy/github/o/r.git/GIT-receive-pack", BASIC, "request_not_allowed", NULL },
    { "POST", "/proxy/github/o/second.git/git-receive-pack", BASIC, "ok",
      "/o/second/git-receive-pack" },
    /* Others are read, but not pushed to. */
    { "GET", "/proxy/github/o/r2.git/info/refs?service=git-upload-pack", BASIC, "ok",
      "/o/r2.git/info/refs?service=git-upload-pack" },
    { "GET", "/proxy/github/o/r2/info/refs?service=git-receive-pack", BASIC,
      "repository_not_allowed", NULL },
    { "POST", "/proxy/github/o/r.git.git/git-receive-pack", BASIC, "repository_not_allowed", NULL },
    { "POST", "/proxy/github/o/r/x/git-receive-pack", BASIC, "repository_not_allowed", NULL },
    { "POST", "/proxy/github/x/o/r/git-receive-pack", BASIC, "repository_not_allowed", NULL },
    { "POST", "/proxy/gitlab/o/r.git/git-receive-pack", BASIC, "repository_not_allowed", NULL },
    { "POST", "/proxy/gitlab/team/a/git-receive-pack", BASIC, "ok", "/team/a/git-receive-pack" },
    { "POST", "/proxy/gitlab/teams/a/git-receive-pack", BASIC, "repository_not_allowed", NULL },
    /* The API is no way round. */
    { "GET", "/proxy/github-api/repos/o/r", BEARER, "ok", "/repos/o/r" },
    { "GET", "/proxy/github-api/repos/O/R/pulls?state=open", BEARER, "ok",
      "/repos/O/R/pulls?state=open" },
    { "GET", "/proxy/github-api/repos/o/other/issues", BEARER, "ok", "/repos/o/other/issues" },
    { "GET", "/proxy/github-api/rate_limit", BEARER, "ok", "/rate_limit" },
    { "POST", "/proxy/github-uploads/repos/o/r/releases/1/assets?name=a", BEARER,
      "api_write_not_allowed", NULL },
    { "GET", "/proxy/github-uploads/repos/o/r", BEARER, "request_not_allowed", NULL },
    { "GET",
      "/proxy/gitlab-api/projects/a%2fb/issues",
      { "Private-Token", "%T", NULL },
      "ok",
      "/api/v4/projects/a%2Fb/issues" },
    { "GET",
      "/proxy/gitlab-api/projects/a%2f..%2fb",
      { "Private-Token", "%T", NULL },
      "dot_segment",
      NULL },
    { "GET",
      "/proxy/gitlab-api/user",
      { "Private-Token", "%T", NULL },
      "request_not_allowed",
      NULL },
    { "PUT",
      "/proxy/gitlab-api/projects/a%2Fb",
      { "Private-Token", "%T", NULL },
      "api_write_not_allowed",
      NULL },
    { "POST",
      "/proxy/gitea-api/repos/o/r/pulls",
      { "Authorization", "token %T", NULL },
      "api_write_not_allowed",
      NULL },
    { "GET", "/proxy/github-api/repos/o%2fr", BEARER, "encoded_slash", NULL },
    { "GET", "/proxy/github-api/repos", BEARER, "request_not_allowed", NULL },
    { "GET", "/proxy/github-api/repos/o", BEARER, "request_not_allowed", NULL },
    { "GET", "/proxy/github-api/user/repos", BEARER, "request_not_allowed", NULL },
    { "GET", "/proxy/github-api/search/code?q=x", BEARER, "request_not_allowed", NULL },
    { "PATCH", "/proxy/github-api/repos/o/r/git/refs/heads/main", BEARER, "api_write_not_allowed",
      NULL },
    { "POST", "/proxy/github-api/repos/o/r/git/refs", BEARER, "api_write_not_allowed", NULL },
    { "DELETE", "/proxy/github-api/repos/o/r/git/refs/heads/x", BEARER, "api_write_not_allowed",
      NULL },
    { "PUT", "/proxy/github-api/repos/o/r/contents/x", BEARER, "api_write_not_allowed", NULL },
    { "POST", "/proxy/github-api/repos/o/r/merges", BEARER, "api_write_not_allowed", NULL },
    { "PUT", "/proxy/github-api/repos/o/r/pulls/1/merge", BEARER, "api_write_not_allowed", NULL },
    { "POST", "/proxy/github-api/repos/o/r/pulls", BEARER, "api_write_not_allowed", NULL },
    { "POST", "/proxy/github-api/repos/o/r/actions/workflows/1/dispatches", BEARER,
      "api_write_not_allowed", NULL },
    { "POST", "/proxy/github-api/graphql", BEARER, "graphql_not_allowed", NULL },
    { "POST", "/proxy/github-api/GraphQL", BEARER, "graphql_not_allowed", NULL },
    /* A service of one's own without rules is open, but for pushes. */
    { "GET", "/proxy/forge/api/v1/user", BASIC, "ok", "/scm/api/v1/user" },
    { "POST", "/proxy/forge/o/r/git-receive-pack", BASIC, "repository_not_allowed", NULL },
    { "POST", "/proxy/forge/git-receive-pack", BASIC, "request_not_allowed", NULL },
    { "POST", "/proxy/forge/o/r/info/lfs/objects/batch", BASIC, "ok",
      "/scm/o/r/info/lfs/objects/batch" },
    { "GET", "/proxy/forge/o/r/info/lfs/locks", BASIC, "lfs_not_allowed", NULL },
    { "POST", "/proxy/github/o/r.git/git-upload-pack", BASIC, "ok", "/o/r.git/git-upload-pack" },
    { "POST", "/proxy/github/o/r.git/git-receive-pack", BASIC, "ok", "/o/r.git/git-receive-pack" },
    { "POST", "/proxy/gitlab/group/sub/r.git/git-upload-pack", BASIC, "ok",
      "/group/sub/r.git/git-upload-pack" },
    { "GET", "/proxy/github/o/r.git/info/refs", BASIC, "request_not_allowed", NULL },
    { "GET", "/proxy/github/o/r.git/info/refs?service=git-upload-pack&x", BASIC,
      "request_not_allowed", NULL },
    { "GET", "/proxy/github/o/r.git/info/refs?service=git-upload-archive", BASIC,
      "request_not_allowed", NULL },
    { "GET", "/proxy/github/o/r.git/HEAD", BASIC, "request_not_allowed", NULL },
    { "GET", "/proxy/github/info/refs?service=git-upload-pack", BASIC, "request_not_allowed",
      NULL },
    { "GET", "/proxy/github/r/info/refs?service=git-upload-pack", BASIC, "request_not_allowed",
      NULL },
    { "POST", "/proxy/github/o/r.git/git-upload-pack?x", BASIC, "request_not_allowed", NULL },
    { "GET", "/proxy/github/o/r.git/git-upload-pack", BASIC, "request_not_allowed", NULL },
    { "POST", "/proxy/github/o/r.git/info/lfs/locks/verify", BASIC, "lfs_not_allowed", NULL },
    { "PUT", "/proxy/github/o/r.git/info/lfs/transfer/x", BASIC, "ok",
      "/o/r.git/info/lfs/transfer/x" },
    { "GET", "/proxy/github/login", BASIC, "request_not_allowed", NULL },
    { "POST", "/proxy/github/o/r.git/git-upload-pack", { NULL }, "no_token", NULL },
};

TEST(every_row_gets_its_decision)
{
    struct rig *rig = start();

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct rule_case *c = &cases[i];
        struct policy_decision decision;
        bool allowed = strcmp(c->reason, "ok") == 0;

        decide(rig, c->method, c->target, c->headers, &decision);
        if (strcmp(decision.reason, c->reason) != 0 || decision.allowed != allowed)
            CHECK_STR(c->target, decision.reason);
        if (allowed)
            CHECK_STR(decision.upstream_path, c->upstream);
        else
            CHECK(decision.upstream_path == NULL && decision.message != NULL &&
                  decision.status >= 400 && decision.status < 500);
        CHECK(decision.path != NULL);
        policy_decision_finish(&decision);
    }
}

TEST(git_is_asked_for_its_password_and_nobody_else)
{
    struct rig *rig = start();
    struct policy_decision decision;
    static const char *const none[] = { NULL };

    decide(rig, "GET", "/proxy/github/o/r.git/info/refs?service=git-upload-pack", none, &decision);
    CHECK_EQ(decision.status, 401);
    CHECK(decision.challenge);
    policy_decision_finish(&decision);
    decide(rig, "POST", "/proxy/anthropic/v1/messages", none, &decision);
    CHECK_EQ(decision.status, 403);
    CHECK(!decision.challenge);
    policy_decision_finish(&decision);
}

TEST(the_credential_goes_only_with_repositories_of_the_run)
{
    static const struct {
        const char *target;
        bool anonymous;
    } targets[] = {
        { "/proxy/github/o/r.git/git-upload-pack", false },
        { "/proxy/github/O/r/git-upload-pack", false },
        { "/proxy/github/o/private/git-upload-pack", true },
        { "/proxy/gitlab/team/x/git-upload-pack", false },
        { "/proxy/gitlab/o/r.git/git-upload-pack", true },
        { "/proxy/github-api/repos/O/r/pulls", false },
        { "/proxy/github-api/repos/o/r2/pulls", true },
        { "/proxy/github-api/repos/o/second", false },
        { "/proxy/github-api/meta", true },
        { "/proxy/gitlab-api/projects/group%2Fsub%2fx/merge_requests", false },
        { "/proxy/gitlab-api/projects/group%2Fsub%2Fy", true },
        { "/proxy/gitlab-api/projects/42", true },
        { "/proxy/gitea-api/repos/o/r/pulls", true },
        { "/proxy/gitea-api/version", true },
    };
    struct rig *rig = start();
    static const char *const basic[] = BASIC;
    static const char *const bearer[] = BEARER;
    static const char *const token[] = { "Authorization", "token %T", NULL };
    static const char *const private[] = { "Private-Token", "%T", NULL };

    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct policy_decision decision;

        bool api = strstr(targets[i].target, "-api/") != NULL;
        decide(rig, api ? "GET" : "POST", targets[i].target,
               strstr(targets[i].target, "gitlab-api") != NULL  ? private
               : strstr(targets[i].target, "gitea-api") != NULL ? token
               : api                                            ? bearer
                                                                : basic,
               &decision);
        CHECK_STR(decision.reason, "ok");
        CHECK_EQ(decision.anonymous, targets[i].anonymous);
        policy_decision_finish(&decision);
    }
}

TEST(a_token_in_the_target_is_misplaced_even_encoded)
{
    struct rig *rig = start();
    static const char *const key[] = KEY;

    for (size_t i = 0; i < 3; i++) {
        struct policy_decision decision;
        AUTO_FREE
        char *target = NULL;

        switch (i) {
        case 0:
            target = mem_printf("/proxy/anthropic/x?key=%s", rig->token);
            break;
        case 1:
            target = mem_printf("/proxy/anthropic/a%s", rig->token);
            break;
        default:
            target = mem_printf("/proxy/anthropic/x?a=%%73%s", rig->token + 1);
            break;
        }
        decide(rig, "POST", target, key, &decision);
        CHECK_STR(decision.reason, "token_misplaced");
        policy_decision_finish(&decision);
    }
}

TEST(model_requests_are_known_by_their_endpoint)
{
    struct rig *rig = start();
    static const char *const key[] = KEY;
    static const char *const basic[] = BASIC;
    struct policy_decision decision;

    decide(rig, "POST", "/proxy/anthropic/v1/messages?beta=true", key, &decision);
    CHECK(decision.model);
    policy_decision_finish(&decision);
    decide(rig, "POST", "/proxy/anthropic/v1/messages/count_tokens", key, &decision);
    CHECK(!decision.model);
    policy_decision_finish(&decision);
    decide(rig, "POST", "/proxy/github/o/r.git/git-upload-pack", basic, &decision);
    CHECK(!decision.model);
    policy_decision_finish(&decision);
}

#define HANDSHAKE                                                                                  \
    "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13",                \
        "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="

/* How a request came changes nothing of what it may do. */
TEST(requests_in_a_tunnel_meet_the_judges_of_git_and_of_forges)
{
    static const struct {
        const char *host;
        const char *method;
        const char *target;
        const char *headers[11];
        const char *reason;
        bool anonymous;
    } rows[] = {
        { "github.com", "POST", "/o/r.git/git-upload-pack", BASIC, "ok", false },
        { "github.com", "POST", "/O/R/git-receive-pack", BASIC, "ok", false },
        { "github.com", "POST", "/o/other.git/git-upload-pack", BASIC, "ok", true },
        { "github.com", "POST", "/o/other.git/git-receive-pack", BASIC, "repository_not_allowed",
          false },
        { "github.com", "POST", "/o/r.git/info/lfs/locks", BASIC, "lfs_not_allowed", false },
        { "github.com", "POST", "/o/other.git/info/lfs/objects/batch", BASIC, "ok", true },
        { "github.com", "GET", "/login", BASIC, "request_not_allowed", false },
        { "github.com", "POST", "/o/r.git/git-receive-pack", { NULL }, "no_token", false },
        { "forge.example", "POST", "/scm/o/r/git-receive-pack", BASIC, "repository_not_allowed",
          false },
        { "forge.example",
          "GET",
          "/scm/live",
          { "Authorization", "Basic %B", HANDSHAKE, NULL },
          "upgrade_not_allowed",
          false },
        { "api.github.com", "GET", "/repos/o/r/pulls", BEARER, "ok", false },
        { "api.github.com", "GET", "/repos/o/other/pulls", BEARER, "ok", true },
        { "api.github.com", "POST", "/repos/o/r/merges", BEARER, "api_write_not_allowed", false },
        { "api.github.com", "POST", "/graphql", BEARER, "graphql_not_allowed", false },
        { "api.github.com",
          "GET",
          "/rate_limit",
          { "Authorization", "Bearer %T", HANDSHAKE, NULL },
          "upgrade_not_allowed",
          false },
        { "api.github.com", "GET", "/rate_limit", { NULL }, "no_token", false },
        { "s.example", "GET", "/x", KEY, "host_not_allowed", false },
    };
    struct rig *rig = start();

    rig->grant.intercepts = true;
    rig->grant.open_listener = true;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct policy_decision decision;

        decide_inside(rig, rows[i].host, rows[i].method, rows[i].target, rows[i].headers,
                      &decision);
        if (strcmp(decision.reason, rows[i].reason) != 0)
            CHECK_STR(rows[i].target, decision.reason);
        CHECK_EQ(decision.anonymous && decision.allowed, rows[i].anonymous);
        policy_decision_finish(&decision);
    }
}

/* Where nobody else reaches the listener, a tunnel to a service is opened without the token; what
 * is asked for in it is not. */
TEST(a_service_needs_the_token_whichever_way_it_is_asked_for)
{
    static const struct proxy_service clear = { .name = "clear",
                                                .target = "http://clear.example",
                                                .inject_header = "x-api-key",
                                                .inject_value = "{KEY}" };
    static const char *const none[] = { NULL };
    static const char *const key[] = KEY;
    static const bool granted[] = { true };
    struct rig *rig = start();
    struct policy_decision decision;
    struct services services;
    struct error err = ERROR_INIT;

    rig->grant.intercepts = true;
    rig->grant.open_listener = true;
    decide(rig, "CONNECT", "api.openai.com:443", none, &decision);
    CHECK_EQ(decision.action, POLICY_INTERCEPT);
    CHECK(decision.service == NULL);
    policy_decision_finish(&decision);
    decide_inside(rig, "api.openai.com", "POST", "/v1/responses", none, &decision);
    CHECK_STR(decision.reason, "no_token");
    policy_decision_finish(&decision);

    CHECK_EQ(services_init(&services, &clear, 1, &err), 0);
    rig->grant.services = &services;
    rig->grant.granted = granted;
    rig->grant.repository_count = 0;
    for (int with = 0; with <= 1; with++) {
        struct http_request request = { .method = mem_strdup("GET"),
                                        .target = mem_strdup("http://clear.example/x"),
                                        .host = mem_strdup("clear.example"),
                                        .target_kind = HTTP_TARGET_ABSOLUTE,
                                        .minor = 1 };

        add_headers(rig, &request.headers, with ? key : none);
        policy_decide(&request, &rig->grant, &decision);
        CHECK_STR(decision.reason, with ? "ok" : "no_token");
        CHECK_EQ(decision.allowed && decision.service == &services.items[0], with != 0);
        policy_decision_finish(&decision);
        http_request_finish(&request);
    }
    services_finish(&services);
}
