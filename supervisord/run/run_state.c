#include "run/run_state.h"

#include <stddef.h>

#include "common/mem.h"

static const char *const state_names[RUN_STATE_COUNT] = {
    [RUN_QUEUED] = "queued",
    [RUN_SANDBOX] = "sandbox",
    [RUN_CLONE] = "clone",
    [RUN_AGENT] = "agent",
    [RUN_PROMPT] = "prompt",
    [RUN_WORKING] = "working",
    [RUN_WAITING] = "waiting",
    [RUN_COLLECTING] = "collecting",
    [RUN_STOPPING] = "stopping",
    [RUN_COMPLETED] = "completed",
    [RUN_FAILED] = "failed",
    [RUN_CANCELLED] = "cancelled",
    [RUN_INTERRUPTED] = "interrupted",
    [RUN_SETUP] = "setup",
};

static const char *const event_names[RUN_EVENT_COUNT] = {
    [RUN_EV_ADMITTED] = "admitted",
    [RUN_EV_SANDBOX_READY] = "sandbox ready",
    [RUN_EV_CLONED] = "cloned",
    [RUN_EV_SET_UP] = "set up",
    [RUN_EV_AGENT_READY] = "agent ready",
    [RUN_EV_PROMPT_TAKEN] = "prompt taken",
    [RUN_EV_ASKED] = "asked",
    [RUN_EV_ANSWERED] = "answered",
    [RUN_EV_AGENT_DONE] = "agent done",
    [RUN_EV_STEP_FAILED] = "step failed",
    [RUN_EV_CANCEL_ASKED] = "cancel asked",
    [RUN_EV_DEADLINE] = "deadline",
    [RUN_EV_COLLECTED] = "collected",
    [RUN_EV_STOPPED_COMPLETED] = "stopped: completed",
    [RUN_EV_STOPPED_FAILED] = "stopped: failed",
    [RUN_EV_STOPPED_CANCELLED] = "stopped: cancelled",
    [RUN_EV_STOPPED_INTERRUPTED] = "stopped: interrupted",
    [RUN_EV_LOST_EARLY] = "lost early",
    [RUN_EV_LOST] = "lost",
};

static const char *const action_names[] = {
    [RUN_ACT_NONE] = "",
    [RUN_ACT_ENQUEUE] = "enqueue",
    [RUN_ACT_START_SANDBOX] = "start sandbox",
    [RUN_ACT_CLONE] = "clone",
    [RUN_ACT_SETUP] = "set up",
    [RUN_ACT_START_AGENT] = "start agent",
    [RUN_ACT_PROMPT] = "prompt",
    [RUN_ACT_ABORT_AND_COLLECT] = "abort, collect",
    [RUN_ACT_COLLECT] = "collect",
    [RUN_ACT_STOP] = "stop sandbox",
    [RUN_ACT_FINISH] = "finish",
};

