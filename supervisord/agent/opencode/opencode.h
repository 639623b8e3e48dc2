/* opencode.h: the driver for OpenCode, by `opencode serve`: HTTP and an event stream. */
#ifndef AGENT_OPENCODE_H
#define AGENT_OPENCODE_H

#include "agent/agent.h"

extern const struct agent_driver opencode_driver;

/* All in milliseconds. */
struct opencode_timing {
    uint64_t start;       /* from the spawn to ready, when the options don't say */
    uint64_t request;     /* one exchange */
    uint64_t silence;     /* no byte on the event stream (it has a heartbeat every 10 s) */
    uint64_t taken;       /* from the prompt to "busy" */
    uint64_t debounce;    /* from "idle" to looking at the result */
    uint64_t again;       /* between two looks */
    uint64_t quiet;       /* no event while busy: ask for the status */
    uint64_t abort;       /* from asking it to stop to giving up */
    uint64_t warm;        /* how long a stop waits for the process's first answer to begin */
    uint64_t reconnect;   /* first wait before a new event stream; doubles up to 5 s */
    uint64_t stream_lost; /* no event stream during a prompt: give up */
    uint64_t retry_max;   /* the longest wait for the provider that is sat out */
    uint64_t clock_ahead; /* the conversation's newest message may be this far in our future: waited
                             for */
    uint64_t drain;       /* from the process's end to its last lines */
};
extern const struct opencode_timing opencode_timing;

/* agent_driver.start with other times, for tests. TIMING is copied. */
int opencode_start(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                   const struct agent_options *options, const struct agent_callbacks *callbacks,
                   const struct opencode_timing *timing, struct error *err);
int opencode_resume_with(struct agent **out, uv_loop_t *loop, const struct agent_host *host,
                         const struct agent_options *options, const struct agent_resume *resume,
                         const struct agent_callbacks *callbacks,
                         const struct opencode_timing *timing, struct error *err);

#endif
