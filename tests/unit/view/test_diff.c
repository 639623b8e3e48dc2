#include "harness/test.h"

#include <string.h>

#include "view/diff.h"

static const char two_files[] = "diff --git a/src/a.c b/src/a.c\n"
                                "index 1..2 100644\n"
                                "--- a/src/a.c\n"
                                "+++ b/src/a.c\n"
                                "@@ -1,2 +1,3 @@\n"
                                " int a;\n"
                                "-int b;\n"
                                "+int c;\n"
                                "+--- not a head\n"
                                "diff --git a/docs/new.md b/docs/new.md\n"
                                "new file mode 100644\n"
                                "index 0..3\n"
                                "--- /dev/null\n"
                                "+++ b/docs/new.md\n"
                                "@@ -0,0 +1 @@\n"
                                "+hello\n";

struct taken {
    struct buf text;
    struct buf files;
    bool truncated;
};

static void finish(void *data)
{
    struct taken *taken = data;

    buf_finish(&taken->text);
    buf_finish(&taken->files);
}

static struct taken taken;

static void take(const char *diff, const char *path, size_t max)
{
    struct diff_options options = { .path = path, .max_bytes = max };
    struct json_writer writer;

    buf_init(&taken.text, 1u << 20);
    buf_init(&taken.files, 1u << 20);
    test_defer(finish, &taken);
    json_write_init(&writer, &taken.files);
    taken.truncated = diff_write(diff, strlen(diff), &options, &taken.text, &writer);
}

TEST(files_are_counted_and_named)
{
    take(two_files, NULL, 1u << 20);
    CHECK_STR(buf_text(&taken.text), two_files);
    CHECK(!taken.truncated);
    CHECK_STR(buf_text(&taken.files),
              "[{\"path\":\"src/a.c\",\"insertions\":2,\"deletions\":1,\"status\":\"modified\"},"
              "{\"path\":\"docs/new.md\",\"insertions\":1,\"deletions\":0,\"status\":\"added\"}]");
}

TEST(a_path_takes_the_file_itself_or_what_is_below_it)
{
    take(two_files, "./docs/", 1u << 20);
    CHECK_STR(buf_text(&taken.text), strstr(two_files, "diff --git a/docs"));
    finish(&taken);
    take(two_files, "src/a.c", 1u << 20);
    CHECK_HAS(buf_text(&taken.files), "src/a.c");
    finish(&taken);
    take(two_files, "src/a", 1u << 20);
    CHECK_STR(buf_text(&taken.text), "");
    CHECK_STR(buf_text(&taken.files), "[]");
    finish(&taken);
    take(two_files, ".", 1u << 20);
    CHECK_STR(buf_text(&taken.text), two_files);
}

TEST(a_cut_is_at_a_line_and_says_so)
{
    take(two_files, NULL, 100);
    CHECK(taken.truncated);
    CHECK_HAS(buf_text(&taken.text), "@@\n[diff truncated: 93 of ");
    CHECK_HAS(buf_text(&taken.files), "docs/new.md");
}

TEST(nothing_follows_a_gap)
{
    take(two_files, NULL, 170);
    CHECK(taken.truncated);
    CHECK(strstr(buf_text(&taken.text), "docs/new.md") == NULL ||
          strstr(buf_text(&taken.text), "hello") == NULL);
}

TEST(renames_deletions_and_binary_files_are_told_apart)
{
    take("diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to "
         "new name\n"
         "diff --git a/gone b/gone\ndeleted file mode 100644\nindex 1..0\n--- a/gone\n+++ "
         "/dev/null\n@@ -1 +0,0 @@\n-x\n"
         "diff --git a/a b.bin b/a b.bin\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n",
         NULL, 1u << 20);
    CHECK_STR(buf_text(&taken.files),
              "[{\"path\":\"new name\",\"insertions\":0,\"deletions\":0,\"status\":\"renamed\"},"
              "{\"path\":\"gone\",\"insertions\":0,\"deletions\":1,\"status\":\"deleted\"},"
              "{\"path\":\"a b.bin\",\"insertions\":0,\"deletions\":0,\"status\":\"modified\"}]");
}

TEST(a_file_that_becomes_a_link_is_one_file)
{
    static const char becomes[] = "diff --git a/x b/x\n"
                                  "deleted file mode 100644\n"
                                  "index 1..0\n"
                                  "--- a/x\n"
                                  "+++ /dev/null\n"
                                  "@@ -1,2 +0,0 @@\n"
                                  "-one\n"
                                  "-two\n"
                                  "diff --git a/x b/x\n"
                                  "new file mode 120000\n"
                                  "index 0..2\n"
                                  "--- /dev/null\n"
                                  "+++ b/x\n"
                                  "@@ -0,0 +1 @@\n"
                                  "+y\n"
                                  "\\ No newline at end of file\n"
                                  "diff --git a/y b/y\n"
                                  "new file mode 100644\n"
                                  "index 0..0\n";

    take(becomes, NULL, 1u << 20);
    CHECK_STR(buf_text(&taken.text), becomes);
    CHECK_STR(buf_text(&taken.files),
              "[{\"path\":\"x\",\"insertions\":1,\"deletions\":2,\"status\":\"modified\"},"
              "{\"path\":\"y\",\"insertions\":0,\"deletions\":0,\"status\":\"added\"}]");
}

TEST(quoted_names_are_read)
{
    take("diff --git \"a/f\\303\\266\\t.c\" \"b/f\\303\\266\\t.c\"\nindex 1..2\n--- "
         "\"a/f\\303\\266\\t.c\"\n"
         "+++ \"b/f\\303\\266\\t.c\"\n@@ -1 +1 @@\n-a\n+b\n",
         NULL, 1u << 20);
    CHECK_HAS(buf_text(&taken.files), "\"f\xc3\xb6\\t.c\"");
}

TEST(garbage_is_survived)
{
    static const char *const inputs[] = { "",
                                          "\n",
                                          "diff --git ",
                                          "diff --git \n",
                                          "diff --git a",
                                          "diff --git \"",
                                          "diff --git \"\\",
                                          "hello\nworld",
                                          "diff --git a/x b/x\n@@ ",
                                          "diff --git a/x b/x\n--- \n+++ \"\\30" };

    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        take(inputs[i], "x", 10);
        finish(&taken);
    }
    CHECK(true);
}
