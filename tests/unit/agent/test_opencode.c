#include "unit/agent/opencode_rig.h"

TEST(a_prompt_that_is_answered_ends_done_with_text_and_usage)
{
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = plain_success;
    CHECK_STR(run(&fake),
              "ready\ntaken\ntext all done\nusage \nend done [stop] ||all done|7/500000\n");
    buf_finish(&fake.log);
}

TEST(prompts_follow_one_another_in_one_conversation)
{
    struct fake fake;

    fake_init(&fake);
    fake.prompts = 3;
    fake.after_prompt = plain_success;
    CHECK_HAS(run(&fake), "end done [stop] ||all done|7/500000\ntaken\n");
    CHECK_EQ(fake.streams, 1u);
    buf_finish(&fake.log);
}

TEST(a_retry_is_told_and_what_follows_too)
{
    static const char *const frames[] = { USER, BUSY, ANSWERING,         RETRY,
                                          BUSY, TEXT, "!messages " DONE, IDLE,
                                          NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_STR(run(&fake), "ready\ntaken\nretry busy\nrunning \ntext all done\nusage \nend done "
                          "[stop] ||all done|7/500000\n");
    buf_finish(&fake.log);
}

TEST(a_retry_too_far_away_is_not_sat_out)
{
    static const char *const frames[] = {
        USER, BUSY, ANSWERING, "!messages " OPEN, RETRY_LATE, NULL
    };
    static const char *const after_abort[] = {
        "!messages [" MESSAGE_USER "," MESSAGE_ANSWER(
            "\"error\":" FAILURE("MessageAbortedError", "null", "Aborted") "," ENDED) "]",
        IDLE, NULL
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_abort = after_abort;
    CHECK_HAS(run(&fake), "end failed [] model_rate_limited|slow down|");
    CHECK(fake.aborts >= 1);
    buf_finish(&fake.log);
}

TEST(a_refused_key_fails_with_the_providers_words)
{
    static const char *const frames[] = {
        USER,
        BUSY,
        ANSWERING,
        ERROR_EVENT(FAILURE("APIError", "401", "invalid x-api-key")),
        "!messages [" MESSAGE_USER "," MESSAGE_ANSWER(
            "\"error\":" FAILURE("APIError", "401", "invalid x-api-key") "," ENDED) "]",
        IDLE,
        IDLE,
        NULL,
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake), "end failed [] model_auth|invalid x-api-key|");
    buf_finish(&fake.log);
}

TEST(an_error_that_is_followed_by_success_is_no_failure)
{
    static const char *const frames[] = {
        USER,
        BUSY,
        ANSWERING,
        ERROR_EVENT(FAILURE("ContextOverflowError", "413", "too long")),
        BUSY,
        TEXT,
        "!messages " DONE,
        IDLE,
        NULL,
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake), "end done [stop] ||all done");
    buf_finish(&fake.log);
}

TEST(an_unknown_model_has_no_answer_but_an_error)
{
    static const char *const frames[] = {
        USER,
        BUSY,
        ERROR_EVENT(FAILURE("UnknownError", "null", "Model not found: a/b.")),
        IDLE,
        ERROR_EVENT(FAILURE("UnknownError", "null",
                            "ProviderModelNotFoundError: Model not found: a/b.\\n    at x")),
        "!messages [" MESSAGE_USER "]",
        NULL,
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake), "end failed [] model_unknown|Model not found: a/b.|");
    buf_finish(&fake.log);
}

TEST(a_prompt_that_is_silently_dropped_fails_as_not_started)
{
    struct fake fake;

    fake_init(&fake);
    CHECK_HAS(run(&fake), "ready\nend failed [] not_started|");
    buf_finish(&fake.log);
}

TEST(a_prompt_whose_answer_was_lost_is_looked_up_not_sent_again)
{
    struct fake fake;

    fake_init(&fake);
    fake.prompt_reply = "garbage\r\n";
    fake.after_prompt = plain_success;
    CHECK_HAS(run(&fake), "taken\ntext all done\nusage \nend done [stop]");
    buf_finish(&fake.log);
}

TEST(a_refused_prompt_fails_with_the_servers_words)
{
    struct fake fake;

    fake_init(&fake);
    fake.prompt_reply =
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 52\r\n\r\n"
        "{\"name\":\"NotFoundError\",\"data\":{\"message\":\"no ses\"}}";
    CHECK_HAS(run(&fake),
              "end failed [] not_started|OpenCode refused the prompt: status 404: no ses|");
    buf_finish(&fake.log);
}

