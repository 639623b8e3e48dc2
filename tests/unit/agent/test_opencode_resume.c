/* An agent that an earlier supervisor started is taken up again. */
#include "unit/agent/opencode_rig.h"

static const struct agent_resume taken = { .process_id = 7,
                                           .prompt_id = "msg_before",
                                           .text = "do it",
                                           .sent_ms = 1,
                                           .taken = true,
                                           .output = "" };
static const struct agent_resume untaken = {
    .process_id = 7, .prompt_id = "msg_before", .text = "do it", .sent_ms = 1, .output = ""
};

#define BUSY_STATUS "{\"ses_1\":{\"type\":\"busy\"}}"

TEST(a_prompt_that_ended_meanwhile_is_told_whole)
{
    struct fake fake;

    fake_init(&fake);
    fake.resume = &taken;
    fake.conversation = "ses_1";
    fake.messages = DONE;
    CHECK_STR(run(&fake), "usage \ntext all done\nready\nend done [stop] ||all done|7/500000\n");
    buf_finish(&fake.log);
}

TEST(a_prompt_under_way_is_followed_to_its_end)
{
    static const char *const frames[] = { TEXT, "!messages " DONE, "!status {}", IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &taken;
    fake.conversation = "ses_1";
    fake.messages = "[" MESSAGE_USER "]";
    fake.status = BUSY_STATUS;
    fake.when_ready = frames;
    CHECK_STR(run(&fake), "ready\ntext all done\nusage \nend done [stop] ||all done|7/500000\n");
    buf_finish(&fake.log);
}

#define EARLIER                                                                                    \
    "{\"info\":{\"id\":\"msg_0\",\"parentID\":\"MSG\",\"role\":\"assistant\"," SES "," ENDED       \
    "\"finish\":\"tool-calls\"},\"parts\":[{\"id\":\"prt_0\",\"type\":\"text\"," SES               \
    ",\"messageID\":\"msg_0\",\"text\":\"at first\",\"time\":{\"start\":1,\"end\":2}}]}"

TEST(what_happened_before_is_told_before_what_happens_now)
{
    static const char *const now[] = { TEXT, NULL };
    static const char *const frames[] = { "!messages " DONE, "!status {}", IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &taken;
    fake.conversation = "ses_1";
    fake.messages = "[" MESSAGE_USER "," EARLIER "]";
    fake.status = BUSY_STATUS;
    fake.at_children = now;
    fake.when_ready = frames;
    CHECK_HAS(run(&fake), "text at first\nready\ntext all done\n");
    buf_finish(&fake.log);
}

TEST(a_prompt_that_arrived_is_not_sent_again)
{
    struct fake fake;

    fake_init(&fake);
    fake.resume = &untaken;
    fake.conversation = "ses_1";
    fake.messages = DONE;
    CHECK_STR(run(&fake),
              "taken\nusage \ntext all done\nready\nend done [stop] ||all done|7/500000\n");
    CHECK_EQ(fake.posts, 0u);
    buf_finish(&fake.log);
}

TEST(a_prompt_that_never_arrived_is_sent_under_its_id)
{
    struct fake fake;

    fake_init(&fake);
    fake.resume = &untaken;
    fake.conversation = "ses_1";
    fake.after_prompt = plain_success;
    CHECK_STR(run(&fake),
              "ready\ntaken\ntext all done\nusage \nend done [stop] ||all done|7/500000\n");
    CHECK_EQ(fake.posts, 1u);
    CHECK_STR(fake.message_id, "msg_before");
    buf_finish(&fake.log);
}

TEST(an_open_request_is_known_before_it_is_ready)
{
    static const char *const frames[] = { REPLIED, "!messages " DONE, "!status {}", IDLE, NULL };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &taken;
    fake.conversation = "ses_1";
    fake.messages = "[" MESSAGE_USER "]";
    fake.status = BUSY_STATUS;
    fake.permissions =
        "[{\"id\":\"per_1\"," SES
        ",\"permission\":\"bash\",\"patterns\":[\"ls\"],\"metadata\":{\"command\":\"ls -l\"}}]";
    fake.when_ready = frames;
    CHECK_STR(run(&fake),
              "permission bash: ls -l\nready\nanswered \nusage \ntext all done\nend done "
              "[stop] ||all done|7/500000\n");
    buf_finish(&fake.log);
}

TEST(a_server_that_was_asked_too_early_is_asked_again)
{
    struct fake fake;

    fake_init(&fake);
    fake.resume = &taken;
    fake.conversation = "ses_1";
    fake.messages = DONE;
    fake.deaf = 1;
    CHECK_HAS(run(&fake), "ready\nend done");
    buf_finish(&fake.log);
}

TEST(without_a_prompt_it_is_ready_for_one)
{
    static const struct agent_resume idle = { .process_id = 7, .text = "", .output = "" };
    struct fake fake;

    fake_init(&fake);
    fake.resume = &idle;
    fake.after_prompt = plain_success;
    CHECK_STR(run(&fake),
              "ready\ntaken\ntext all done\nusage \nend done [stop] ||all done|7/500000\n");
    buf_finish(&fake.log);
}

TEST(closing_at_any_step_leaves_nothing_behind)
{
    for (unsigned at = 1; at < 40; at++) {
        struct fake fake;

        fake_init(&fake);
        fake.resume = &untaken;
        fake.conversation = "ses_1";
        fake.after_prompt = plain_success;
        fake.close_at = at;
        run(&fake);
        buf_finish(&fake.log);
    }
}
