/* id.h: ids of runs ("run_"), sessions ("ses_") and requests ("req_"): the prefix and a ULID, 26
 * characters of Crockford base32 in lower case, 48 bits of milliseconds then 80 random bits, so
 * that ids sort by time. */
#ifndef COMMON_ID_H
#define COMMON_ID_H

#include <stdbool.h>
#include <stdint.h>

#define ID_SIZE 31 /* "run_" + 26 + NUL */

struct id {
    char text[ID_SIZE];
};

enum id_kind { ID_KIND_RUN, ID_KIND_SESSION, ID_KIND_REQUEST };

/* Ids made by one source rise strictly, also within one millisecond and when the clock steps back:
 * the random part of the last id is counted up then. */
struct id_source {
    uint64_t last_ms;
    uint8_t last_random[10];
    bool used;
};

/* SOURCE starts zeroed. */
void id_make(struct id_source *source, enum id_kind kind, uint64_t wall_ms, struct id *out);
/* True when TEXT is exactly an id of that kind; copies it to OUT (which may be NULL). */
bool id_parse(enum id_kind kind, const char *text, struct id *out);
uint64_t id_time_ms(const struct id *id);

/* Cryptographic random bytes; aborts when the system has none (it always has). */
void id_random(void *to, unsigned long len);

#endif
