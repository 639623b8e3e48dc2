/* machine.h: what the machine can carry now: memory to spare, pressure on it, free disk. */
#ifndef RUN_MACHINE_H
#define RUN_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below or above these no further run is admitted; 0: not looked at. */
struct machine_limits {
    uint32_t free_memory_mib;
    uint32_t free_disk_mib;
    uint32_t memory_pressure_percent;
};

struct machine_reading {
    bool memory_known;
    uint64_t free_memory_mib;
    bool pressure_known; /* the kernel may be built or started without */
    uint32_t pressure_percent;
    bool disk_known;
    uint64_t free_disk_mib;
};

/* Pure: the text of /proc/meminfo and /proc/pressure/memory. False when the number isn't there. */
bool machine_parse_meminfo(const char *text, uint64_t *free_mib);
bool machine_parse_pressure(const char *text, uint32_t *percent);

/* Looks at the machine; ROOT is put before the paths below /proc ("", but in tests). What can't be
 * read is unknown. */
void machine_read(const char *root, const char *state_dir, struct machine_reading *reading);

/* What is unknown forbids nothing. When false REASON says what is missing and which setting asks
 * for it. */
bool machine_can_carry(const struct machine_limits *limits, const struct machine_reading *reading,
                       char *reason, size_t size);

#endif
