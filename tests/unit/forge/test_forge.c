#include "common/mem.h"
#include "common/str.h"
#include "forge/forge.h"
#include "harness/test.h"

static struct forge_request request;
static struct forge_pull pull;
static struct forge_problem problem;

static void finish(void *data)
{
    (void)data;
    forge_request_finish(&request);
    forge_pull_finish(&pull);
}

static const char *listed(const char *service, const char *repository, const char *head)
{
    finish(NULL);
    test_defer(finish, NULL);
    forge_list(forge_find(service), repository, head, 2, &request);
    CHECK_STR(request.method, "GET");
    return buf_text(&request.path);
}

TEST(each_forge_lists_the_open_ones_of_a_branch)
{
    CHECK_STR(listed("github", "o w/r", "agent/x y#&"),
              "/repos/o%20w/r/pulls?state=open&page=2&per_page=10&head=o%20w:agent%2Fx%20y%23%26");
    CHECK_STR(listed("gitlab", "group/sub/r", "agent/x"),
              "/projects/group%2Fsub%2Fr/merge_requests?state=opened&page=2&per_page=10&"
              "source_branch=agent%2Fx");
    CHECK_STR(listed("gitea", "o/r", "agent/x"), "/repos/o/r/pulls?state=open&page=2&limit=20");
    CHECK(forge_find("corp") == NULL);
}

TEST(a_repository_has_the_parts_that_its_forge_knows)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(forge_check_repository(forge_find("github"), "o/r", &err), 0);
    CHECK_EQ(forge_check_repository(forge_find("gitlab"), "a/b/c/d", &err), 0);
    static const char *const bad[] = { "", "o", "/o/r", "o/", "o//r", "a/b/c" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(forge_check_repository(forge_find("github"), bad[i], &err), -1);
}

static const char *created(const char *service, const struct forge_change *change)
{
    finish(NULL);
    test_defer(finish, NULL);
    forge_create(forge_find(service), "o/r", change, &request);
    return buf_text(&request.body);
}

TEST(drafts_are_written_as_each_forge_wants_them)
{
    struct forge_change change = {
        .head = "h", .base = "b", .title = "T \"x\"", .body = "B", .sets_draft = true, .draft = true
    };

    CHECK_STR(created("github", &change),
              "{\"title\":\"T \\\"x\\\"\",\"head\":\"h\",\"base\":\"b\",\"body\":\"B\","
              "\"draft\":true}");
    CHECK_STR(created("gitlab", &change),
              "{\"title\":\"Draft: T \\\"x\\\"\",\"source_branch\":\"h\",\"target_branch\":\"b\","
              "\"description\":\"B\"}");
    CHECK_STR(created("gitea", &change),
              "{\"title\":\"WIP: T \\\"x\\\"\",\"head\":\"h\",\"base\":\"b\",\"body\":\"B\"}");
    change.draft = false;
    CHECK_STR(created("gitea", &change),
              "{\"title\":\"T \\\"x\\\"\",\"head\":\"h\",\"base\":\"b\",\"body\":\"B\"}");
    finish(NULL);
    forge_edit(forge_find("gitlab"), "o/r", 7, &(struct forge_change){ .body = "B" }, &request);
    CHECK_STR(request.method, "PUT");
    CHECK_STR(buf_text(&request.path), "/projects/o%2Fr/merge_requests/7");
    CHECK_STR(buf_text(&request.body), "{\"description\":\"B\"}");
}

static int read_pull(const char *service, int status, const char *body)
{
    const struct forge_answer answer = { status, body, strlen(body), "" };

    forge_pull_finish(&pull);
    test_defer(finish, NULL);
    problem = (struct forge_problem){ .code = NULL };
    return forge_read_pull(forge_find(service), &answer, &pull, &problem);
}

TEST(an_answer_is_read_and_a_prefix_makes_a_draft)
{
    CHECK_EQ(
        read_pull("gitea", 201,
                  "{\"number\":7,\"html_url\":\"https://x/7\",\"state\":\"open\",\"title\":"
                  "\"wip: T\",\"body\":null,\"head\":{\"ref\":\"h\"},\"base\":{\"ref\":\"b\"}}"),
        0);
    CHECK_EQ(pull.number, 7u);
    CHECK(pull.draft && pull.open);
    CHECK_STR(pull.title, "T");
    CHECK_STR(pull.body, "");
    CHECK_STR(pull.head, "h");
}

#define WHOLE(url, head)                                                                           \
    "{\"number\":7,\"html_url\":" url                                                              \
    ",\"state\":\"open\",\"title\":\"T\",\"head\":{\"ref\":" head "},\"base\":{\"ref\":\"b\"}}"

