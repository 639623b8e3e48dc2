#include "common/userns.h"

#include "harness/test.h"
#include "harness/tmp.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *machine(const char *folder, const char *name, const char *says)
{
    char path[200];

    tmp_subdir("proc");
    tmp_subdir("proc/sys");
    snprintf(path, sizeof(path), "proc/sys/%s", folder);
    tmp_subdir(path);
    snprintf(path, sizeof(path), "proc/sys/%s/%s", folder, name);
    tmp_file(path, says, strlen(says), 0644);
    return tmp_dir();
}

TEST(a_machine_without_switches_forbids_nothing)
{
    CHECK(userns_forbidden(tmp_dir()) == NULL);
}

TEST(user_namespaces_are_switched_off_as_debian_does_it)
{
    const struct userns_switch *found =
        userns_forbidden(machine("kernel", "unprivileged_userns_clone", "0\n"));

    CHECK(found != NULL);
    CHECK_STR(found->mend, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
}

TEST(user_namespaces_are_forbidden_by_apparmor)
{
    const struct userns_switch *found =
        userns_forbidden(machine("kernel", "apparmor_restrict_unprivileged_userns", "1\n"));

    CHECK(found != NULL);
    CHECK_HAS(found->reason, "AppArmor");
}

TEST(no_user_namespaces_are_allowed)
{
    const struct userns_switch *found =
        userns_forbidden(machine("user", "max_user_namespaces", "0\n"));

    CHECK(found != NULL);
    CHECK_HAS(found->mend, "user.max_user_namespaces=15000");
}

TEST(a_number_that_begins_like_the_switch_forbids_nothing)
{
    CHECK(userns_forbidden(machine("user", "max_user_namespaces", "05\n")) == NULL);
}

TEST(an_empty_switch_forbids_nothing)
{
    CHECK(userns_forbidden(machine("user", "max_user_namespaces", "")) == NULL);
}

TEST(the_words_of_bubblewrap_are_understood)
{
    CHECK(userns_blamed("bwrap: setting up uid map: Permission denied"));
    CHECK(userns_blamed("bwrap: No permissions to create a new namespace, likely because …"));
    CHECK(userns_blamed("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"));
    CHECK(!userns_blamed("bwrap: Can't find source path /opt/x: No such file or directory"));
}
