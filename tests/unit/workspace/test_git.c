#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "workspace/workspace.h"

static struct buf output(const char *data, size_t len)
{
    struct buf buf;

    buf_init(&buf, 1u << 16);
    buf_append(&buf, data, len);
    return buf;
}

TEST(an_object_name_is_taken_only_whole)
{
    static const struct {
        const char *text;
        const char *want;
    } cases[] = {
        { "0123456789abcdef0123456789abcdef01234567\n",
          "0123456789abcdef0123456789abcdef01234567" },
        { "0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567" },
        { "0123456789abcdef0123456789abcdef0123456\n", "" },
        { "0123456789abcdef0123456789abcdef01234567x", "" },
        { "--upload-pack=x", "" },
        { "", "" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf buf = output(cases[i].text, strlen(cases[i].text));
        char object[65];

        git_parse_object(&buf, object);
        CHECK_STR(object, cases[i].want);
        buf_finish(&buf);
    }
}

TEST(numstat_is_summed_and_hostile_output_does_no_harm)
{
    static const char good[] = "3\t1\tsrc/a.c\0"
                               "10\t0\tb\nodd name\0"
                               "-\t-\tbinary\0";
    static const char *const odd[] = { "",        "\t",  "9",   "99999999999999999999999\t1\tx",
                                       "a\tb\tc", "1\t", "\0\0" };
    struct git_stat stat;
    struct buf buf = output(good, sizeof(good) - 1);

    git_parse_numstat(&buf, &stat);
    CHECK_EQ(stat.files, (uint64_t)3);
    CHECK_EQ(stat.insertions, (uint64_t)13);
    CHECK_EQ(stat.deletions, (uint64_t)1);
    buf_finish(&buf);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        buf = output(odd[i], strlen(odd[i]) + 1);
        git_parse_numstat(&buf, &stat);
        CHECK(stat.files < 4);
        buf_finish(&buf);
    }
}

TEST(a_clone_command_keeps_the_address_behind_the_dashes)
{
    struct repository repository = { .kind = REPOSITORY_URL };
    struct git_command command;
    size_t dashes = 0;

    repository.url = mem_strdup("https://github.com/a/b");
    git_clone(&command, &repository, "main", "/workspace/b");
    for (size_t i = 0; i < command.argc; i++) {
        if (str_equal(command.argv[i], "--"))
            dashes = i;
    }
    CHECK_EQ(dashes, command.argc - 3);
    CHECK_STR(command.argv[dashes + 1], "https://github.com/a/b");
    CHECK(command.argv[command.argc] == NULL);
    git_command_finish(&command);
    repository_finish(&repository);
}

TEST(what_git_says_of_a_failed_clone_becomes_a_reason_and_a_hint)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        { "fatal: Remote branch nope not found in upstream origin", "branch_not_found" },
        { "fatal: could not read Username for 'http://127.0.0.1:4999': terminal prompts disabled",
          "denied" },
        { "remote: Repository not found.\nfatal: repository 'x' not found", "not_found" },
        { "fatal: unable to access 'x': The requested URL returned error: 502", "unreachable" },
        { "something else", "failed" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *reason;
        const char *hint;

        git_clone_diagnose(cases[i].text, false, &reason, &hint);
        CHECK_STR(reason, cases[i].reason);
        CHECK(hint[0] != '\0');
    }
}

TEST(the_sandboxs_git_configuration_sends_addresses_to_the_proxy)
{
    static const struct git_route routes[] = { { "https://github.com/",
                                                 "http://127.0.0.1:4999/proxy/github/" } };
    struct buf text;

    buf_init(&text, 1u << 16);
    git_config_write(&text, routes, 1, "http://127.0.0.1:4999/proxy/", "QUJD");
    CHECK(strstr(
              buf_text(&text),
              "[url \"http://127.0.0.1:4999/proxy/github/\"]\n\tinsteadOf = https://github.com/") !=
          NULL);
    CHECK(strstr(buf_text(&text), "extraHeader = Authorization: Basic QUJD") != NULL);
    buf_finish(&text);
}
