#include "proxy/git_rules.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"
#include "proxy/git_tips.h"

TEST(only_gits_own_endpoints_are_recognised)
{
    static const struct {
        const char *method;
        const char *path;
        const char *query;
        enum git_endpoint endpoint;
        size_t len;
    } cases[] = {
        { "GET", "/o/r.git/info/refs", "?service=git-upload-pack", GIT_ENDPOINT_READ, 8 },
        { "GET", "/o/r/info/refs", "?service=git-receive-pack", GIT_ENDPOINT_PUSH_REFS, 4 },
        { "POST", "/g/s/r.git/git-upload-pack", "", GIT_ENDPOINT_READ, 10 },
        { "POST", "/o/r.git/git-receive-pack", "", GIT_ENDPOINT_PUSH, 8 },
        { "POST", "/o/r.git/info/lfs/objects/batch", "", GIT_ENDPOINT_LFS_BATCH, 8 },
        { "GET", "/o/r.git/info/lfs/objects/batch", "", GIT_ENDPOINT_LFS, 8 },
        { "POST", "/o/r.git/info/lfs/objects/batch", "?x", GIT_ENDPOINT_LFS, 8 },
        { "PUT", "/o/r.git/info/lfs/transfer/abc", "", GIT_ENDPOINT_LFS_PLACE, 8 },
        { "GET", "/o/r.git/info/lfs/locks", "?x", GIT_ENDPOINT_LFS, 8 },
        { "PUT", "/o/r.git/Info/LFS/objects/1", "", GIT_ENDPOINT_LFS, 8 },
        { "GET", "/o/r.git/info/refs", "", GIT_ENDPOINT_NONE, 0 },
        { "GET", "/o/r.git/info/refs", "?service=git-upload-pack&x", GIT_ENDPOINT_NONE, 0 },
        { "GET", "/o/r.git/info/refs", "?service=git%2Dreceive-pack", GIT_ENDPOINT_NONE, 0 },
        { "POST", "/o/r.git/git-receive-pack", "?x", GIT_ENDPOINT_NONE, 0 },
        { "POST", "/o/r.git/git-receive-pack/", "", GIT_ENDPOINT_NONE, 0 },
        { "POST", "/o/r.git/Git-Receive-Pack", "", GIT_ENDPOINT_NONE, 0 },
        { "POST", "/r.git/git-receive-pack", "", GIT_ENDPOINT_NONE, 0 },
        { "POST", "/git-receive-pack", "", GIT_ENDPOINT_NONE, 0 },
        { "PUT", "/o/r.git/git-receive-pack", "", GIT_ENDPOINT_NONE, 0 },
        { "post", "/o/r.git/git-receive-pack", "", GIT_ENDPOINT_NONE, 0 },
        { "GET", "/o/r.git/HEAD", "", GIT_ENDPOINT_NONE, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct git_place place = git_place_of(cases[i].method, cases[i].path, cases[i].query);

        CHECK_EQ(place.endpoint, cases[i].endpoint);
        CHECK_EQ(place.repository_len, cases[i].len);
    }
}

static bool same(const char *a, const char *b)
{
    return git_repository_same(a, strlen(a), b, strlen(b));
}

TEST(aliases_of_a_repository_are_known)
{
    CHECK(same("/o/r", "/o/r.git"));
    CHECK(same("/O/R.GIT", "/o/r"));
    CHECK(same("/o/r.git/", "/o/r"));
    CHECK(!same("/o/r", "/o/r2"));
    CHECK(!same("/o/r.git.git", "/o/r"));
    CHECK(!same("/o/.git", "/o"));
    CHECK(!same("/o/r", "/o/r/x"));
    CHECK(!same("", ""));
    CHECK(!same("/", "/"));
}

TEST(listed_repositories_are_matched_exactly)
{
    const char *const list[] = { "o/lib", "team/...", "x/y.git" };
    const char *const all[] = { "..." };
    static const struct {
        const char *path;
        bool listed;
    } cases[] = {
        { "/o/lib", true },    { "/o/lib.git", true }, { "/team/a", true },   { "/team/a/b", true },
        { "/x/y", true },      { "/o/lib2", false },   { "/o/li", false },    { "/O/lib", false },
        { "/team/", false },   { "/team", false },     { "/teams/a", false }, { "/o/lib/x", false },
        { "/x/o/lib", false }, { "", false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_EQ(git_repository_listed(list, ARRAY_LEN(list), cases[i].path, strlen(cases[i].path)),
                 cases[i].listed);
    CHECK(git_repository_listed(all, 1, "/a/b", 4));
    CHECK(!git_repository_listed(NULL, 0, "/a/b", 4));
}

TEST(names_of_refs_have_one_plain_form)
{
    static const char *const good[] = { "refs/heads/agent/x", "refs/tags/v1.0", "refs/heads/a@b",
                                        "refs/heads/a+b=c,d", "refs/x" };
    static const char *const bad[] = {
        "HEAD",
        "",
        "refs/",
        "refs",
        "heads/main",
        "Refs/heads/x",
        "refs/heads/",
        "refs/heads//x",
        "refs/heads/agent/../main",
        "refs/heads/agent/..",
        "refs/heads/./x",
        "refs/heads/.x",
        "refs/heads/x.",
        "refs/heads/x.lock",
        "refs/heads/x.LOCK",
        "refs/heads/x.lock/y",
        "refs/heads/x y",
        "refs/heads/x\ty",
        "refs/heads/x~1",
        "refs/heads/x^",
        "refs/heads/x:y",
        "refs/heads/x?",
        "refs/heads/*",
        "refs/heads/[x",
        "refs/heads/x\\y",
        "refs/heads/x@{1}",
        "refs/heads/\x7f",
        "refs/heads/\xc3\xa4",
        "refs/heads/-x",
        "/refs/heads/x",
        "refs/heads/x/",
    };
    char long_ref[300] = "refs/heads/";

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK(git_ref_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (git_ref_valid(bad[i], strlen(bad[i])))
            CHECK_FAILED(bad[i]);
    CHECK(!git_ref_valid("refs/heads/a\0b", 13));
    memset(long_ref + 11, 'a', 255 - 11);
    CHECK(git_ref_valid(long_ref, 255));
    long_ref[255] = 'a';
    CHECK(!git_ref_valid(long_ref, 256));
}

TEST(patterns_match_branches_and_whole_refs)
{
    CHECK(git_ref_matches("agent/...", "refs/heads/agent/x"));
    CHECK(git_ref_matches("agent/...", "refs/heads/agent/x/y"));
    CHECK(git_ref_matches("fix", "refs/heads/fix"));
    CHECK(git_ref_matches("refs/tags/agent/...", "refs/tags/agent/1"));
    CHECK(!git_ref_matches("agent/...", "refs/heads/agent"));
    CHECK(!git_ref_matches("agent/...", "refs/heads/agent/"));
    CHECK(!git_ref_matches("agent/...", "refs/heads/Agent/x"));
    CHECK(!git_ref_matches("agent/...", "refs/heads/agents/x"));
    CHECK(!git_ref_matches("agent/...", "refs/tags/agent/x"));
    CHECK(!git_ref_matches("agent/...", "refs/for/agent/x"));
    CHECK(!git_ref_matches("fix", "refs/heads/fix2"));
    CHECK(!git_ref_matches("fix", "fix"));
    CHECK(git_ref_pattern_valid("agent/..."));
    CHECK(git_ref_pattern_valid("refs/tags/x"));
    CHECK(!git_ref_pattern_valid("..."));
    CHECK(!git_ref_pattern_valid("a/../..."));
    CHECK(!git_ref_pattern_valid(""));
}

TEST(what_was_pushed_is_remembered_and_written_down)
{
    struct git_tips tips = { .count = 0 };
    struct git_tips again = { .count = 0 };
    struct buf text;
    char id[41] = "1111111111111111111111111111111111111111";

    git_tips_set(&tips, "github/o/r", "refs/heads/agent/x", id);
    git_tips_set(&tips, "github/o/r", "refs/heads/agent/y", id);
    id[0] = '2';
    git_tips_set(&tips, "github/o/r", "refs/heads/agent/x", id);
    CHECK_STR(git_tips_get(&tips, "github/o/r", "refs/heads/agent/x"), id);
    CHECK(git_tips_get(&tips, "github/o/r2", "refs/heads/agent/x") == NULL);
    git_tips_set(&tips, "github/o/r", "refs/heads/agent/y",
                 "0000000000000000000000000000000000000000");
    CHECK(git_tips_get(&tips, "github/o/r", "refs/heads/agent/y") == NULL);
    buf_init(&text, 1 << 20);
    git_tips_format(&tips, &text);
    git_tips_parse(&again, buf_text(&text));
    CHECK_EQ(again.count, 1);
    CHECK_STR(git_tips_get(&again, "github/o/r", "refs/heads/agent/x"), id);
    git_tips_parse(&again, "nonsense\n\na b c\nx refs/heads/z short\n");
    CHECK_EQ(again.count, 1);
    for (unsigned i = 0; i < GIT_TIPS_MAX + 10; i++) {
        AUTO_FREE
        char *ref = mem_printf("refs/heads/agent/%u", i);
        git_tips_set(&again, "p", ref, id);
    }
    CHECK_EQ(again.count, GIT_TIPS_MAX);
    CHECK(git_tips_get(&again, "p", "refs/heads/agent/0") == NULL);
    buf_finish(&text);
    git_tips_finish(&tips);
    git_tips_finish(&again);
}
