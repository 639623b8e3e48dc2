#include "run/cpu_sample.h"

#include "harness/test.h"

#define REST " 0 0 20 0 1 0 100 0 0\n"

TEST(the_times_of_all_lines_are_added)
{
    CHECK_EQ(cpu_sample_read("1 (init) S 0 1 1 0 -1 4194560 10 20 30 40 1 2 3 4" REST
                             "7 (a) b) (c) R 1 7 7 0 -1 0 0 0 0 0 100 0 0 0" REST,
                             100),
             UINT64_C(1100));
    CHECK_EQ(cpu_sample_read("", 100), UINT64_C(0));
}

TEST(lines_that_lie_count_nothing)
{
    CHECK_EQ(cpu_sample_read("\n\n)\n) \n1 (x\n", 100), UINT64_C(0));
    CHECK_EQ(cpu_sample_read("1 (x) S 0 0 0 0 0 0 0 0 0 0 -1 0 0 0" REST, 100), UINT64_C(0));
    CHECK_EQ(cpu_sample_read("1 (x) S 0 0 0 0 0 0 0 0 0 0 99999999999999999999 0 0 0" REST, 100),
             UINT64_C(0));
    CHECK_EQ(cpu_sample_read("1 (x) S 0 0 0 0 0 0 0 0 0 0 5 5", 100), UINT64_C(0));
    CHECK_EQ(cpu_sample_read("1 (x) S 0 0 0 0 0 0 0 0 0 0 5 5 0 0", 0), UINT64_C(0));
}
