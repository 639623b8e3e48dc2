#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "workspace/workspace.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define LONG_ID "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define USUAL                                                                                      \
    "ref: refs/heads/main\tHEAD\n" A "\tHEAD\n" A "\trefs/heads/main\n" B "\trefs/heads/next\n" B  \
    "\trefs/pull/7/head\n" A "\trefs/tags/next\n" A "\trefs/tags/v1\n"

static int settle(const char *text, const char *wanted, struct git_base *base, struct error *err)
{
    struct git_remote remote;
    int rc;

    *err = (struct error)ERROR_INIT;
    git_remote_init(&remote, wanted);
    /* In pieces of every size. */
    for (size_t at = 0, step = 1; at < strlen(text); at += step, step = step % 7 + 1)
        git_remote_feed(&remote, text + at, strlen(text + at) < step ? strlen(text + at) : step);
    rc = git_remote_base(&remote, base, err);
    git_remote_finish(&remote);
    return rc;
}

TEST(what_is_wanted_is_found)
{
    static const struct {
        const char *text;
        const char *wanted;
        enum git_base_kind kind;
        const char *source;
        const char *name;
    } rows[] = {
        { USUAL, "", GIT_BASE_BRANCH, "refs/heads/main", "main" },
        /* A branch and a tag of one name. */
        { USUAL, "next", GIT_BASE_BRANCH, "refs/heads/next", "next" },
        { USUAL, "refs/tags/next", GIT_BASE_TAG, "refs/tags/next", "next" },
        { USUAL, "v1", GIT_BASE_TAG, "refs/tags/v1", "v1" },
        { USUAL, "refs/pull/7/head", GIT_BASE_OTHER, "refs/pull/7/head", "refs/pull/7/head" },
        { USUAL, "pull/7/head", GIT_BASE_OTHER, "refs/pull/7/head", "refs/pull/7/head" },
        { USUAL, B, GIT_BASE_OTHER, B, B },
        { "", "", GIT_BASE_NONE, "", "main" },
        { A "\tHEAD\n" A "\trefs/heads/x\n", "", GIT_BASE_OTHER, "HEAD", A },
        { "ref: refs/heads/m\tHEAD\n" LONG_ID "\tHEAD\n" LONG_ID "\trefs/heads/m\n", "",
          GIT_BASE_BRANCH, "refs/heads/m", "m" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct git_base base;
        struct error err;

        CHECK_EQ(settle(rows[i].text, rows[i].wanted, &base, &err), 0);
        CHECK_EQ((int)base.kind, (int)rows[i].kind);
        CHECK_STR(base.source, rows[i].source);
        CHECK_STR(base.name, rows[i].name);
        CHECK_STR(base.format, strstr(rows[i].text, LONG_ID) != NULL ? "sha256" : "sha1");
        git_base_finish(&base);
    }
}

TEST(what_is_not_there_is_said_with_what_is)
{
    static const char *const rows[][3] = {
        { USUAL, "nowhere", "main, next" },
        { USUAL, "refs/heads/nowhere", "main, next" },
        { USUAL, "heads", "main" },
        { "ref: refs/heads/gone\tHEAD\n" A "\trefs/heads/x\n", "",
          "default branch refs/heads/gone" },
        { A "\trefs/heads/x\n", "", "x" },
        /* Names that git would not take are no names. */
        { A "\trefs/heads/-x\n" A "\trefs/heads/a..b\n", "-x", "no branch" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct git_base base;
        struct error err;

        CHECK_EQ(settle(rows[i][0], rows[i][1], &base, &err), i + 1 < ARRAY_LEN(rows) ? -1 : 0);
        if (err.code != ERR_NONE)
            CHECK_HAS(err.text, rows[i][2]);
        git_base_finish(&base);
    }
}

TEST(a_remote_may_say_anything)
{
    static const char *const texts[] = {
        "\n\n\t\n",
        "ref: \tHEAD\n",
        "ref: refs/heads/\tHEAD\n",
        A "\t\n",
        A "\n",
        "ref: refs/heads/x\nHEAD\n",
        A " HEAD\n",
        "--upload-pack=x\tHEAD\n",
        "ref: refs/heads/--x\tHEAD\n" A "\tHEAD\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct git_base base;
        struct error err;
        int rc = settle(texts[i], "", &base, &err);

        CHECK(rc == 0 || err.text[0] != '\0');
        if (rc == 0)
            CHECK(base.name[0] != '-');
        git_base_finish(&base);
    }
}

TEST(a_line_without_end_takes_no_memory)
{
    struct git_remote remote;
    struct git_base base;
    struct error err = ERROR_INIT;

    git_remote_init(&remote, "");
    for (int i = 0; i < 100000; i++)
        git_remote_feed(&remote, "aaaaaaaaaaaaaaaa", 16);
    CHECK(remote.line.cap <= 4096);
    git_remote_feed(&remote, "\n" A "\tHEAD\n", strlen(A) + 7);
    CHECK_EQ(git_remote_base(&remote, &base, &err), 0);
    CHECK_STR(base.source, "HEAD");
    git_base_finish(&base);
    git_remote_finish(&remote);
}

TEST(progress_is_read_from_gits_lines_and_from_no_others)
{
    static const struct {
        const char *line;
        unsigned percent;
        uint64_t done;
        uint64_t total;
    } good[] = {
        { "Receiving objects:  45% (450/1000), 12.3 MiB | 1.2 MiB/s", 45, 450, 1000 },
        { "remote: Compressing objects: 100% (2/2), done.", 100, 2, 2 },
        { "Updating files:   0% (0/99999999999)", 0, 0, 99999999999 },
    };
    static const char *const bad[] = {
        "",
        ":",
        "remote: ",
        "remote: hello: world",
        "Receiving objects: 45%",
        "x: 999% (1/1)",
        ": 1% (1/1)",
        "x: -1% (1/1)",
        "x: 1% (1/",
        "x: 1% (/1)",
        "x: 99999999999999999999999% (1/1)",
    };
    struct git_progress progress;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CHECK(git_parse_progress(good[i].line, &progress));
        CHECK_EQ(progress.percent, good[i].percent);
        CHECK_EQ(progress.done, good[i].done);
        CHECK_EQ(progress.total, good[i].total);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!git_parse_progress(bad[i], &progress));
}
