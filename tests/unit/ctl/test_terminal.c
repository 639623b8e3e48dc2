#include "ctl/terminal.h"

#include <string.h>

#include "harness/test.h"

TEST(lines_are_cut_by_characters_and_marked)
{
    AUTO_BUF struct buf text = BUF_INIT(1000);

    buf_append_str(&text, "12345\n123456\n\n\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\nend");
    terminal_fit(&text, 5);
    CHECK_STR(buf_text(&text), "12345\n1234…\n\n\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\nend");
}

TEST(a_diff_is_coloured_by_what_its_lines_are)
{
    AUTO_BUF struct buf out = BUF_INIT(10000);

    terminal_color_diff(&out,
                        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- gone\n+++ new\n"
                        " same\n\033[2J");
    CHECK_HAS(buf_text(&out), "\033[1m--- a/x\033[m\n");
    CHECK_HAS(buf_text(&out), "\033[31m--- gone\033[m\n");
    CHECK_HAS(buf_text(&out), "\033[32m+++ new\033[m\n");
    CHECK_HAS(buf_text(&out), "\n same\n");
    CHECK(strstr(buf_text(&out), "\033[2J") == NULL);
}
