#include "common/manual.h"

#include "harness/test.h"

#include <string.h>

static const struct manual_item options[] = { { "--help", "show -- this" }, { NULL, NULL } };
static const struct manual_item environment[] = { { "A_VARIABLE", "a place" }, { NULL, NULL } };
static const struct manual manual = { .name = "a-program",
                                      .summary = "does it",
                                      .usage = "[x]",
                                      .about = "One line.\nAnother.",
                                      .options = options,
                                      .environment = environment,
                                      .see_also = "other(1)" };

TEST(help_and_page_say_the_same)
{
    AUTO_BUF struct buf help = BUF_INIT(10000);
    AUTO_BUF struct buf page = BUF_INIT(10000);

    manual_help(&help, &manual);
    CHECK_HAS(buf_text(&help), "usage: a-program [x]\n\nOne line.\nAnother.\n");
    CHECK_HAS(buf_text(&help), "  --help           show -- this\n");
    CHECK_HAS(buf_text(&help), "  A_VARIABLE       a place\n");
    manual_begin(&page, &manual);
    manual_end(&page, &manual);
    CHECK_HAS(buf_text(&page), "\n.TH A\\-PROGRAM 1 \"");
    CHECK_HAS(buf_text(&page), "\n.SH NAME\na\\-program \\- does it\n");
    CHECK_HAS(buf_text(&page), "\n.SH OPTIONS\n.TP\n\\fB\\-\\-help\\fR\nshow \\-\\- this\n");
    CHECK_HAS(buf_text(&page), "\n.SH ENVIRONMENT\n.TP\n\\fBA_VARIABLE\\fR\na place\n");
    CHECK_HAS(buf_text(&page), "\n.SH SEE ALSO\nother(1)\n");
}

static void check_text(const char *text, const char *expected)
{
    AUTO_BUF struct buf out = BUF_INIT(10000);

    manual_text(&out, text);
    CHECK_STR(buf_text(&out), expected);
}

TEST(no_text_becomes_a_request)
{
    check_text(".so /etc/passwd", "\\&.so /etc/passwd\n");
    check_text("'quoted' \\fB", "\\(aqquoted\\(aq \\efB\n");
    check_text("a\n.b", "a\n\\&.b\n");
    check_text("~^`\"", "\\(ti\\(ha\\(ga\\(dq\n");
    check_text("", "");
}

TEST(lines_that_begin_with_a_space_keep_their_shape)
{
    check_text("text\n  a   b\n  c\nmore", "text\n.nf\n  a   b\n  c\n.fi\nmore\n");
    check_text("  a", ".nf\n  a\n.fi\n");
    check_text("a\n\nb", "a\n.PP\nb\n");
}
