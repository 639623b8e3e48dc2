#include "harness/test.h"

#include "common/mem.h"
#include "common/str.h"
#include "ctl/args.h"
#include "ctl/commands.h"
#include "ctl/live.h"

static struct args args;
static struct error err;

static void finish(void *data)
{
    (void)data;
    args_finish(&args);
}

static int parse(const struct args_rules *rules, char *const *words)
{
    int count = 0;

    while (words[count] != NULL)
        count++;
    args_finish(&args);
    args = (struct args){ .words = NULL };
    err = (struct error)ERROR_INIT;
    test_defer(finish, NULL);
    return args_parse(&args, count, words, rules, "ONE [TWO]...", &err);
}

/* Words of a command line are char *, literals are not meant to be written to. */
#define WORDS(...) ((char *const *)(const void *)(const char *const[]){ __VA_ARGS__, NULL })

static const struct args_rules rules = { .allowed = ARGS_BIT(ARGS_WAIT) | ARGS_BIT(ARGS_REPO) |
                                                    ARGS_BIT(ARGS_LIMIT) | ARGS_BIT(ARGS_HELP) |
                                                    ARGS_BIT(ARGS_FOLLOW),
                                         .min_words = 1,
                                         .max_words = 2 };

TEST(options_and_words_may_come_in_any_order)
{
    CHECK_EQ(parse(&rules, WORDS("one", "--repo", "here", "-w", "--limit=7", "two")), 0);
    CHECK(args.has[ARGS_WAIT]);
    CHECK_STR(args.text[ARGS_REPO], "here");
    CHECK_EQ(args.number[ARGS_LIMIT], 7u);
    CHECK_EQ(args.word_count, 2u);
    CHECK_STR(args.words[1], "two");
    CHECK_STR(args.words[2], NULL);
}

TEST(two_dashes_end_the_options)
{
    CHECK_EQ(parse(&rules, WORDS("-w", "--", "--repo")), 0);
    CHECK_STR(args.words[0], "--repo");
    CHECK_EQ(parse(&rules, WORDS("-")), 0);
    CHECK_STR(args.words[0], "-");
}

TEST(mistakes_are_named)
{
    CHECK_EQ(parse(&rules, WORDS("--nope", "x")), -1);
    CHECK_HAS(err.text, "--nope");
    CHECK_EQ(parse(&rules, WORDS("--title", "x", "y")), -1);
    CHECK_HAS(err.text, "--title");
    CHECK_EQ(parse(&rules, WORDS("x", "--repo")), -1);
    CHECK_HAS(err.text, "wants a value");
    CHECK_EQ(parse(&rules, WORDS("x", "--limit", "ten")), -1);
    CHECK_HAS(err.text, "wants a number");
    CHECK_EQ(parse(&rules, WORDS("x", "--wait=1")), -1);
    CHECK_HAS(err.text, "takes no value");
    CHECK_EQ(parse(&rules, WORDS("a", "b", "c")), -1);
    CHECK_HAS(err.text, "\"c\"");
    CHECK_EQ(parse(&rules, WORDS("-w")), -1);
    CHECK_STR(err.text, "ONE is missing");
    CHECK_EQ(parse(&rules, WORDS("--help")), 0);
}

TEST(letters_may_be_joined_and_the_last_one_takes_the_rest)
{
    CHECK_EQ(parse(&rules, WORDS("x", "-n12")), 0);
    CHECK_EQ(args.number[ARGS_LIMIT], 12u);
    CHECK_EQ(parse(&rules, WORDS("x", "-fwn", "5")), 0);
    CHECK(args.has[ARGS_FOLLOW] && args.has[ARGS_WAIT]);
    CHECK_EQ(args.number[ARGS_LIMIT], 5u);
    CHECK_EQ(parse(&rules, WORDS("x", "-rwhere")), 0);
    CHECK_STR(args.text[ARGS_REPO], "where");
    CHECK(!args.has[ARGS_WAIT]);
    CHECK_EQ(parse(&rules, WORDS("x", "-fx")), -1);
    CHECK_HAS(err.text, "no option -fx");
    CHECK_EQ(parse(&rules, WORDS("x", "-fn")), -1);
    CHECK_HAS(err.text, "--limit wants a value");
}

TEST(a_command_behind_exec_is_left_alone)
{
    const struct ctl_command *exec = command_find("exec");

    CHECK_EQ(parse(&exec->rules, WORDS("run_1", "ls", "--json", "-x")), 0);
    CHECK_EQ(args.word_count, 4u);
    CHECK_STR(args.words[2], "--json");
    CHECK(!args.has[ARGS_JSON]);
    CHECK_EQ(parse(&exec->rules, WORDS("--json", "run_1", "--", "ls", "-l")), 0);
    CHECK(args.has[ARGS_JSON]);
    CHECK_STR(args.words[1], "ls");
}

TEST(every_command_is_found_and_takes_json_and_help)
{
    static const char *const names[] = {
        "status",   "run", "get",  "list",   "logs",     "diff",  "cancel", "send", "answer",
        "sessions", "rm",  "exec", "secret", "services", "audit", "doctor", "call", "stop"
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct ctl_command *command = command_find(names[i]);

        CHECK(command != NULL);
        CHECK((command->rules.allowed & ARGS_BIT(ARGS_JSON)) != 0);
        CHECK((command->rules.allowed & ARGS_BIT(ARGS_HELP)) != 0);
    }
    CHECK(command_find("nope") == NULL);
    CHECK_EQ(command_find("status")->start, SESSION_DONT_START);
    CHECK_EQ(command_find("call")->start, SESSION_DONT_START);
    CHECK_EQ(command_find("run")->start, SESSION_START);
}

TEST(errors_become_exit_codes)
{
    CHECK_EQ(exit_code_of(ERR_NONE), 0);
    CHECK_EQ(exit_code_of(ERR_SYSTEM), 1);
    CHECK_EQ(exit_code_of(ERR_INVALID), 2);
    CHECK_EQ(exit_code_of(ERR_UNAVAILABLE), 3);
    CHECK_EQ(exit_code_of(ERR_NOT_FOUND), 4);
    CHECK_EQ(exit_code_of(ERR_CONFLICT), 5);
    CHECK_EQ(exit_code_of(ERR_DENIED), 5);
}

TEST(progress_leaves_out_what_is_long)
{
    CHECK(live_shows("tool"));
    CHECK(live_shows("state"));
    CHECK(!live_shows("log"));
    CHECK(!live_shows("reasoning"));
}