static const struct run_rule rules[] = {
    /* from           event                        to               then */
    { RUN_QUEUED, RUN_EV_ADMITTED, RUN_SANDBOX, RUN_ACT_START_SANDBOX },
    { RUN_QUEUED, RUN_EV_CANCEL_ASKED, RUN_CANCELLED, RUN_ACT_FINISH },
    { RUN_QUEUED, RUN_EV_STEP_FAILED, RUN_FAILED, RUN_ACT_FINISH },
    { RUN_QUEUED, RUN_EV_LOST_EARLY, RUN_QUEUED, RUN_ACT_ENQUEUE },

    { RUN_SANDBOX, RUN_EV_SANDBOX_READY, RUN_CLONE, RUN_ACT_CLONE },
    { RUN_SANDBOX, RUN_EV_STEP_FAILED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_SANDBOX, RUN_EV_CANCEL_ASKED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_SANDBOX, RUN_EV_DEADLINE, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_SANDBOX, RUN_EV_LOST_EARLY, RUN_QUEUED, RUN_ACT_ENQUEUE },

    { RUN_CLONE, RUN_EV_CLONED, RUN_SETUP, RUN_ACT_SETUP },
    { RUN_CLONE, RUN_EV_STEP_FAILED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_CLONE, RUN_EV_CANCEL_ASKED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_CLONE, RUN_EV_DEADLINE, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_CLONE, RUN_EV_LOST_EARLY, RUN_QUEUED, RUN_ACT_ENQUEUE },

    { RUN_SETUP, RUN_EV_SET_UP, RUN_AGENT, RUN_ACT_START_AGENT },
    { RUN_SETUP, RUN_EV_STEP_FAILED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_SETUP, RUN_EV_CANCEL_ASKED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_SETUP, RUN_EV_DEADLINE, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_SETUP, RUN_EV_LOST_EARLY, RUN_QUEUED, RUN_ACT_ENQUEUE },

    { RUN_AGENT, RUN_EV_AGENT_READY, RUN_PROMPT, RUN_ACT_PROMPT },
    { RUN_AGENT, RUN_EV_STEP_FAILED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_AGENT, RUN_EV_CANCEL_ASKED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_AGENT, RUN_EV_DEADLINE, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_AGENT, RUN_EV_LOST_EARLY, RUN_QUEUED, RUN_ACT_ENQUEUE },

    { RUN_PROMPT, RUN_EV_PROMPT_TAKEN, RUN_WORKING, RUN_ACT_NONE },
    { RUN_PROMPT, RUN_EV_AGENT_DONE, RUN_COLLECTING, RUN_ACT_COLLECT },
    { RUN_PROMPT, RUN_EV_STEP_FAILED, RUN_COLLECTING, RUN_ACT_COLLECT },
    { RUN_PROMPT, RUN_EV_CANCEL_ASKED, RUN_COLLECTING, RUN_ACT_ABORT_AND_COLLECT },
    { RUN_PROMPT, RUN_EV_DEADLINE, RUN_COLLECTING, RUN_ACT_ABORT_AND_COLLECT },
    { RUN_PROMPT, RUN_EV_LOST, RUN_STOPPING, RUN_ACT_STOP },

    { RUN_WORKING, RUN_EV_ASKED, RUN_WAITING, RUN_ACT_NONE },
    { RUN_WORKING, RUN_EV_AGENT_DONE, RUN_COLLECTING, RUN_ACT_COLLECT },
    { RUN_WORKING, RUN_EV_STEP_FAILED, RUN_COLLECTING, RUN_ACT_COLLECT },
    { RUN_WORKING, RUN_EV_CANCEL_ASKED, RUN_COLLECTING, RUN_ACT_ABORT_AND_COLLECT },
    { RUN_WORKING, RUN_EV_DEADLINE, RUN_COLLECTING, RUN_ACT_ABORT_AND_COLLECT },
    { RUN_WORKING, RUN_EV_LOST, RUN_STOPPING, RUN_ACT_STOP },

    { RUN_WAITING, RUN_EV_ANSWERED, RUN_WORKING, RUN_ACT_NONE },
    { RUN_WAITING, RUN_EV_AGENT_DONE, RUN_COLLECTING, RUN_ACT_COLLECT },
    { RUN_WAITING, RUN_EV_STEP_FAILED, RUN_COLLECTING, RUN_ACT_COLLECT },
    { RUN_WAITING, RUN_EV_CANCEL_ASKED, RUN_COLLECTING, RUN_ACT_ABORT_AND_COLLECT },
    { RUN_WAITING, RUN_EV_DEADLINE, RUN_COLLECTING, RUN_ACT_ABORT_AND_COLLECT },
    { RUN_WAITING, RUN_EV_LOST, RUN_STOPPING, RUN_ACT_STOP },

    { RUN_COLLECTING, RUN_EV_COLLECTED, RUN_STOPPING, RUN_ACT_STOP },
    { RUN_COLLECTING, RUN_EV_LOST, RUN_STOPPING, RUN_ACT_STOP },

    { RUN_STOPPING, RUN_EV_STOPPED_COMPLETED, RUN_COMPLETED, RUN_ACT_FINISH },
    { RUN_STOPPING, RUN_EV_STOPPED_FAILED, RUN_FAILED, RUN_ACT_FINISH },
    { RUN_STOPPING, RUN_EV_STOPPED_CANCELLED, RUN_CANCELLED, RUN_ACT_FINISH },
    { RUN_STOPPING, RUN_EV_STOPPED_INTERRUPTED, RUN_INTERRUPTED, RUN_ACT_FINISH },
    { RUN_STOPPING, RUN_EV_LOST, RUN_STOPPING, RUN_ACT_STOP },
};

/* Until the prompt is sent nothing of the agent has happened, so the whole run may be done again.
 */
static const struct run_recovery recoveries[] = {
    /* state       adopt  again                when no sandbox lives */
    { RUN_QUEUED, false, RUN_ACT_NONE, RUN_EV_LOST_EARLY },
    { RUN_SANDBOX, false, RUN_ACT_NONE, RUN_EV_LOST_EARLY },
    { RUN_CLONE, true, RUN_ACT_CLONE, RUN_EV_LOST_EARLY },
    { RUN_SETUP, true, RUN_ACT_SETUP, RUN_EV_LOST_EARLY },
    { RUN_AGENT, true, RUN_ACT_START_AGENT, RUN_EV_LOST_EARLY },
    { RUN_PROMPT, true, RUN_ACT_NONE, RUN_EV_LOST },
    { RUN_WORKING, true, RUN_ACT_NONE, RUN_EV_LOST },
    { RUN_WAITING, true, RUN_ACT_NONE, RUN_EV_LOST },
    { RUN_COLLECTING, true, RUN_ACT_COLLECT, RUN_EV_LOST },
    { RUN_STOPPING, false, RUN_ACT_NONE, RUN_EV_LOST },
};

