/* run_state.h: the life of a run as one table. Pure. run/apply.c is the only code that assigns a
 * run's state. */
#ifndef RUN_RUN_STATE_H
#define RUN_RUN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

/* Stored by number: never renumber, append only. */
enum run_state {
    RUN_QUEUED = 0,  /* waits for a place */
    RUN_SANDBOX = 1, /* folders and sandbox are being made */
    RUN_CLONE = 2,   /* the repository comes in */
    RUN_AGENT = 3,   /* the agent starts */
    RUN_PROMPT = 4,  /* the prompt is on its way; its fate is unknown until the agent takes it up */
    RUN_WORKING = 5,
    RUN_WAITING = 6,    /* needs an answer */
    RUN_COLLECTING = 7, /* the agent is done with it, one way or another: evidence is taken */
    RUN_STOPPING = 8,   /* the sandbox is being ended */
    RUN_COMPLETED = 9,
    RUN_FAILED = 10,
    RUN_CANCELLED = 11,
    RUN_INTERRUPTED = 12,
    RUN_SETUP = 13, /* between clone and agent: the repository's set-up command runs */
    RUN_STATE_COUNT
};

enum run_event {
    RUN_EV_ADMITTED, /* the queue gave it a place */
    RUN_EV_SANDBOX_READY,
    RUN_EV_CLONED,
    RUN_EV_SET_UP,
    RUN_EV_AGENT_READY,
    RUN_EV_PROMPT_TAKEN,
    RUN_EV_ASKED, /* the agent asked a question or for permission */
    RUN_EV_ANSWERED,
    RUN_EV_AGENT_DONE,        /* outcome completed */
    RUN_EV_STEP_FAILED,       /* outcome failed; the record's error says why */
    RUN_EV_CANCEL_ASKED,      /* outcome cancelled */
    RUN_EV_DEADLINE,          /* outcome failed, timeout */
    RUN_EV_COLLECTED,         /* evidence is there, or could not be had */
    RUN_EV_STOPPED_COMPLETED, /* every process of the sandbox is gone; the event is chosen by the
                                 outcome */
    RUN_EV_STOPPED_FAILED,
    RUN_EV_STOPPED_CANCELLED,
    RUN_EV_STOPPED_INTERRUPTED,
    RUN_EV_LOST_EARLY, /* after a restart: nothing of the agent had happened; do it again from the
                          queue */
    RUN_EV_LOST,       /* after a restart: its sandbox or its thread is gone; outcome interrupted */
    RUN_EVENT_COUNT
};

/* Decided once, on the way out. */
enum run_outcome {
    RUN_OUTCOME_NONE,
    RUN_OUTCOME_COMPLETED,
    RUN_OUTCOME_FAILED,
    RUN_OUTCOME_CANCELLED,
    RUN_OUTCOME_INTERRUPTED
};

/* What a rule starts. Each must be safe to start again: recovery does. */
enum run_action {
    RUN_ACT_NONE,
    RUN_ACT_ENQUEUE,
    RUN_ACT_START_SANDBOX,
    RUN_ACT_CLONE,
    RUN_ACT_SETUP,
    RUN_ACT_START_AGENT,
    RUN_ACT_PROMPT,
    RUN_ACT_ABORT_AND_COLLECT,
    RUN_ACT_COLLECT,
    RUN_ACT_STOP,
    RUN_ACT_FINISH,
};

struct run_rule {
    enum run_state from;
    enum run_event event;
    enum run_state to;
    enum run_action then;
};

/* What becomes of a run that a new supervisor finds in a state. */
struct run_recovery {
    enum run_state state;
    bool adopt;             /* its sandbox is taken up again, if it lives; else it is ended */
    enum run_action again;  /* what is done anew then, without what its first try has left running;
                               NONE: the agent is at work and is taken up where it stands */
    enum run_event no_life; /* when there is no sandbox to go on in */
};

/* The rule for a pair, or NULL: the event is not allowed there. */
const struct run_rule *run_rule_find(enum run_state state, enum run_event event);
const char *run_state_name(enum run_state state);
const char *run_event_name(enum run_event event);
const char *run_action_name(enum run_action action);
bool run_state_final(enum run_state state);
/* Its sandbox is whole, and its record knows what a later supervisor needs to take it up. */
bool run_state_has_sandbox(enum run_state state);
/* NULL for a final state: nothing is left to be done. */
const struct run_recovery *run_recovery_find(enum run_state state);
enum run_outcome run_outcome_of_event(enum run_event event);
enum run_event run_event_for_outcome(enum run_outcome outcome);
/* The matrix as docs/state-machine.md shows it. */
void run_state_print(struct buf *out);
void run_recovery_print(struct buf *out);

#endif
