#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"
#include "harness/test.h"
#include "harness/tmp.h"
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

TEST(a_short_statistic_is_read_and_hostile_output_does_no_harm)
{
    static const struct {
        const char *text;
        struct git_stat stat;
    } cases[] = {
        { " 3 files changed, 13 insertions(+), 1 deletion(-)\n", { 3, 13, 1 } },
        { " 1 file changed, 2 deletions(-)\n", { 1, 0, 2 } },
        { " 1 file changed, 0 insertions(+), 0 deletions(-)\n", { 1, 0, 0 } },
        { "", { 0, 0, 0 } },
        { " file", { 0, 0, 0 } },
        { "x file, -4 insertions", { 0, 4, 0 } },
    };
    struct git_stat stat;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf buf = output(cases[i].text, strlen(cases[i].text));

        git_parse_shortstat(&buf, &stat);
        CHECK_EQ(stat.files, cases[i].stat.files);
        CHECK_EQ(stat.insertions, cases[i].stat.insertions);
        CHECK_EQ(stat.deletions, cases[i].stat.deletions);
        buf_finish(&buf);
    }
}

TEST(a_number_without_end_does_no_harm)
{
    struct git_stat stat;
    struct buf buf = output("99999999999999999999999 files", 29);

    git_parse_shortstat(&buf, &stat);
    CHECK(stat.files > 0);
    buf_finish(&buf);
}

TEST(names_are_counted_by_their_ends)
{
    CHECK_EQ(git_count_names("a\0b\nc\0", 6), (uint64_t)2);
    CHECK_EQ(git_count_names("", 0), (uint64_t)0);
}

/* Whatever is a stranger's comes behind what ends the options, or as an argument of a script. */
TEST(addresses_and_names_stand_where_git_takes_no_options)
{
    struct repository repository = { .kind = REPOSITORY_URL };
    struct git_base base = { .kind = GIT_BASE_BRANCH, .format = "sha1" };
    struct git_command command;

    repository.url = mem_strdup("https://github.com/a/b");
    base.source = mem_strdup("refs/heads/main");
    base.target = mem_strdup("refs/remotes/origin/main");
    base.name = mem_strdup("main");
    base.head_branch = mem_strdup("main");
    git_ask(&command, repository.url);
    CHECK_STR(command.argv[command.argc - 2], "--");
    CHECK_STR(command.argv[command.argc - 1], "https://github.com/a/b");
    CHECK(command.argv[command.argc] == NULL);
    git_command_finish(&command);
    git_clone_base(&command, &base, "blob:none", "/workspace/b");
    CHECK_STR(command.argv[command.argc - 3], "--");
    CHECK_STR(command.argv[command.argc - 1], "+refs/heads/main:refs/remotes/origin/main");
    git_command_finish(&command);
    git_clone_init(&command, &repository, &base, "", "/workspace/b");
    CHECK_STR(command.argv[command.argc - 2], "https://github.com/a/b");
    CHECK_STR(command.argv[0], "sh");
    CHECK(strstr(command.argv[2], "github") == NULL);
    git_command_finish(&command);
    git_base_finish(&base);
    repository_finish(&repository);
}

TEST(what_git_says_of_a_failed_clone_becomes_a_reason_and_a_hint)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        { "fatal: couldn't find remote ref refs/heads/x", "branch_not_found" },
        { "fatal: unable to access 'x': The requested URL returned error: 301", "moved" },
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
    git_config_write(&text, &(struct git_settings){ .name = "A \"B\"",
                                                    .email = "a@a.invalid",
                                                    .routes = routes,
                                                    .route_count = 1,
                                                    .proxy_base = "http://127.0.0.1:4999/proxy/",
                                                    .basic_credentials = "QUJD" });
    CHECK(strstr(
              buf_text(&text),
              "[url \"http://127.0.0.1:4999/proxy/github/\"]\n\tinsteadOf = https://github.com/") !=
          NULL);
    CHECK(strstr(buf_text(&text), "extraHeader = Authorization: Basic QUJD") != NULL);
    buf_finish(&text);
}

/* The exit code of the command, run here. */
static int run_here(struct git_command *command)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execvp(command->argv[0], command->argv);
        _exit(127);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    git_command_finish(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int name_clone(const char *from, const char *to, const char *owner)
{
    struct git_command command;

    git_name_clone(&command, from, to, owner);
    return run_here(&command);
}

TEST(a_clone_gets_its_name_once_and_takes_nobody_elses)
{
    const char *to = tmp_path("name");
    const char *from = tmp_subdir("staging");
    struct stat info;

    tmp_subdir("staging/.git");
    CHECK_EQ(name_clone(from, to, "run_1"), 0);
    CHECK_EQ(stat(from, &info), -1);
    CHECK_EQ(stat(to, &info), 0);
    /* The step is repeated after a kill, with a fresh clone. */
    tmp_subdir("staging");
    tmp_subdir("staging/.git");
    CHECK_EQ(name_clone(from, to, "run_1"), 0);
    CHECK_EQ(stat(from, &info), -1);
    /* Another's is not taken, nor a file, nor a link. */
    tmp_subdir("staging");
    tmp_subdir("staging/.git");
    CHECK_EQ(name_clone(from, to, "run_2"), 1);
    CHECK_EQ(name_clone(from, tmp_file("file", "", 0, 0600), "run_1"), 1);
    CHECK_EQ(symlink("/nowhere", tmp_path("link")), 0);
    CHECK_EQ(name_clone(from, tmp_path("link"), "run_1"), 1);
    CHECK_EQ(stat(from, &info), 0);
}
