#include "proto/methods.h"

#include "tests/harness/test.h"

TEST(every_method_is_found_by_its_name)
{
    for (int i = 0; i < METHOD_COUNT; i++) {
        CHECK_EQ((int)method_find(method_infos[i].name), i);
        CHECK(method_infos[i].help[0] != '\0');
    }
}

TEST(an_unknown_name_finds_nothing)
{
    CHECK_EQ((int)method_find("run.Get"), METHOD_COUNT);
    CHECK_EQ((int)method_find(""), METHOD_COUNT);
}

TEST(only_a_secret_comes_with_a_blob)
{
    for (int i = 0; i < METHOD_COUNT; i++)
        CHECK_EQ((method_infos[i].flags & METHOD_BLOB) != 0, i == METHOD_SECRET_SET);
}
