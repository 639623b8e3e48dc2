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

TEST(a_lost_run_is_repeated_only_before_the_prompt)
{
    for (int state = 0; state < RUN_STATE_COUNT; state++) {
        if (run_state_final((enum run_state)state))
            continue;
        bool early = run_rule_find((enum run_state)state, RUN_EV_LOST_EARLY) != NULL;
        bool late = run_rule_find((enum run_state)state, RUN_EV_LOST) != NULL;

        CHECK_EQ(early, run_state_repeatable((enum run_state)state));
        CHECK_EQ(late, !early);
    }
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
    struct error err = ERROR_INIT;
    struct buf printed;
    char *page = NULL;
    size_t len;

    buf_init(&printed, 1u << 20);
    run_state_print(&printed);
    if (getenv("PRINT_STATE_MACHINE") != NULL)
        fputs(buf_text(&printed), stderr);
    CHECK_EQ(fd_read_file(PROJECT_SOURCE_DIR "/docs/state-machine.md", 1u << 20, &page, &len, &err),
             0);
    CHECK(page != NULL && strstr(page, buf_text(&printed)) != NULL);
    free(page);
    buf_finish(&printed);
}
