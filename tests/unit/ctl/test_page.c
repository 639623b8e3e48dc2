#include "ctl/page.h"

#include "harness/test.h"

#include <string.h>

#include "common/manual.h"
#include "common/mem.h"
#include "ctl/commands.h"

/* As the page spells it. */
static void check_item(const char *page, const char *before, const char *name)
{
    AUTO_BUF struct buf item = BUF_INIT(4096);

    buf_append_str(&item, before);
    for (; *name != '\0'; name++)
        buf_printf(&item, "%s%c", *name == '-' ? "\\" : "", *name);
    CHECK_HAS(page, buf_text(&item));
}

TEST(every_command_that_help_shows_is_in_the_page)
{
    AUTO_BUF struct buf page = BUF_INIT(1u << 20);

    page_print(&page);
    CHECK(!page.failed);
    for (size_t i = 0; command_at(i) != NULL; i++) {
        if (command_at(i)->help != NULL)
            check_item(buf_text(&page), "\n.TP\n\\fB", command_at(i)->name);
    }
    CHECK(strstr(buf_text(&page), "\\fBcomplete ") == NULL); /* the shells' own */
}

TEST(every_option_and_exit_code_is_in_the_page)
{
    AUTO_BUF struct buf page = BUF_INIT(1u << 20);

    page_print(&page);
    for (int i = 0; i < ARGS_OPTION_COUNT; i++) {
        struct args_option_info info = args_option_info((enum args_option)i);
        AUTO_FREE
        char *name = mem_printf("--%s", info.name);

        check_item(buf_text(&page), info.letter != '\0' ? ", " : "\n\\fB", name);
    }
    CHECK_HAS(buf_text(&page), "\\fB3\\fR\nno supervisor\n");
    CHECK_HAS(buf_text(&page), "Options: \\-\\-before CURSOR; \\-f, \\-\\-follow; ");
}

TEST(exit_codes_are_in_the_help)
{
    char text[16384] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    commands_print_help(out);
    fclose(out);
    CHECK_HAS(text, "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no supervisor, 4 not found, 5 "
                    "refused.\n");
}