TEST(answers_that_are_none_are_refused)
{
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{}",
        "\"x\"",
        "<html></html>",
        "{\"number\":\"7\"}",
        WHOLE("\"https://x/7\"", "\"h\"") " x",
        WHOLE("\"javascript:alert(1)\"", "\"h\""),
        WHOLE("\"https://x/7\\u001b[2J\"", "\"h\""),
        WHOLE("\"https://x/\\\"onclick=\"", "\"h\""),
        WHOLE("7", "\"h\""),
        WHOLE("\"https://x/7\"", "[]"),
        WHOLE("\"https://x/7\"", "\"a\\nb\""),
        "{\"number\":-7,\"html_url\":\"https://x\"}",
        "{\"number\":1e300,\"html_url\":\"https://x\"}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_EQ(read_pull("github", 200, bad[i]), -1);
        CHECK_EQ(problem.trouble, FORGE_UNREADABLE);
        CHECK_EQ(pull.number, 0u);
    }
    CHECK_EQ(read_pull("github", 200, WHOLE("\"https://x/7\"", "\"h\"")), 0);
}

TEST(what_a_forge_complains_of_is_told_in_its_words)
{
    static const struct {
        const char *service;
        int status;
        const char *body;
        enum forge_trouble trouble;
        const char *words;
    } cases[] = {
        { "github", 401, "{\"message\":\"Bad credentials\"}", FORGE_BAD_TOKEN, "Bad credentials" },
        { "github", 403, "{\"message\":\"Resource not accessible\"}", FORGE_NO_PERMISSION,
          "lacks pull_requests:write" },
        { "github", 404, "{\"message\":\"Not Found\"}", FORGE_NO_PERMISSION, "Not Found" },
        { "github", 403, "{\"message\":\"API rate limit exceeded\"}", FORGE_BUSY, "rate limit" },
        { "github", 422,
          "{\"message\":\"Validation Failed\",\"errors\":[{\"message\":\"A pull request already "
          "exists for o:h.\"}]}",
          FORGE_EXISTS, "already exists" },
        { "github", 422, "{\"message\":\"Draft pull requests are not supported\"}", FORGE_NO_DRAFT,
          "not supported" },
        { "github", 422, "{\"message\":\"x\",\"errors\":[\"No commits between a and b\"]}",
          FORGE_REFUSED, "No commits between" },
        { "gitlab", 403, "{\"error\":\"insufficient_scope\",\"error_description\":\"more\"}",
          FORGE_NO_PERMISSION, "scope api" },
        { "gitlab", 409, "{\"message\":[\"Another open merge request\"]}", FORGE_EXISTS,
          "Another open" },
        { "gitea", 403, "{\"message\":\"token does not have\"}", FORGE_NO_PERMISSION,
          "write:repository" },
        { "gitea", 301, "<html>", FORGE_REDIRECT, "not followed" },
        { "gitea", 502, "", FORGE_BUSY, "502" },
        { "gitea", 418, "{\"message\":\"\\u001b[2J tea\"}", FORGE_REFUSED, "\\x1b[2J tea" },
        { "gitea", 100, "", FORGE_REFUSED, "100" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_EQ(read_pull(cases[i].service, cases[i].status, cases[i].body), -1);
        CHECK_EQ(problem.trouble, cases[i].trouble);
        if (strstr(problem.message, cases[i].words) == NULL)
            CHECK_STR(problem.message, cases[i].words);
    }
}

static int read_list(const char *service, const char *body, const char *head, bool *more)
{
    const struct forge_answer answer = { 200, body, strlen(body), "" };

    forge_pull_finish(&pull);
    test_defer(finish, NULL);
    return forge_read_list(forge_find(service), &answer, head, &pull, more, &problem);
}

#define ENTRY(number, head, state, head_id)                                                        \
    "{\"number\":" number ",\"html_url\":\"https://x\",\"state\":\"" state                         \
    "\",\"title\":\"T\",\"head\":{\"ref\":\"" head "\",\"repo\":{\"id\":" head_id                  \
    "}},\"base\":{\"ref\":\"b\",\"repo\":{\"id\":1}}}"

TEST(the_branch_is_found_in_a_list_and_a_forks_is_not)
{
    bool more = true;

    CHECK_EQ(read_list("gitea", "[]", "h", &more), 0);
    CHECK(!more && pull.number == 0);
    CHECK_EQ(
        read_list("gitea",
                  "[" ENTRY("1", "other", "open", "1") "," ENTRY("2", "h", "open", "9") "," ENTRY(
                      "3", "h", "closed", "1") "," ENTRY("4", "h", "open", "1") "]",
                  "h", &more),
        0);
    CHECK_EQ(pull.number, 4u);
    CHECK_EQ(read_list("gitea", "[" ENTRY("2", "h", "open", "9") "]", "h", &more), 0);
    CHECK_EQ(pull.number, 0u);
    CHECK_EQ(read_list("gitea", "[7]", "h", &more), -1);
    CHECK_EQ(read_list("gitea", "{}", "h", &more), -1);
}
