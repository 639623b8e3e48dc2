/* live.h: following a run to its end. Progress goes to stderr, so that stdout holds the result
 * only. */
#ifndef CTL_LIVE_H
#define CTL_LIVE_H

#include "ctl/session.h"

enum live_mode {
    LIVE_SILENT, /* nothing */
    LIVE_STATUS, /* what the agent asks, and on a terminal one status line */
    LIVE_EVENTS, /* a line for each phase and step besides */
};

enum live_end {
    LIVE_ENDED,
    LIVE_LEFT, /* Ctrl-C: the run goes on */
};

/* Follows RUN_ID from the event behind AFTER until the run has ended, also over a restart of the
 * supervisor. 0 with *END filled, or -1. */
int live_follow(struct session *session, const char *run_id, uint64_t after, enum live_mode mode,
                enum live_end *end, struct error *err);

/* Whether progress shows an event of this kind. Pure. */
bool live_shows(const char *kind);

#endif
