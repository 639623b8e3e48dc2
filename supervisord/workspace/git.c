/* git.c: the environment and settings of git inside a sandbox, and the commands that establish what
 * a run did. */
#include "workspace/workspace.h"

#include <ctype.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "workspace/git_command.h"

#define GIT_COMMON_ENV                                                                             \
    "HOME=/home/agent", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8",     \
        "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_CONFIG_GLOBAL=/dev/null",          \
        "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_LFS_SKIP_SMUDGE=1",                          \
        "GIT_NO_REPLACE_OBJECTS=1"

const char *const *git_environment(void)
{
    static const char *const env[] = { GIT_COMMON_ENV, NULL };

    return env;
}

const char *const *git_environment_scratch(void)
{
    static const char *const env[] = { GIT_COMMON_ENV, "GIT_INDEX_FILE=/tmp/.sandbox-mcp-index",
                                       NULL };

    return env;
}

/* A value as git's configuration has it in quotation marks. */
static void quote(struct buf *out, const char *value)
{
    buf_append_char(out, '"');
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            buf_append_char(out, '\\');
        buf_append_char(out, *value);
    }
    buf_append_char(out, '"');
}

void git_config_write(struct buf *out, const struct git_settings *settings)
{
    buf_append_str(out, "[safe]\n\tdirectory = *\n[user]\n\tname = ");
    quote(out, settings->name);
    buf_append_str(out, "\n\temail = ");
    quote(out, settings->email);
    buf_append_str(out, "\n[init]\n\tdefaultBranch = main\n"
                        "[push]\n\tautoSetupRemote = true\n"
                        "[protocol \"ext\"]\n\tallow = never\n"
                        "[credential]\n\thelper =\n"
                        "[advice]\n\tdetachedHead = false\n");
    for (size_t i = 0; i < settings->route_count; i++)
        buf_printf(out, "[url \"%s\"]\n\tinsteadOf = %s\n", settings->routes[i].to,
                   settings->routes[i].from);
    if (settings->route_count > 0)
        buf_printf(out, "[http \"%s\"]\n\textraHeader = Authorization: Basic %s\n",
                   settings->proxy_base, settings->basic_credentials);
}

void git_head(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", NULL);
}

void git_branch(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "symbolic-ref", "--quiet", "--short", "HEAD", NULL);
}

void git_empty_tree(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "hash-object", "-w", "-t", "tree", "/dev/null", NULL);
}

void git_count_commits(struct git_command *command, const char *folder, const char *base)
{
    AUTO_FREE
    char *range = mem_printf("%s..HEAD", base);

    git_command_begin(command, folder);
    git_command_add(command, "rev-list", "--count", range, "--", NULL);
}

void git_read_head_tree(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "read-tree", "HEAD", NULL);
}

void git_stage_all(struct git_command *command, const char *folder)
{
    /* A sparse file has any size and costs nothing, but git would read all of it. */
    static const char script[] =
        "large() { find \"$folder\" -name .git -prune -o -type f -size +262144k \"$@\" "
        "2>/dev/null; }; "
        "folder=$1; shift; "
        "large -printf x | wc -c; "
        "{ printf '.\\0'; large -printf ':(exclude,literal)%P\\0'; } | \"$@\"";

    *command = (struct git_command){ .argc = 0 };
    git_command_add(command, "sh", "-c", script, "sh", folder, NULL);
    git_command_add_git(command, folder);
    git_command_add(command, "add", "--all", "--ignore-errors", "--pathspec-from-file=-",
                    "--pathspec-file-nul", NULL);
}

void git_write_tree(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "write-tree", NULL);
}

void git_untracked(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "ls-files", "--others", "--exclude-standard", "-z", NULL);
}

/* A submodule is its commit's name. Without these git reads the settings of submodules, and gives
 * up at one that it finds wrong. */
#define GIT_WHOLE_SUBMODULES "--ignore-submodules=none", "--submodule=short"

void git_shortstat(struct git_command *command, const char *folder, const char *base,
                   const char *tree)
{
    git_command_begin(command, folder);
    git_command_add(command, "diff", "--no-ext-diff", "--no-textconv", "--no-renames",
                    GIT_WHOLE_SUBMODULES, "--shortstat", base, tree, "--", NULL);
}

void git_kinds(struct git_command *command, const char *folder, const char *base, const char *tree)
{
    git_command_begin(command, folder);
    git_command_add(command, "diff", "--no-ext-diff", "--no-textconv", "--find-renames",
                    GIT_WHOLE_SUBMODULES, "--raw", "--numstat", "-z", base, tree, "--", NULL);
}

void git_read_back(struct git_command *command, const char *url, const char *branch)
{
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", branch);

    git_command_init(command);
    git_command_add(command, "git", "-C", "/", "-c", "http.followRedirects=false", "ls-remote",
                    "--", url, ref, NULL);
}

void git_patch(struct git_command *command, const char *folder, const char *base, const char *tree)
{
    git_command_begin(command, folder);
    git_command_add(command, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary",
                    "--find-renames", GIT_WHOLE_SUBMODULES, "--src-prefix=a/", "--dst-prefix=b/",
                    base, tree, "--", NULL);
}

void git_parse_object(const struct buf *output, char to[65])
{
    size_t len = 0;

    while (len < output->len && len < 65 && isxdigit((unsigned char)output->data[len]))
        len++;
    if ((len != 40 && len != 64) ||
        (output->len > len && output->data[len] != '\n' && output->data[len] != '\t'))
        len = 0;
    if (len > 0)
        memcpy(to, output->data, len);
    to[len] = '\0';
}

void git_parse_line(const struct buf *output, char *to, size_t size)
{
    const char *text = buf_text(output);
    AUTO_BUF struct buf escaped;

    buf_init(&escaped, size * 8);
    str_append_escaped(&escaped, text, strcspn(text, "\n"), size - 1);
    str_copy(to, size, buf_text(&escaped));
}

/* The number that stands before WORD in TEXT; 0 without one. */
static uint64_t number_before(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    const char *start = at;
    uint64_t value = 0;

    while (start != NULL && start > text && isdigit((unsigned char)start[-1]))
        start--;
    for (; start != NULL && start < at && value < UINT64_MAX / 10 - 10; start++)
        value = value * 10 + (uint64_t)(*start - '0');
    return value;
}

void git_parse_shortstat(const struct buf *output, struct git_stat *stat)
{
    const char *text = buf_text(output);

    stat->files = number_before(text, " file");
    stat->insertions = number_before(text, " insertion");
    stat->deletions = number_before(text, " deletion");
}

uint64_t git_parse_count(const struct buf *output)
{
    AUTO_FREE
    char *line = mem_strndup(buf_text(output), strcspn(buf_text(output), "\n"));
    uint64_t value = 0;

    return str_parse_u64(line, UINT32_MAX, &value) ? value : 0;
}

uint64_t git_count_names(const char *bytes, size_t len)
{
    uint64_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += bytes[i] == '\0';
    return count;
}
