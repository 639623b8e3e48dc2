#include "sandbox/cgroup_find.h"

#include <stddef.h>

#include "harness/test.h"

static struct cgroup_places places;

static void finish(void *data)
{
    cgroup_places_finish(data);
}

static void parse(const char *mountinfo, const char *self)
{
    cgroup_places_finish(&places);
    cgroup_places_parse(&places, mountinfo, self);
    test_defer(finish, &places);
}

TEST(a_systemd_user_service_has_its_own_group_of_version_2)
{
    parse("25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
          "35 25 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "
          "rw,nsdelegate,memory_recursiveprot\n",
          "0::/user.slice/user-1000.slice/user@1000.service/app.slice/sandbox-mcp.service\n");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].top, "/sys/fs/cgroup");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].own,
              "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/"
              "sandbox-mcp.service");
    CHECK(!places.trees[CGROUP_TREE_UNIFIED].read_only);
    CHECK_STR(places.trees[CGROUP_TREE_MEMORY].own, NULL);
}

TEST(version_1_has_a_tree_a_controller_and_some_share_one)
{
    parse("33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup "
          "rw,cpu,cpuacct\n"
          "34 31 0:31 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory\n"
          "35 31 0:32 / /sys/fs/cgroup/cpuset rw shared:17 - cgroup cgroup rw,cpuset\n"
          "36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
          "9:pids:/user.slice\n8:memory:/\n4:cpu,cpuacct:/user.slice/x\n1:name=systemd:/init\n");
    CHECK_STR(places.trees[CGROUP_TREE_CPU].own, "/sys/fs/cgroup/cpu,cpuacct/user.slice/x");
    CHECK_STR(places.trees[CGROUP_TREE_MEMORY].own, "/sys/fs/cgroup/memory");
    CHECK_STR(places.trees[CGROUP_TREE_PIDS].own, "/sys/fs/cgroup/pids/user.slice");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].own, NULL);
}

TEST(a_hybrid_machine_has_both)
{
    parse("35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
          "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
          "4:memory:/api/25f3\n0::/\n");
    CHECK_STR(places.trees[CGROUP_TREE_MEMORY].own, "/sys/fs/cgroup/memory/api/25f3");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].own, "/sys/fs/cgroup/unified");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].top, "/sys/fs/cgroup/unified");
}

TEST(a_container_sees_its_part_with_and_without_a_namespace)
{
    parse("600 599 0:29 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n", "0::/\n");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].own, "/sys/fs/cgroup");
    CHECK(places.trees[CGROUP_TREE_UNIFIED].read_only);
    parse("600 599 0:29 /docker/a1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
          "5:memory:/docker/a1/x\n");
    CHECK_STR(places.trees[CGROUP_TREE_MEMORY].own, "/sys/fs/cgroup/memory/x");
    parse("600 599 0:29 /docker/a1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
          "5:memory:/docker/a12\n");
    CHECK_STR(places.trees[CGROUP_TREE_MEMORY].own, NULL);
    parse("600 599 0:29 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/../x\n");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].own, NULL);
}

TEST(a_mount_that_may_be_written_wins_over_one_that_may_not)
{
    parse("1 0 0:29 / /ro ro - cgroup2 cgroup rw\n2 0 0:29 / /a\\040b rw - cgroup2 cgroup rw\n"
          "3 0 0:29 / /late rw - cgroup2 cgroup rw\n",
          "0::/x:y\n");
    CHECK_STR(places.trees[CGROUP_TREE_UNIFIED].own, "/a b/x:y");
    CHECK(!places.trees[CGROUP_TREE_UNIFIED].read_only);
}

TEST(lines_without_sense_are_passed_over)
{
    static const char *const mounts[] = {
        "",
        "\n\n",
        "1",
        "1 2 3 4",
        "1 2 3 / relative rw - cgroup2 c rw",
        "1 2 3 / /x rw -",
        "1 2 3 / /x rw - cgroup2",
        "\\",
        "1 2 3 / /x\\0 rw cgroup2",
    };

    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        parse(mounts[i], "0::/\nx\n::\n4:memory\n5:pids:none\n");
        CHECK_STR(places.trees[CGROUP_TREE_MEMORY].own, NULL);
        CHECK_STR(places.trees[CGROUP_TREE_PIDS].own, NULL);
    }
}

TEST(counts_and_words_are_found_whole)
{
    CHECK_EQ(cgroup_count_in("low 0\nmax 12\noom 3\noom_kill 2\n", "oom_kill"), 2);
    CHECK_EQ(cgroup_count_in("oom_kill_disable 0\nunder_oom 0\noom_kill 7", "oom_kill"), 7);
    CHECK_EQ(cgroup_count_in("maximum 4\n", "max"), 0);
    CHECK_EQ(cgroup_count_in("max", "max"), 0);
    CHECK(cgroup_has_word("cpuset cpu memory pids\n", "cpu"));
    CHECK(!cgroup_has_word("cpuset memory\n", "cpu"));
}
