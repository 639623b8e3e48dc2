/* The table of a run's life against its promises and against the page that shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "run/run_state.h"
#include "harness/test.h"

TEST(every_state_but_the_final_ones_can_be_left)
{
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        int ways = 0;

        for (int event = 0; event < RUN_EVENT_COUNT; event++)
            ways += run_rule_find((enum run_state)state, (enum run_event)event) != NULL;
        if (run_state_final((enum run_state)state))
            CHECK_EQ(ways, 0);
        else
            CHECK(ways > 0);
    }
}

TEST(cancel_and_failure_always_lead_out)
{
    static const enum run_event events[] = { RUN_EV_CANCEL_ASKED, RUN_EV_STEP_FAILED };

    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        if (state >= RUN_COLLECTING && state != RUN_SETUP)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(events); i++) {
            const struct run_rule *rule = run_rule_find((enum run_state)state, events[i]);

            CHECK(rule != NULL);
            CHECK(rule->to >= RUN_COLLECTING && rule->to <= RUN_INTERRUPTED);
        }
    }
}

/* A prompt may have been sent from its own state on. */
static bool before_the_prompt(int state)
{
    return state <= RUN_AGENT || state == RUN_SETUP;
}

TEST(a_lost_run_is_repeated_only_before_the_prompt)
{
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        if (run_state_final((enum run_state)state))
            continue;
        bool early = run_rule_find((enum run_state)state, RUN_EV_LOST_EARLY) != NULL;
        bool late = run_rule_find((enum run_state)state, RUN_EV_LOST) != NULL;

        CHECK_EQ(early, before_the_prompt(state));
        CHECK_EQ(late, !early);
    }
}

TEST(every_state_that_can_be_found_after_a_restart_has_its_recovery)
{
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        const struct run_recovery *recovery = run_recovery_find((enum run_state)state);
        const struct run_rule *rule;

        CHECK_EQ(recovery != NULL, !run_state_final((enum run_state)state));
        if (recovery == NULL)
            continue;
        rule = run_rule_find((enum run_state)state, recovery->no_life);
        CHECK(rule != NULL);
        CHECK_EQ((int)rule->to, before_the_prompt(state) ? (int)RUN_QUEUED : (int)RUN_STOPPING);
        CHECK_EQ(run_state_has_sandbox((enum run_state)state), recovery->adopt);
    }
}

/* What is done again is what led into the state, and never the prompt. */
TEST(what_is_done_again_is_the_action_of_the_state)
{
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        const struct run_recovery *recovery = run_recovery_find((enum run_state)state);
        bool led = false;

        if (recovery == NULL || recovery->again == RUN_ACT_NONE)
            continue;
        CHECK(recovery->adopt);
        CHECK(recovery->again != RUN_ACT_PROMPT);
        for (int from = 0; from < RUN_STATE_COUNT; from++) {
            for (int event = 0; event < RUN_EVENT_COUNT; event++) {
                const struct run_rule *rule =
                    run_rule_find((enum run_state)from, (enum run_event)event);

                led |= rule != NULL && (int)rule->to == state && rule->then == recovery->again;
            }
        }
        CHECK(led);
    }
}

static void check_on_page(const struct buf *printed)
{
    struct error err = ERROR_INIT;
    char *page = NULL;
    size_t len;

    if (getenv("PRINT_STATE_MACHINE") != NULL)
        fputs(buf_text(printed), stderr);
    CHECK_EQ(fd_read_file(PROJECT_SOURCE_DIR "/docs/state-machine.md", 1u << 20, &page, &len, &err),
             0);
    CHECK(page != NULL && strstr(page, buf_text(printed)) != NULL);
    free(page);
}

TEST(the_documented_recoveries_are_the_real_ones)
{
    struct buf printed;

    buf_init(&printed, 1u << 20);
    run_recovery_print(&printed);
    check_on_page(&printed);
    buf_finish(&printed);
}

TEST(each_outcome_has_its_own_final_state)
{
    for (int outcome = RUN_OUTCOME_COMPLETED; outcome <= RUN_OUTCOME_INTERRUPTED; outcome++) {
        const struct run_rule *rule =
            run_rule_find(RUN_STOPPING, run_event_for_outcome((enum run_outcome)outcome));

        CHECK(rule != NULL);
        CHECK_EQ((int)rule->to, RUN_COMPLETED + outcome - RUN_OUTCOME_COMPLETED);
        CHECK_EQ((int)rule->then, (int)RUN_ACT_FINISH);
    }
}

/* The page docs/state-machine.md holds the printed table word for word between two marks. */
TEST(the_documented_matrix_is_the_real_one)
{
    struct buf printed;

    buf_init(&printed, 1u << 20);
    run_state_print(&printed);
    check_on_page(&printed);
    buf_finish(&printed);
}