const struct run_recovery *run_recovery_find(enum run_state state)
{
    for (size_t i = 0; i < ARRAY_LEN(recoveries); i++) {
        if (recoveries[i].state == state)
            return &recoveries[i];
    }
    return NULL;
}

const struct run_rule *run_rule_find(enum run_state state, enum run_event event)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (rules[i].from == state && rules[i].event == event)
            return &rules[i];
    }
    return NULL;
}

const char *run_state_name(enum run_state state)
{
    return (unsigned)state < RUN_STATE_COUNT ? state_names[state] : "unknown";
}

const char *run_event_name(enum run_event event)
{
    return (unsigned)event < RUN_EVENT_COUNT ? event_names[event] : "unknown";
}

const char *run_action_name(enum run_action action)
{
    return (unsigned)action < ARRAY_LEN(action_names) ? action_names[action] : "unknown";
}

bool run_state_final(enum run_state state)
{
    return state >= RUN_COMPLETED && state <= RUN_INTERRUPTED;
}

bool run_state_has_sandbox(enum run_state state)
{
    const struct run_recovery *recovery = run_recovery_find(state);

    return recovery != NULL && recovery->adopt;
}

enum run_outcome run_outcome_of_event(enum run_event event)
{
    static const uint8_t outcomes[RUN_EVENT_COUNT] = {
        [RUN_EV_AGENT_DONE] = RUN_OUTCOME_COMPLETED,   [RUN_EV_STEP_FAILED] = RUN_OUTCOME_FAILED,
        [RUN_EV_CANCEL_ASKED] = RUN_OUTCOME_CANCELLED, [RUN_EV_DEADLINE] = RUN_OUTCOME_FAILED,
        [RUN_EV_LOST] = RUN_OUTCOME_INTERRUPTED,
    };

    return (enum run_outcome)outcomes[event];
}

enum run_event run_event_for_outcome(enum run_outcome outcome)
{
    switch (outcome) {
    case RUN_OUTCOME_COMPLETED:
        return RUN_EV_STOPPED_COMPLETED;
    case RUN_OUTCOME_CANCELLED:
        return RUN_EV_STOPPED_CANCELLED;
    case RUN_OUTCOME_INTERRUPTED:
        return RUN_EV_STOPPED_INTERRUPTED;
    case RUN_OUTCOME_NONE:
    case RUN_OUTCOME_FAILED:
        return RUN_EV_STOPPED_FAILED;
    }
    return RUN_EV_STOPPED_FAILED;
}

static const char *describe_recovery(const struct run_recovery *recovery)
{
    if (!recovery->adopt)
        return "what is left of it is ended";
    return recovery->again == RUN_ACT_NONE ? "the agent is taken up where it stands"
                                           : action_names[recovery->again];
}

void run_recovery_print(struct buf *out)
{
    buf_append_str(out, "| state | where its sandbox lives | else | and the run is then |\n"
                        "| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < ARRAY_LEN(recoveries); i++) {
        const struct run_recovery *recovery = &recoveries[i];
        const struct run_rule *rule = run_rule_find(recovery->state, recovery->no_life);

        buf_printf(out, "| %s | %s | %s | %s |\n", state_names[recovery->state],
                   describe_recovery(recovery), event_names[recovery->no_life],
                   rule != NULL ? state_names[rule->to] : "");
    }
}

void run_state_print(struct buf *out)
{
    buf_append_str(out, "| from | event | to | then |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        buf_printf(out, "| %s | %s | %s | %s |\n", state_names[rules[i].from],
                   event_names[rules[i].event], state_names[rules[i].to],
                   action_names[rules[i].then]);
    buf_append_str(out, "\nEvery other pair is refused and logged. Columns are events in the order "
                        "of the table above:\n\n| state |");
    for (int event = 0; event < RUN_EVENT_COUNT; event++)
        buf_printf(out, " %s |", event_names[event]);
    buf_append_str(out, "\n| --- |");
    for (int event = 0; event < RUN_EVENT_COUNT; event++)
        buf_append_str(out, " --- |");
    buf_append_str(out, "\n");
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        buf_printf(out, "| %s |", state_names[state]);
        for (int event = 0; event < RUN_EVENT_COUNT; event++) {
            const struct run_rule *rule =
                run_rule_find((enum run_state)state, (enum run_event)event);

            buf_printf(out, " %s |", rule != NULL ? state_names[rule->to] : "");
        }
        buf_append_str(out, "\n");
    }
}
