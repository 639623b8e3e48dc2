#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "workspace/outgoing.h"
#include "workspace/publish.h"

#define A "0123456789abcdef0123456789abcdef01234567"
#define B "1123456789abcdef0123456789abcdef01234567"

static struct buf output(const char *text)
{
    struct buf buf;

    buf_init(&buf, 1u << 16);
    buf_append_str(&buf, text);
    return buf;
}

TEST(a_look_is_read_and_names_that_are_none_are_left_out)
{
    AUTO_BUF struct buf good = output("head " A "\nbranch agent/x\nchanged a\x1b b\ndirty 3\n");
    AUTO_BUF struct buf odd = output("head " A "\nbranch -x\n");
    AUTO_BUF struct buf none = output("head 0123\nbranch x\n");
    AUTO_BUF struct buf empty = output("");
    struct publish_look look;

    CHECK(publish_read_look(&good, &look));
    CHECK_STR(look.head, A);
    CHECK_STR(look.branch, "agent/x");
    CHECK_EQ(look.dirty, 3u);
    CHECK_STR(buf_text(&look.changed), "a\\x1b b\n");
    publish_look_finish(&look);
    CHECK(publish_read_look(&odd, &look));
    CHECK_STR(look.branch, "");
    publish_look_finish(&look);
    CHECK(!publish_read_look(&none, &look));
    publish_look_finish(&look);
    CHECK(!publish_read_look(&empty, &look));
    publish_look_finish(&look);
}

TEST(a_remotes_branches_are_found_by_their_whole_names)
{
    AUTO_BUF struct buf refs = output("ref: refs/heads/main\tHEAD\n" A "\tHEAD\n" B
                                      "\trefs/heads/x/main\n" A "\trefs/heads/main\nxyz\trefs/"
                                      "heads/bad\n");
    AUTO_BUF struct buf detached = output(A "\tHEAD\n");
    char branch[256];
    char object[65];

    CHECK(publish_read_default(&refs, branch));
    CHECK_STR(branch, "main");
    CHECK(!publish_read_default(&detached, branch));
    CHECK(publish_read_branch(&refs, "main", object));
    CHECK_STR(object, A);
    CHECK(publish_read_branch(&refs, "x/main", object));
    CHECK_STR(object, B);
    CHECK(!publish_read_branch(&refs, "ain", object));
    CHECK(!publish_read_branch(&refs, "bad", object));
    CHECK_STR(object, "");
}

TEST(changes_are_counted_once_and_subjects_kept_within_bounds)
{
    AUTO_BUF struct buf text = BUF_INIT(1u << 16);
    struct publish_changes changes;

    buf_append_str(&text, "commits 200\nstat  2 files changed, 3 insertions(+), 1 deletion(-)\n");
    for (int i = 0; i < 150; i++)
        buf_printf(&text, "subject number %d\n", i);
    buf_append_str(&text, "commits 7\n");
    CHECK(publish_read_changes(&text, &changes));
    CHECK_EQ(changes.commits, 200u);
    CHECK_EQ(changes.stat.files, 2u);
    CHECK_EQ(changes.stat.deletions, 1u);
    CHECK(strstr(buf_text(&changes.subjects), "number 99\n") != NULL);
    CHECK(strstr(buf_text(&changes.subjects), "number 100\n") == NULL);
    publish_changes_finish(&changes);
    buf_clear(&text);
    CHECK(!publish_read_changes(&text, &changes));
    publish_changes_finish(&changes);
}

TEST(a_refused_push_is_told_in_the_remotes_words)
{
    AUTO_BUF struct buf porcelain =
        output("To http://x\n!\t" A ":refs/heads/x\t[remote rejected] (sandbox: no)\nDone\n");
    AUTO_BUF struct buf nothing = output("");
    AUTO_BUF struct buf words = BUF_INIT(2048);

    publish_read_refusal(&porcelain, "remote: other\n", &words);
    CHECK_STR(buf_text(&words), "[remote rejected] (sandbox: no)");
    buf_clear(&words);
    publish_read_refusal(&nothing, "hint: x\nfatal: it is\nmore\n", &words);
    CHECK_STR(buf_text(&words), "fatal: it is");
    buf_clear(&words);
    publish_read_refusal(&nothing, "just words\x1b\n", &words);
    CHECK_STR(buf_text(&words), "just words\\x1b");
}

TEST(paths_stay_below_the_folder)
{
    static const char *const good[] = { "", "a", "a/b", "a b", "-x", "...", ".git/config", "a\n" };
    static const char *const bad[] = {
        "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/./b", "/"
    };
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        CHECK_EQ(outgoing_check_path(good[i], &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_EQ(outgoing_check_path(bad[i], &err), -1);
        CHECK_STR(err.argument, "path");
    }
}
