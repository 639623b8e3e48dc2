#include "harness/test.h"

#include "common/str.h"
#include "view/view.h"
#include "fake/fake_run.c"
#include "proto/msg_event.h"

static struct run_record run;
static struct buf message;

static void finish(void *data)
{
    (void)data;
    run_record_finish(&run);
    buf_finish(&message);
}

static void start(uint32_t state)
{
    run_record_init(&run);
    buf_init(&message, 1u << 16);
    test_defer(finish, NULL);
    run.state = state;
    run.created_ms = 1000;
    run.started_ms = 2000;
    str_copy(run.session.text, sizeof(run.session.text), "ses_00000000000000000000000000");
    str_copy(run.id.text, sizeof(run.id.text), "run_00000000000000000000000000");
}

static const char *say(const struct view_context *context)
{
    buf_clear(&message);
    view_message(&message, &run, context);
    return buf_text(&message);
}

TEST(a_running_run_says_for_how_long_and_what_now)
{
    struct view_context context = { .now_ms = 2000 + 192000, .current_step = "bash: make test" };

    start(RUN_WORKING);
    CHECK_STR(say(&context), "running for 3 m 12 s, now: bash: make test. Call opencode_get_result "
                             "again with waitSeconds 45.");
    context.current_step = NULL;
    CHECK_HAS(say(&context), "the agent is working");
    run.state = RUN_COLLECTING;
    CHECK_HAS(say(&context), "changes are being collected");
}

TEST(a_starting_run_names_its_phase)
{
    struct view_context context = { .now_ms = 10000 };

    start(RUN_CLONE);
    CHECK_HAS(say(&context), "started 8 s ago, now: the repository is being cloned.");
    run.state = RUN_QUEUED;
    CHECK_HAS(say(&context), "queued for 9 s");
}

TEST(a_waiting_run_names_the_request_and_how_to_answer)
{
    struct view_context context = {
        .open_request =
            "{\"requestId\":\"per_1\",\"kind\":\"permission\",\"text\":\"bash: rm -rf build\"}"
    };

    start(RUN_WAITING);
    CHECK_STR(say(&context), "waiting for an answer to a permission request: bash: rm -rf build. "
                             "Answer with opencode_answer, or a person with: sandboxctl answer "
                             "run_00000000000000000000000000 per_1 ANSWER");
    context.open_request = "no JSON";
    CHECK_HAS(say(&context), "sandboxctl answer");
}

TEST(a_failed_run_gives_phase_message_and_hint)
{
    struct view_context context = { .now_ms = 1 };

    start(RUN_FAILED);
    run.ended_ms = 5000;
    record_set(&run.error.code, "clone_failed");
    record_set(&run.error.phase, "clone");
    record_set(&run.error.message, "there is no branch x");
    record_set(&run.error.hint, "check the branch's name");
    run.error.retryable = true;
    CHECK_STR(say(&context), "failed in phase clone after 3 s: there is no branch x. Hint: check "
                             "the branch's name. The same task "
                             "may succeed when it is tried again.");
}

TEST(a_completed_run_sums_up_its_changes)
{
    struct view_context context = { .now_ms = 1 };

    start(RUN_COMPLETED);
    run.ended_ms = 62000;
    run.evidence.known = true;
    CHECK_HAS(say(&context), "completed in 1 m 0 s; no file was changed.");
    run.evidence.files_changed = 1;
    run.evidence.insertions = 4;
    run.evidence.commits = 2;
    CHECK_HAS(say(&context),
              "; 1 file changed (+4 -0), 2 commits. opencode_get_diff shows the changes.");
    record_set(&run.verdict, "incomplete");
    CHECK_HAS(say(&context), "cut off");
    CHECK_HAS(say(&context), "sessionId ses_0");
}

TEST(every_state_has_a_sentence)
{
    struct view_context context = { .now_ms = 5000 };

    start(RUN_QUEUED);
    for (run.state = 0; run.state < RUN_STATE_COUNT; run.state++)
        CHECK(say(&context)[0] != '\0');
}

TEST(an_accepted_run_says_how_to_ask_for_it)
{
    struct view_context context = { .now_ms = 5000 };

    start(RUN_QUEUED);
    view_created_message(&message, &run, &context);
    CHECK_HAS(buf_text(&message), "Call opencode_get_result with runId run_0");
    buf_clear(&message);
    run.state = RUN_COMPLETED;
    view_created_message(&message, &run, &context);
    CHECK_HAS(buf_text(&message), "completed in");
}

TEST(durations_are_short)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = { { 0, "0 ms" },
                  { 999, "999 ms" },
                  { 59999, "59 s" },
                  { 192000, "3 m 12 s" },
                  { 7500000, "2 h 5 m" } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf text = BUF_INIT(100);

        view_duration(&text, cases[i].ms);
        CHECK_STR(buf_text(&text), cases[i].text);
    }
}

TEST(excerpts_are_cut_between_characters)
{
    AUTO_BUF struct buf text = BUF_INIT(100);

    view_excerpt(&text, "h\xc3\xb6her", 2);
    CHECK_STR(buf_text(&text), "h\xc3\xb6…");
    buf_clear(&text);
    view_excerpt(&text, "ab", 2);
    CHECK_STR(buf_text(&text), "ab");
}

static void finish_event(void *data)
{
    event_record_finish(data);
}

TEST(a_step_has_short_text_and_no_data)
{
    static struct event_record event;
    AUTO_BUF struct buf text = BUF_INIT(1u << 16);
    char long_text[1000];

    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    event_record_init(&event);
    test_defer(finish_event, &event);
    event.number = 3;
    event.kind = EVENT_KIND_TOOL;
    record_set(&event.text, long_text);
    record_set(&event.data, "{\"tool\":\"bash\"}");
    CHECK(view_is_step(&event));
    view_step(&text, &event);
    CHECK(text.len < 1200);
    CHECK(strstr(buf_text(&text), "bash") == NULL);
    event.kind = EVENT_KIND_QUESTION;
    buf_clear(&text);
    view_step(&text, &event);
    CHECK_HAS(buf_text(&text), "\"data\":{\"tool\":\"bash\"}");
    event.kind = EVENT_KIND_LOG;
    CHECK(!view_is_step(&event));
}
