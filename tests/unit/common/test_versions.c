#include "common/versions.h"

#include "harness/test.h"

TEST(versions_are_compared_by_number)
{
    const struct known_version *bwrap = version_known("bubblewrap");
    const struct known_version *opencode = version_known("opencode");

    CHECK(version_works(bwrap, "0.8.0"));
    CHECK(version_works(bwrap, "0.11.0"));
    CHECK(version_works(bwrap, "1.0.0"));
    CHECK(!version_works(bwrap, "0.4.1"));
    CHECK(version_works(opencode, "1.18.33"));
    CHECK(version_works(opencode, "1.0.0-rc.1"));
    CHECK(!version_works(opencode, "0.9.1"));
    CHECK(!version_works(opencode, "2.0.0"));
    CHECK(!version_works(opencode, "10.0.0"));
}

TEST(what_is_no_version_does_not_work)
{
    const struct known_version *opencode = version_known("opencode");

    CHECK(!version_works(opencode, ""));
    CHECK(!version_works(opencode, "1"));
    CHECK(!version_works(opencode, "1."));
    CHECK(!version_works(opencode, "v1.2"));
    CHECK(!version_works(opencode, "99999999999999999999.1"));
    CHECK(version_known("emacs") == NULL);
}

TEST(a_version_is_found_in_what_programs_print)
{
    CHECK_STR(version_in("bubblewrap 0.8.0\n"), "0.8.0\n");
    CHECK_STR(version_in("1.18.33\n"), "1.18.33\n");
    CHECK_STR(version_in("v2.1"), "2.1");
    CHECK_STR(version_in("build 7 of 1.2.3"), "1.2.3");
    CHECK_STR(version_in("no version 7"), NULL);
    CHECK_STR(version_in("7."), NULL);
    CHECK_STR(version_in(""), NULL);
}
