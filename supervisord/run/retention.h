/* retention.h: which sessions and mirrors have been kept for long enough, or take too much disk.
 * Pure. */
#ifndef RUN_RETENTION_H
#define RUN_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retention_policy {
    uint64_t max_age_ms;        /* since its last use; 0: any */
    uint64_t max_mirror_age_ms; /* the same for mirrors */
    uint64_t max_bytes;         /* of all of them together; 0: any */
};

enum retention_verdict { RETENTION_KEEP, RETENTION_AGE, RETENTION_DISK };

struct retention_session {
    uint64_t used_ms; /* wall clock */
    uint64_t bytes;
    bool may_go; /* neither at work nor on hold */
    bool mirror; /* no session, but a copy of a repository, which can be had again */
    enum retention_verdict verdict;
};

/* Fills each VERDICT: those go that are too old, then, while the rest takes too much, first of the
 * mirrors and then of the sessions those that were used longest ago (of equals the first). What may
 * not go counts, too. */
void retention_choose(const struct retention_policy *policy, uint64_t now_ms,
                      struct retention_session *const *sessions, size_t count);

#endif
