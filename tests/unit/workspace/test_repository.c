#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "workspace/workspace.h"

static const char *const targets[] = { "https://github.com", "http://127.0.0.1:8080/git" };

static int parse(const char *text, struct repository *out, struct error *err)
{
    const struct repository_rules rules = { .targets = targets,
                                            .target_count = ARRAY_LEN(targets) };

    *err = (struct error)ERROR_INIT;
    return repository_parse(text, &rules, out, err);
}

TEST(an_https_address_of_a_known_service_is_taken)
{
    struct repository repository;
    struct error err;

    CHECK_EQ(parse("https://github.com/owner/some.repo.git", &repository, &err), 0);
    CHECK_EQ((int)repository.kind, REPOSITORY_URL);
    CHECK_STR(repository.url, "https://github.com/owner/some.repo.git");
    CHECK_STR(repository.name, "some.repo");
    repository_finish(&repository);
    CHECK_EQ(parse("http://127.0.0.1:8080/git/a/b", &repository, &err), 0);
    CHECK_STR(repository.name, "b");
    repository_finish(&repository);
}

TEST(nothing_is_no_repository)
{
    struct repository repository;
    struct error err;

    CHECK_EQ(parse("", &repository, &err), 0);
    CHECK_EQ((int)repository.kind, REPOSITORY_NONE);
    repository_finish(&repository);
}

TEST(addresses_that_could_do_harm_are_refused_and_the_argument_is_named)
{
    static const char *const bad[] = {
        "-upload-pack=touch /tmp/x",
        "--upload-pack=x",
        "ext::sh -c touch% /tmp/x",
        "ext::true",
        "https://user:secret@github.com/a/b",
        "https://token@github.com/a/b",
        "https://github.com",
        "https://github.com/",
        "https://github.com/a/b?x=y",
        "https://github.com/a/b#f",
        "https://github.com/a/../b",
        "https://github.com/a/./b",
        "https://github.com/a//b",
        "https://github.com/a/%2e%2e/b",
        "https://github.com/a b",
        "https://github.com/a\nb",
        "https://github.com\\@evil.example/a/b",
        "https://github.com.evil.example/a/b",
        "https://github.com@evil.example/a/b",
        "https://evil.example/a/b",
        "http://github.com/a/b",
        "git@github.com:a/b.git",
        "ssh://git@github.com/a/b",
        "git://github.com/a/b",
        "ftp://github.com/a/b",
        "file://relative/path",
        "owner/name",
        "../somewhere",
        "/nonexistent/folder/of/ours",
        "fd::17",
        "fd::17/foo",
        "EXT::true",
        "transport::address",
        "https://github.com:443@evil.example/a/b",
        "https://github.com#@evil.example/a/b",
        "https://github.com?@evil.example/a/b",
        "https://github.com:8443/a/b",
        "https://github.com./a/b",
        "https://github.com%2e/a/b",
        "https://github.com%00/a/b",
        "https://github.com/a/%252e%252e/b",
        "https://github.com/a/..",
        "https://github.com/..%2fa/b",
        "https://github.com/a/b\tc",
        "https://github.com/a/b\r\nHost: evil",
        "https://github.com/a/b\x7f",
        "https://github.com/a/b\x1b[2J",
        /* Letters that look like others, a full stop that is none, a change of direction. */
        "https://g\xd1\x96thub.com/a/b",
        "https://github\xe3\x80\x82net/a/b",
        "https://xn--gthub-n4a.com/a/b",
        "https://github.com/a/\xe2\x80\xae/b",
        "https://github.com/a/b\xc2\xa0",
        "https:/github.com/a/b",
        "https:///github.com/a/b",
        "https://@github.com/a/b",
        "https://[::1]/a/b",
        "https://127.1/a/b",
        "https://2130706433/a/b",
        "data:text/plain,x",
        "//github.com/a/b",
        "github.com/a/b",
        "file:///etc",
        "file:///proc/self/root/etc",
        "FILE:///etc/../etc",
        "file://localhost/etc",
        "file:///nonexistent\nx",
        "/tmp\n",
        "C:\\repositories",
        "\\\\host\\share",
        " https://github.com/a/b",
        "$(touch x)",
        "`touch x`",
        "|touch x",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct repository repository;
        struct error err;

        CHECK_EQ(parse(bad[i], &repository, &err), -1);
        CHECK_STR(err.argument, "repository");
        CHECK(err.text[0] != '\0');
        repository_finish(&repository);
    }
}

