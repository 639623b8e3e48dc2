/* clock.h: time behind a struct, so that tests can turn it. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

struct clock {
    uint64_t (*wall_ms)(const struct clock *clock); /* since 1970, may jump */
    uint64_t (*mono_ms)(const struct clock *clock); /* steady, since boot */
};

/* The system's clock: CLOCK_REALTIME and CLOCK_BOOTTIME. */
const struct clock *clock_system(void);

static inline uint64_t clock_wall_ms(const struct clock *clock)
{
    return clock->wall_ms(clock);
}

static inline uint64_t clock_mono_ms(const struct clock *clock)
{
    return clock->mono_ms(clock);
}

#define CLOCK_TEXT_SIZE 25 /* "2026-11-29T15:04:05.123Z" + NUL */
void clock_format(uint64_t wall_ms, char to[CLOCK_TEXT_SIZE]);

#endif
