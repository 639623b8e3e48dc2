#include <limits.h>
#include <sys/timerfd.h>

#include "init.h"

/* The clock of the supervisor's timers. */
int deadline_setup(void)
{
    return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

int deadline_set(const struct init *init, uint64_t in_ms)
{
    /* Seconds must stay a time that the kernel takes, also where it counts in 32 bits. */
    uint64_t seconds = in_ms / 1000 < INT_MAX / 2 ? in_ms / 1000 : INT_MAX / 2;
    struct itimerspec when = { .it_value = { .tv_sec = (time_t)seconds,
                                             .tv_nsec = (long)(in_ms % 1000) * 1000000 } };

    return timerfd_settime(init->deadline, 0, &when, NULL);
}
