#include "run/cpu_sample.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define LINE_MAX_BYTES 1024
#define FIRST_FIELD 11 /* utime, counted behind the name: state is 0 */
#define FIELDS 4       /* utime, stime, cutime, cstime */
#define TICKS_MAX (UINT64_C(1) << 40)

/* The name before the fields stands in parentheses and may hold anything but a line end. */
static uint64_t read_line(const char *line)
{
    const char *at = strrchr(line, ')');
    uint64_t ticks = 0;

    for (int field = 0; at != NULL && field < FIRST_FIELD + FIELDS; field++) {
        AUTO_FREE
        char *word = NULL;
        uint64_t number;

        at = strchr(at, ' ');
        if (at == NULL)
            return 0;
        at++;
        word = mem_strndup(at, strcspn(at, " "));
        if (field < FIRST_FIELD)
            continue;
        if (!str_parse_u64(word, TICKS_MAX, &number))
            return 0;
        ticks += number;
    }
    return ticks;
}

uint64_t cpu_sample_read(const char *text, uint64_t ticks_per_second)
{
    uint64_t ticks = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        if (len < LINE_MAX_BYTES) {
            AUTO_FREE
            char *line = mem_strndup(text, len);

            ticks += read_line(line);
        }
        text += len + (text[len] == '\n');
    }
    return ticks_per_second > 0 ? ticks * 1000 / ticks_per_second : 0;
}
