#include "workspace/workspace.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"

void git_command_finish(struct git_command *command)
{
    for (size_t i = 0; i < command->argc; i++)
        free(command->argv[i]);
    *command = (struct git_command){ .argc = 0 };
}

/* Strings up to a NULL are appended; the list always ends with NULL. */
static void add(struct git_command *command, ...)
{
    va_list ap;
    const char *arg;

    va_start(ap, command);
    while ((arg = va_arg(ap, const char *)) != NULL) {
        BUG_ON(command->argc + 1 >= GIT_ARGV_MAX);
        command->argv[command->argc++] = mem_strdup(arg);
    }
    va_end(ap);
    command->argv[command->argc] = NULL;
}

/* git with what a hostile repository could make it run switched off. It runs inside the sandbox in
 * any case; this keeps the evidence from depending on the agent's settings. */
static void add_git(struct git_command *command, const char *folder)
{
    add(command, "git", "-C", folder, "-c", "core.hooksPath=/dev/null", "-c",
        "core.fsmonitor=false", "-c", "core.quotePath=true", "-c", "diff.external=", "-c",
        "gc.auto=0", NULL);
}

static void begin(struct git_command *command, const char *folder)
{
    *command = (struct git_command){ .argc = 0 };
    add_git(command, folder);
}

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

void git_config_write(struct buf *out, const struct git_route *routes, size_t count,
                      const char *proxy_base, const char *basic_credentials)
{
    buf_append_str(out, "[safe]\n\tdirectory = *\n"
                        "[user]\n\tname = Sandbox agent\n\temail = agent@sandbox.invalid\n"
                        "[init]\n\tdefaultBranch = main\n"
                        "[protocol \"ext\"]\n\tallow = never\n"
                        "[credential]\n\thelper =\n"
                        "[advice]\n\tdetachedHead = false\n");
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "[url \"%s\"]\n\tinsteadOf = %s\n", routes[i].to, routes[i].from);
    if (count > 0)
        buf_printf(out, "[http \"%s\"]\n\textraHeader = Authorization: Basic %s\n", proxy_base,
                   basic_credentials);
}

void git_clear_folder(struct git_command *command, const char *folder)
{
    *command = (struct git_command){ .argc = 0 };
    add(command, "find", folder, "-mindepth", "1", "-depth", "-delete", NULL);
}

void git_clone(struct git_command *command, const struct repository *repository, const char *branch,
               const char *folder)
{
    *command = (struct git_command){ .argc = 0 };
    add(command, "git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "clone",
        "--progress", "--no-local", "--origin", "origin", NULL);
    if (branch[0] != '\0')
        add(command, "--branch", branch, NULL);
    add(command, "--", repository->url, folder, NULL);
}

void git_remove_folder(struct git_command *command, const char *folder)
{
    *command = (struct git_command){ .argc = 0 };
    add(command, "rm", "-rf", "--", folder, NULL);
}

void git_name_clone(struct git_command *command, const char *from, const char *to,
                    const char *owner)
{
    static const char script[] =
        "note=.git/sandbox-mcp-clone; "
        "if [ -e \"$2\" ] || [ -L \"$2\" ]; then "
        "grep -qsxF -e \"$3\" \"$2/$note\" && exec rm -rf -- \"$1\"; exit 1; fi; "
        "printf '%s\\n' \"$3\" >\"$1/$note\" && mv -T -- \"$1\" \"$2\"";

    *command = (struct git_command){ .argc = 0 };
    add(command, "sh", "-c", script, "sh", from, to, owner, NULL);
}

void git_init(struct git_command *command, const char *folder)
{
    *command = (struct git_command){ .argc = 0 };
    add(command, "git", "init", "--quiet", "--initial-branch=main", "--", folder, NULL);
}

void git_first_commit(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "commit", "--quiet", "--allow-empty", "-m", "Start", NULL);
}

void git_head(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", NULL);
}

void git_branch(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "symbolic-ref", "--quiet", "--short", "HEAD", NULL);
}

