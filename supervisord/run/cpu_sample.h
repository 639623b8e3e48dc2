/* cpu_sample.h: how much of the processor a sandbox's programs have used, from their lines of
 * /proc/PID/stat. Pure; the lines come from the sandbox and may lie. */
#ifndef RUN_CPU_SAMPLE_H
#define RUN_CPU_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* Milliseconds of all lines of TEXT together, with the children they have waited for. A line that
 * can't be read counts nothing. */
uint64_t cpu_sample_read(const char *text, uint64_t ticks_per_second);

#endif