static void make_bare(const char *folder)
{
    AUTO_FREE
    char *objects = mem_printf("%s/objects", folder);
    AUTO_FREE
    char *refs = mem_printf("%s/refs", folder);
    AUTO_FREE
    char *head = mem_printf("%s/HEAD", folder);
    FILE *file;

    mkdir(folder, 0700);
    mkdir(objects, 0700);
    mkdir(refs, 0700);
    file = fopen(head, "w");
    CHECK(file != NULL);
    fclose(file);
}

TEST(local_folders_need_permission_unless_a_person_asked)
{
    const char *top = tmp_dir();
    AUTO_FREE
    char *folder = mem_printf("%s/project", top);
    AUTO_FREE
    char *git_dir = mem_printf("%s/.git", folder);
    AUTO_FREE
    char *sibling = mem_printf("%s/proj", top);
    const char *allowed[] = { sibling };
    struct repository_rules rules = { .local_folders = allowed, .local_folder_count = 1 };
    struct repository repository;
    struct error err = ERROR_INIT;

    mkdir(folder, 0700);
    make_bare(git_dir);
    /* "…/proj" must not open "…/project". */
    CHECK_EQ(repository_parse(folder, &rules, &repository, &err), -1);
    CHECK_EQ((int)err.code, ERR_DENIED);
    repository_finish(&repository);
    allowed[0] = top;
    CHECK_EQ(repository_parse(folder, &rules, &repository, &err), 0);
    CHECK_STR(repository.git_dir, git_dir);
    CHECK_STR(repository.url, REPOSITORY_LOCAL_URL);
    CHECK_STR(repository.name, "project");
    repository_finish(&repository);
    rules = (struct repository_rules){ .any_local = true };
    CHECK_EQ(repository_parse(git_dir, &rules, &repository, &err), 0);
    repository_finish(&repository);
    CHECK_EQ(repository_parse(top, &rules, &repository, &err), -1);
    CHECK_STR(err.argument, "repository");
    repository_finish(&repository);
}

TEST(branch_names_follow_gits_rules)
{
    static const char *const good[] = { "",     "main", "feature/x-1",      "v1.2",
                                        "über", "a@b",  "refs/pull/7/head", "feat/ü#1,{x}" };
    static const char *const bad[] = { "-d",
                                       "--upload-pack=x",
                                       "a b",
                                       "a..b",
                                       "a~1",
                                       "a^",
                                       "a:b",
                                       "a?b",
                                       "a*",
                                       "a[b",
                                       "a\\b",
                                       "/a",
                                       "a/",
                                       "a//b",
                                       "a.lock",
                                       "a.lock/b",
                                       ".a",
                                       "a/.b",
                                       "a.",
                                       "@",
                                       "a@{1",
                                       "a\nb",
                                       "a\x7f",
                                       "-",
                                       "--",
                                       "a\tb",
                                       "a\x1b[2J",
                                       "+main:refs/heads/x",
                                       "main:main",
                                       "^main",
                                       "refs/heads/../x",
                                       "refs/heads/-x..y",
                                       "HEAD@{1}",
                                       "HEAD^{/x}" };
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK_EQ(branch_check(good[i], &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_EQ(branch_check(bad[i], &err), -1);
        CHECK_STR(err.argument, "branch");
    }
}