void git_empty_tree(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "hash-object", "-w", "-t", "tree", "/dev/null", NULL);
}

void git_count_commits(struct git_command *command, const char *folder, const char *base)
{
    AUTO_FREE
    char *range = mem_printf("%s..HEAD", base);

    begin(command, folder);
    add(command, "rev-list", "--count", range, "--", NULL);
}

void git_read_head_tree(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "read-tree", "HEAD", NULL);
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
    add(command, "sh", "-c", script, "sh", folder, NULL);
    add_git(command, folder);
    add(command, "add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul",
        NULL);
}

void git_write_tree(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "write-tree", NULL);
}

void git_untracked(struct git_command *command, const char *folder)
{
    begin(command, folder);
    add(command, "ls-files", "--others", "--exclude-standard", "-z", NULL);
}

/* A submodule is its commit's name. Without these git reads the settings of submodules, and gives
 * up at one that it finds wrong. */
#define GIT_WHOLE_SUBMODULES "--ignore-submodules=none", "--submodule=short"

void git_shortstat(struct git_command *command, const char *folder, const char *base,
                   const char *tree)
{
    begin(command, folder);
    add(command, "diff", "--no-ext-diff", "--no-textconv", "--no-renames", GIT_WHOLE_SUBMODULES,
        "--shortstat", base, tree, "--", NULL);
}

void git_patch(struct git_command *command, const char *folder, const char *base, const char *tree)
{
    begin(command, folder);
    add(command, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary",
        "--find-renames", GIT_WHOLE_SUBMODULES, "--src-prefix=a/", "--dst-prefix=b/", base, tree,
        "--", NULL);
}

void git_parse_object(const struct buf *output, char to[65])
{
    size_t len = 0;

    while (len < output->len && len < 65 && isxdigit((unsigned char)output->data[len]))
        len++;
    if ((len != 40 && len != 64) || (output->len > len && output->data[len] != '\n'))
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

struct clone_symptom {
    const char *words;
    const char *reason;
    const char *hint;
};

void git_clone_diagnose(const char *stderr_text, bool local, const char **reason, const char **hint)
{
    static const struct clone_symptom symptoms[] = {
        { "Remote branch", "branch_not_found",
          "the argument `branch` names no branch or tag of that repository" },
        { "could not read Username", "denied",
          "the repository is private or does not exist; store a credential: sandboxctl secret set "
          "GITHUB_TOKEN" },
        { "Authentication failed", "denied",
          "the stored credential was refused; check it: sandboxctl secret set GITHUB_TOKEN" },
        { "returned error: 401", "denied",
          "the repository is private or does not exist; store a credential: sandboxctl secret set "
          "GITHUB_TOKEN" },
        { "returned error: 403", "denied", "the request was refused; see sandboxctl audit" },
        { "returned error: 404", "not_found", "check the argument `repository`" },
        { "not found", "not_found", "check the argument `repository`" },
        { "returned error: 5", "unreachable",
          "the git server could not be reached; try again later" },
        { "unable to access", "unreachable",
          "the git server could not be reached; try again later" },
        { "Permission denied", "denied",
          "the folder's files can't be read by the sandbox; make them readable for others, or "
          "clone "
          "from a URL" },
        { "does not appear to be a git repository", "not_git",
          "the argument `repository` names no git repository" },
        { "not a git repository", "not_git", "the argument `repository` names no git repository" },
        { "not valid: is this a git repository", "not_git",
          "the argument `repository` names no git repository" },
        { "No space left", "disk_full", "free some disk space" },
    };

    for (size_t i = 0; i < ARRAY_LEN(symptoms); i++) {
        if (strcasestr(stderr_text, symptoms[i].words) != NULL) {
            *reason = symptoms[i].reason;
            *hint = symptoms[i].hint;
            return;
        }
    }
    *reason = "failed";
    *hint =
        local ? "check the argument `repository`" : "check the arguments `repository` and `branch`";
}
