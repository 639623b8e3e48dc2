#include "run/retention.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

#define COUNT 5

/* "keep", "age" or "disk" for each, by its letter. */
static void choose(const struct retention_policy *policy, struct retention_session *sessions,
                   char verdicts[COUNT + 1])
{
    struct retention_session *list[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        list[i] = &sessions[i];
    retention_choose(policy, 1000, list, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        verdicts[i] = "kad"[sessions[i].verdict];
    verdicts[COUNT] = '\0';
}

static void fill(struct retention_session *sessions)
{
    static const uint64_t used[COUNT] = { 500, 100, 300, 900, 100 };

    for (size_t i = 0; i < COUNT; i++)
        sessions[i] = (struct retention_session){ .used_ms = used[i], .bytes = 10, .may_go = true };
}

TEST(nothing_goes_without_a_policy)
{
    struct retention_policy policy = { 0 };
    struct retention_session sessions[COUNT];
    char verdicts[COUNT + 1];

    fill(sessions);
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kkkkk");
}

TEST(what_is_older_goes_unless_it_may_not)
{
    struct retention_policy policy = { .max_age_ms = 600 };
    struct retention_session sessions[COUNT];
    char verdicts[COUNT + 1];

    fill(sessions);
    sessions[4].may_go = false;
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kaakk");
    policy.max_age_ms = 900; /* exactly as old as allowed */
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kkkkk");
    sessions[1].used_ms = 5000; /* the clock was set back */
    policy.max_age_ms = 1;
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "akaak");
}

TEST(for_want_of_disk_those_used_longest_ago_go)
{
    struct retention_policy policy = { .max_bytes = 30 };
    struct retention_session sessions[COUNT];
    char verdicts[COUNT + 1];

    fill(sessions);
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kdkkd");
    fill(sessions);
    sessions[1].may_go = sessions[4].may_go = false; /* they count, but stay */
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "dkdkk");
    policy.max_bytes = 1;
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "dkddk");
}

TEST(age_comes_first_and_gives_room)
{
    struct retention_policy policy = { .max_age_ms = 800, .max_bytes = 30 };
    struct retention_session sessions[COUNT];
    char verdicts[COUNT + 1];

    fill(sessions);
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kakka");
}

TEST(mirrors_have_an_age_of_their_own_and_go_first_for_want_of_disk)
{
    struct retention_policy policy = { .max_mirror_age_ms = 600 };
    struct retention_session sessions[COUNT];
    char verdicts[COUNT + 1];

    fill(sessions);
    sessions[1].mirror = sessions[3].mirror = true;
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kakkk");
    policy = (struct retention_policy){ .max_bytes = 40 };
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kdkkk");
    policy.max_bytes = 20;
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kdkdd");
    sessions[3].may_go = false;
    choose(&policy, sessions, verdicts);
    CHECK_STR(verdicts, "kddkd");
}
