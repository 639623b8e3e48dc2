/* pull_request.h: a session's work goes to its remote: the branch is pushed by git in a sandbox of
 * its own, under a grant for that one ref; what the remote has then is read back; and one pull
 * request of the branch is opened or brought up to date at the forge's API, by the supervisor.
 * Nothing needs to be remembered for that: the same call again, also after a crash at any point,
 * finds what is there and does what is missing. */
#ifndef RUN_PULL_REQUEST_H
#define RUN_PULL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/id.h"

struct runs;

#define PULL_REQUEST_WAIT_MS 45000u

struct pull_request_options {
    const struct id *session;
    const char *title; /* "": made from the branch, here and below */
    const char *body;
    const char *base; /* "": the remote's default branch */
    bool draft;
    bool commit; /* what is changed but not committed is committed first, in the agent's name */
    const char *page; /* address of the newest run's page, "" none */
};

enum pull_request_outcome {
    PULL_REQUEST_WORKING, /* it goes on; the same call again waits for it */
    PULL_REQUEST_PUSHED,  /* and that is all: plain git, or PROBLEM says why */
    PULL_REQUEST_OPENED,
    PULL_REQUEST_UPDATED,
    PULL_REQUEST_UNCHANGED,
    PULL_REQUEST_OUTCOME_COUNT
};

/* Borrowed during the callback; strings are "" where nothing is known. */
struct pull_request_report {
    enum pull_request_outcome outcome;
    const char *phase; /* the step it is at, or was last */
    const char *repository;
    const char *forge; /* "GitHub", "" plain git */
    const char *branch;
    const char *base;
    const char *commit; /* that the remote's branch was seen to have */
    uint64_t commits;   /* that the base has not */
    uint64_t files;
    uint64_t insertions;
    uint64_t deletions;
    uint64_t number;
    const char *url;
    const char *title;
    bool draft;
    uint64_t uncommitted;          /* files that are changed and not part of it */
    const char *uncommitted_names; /* the first of them, a line each */
    const char *note;              /* what else a person should know */
    /* What went wrong after the push; code "": nothing. */
    const char *problem_code;
    const char *problem_message;
    const char *problem_hint;
    bool problem_retryable;
};

struct pull_request_wait;
/* Once, from the loop, within PULL_REQUEST_WAIT_MS. ERR: it failed before anything was pushed. */
typedef void (*pull_request_cb)(void *data, const struct pull_request_report *report,
                                const struct error *err);

/* Begins, or joins what goes on for the same session. ERR_CONFLICT: a run of the session hasn't
 * ended, or something else goes on. ERR_INVALID names the argument. */
int pull_request_open(struct pull_request_wait **out, struct runs *runs,
                      const struct pull_request_options *options, pull_request_cb done, void *data,
                      struct error *err);
/* No callback follows; the work itself goes on. */
void pull_request_forget(struct pull_request_wait *wait);

#endif
