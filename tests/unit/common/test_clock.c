#include "common/clock.h"

#include <string.h>

#include "harness/test.h"

static const char *format(uint64_t wall_ms)
{
    static char text[CLOCK_TEXT_SIZE];

    clock_format(wall_ms, text);
    return text;
}

TEST(times_are_written_in_utc_with_milliseconds)
{
    CHECK_STR(format(0), "1970-01-01T00:00:00.000Z");
    CHECK_STR(format(UINT64_C(1795964645123)), "2026-11-29T15:04:05.123Z");
    CHECK_STR(format(UINT64_C(951782400007)), "2000-02-29T00:00:00.007Z");
}

TEST(times_past_the_year_9999_stay_in_their_room)
{
    CHECK_STR(format(UINT64_MAX), "9999-12-31T23:59:59.999Z");
    CHECK_STR(format(UINT64_C(253402300800000)), "9999-12-31T23:59:59.999Z");
}

TEST(the_system_clock_is_plausible_and_steady)
{
    const struct clock *clock = clock_system();
    uint64_t before = clock_mono_ms(clock);

    CHECK(clock_wall_ms(clock) > UINT64_C(1700000000000));
    CHECK(before > 0);
    CHECK(clock_mono_ms(clock) >= before);
}

static uint64_t always_five(const struct clock *clock)
{
    (void)clock;
    return 5;
}

TEST(a_test_can_bring_its_own_clock)
{
    struct clock clock = { always_five, always_five };

    CHECK_EQ(clock_wall_ms(&clock), 5);
    CHECK_EQ(clock_mono_ms(&clock), 5);
}
