#include "ctl/complete.h"

#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "harness/test.h"

static struct buf found;

static void finish(void *data)
{
    (void)data;
    buf_finish(&found);
}

static void each(void *data, const char *word, const char *help)
{
    (void)data;
    (void)help;
    buf_printf(&found, "%s ", word);
}

/* WORDS with spaces between; the last one may be empty. */
static unsigned complete(const char *text)
{
    const char *words[16];
    char *copy = mem_strdup(text);
    size_t count = 0;
    unsigned ids;

    buf_finish(&found);
    buf_init(&found, 1u << 16);
    test_defer(finish, NULL);
    for (char *at = copy; at != NULL; count++) {
        char *space = strchr(at, ' ');

        words[count] = at;
        if (space != NULL)
            *space++ = '\0';
        at = space;
    }
    ids = complete_words(words, count, each, NULL);
    free(copy);
    return ids;
}

TEST(commands_are_offered_first)
{
    CHECK_EQ(complete("se"), COMPLETE_NO_IDS);
    CHECK_HAS(buf_text(&found), "secret ");
    CHECK_HAS(buf_text(&found), "services ");
    CHECK(strstr(buf_text(&found), "complete ") == NULL);
    complete("--json can");
    CHECK_STR(buf_text(&found), "cancel ");
}

TEST(a_run_is_wanted_where_the_usage_line_says_so)
{
    CHECK_EQ(complete("get "), COMPLETE_RUNS);
    CHECK_STR(buf_text(&found), "last ");
    CHECK_EQ(complete("diff "), COMPLETE_RUNS | COMPLETE_SESSIONS);
    CHECK_EQ(complete("rm "), COMPLETE_SESSIONS);
    CHECK_EQ(complete("get run_1 "), COMPLETE_NO_IDS);
    CHECK_EQ(complete("logs -n 3 "), COMPLETE_RUNS);
}

TEST(options_are_those_of_the_command)
{
    complete("get --");
    CHECK_HAS(buf_text(&found), "--json ");
    CHECK(strstr(buf_text(&found), "--follow ") == NULL);
    complete("list --status c");
    CHECK_STR(buf_text(&found), "completed cancelled ");
    CHECK_EQ(complete("run --session "), COMPLETE_SESSIONS);
    CHECK_EQ(complete("run --repo "), COMPLETE_FILES);
    CHECK_EQ(complete("run --agent "), COMPLETE_AGENTS);
    CHECK_EQ(complete("run --title "), COMPLETE_NO_IDS);
    CHECK_STR(buf_text(&found), "");
}

TEST(verbs_are_offered_and_what_follows_each)
{
    complete("secret ");
    CHECK_STR(buf_text(&found), "set list rm ");
    CHECK_EQ(complete("secret rm "), COMPLETE_SECRETS);
    CHECK_EQ(complete("secret list "), COMPLETE_NO_IDS);
    complete("session r");
    CHECK_STR(buf_text(&found), "rename restore release rm ");
    CHECK_EQ(complete("session get "), COMPLETE_SESSIONS);
    complete("completion ");
    CHECK_STR(buf_text(&found), "bash zsh fish ");
}

TEST(nonsense_has_no_completion)
{
    CHECK_EQ(complete("nonsense "), COMPLETE_NO_IDS);
    CHECK_STR(buf_text(&found), "");
    CHECK_EQ(complete(""), COMPLETE_NO_IDS);
    CHECK_HAS(buf_text(&found), "status ");
}
