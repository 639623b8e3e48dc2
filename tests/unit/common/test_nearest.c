#include "common/nearest.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

static const char *const names[] = { "claude-haiku-4-5", "claude-opus-5",    "claude-sonnet-4-5",
                                     "claude-sonnet-5",  "gpt-5-mini",       "gpt-5",
                                     "claude-fable-5",   "claude-sonnet-4-6" };

static const char *nearest_of(struct buf *out, size_t count, const char *wanted)
{
    buf_clear(out);
    nearest_append(out, names, count, wanted);
    return buf_text(out);
}

TEST(what_was_probably_meant_comes_first)
{
    AUTO_BUF struct buf out;

    buf_init(&out, 4096);
    CHECK(strncmp(nearest_of(&out, ARRAY_LEN(names), "claude-sonet-4-5"), "claude-sonnet-4-5, ",
                  19) == 0);
    CHECK(strncmp(nearest_of(&out, ARRAY_LEN(names), "gpt5"), "gpt-5, gpt-5-mini", 17) == 0);
    CHECK(strncmp(nearest_of(&out, ARRAY_LEN(names), "opus"), "claude-opus-5", 13) == 0 ||
          strstr(buf_text(&out), "claude-opus-5") != NULL);
}

TEST(there_are_five_at_most_and_none_of_none)
{
    AUTO_BUF struct buf out;
    size_t commas = 0;

    buf_init(&out, 4096);
    for (const char *at = nearest_of(&out, ARRAY_LEN(names), "x"); *at != '\0'; at++)
        commas += *at == ',';
    CHECK_EQ(commas, (size_t)4);
    CHECK_STR(nearest_of(&out, 0, "x"), "");
    CHECK_STR(nearest_of(&out, 1, ""), "claude-haiku-4-5");
}

TEST(a_slip_of_the_hand_has_its_name_and_nonsense_has_none)
{
    static const char *const commands[] = { "list", "logs", "get", "sessions" };
    AUTO_BUF struct buf out;

    buf_init(&out, 4096);
    nearest_append_similar(&out, commands, ARRAY_LEN(commands), "lis");
    CHECK_STR(buf_text(&out), "list");
    buf_clear(&out);
    nearest_append_similar(&out, commands, ARRAY_LEN(commands), "sesion");
    CHECK_STR(buf_text(&out), "sessions");
    buf_clear(&out);
    nearest_append_similar(&out, commands, ARRAY_LEN(commands), "nonsense");
    CHECK_STR(buf_text(&out), "");
}

TEST(names_of_any_length_are_compared)
{
    AUTO_BUF struct buf out;
    char wanted[1000];

    buf_init(&out, 4096);
    memset(wanted, 'g', sizeof(wanted) - 1);
    wanted[sizeof(wanted) - 1] = '\0';
    CHECK(nearest_of(&out, ARRAY_LEN(names), wanted)[0] != '\0');
}

TEST(a_name_that_is_nearly_right_was_meant)
{
    static const char *const meant[][2] = {
        { "repo", "repository" },
        { "sessionID", "sessionId" },
        { "run_id", "runId" },
        { "wait-seconds", "waitSeconds" },
        { "timeoutMinute", "timeoutMinutes" },
        { "repositroy", "repository" },
        { "modl", "model" },
        { "Task", "task" },
    };
    static const char *const others[][2] = {
        { "wait_for_previous", "waitSeconds" },
        { "url", "runId" },
        { "id", "runId" },
        { "task", "title" },
        { "mode", "task" },
        { "", "task" },
        { "extra", "task" },
        { "run", "runId" },
        { "age", "page" },
    };

    for (size_t i = 0; i < ARRAY_LEN(meant); i++)
        CHECK(nearest_meant(meant[i][0], meant[i][1]));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        CHECK(!nearest_meant(others[i][0], others[i][1]));
}
