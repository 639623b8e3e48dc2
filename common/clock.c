#include "common/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_ms(clockid_t id)
{
    struct timespec now = { 0, 0 };

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t system_wall_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_REALTIME);
}

static uint64_t system_mono_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_BOOTTIME);
}

const struct clock *clock_system(void)
{
    static const struct clock clock = { system_wall_ms, system_mono_ms };

    return &clock;
}

/* The end of the year 9999, so that four digits are enough. */
#define LAST_MS UINT64_C(253402300799999)

void clock_format(uint64_t wall_ms, char to[CLOCK_TEXT_SIZE])
{
    uint64_t ms = wall_ms < LAST_MS ? wall_ms : LAST_MS;
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    size_t len;

    gmtime_r(&seconds, &tm);
    len = strftime(to, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(to + len, CLOCK_TEXT_SIZE - len, ".%03uZ", (unsigned)(ms % 1000));
}