TEST(a_process_that_dies_in_a_prompt_is_a_crash_with_its_last_words)
{
    static const char *const frames[] = { USER, BUSY, ANSWERING, "!die", NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake), "end failed [] agent_crashed|OpenCode exited with code 3: opencode "
                          "server listening on http://127.0.0.1:4096 | panic: oh no|");
    buf_finish(&fake.log);
}

TEST(a_cut_stream_is_opened_again_and_nothing_is_lost)
{
    static const char *const frames[] = {
        USER,   BUSY, ANSWERING, "!status {\"ses_1\":{\"type\":\"busy\"}}", "!messages " OPEN,
        "!cut", NULL
    };
    static const char *const after[] = { "!messages " DONE, "!status {}", NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_reconnect = after;
    CHECK_HAS(run(&fake), "text all done\nend done [stop] ||all done|7/500000\n");
    CHECK_EQ(fake.streams, 2u);
    buf_finish(&fake.log);
}

TEST(what_a_subagent_said_in_a_gap_is_told_too)
{
    static const char *const frames[] = {
        USER,   BUSY, ANSWERING, "!status {\"ses_1\":{\"type\":\"busy\"}}", "!messages " OPEN,
        "!cut", NULL
    };
    static const char *const after[] = { "!messages " DONE, "!status {}", NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_reconnect = after;
    fake.children = "[{\"id\":\"ses_2\",\"parentID\":\"ses_1\"}]";
    CHECK_HAS(run(&fake), "text all done\ntext looked\nend done [stop] ||all done");
    buf_finish(&fake.log);
}

TEST(a_lost_idle_event_is_found_by_asking)
{
    static const char *const frames[] = { USER, BUSY, ANSWERING, TEXT, "!messages " DONE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake), "end done [stop] ||all done");
    buf_finish(&fake.log);
}

TEST(a_status_that_says_busy_after_the_end_does_not_hang_the_run)
{
    static const char *const frames[] = {
        USER, BUSY, ANSWERING, "!status {\"ses_1\":{\"type\":\"busy\"}}", "!messages " DONE,
        IDLE, NULL
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake), "end done [stop] ||all done");
    buf_finish(&fake.log);
}

