#include "run/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/fd.h"
#include "common/mem.h"

#define TEXT_MAX (64u << 10)

/* The text behind PREFIX at the start of a line; NULL if there is no such line. */
static const char *line_after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, prefix, len) == 0)
            return line + len;
    }
    return NULL;
}

bool machine_parse_meminfo(const char *text, uint64_t *free_mib)
{
    const char *at = line_after(text, "MemAvailable:");
    char *end;
    unsigned long long kib;

    if (at == NULL)
        return false;
    kib = strtoull(at, &end, 10);
    if (end == at || strncmp(end, " kB", 3) != 0)
        return false;
    *free_mib = kib / 1024;
    return true;
}

bool machine_parse_pressure(const char *text, uint32_t *percent)
{
    const char *at = line_after(text, "some avg10=");
    char *end;
    unsigned long value;

    if (at == NULL)
        return false;
    value = strtoul(at, &end, 10);
    if (end == at || *end != '.' || value > 100)
        return false;
    *percent = (uint32_t)value;
    return true;
}

static char *read_text(const char *root, const char *name)
{
    AUTO_FREE
    char *path = mem_printf("%s/proc/%s", root, name);
    struct error ignored = ERROR_INIT;
    char *text = NULL;

    return fd_read_file(path, TEXT_MAX, &text, NULL, &ignored) == 0 && text != NULL
               ? text
               : mem_strdup("");
}

void machine_read(const char *root, const char *state_dir, struct machine_reading *reading)
{
    AUTO_FREE
    char *memory = read_text(root, "meminfo");
    AUTO_FREE
    char *pressure = read_text(root, "pressure/memory");
    struct statvfs disk;

    *reading = (struct machine_reading){ 0 };
    reading->memory_known = machine_parse_meminfo(memory, &reading->free_memory_mib);
    reading->pressure_known = machine_parse_pressure(pressure, &reading->pressure_percent);
    if (statvfs(state_dir, &disk) == 0) {
        reading->disk_known = true;
        reading->free_disk_mib = (uint64_t)disk.f_bavail * disk.f_frsize >> 20;
    }
}

bool machine_can_carry(const struct machine_limits *limits, const struct machine_reading *reading,
                       char *reason, size_t size)
{
    if (reading->memory_known && reading->free_memory_mib < limits->free_memory_mib) {
        (void)snprintf(reason, size,
                       "the machine has %" PRIu64
                       " MiB of memory to spare, limits.freeMemoryMiB is %" PRIu32,
                       reading->free_memory_mib, limits->free_memory_mib);
        return false;
    }
    if (reading->pressure_known && limits->memory_pressure_percent > 0 &&
        reading->pressure_percent >= limits->memory_pressure_percent) {
        (void)snprintf(reason, size,
                       "the machine's programs wait for memory %" PRIu32
                       "%% of the time, limits.memoryPressurePercent is %" PRIu32,
                       reading->pressure_percent, limits->memory_pressure_percent);
        return false;
    }
    if (reading->disk_known && reading->free_disk_mib < limits->free_disk_mib) {
        (void)snprintf(reason, size,
                       "the state folder's disk has %" PRIu64
                       " MiB free, limits.freeDiskMiB is %" PRIu32,
                       reading->free_disk_mib, limits->free_disk_mib);
        return false;
    }
    return true;
}
