#include "harness/test.h"

#include <string.h>

#include "ctl/commands.h"
#include "ctl/usage.h"

static struct error err;

/* WORDS ends with NULL. */
static const char *complaint(const char *usage, const char *const *words)
{
    size_t count = 0;

    while (words[count] != NULL)
        count++;
    err = (struct error)ERROR_INIT;
    return usage_check(usage, words, count, &err) < 0 ? err.text : "";
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NONE ((const char *const[]){ NULL })

TEST(what_is_missing_is_named)
{
    CHECK_STR(complaint("RUN [REQUEST] ANSWER", NONE), "RUN is missing");
    CHECK_STR(complaint("RUN [REQUEST] ANSWER", WORDS("r")), "ANSWER is missing");
    CHECK_STR(complaint("RUN [REQUEST] ANSWER", WORDS("r", "a")), "");
    CHECK_STR(complaint("RUN [--] COMMAND...", WORDS("r")), "COMMAND is missing");
    CHECK_STR(complaint("", NONE), "");
    CHECK_STR(complaint("[RUN]", NONE), "");
}

TEST(a_verb_has_words_of_its_own)
{
    static const char usage[] = "set NAME | list | rename ID NAME";

    CHECK_STR(complaint(usage, NONE), "what to do is missing: set, list, rename");
    CHECK_STR(complaint(usage, WORDS("set")), "NAME is missing");
    CHECK_STR(complaint(usage, WORDS("rename", "x")), "NAME is missing");
    CHECK_STR(complaint(usage, WORDS("list")), "");
    CHECK_STR(complaint(usage, WORDS("list", "x")), "too many words from \"x\" on");
    CHECK_STR(complaint(usage, WORDS("re", "x")), "there is no \"re\" here: set, list, rename");
    CHECK_STR(complaint(usage, WORDS("", "x")), "there is no \"\" here: set, list, rename");
}

/* So that a new command's mistakes are named, too. */
TEST(every_command_says_by_its_usage_line_what_it_needs)
{
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const struct ctl_command *command = command_at(i);

        if (command->rules.min_words > 0)
            CHECK(complaint(command->words, NONE)[0] != '\0');
        else
            CHECK_STR(complaint(command->words, NONE), "");
    }
}
