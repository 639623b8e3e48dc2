#include <string.h>

#include "harness/test.h"
#include "workspace/workspace.h"

#define ID " 0123456789 9876543210 "

static void count(struct git_kinds *kinds, const char *bytes, size_t len, size_t step)
{
    git_kinds_init(kinds);
    for (size_t at = 0; at < len; at += step)
        git_kinds_feed(kinds, bytes + at, len - at < step ? len - at : step);
    git_kinds_finish(kinds);
}

TEST(kinds_of_changes_are_counted_whatever_the_names)
{
    static const char output[] = ":100644 100644" ID "M\0:000000 160000 name\0"
                                 ":100644 100644" ID "R087\0-\t-\told\0- new\0"
                                 ":160000 160000" ID "M\0lib\0"
                                 ":000000 160000" ID "A\0other lib\0"
                                 ":100644 000000" ID "D\0gone\0"
                                 "1\t2\t:000000 160000 name\0"
                                 "0\t0\t\0-\t-\told\0- new\0"
                                 "1\t1\tlib\0"
                                 "1\t0\tother lib\0"
                                 "-\t-\tgone";

    for (size_t step = 1; step < 20; step++) {
        struct git_kinds kinds;

        count(&kinds, output, sizeof(output), step);
        CHECK_EQ(kinds.renames, (uint64_t)1);
        CHECK_EQ(kinds.submodules, (uint64_t)2);
        CHECK_EQ(kinds.binary_files, (uint64_t)1);
    }
}

TEST(any_bytes_are_counted_in_bounded_memory)
{
    static const char junk[] = ":\0: \0:1 160000 \0\0\0\t\0\t\t\0-\t-\t\0";
    struct git_kinds kinds;

    count(&kinds, junk, sizeof(junk), 3);
    git_kinds_init(&kinds);
    for (int i = 0; i < 100000; i++)
        git_kinds_feed(&kinds, "xxxxxxxxxx", 10);
    CHECK(kinds.head.cap <= 1024);
    git_kinds_finish(&kinds);
}
