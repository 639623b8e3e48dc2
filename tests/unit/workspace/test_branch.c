#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "workspace/workspace.h"

#define SESSION "ses_01m8n3gpe8mhg3c2zkq7dn433t"

TEST(a_sessions_branch_is_named_by_its_title_and_id)
{
    static const char *const rows[][3] = {
        { "agent/{slug}-{id}", "Fix the sum!", "agent/fix-the-sum-dn433t" },
        { "agent/{slug}-{id}", "  --..//  ", "agent/work-dn433t" },
        { "agent/{slug}-{id}", "重构这个模块", "agent/work-dn433t" },
        { "agent/{slug}-{id}", "Grüße", "agent/gr-e-dn433t" },
        { "agent/{slug}-{id}", "one two three four five six seven eight nine ten",
          "agent/one-two-three-four-five-six-seven-eight-dn433t" },
        { "{id}", "x", "dn433t" },
        { "", "x", "" },
        { "bots/{id}/{slug}", "a.lock", "bots/dn433t/a-lock" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct error err = ERROR_INIT;
        AUTO_FREE
        char *name = branch_from_template(rows[i][0], rows[i][1], SESSION);

        CHECK_STR(name, rows[i][2]);
        CHECK_EQ(branch_check(name, &err), 0);
    }
}

/* Whatever bytes a title has, git takes the name. */
TEST(no_title_makes_a_bad_name)
{
    char title[64];

    for (unsigned byte = 1; byte < 256; byte++) {
        struct error err = ERROR_INIT;

        memset(title, (int)byte, sizeof(title) - 1);
        title[sizeof(title) - 1] = '\0';
        AUTO_FREE
        char *name = branch_from_template("agent/{slug}-{id}", title, SESSION);
        CHECK_EQ(branch_check(name, &err), 0);
        CHECK(strlen(name) <= 60);
    }
}

TEST(a_flat_name_has_no_folders)
{
    AUTO_FREE
    char *flat = branch_flat("bots/2/x-y");
    AUTO_FREE
    char *none = branch_flat("");

    CHECK_STR(flat, "bots-2-x-y");
    CHECK_STR(none, "");
}

TEST(a_commit_is_told_from_a_branch)
{
    CHECK(branch_is_commit("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    CHECK(!branch_is_commit("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    CHECK(!branch_is_commit("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    CHECK(!branch_is_commit(""));
}