TEST(an_abort_ends_aborted)
{
    static const char *const frames[] = {
        USER, BUSY, ANSWERING, "!status {\"ses_1\":{\"type\":\"busy\"}}", "!messages " OPEN, NULL
    };
    static const char *const after_abort[] = {
        "!status {}",
        "!messages [" MESSAGE_USER "," MESSAGE_ANSWER(
            "\"error\":" FAILURE("MessageAbortedError", "null", "Aborted") "," ENDED) "]",
        ERROR_EVENT(FAILURE("MessageAbortedError", "null", "Aborted")),
        IDLE,
        IDLE,
        NULL
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_abort = after_abort;
    fake.abort_when_taken = true;
    fake.abort_after_ms = 5;
    CHECK_HAS(run(&fake), "end aborted [] ||all done");
    CHECK_EQ(fake.aborts, 1u);
    buf_finish(&fake.log);
}

TEST(an_abort_before_the_first_answer_waits_for_it)
{
    static const char *const frames[] = { USER, BUSY, "!status {\"ses_1\":{\"type\":\"busy\"}}",
                                          "!messages [" MESSAGE_USER "]", NULL };
    static const char *const after_abort[] = { "!status {}", IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_abort = after_abort;
    fake.abort_when_taken = true;
    CHECK_HAS(run(&fake), "end aborted [] ||");
    CHECK_EQ(fake.aborts, 1u);
    buf_finish(&fake.log);
}

TEST(an_agent_that_does_not_stop_ends_aborted_all_the_same)
{
    static const char *const frames[] = {
        USER, BUSY, ANSWERING, "!status {\"ses_1\":{\"type\":\"busy\"}}", "!messages " OPEN, NULL
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.abort_when_taken = true;
    CHECK_HAS(run(&fake), "end aborted [] |the agent did not stop when asked|");
    CHECK(fake.aborts > 1);
    buf_finish(&fake.log);
}

TEST(an_answer_that_was_cut_is_incomplete_and_says_so)
{
    static const char *const frames[] = {
        USER,
        BUSY,
        ANSWERING,
        "!messages [" MESSAGE_USER "," MESSAGE_ANSWER("\"finish\":\"length\"," ENDED) "]",
        IDLE,
        NULL
    };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    CHECK_HAS(run(&fake),
              "end incomplete [length] |the answer was cut at the model's limit|all done");
    buf_finish(&fake.log);
}

TEST(two_finishes_without_a_reason_in_a_row_end_it)
{
    static const char *const frames[] = {
        USER, BUSY, ANSWERING, "!messages " OPEN, FINISH_UNKNOWN("msg_a"), FINISH_UNKNOWN("msg_b"),
        NULL
    };
    static const char *const after_abort[] = { IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_abort = after_abort;
    CHECK_HAS(run(&fake), "end failed [] model_error|the model's answer was cut off without a "
                          "reason, twice in a row|");
    buf_finish(&fake.log);
}

TEST(a_permission_is_asked_and_answered)
{
    static const char *const frames[] = { USER, BUSY, ANSWERING, PERMISSION, NULL };
    static const char *const after_reply[] = { REPLIED, TEXT, "!messages " DONE, IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.after_reply = after_reply;
    fake.answer = "reject: not here";
    CHECK_HAS(run(&fake), "permission bash: ls -l\nanswered \ntext all done\n");
    CHECK_STR(fake.last_reply, "{\"reply\":\"reject\",\"message\":\"not here\"}");
    buf_finish(&fake.log);
}

TEST(a_server_that_no_longer_answers_is_stalled_in_the_end)
{
    static const char *const frames[] = { USER, BUSY, ANSWERING, IDLE, "!cut", NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = frames;
    fake.messages = "<html>";
    CHECK_HAS(run(&fake), "end failed [] agent_stalled|");
    buf_finish(&fake.log);
}

TEST(an_unknown_major_version_is_unsupported)
{
    struct fake fake;

    fake_init(&fake);
    fake.version = "2.0.0";
    CHECK_STR(run(&fake),
              "ready agent_unsupported: OpenCode 2.0.0 is not supported; versions 1.x are\n");
    buf_finish(&fake.log);
}

TEST(a_server_that_never_listens_is_not_ready_and_tells_its_last_line)
{
    struct fake fake;

    fake_init(&fake);
    fake.first_line = "ServeError: port taken\n";
    CHECK_HAS(run(&fake),
              "ready agent_not_ready: OpenCode was not ready in time: ServeError: port taken");
    buf_finish(&fake.log);
}

TEST(a_conversation_goes_on_unless_the_clock_is_behind_it)
{
    struct fake fake;

    fake_init(&fake);
    fake.conversation = "ses_1";
    fake.messages = "[{\"info\":{\"time\":{\"created\":1}}}]";
    fake.after_prompt = plain_success;
    CHECK_HAS(run(&fake), "end done [stop]");
    buf_finish(&fake.log);

    fake_init(&fake);
    fake.conversation = "ses_1";
    fake.messages = "[{\"info\":{\"time\":{\"created\":9000000000000}}}]";
    CHECK_HAS(run(&fake), "end failed [] not_started|this machine's clock is ");
    buf_finish(&fake.log);
}

static void check_closing_everywhere(const struct fake *scenario)
{
    for (unsigned at = 1; at < 60; at++) {
        struct fake fake = *scenario;

        buf_init(&fake.log, 1 << 20);
        fake.close_at = at;
        CHECK(strstr(run(&fake), "HUNG") == NULL);
        buf_finish(&fake.log);
    }
}

TEST(closing_at_any_moment_is_safe)
{
    static const char *const cut[] = { USER,
                                       BUSY,
                                       ANSWERING,
                                       PERMISSION,
                                       "!status {\"ses_1\":{\"type\":\"busy\"}}",
                                       "!messages " OPEN,
                                       "!cut",
                                       NULL };
    static const char *const after_cut[] = { "!messages " DONE, "!status {}", NULL };
    static const char *const busy[] = {
        USER, BUSY, ANSWERING, "!status {\"ses_1\":{\"type\":\"busy\"}}", "!messages " OPEN, NULL
    };
    static const char *const after_abort[] = { "!status {}", IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.after_prompt = plain_success;
    fake.conversation = "ses_1";
    check_closing_everywhere(&fake);

    fake_init(&fake);
    fake.after_prompt = cut;
    fake.after_reconnect = after_cut;
    fake.answer = "once";
    check_closing_everywhere(&fake);

    fake_init(&fake);
    fake.after_prompt = busy;
    fake.after_abort = after_abort;
    fake.abort_when_taken = true;
    check_closing_everywhere(&fake);
}
