#include "workspace/outgoing.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"
#include "workspace/git_script.h"

#define PATH_BYTES 4096

int outgoing_check_path(const char *path, struct error *err)
{
    if (strlen(path) > PATH_BYTES)
        return error_argument(err, "path", "is too long");
    for (const char *part = path; *path != '\0';) {
        size_t len = strcspn(part, "/");

        if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && strncmp(part, "..", 2) == 0))
            return error_argument(err, "path",
                                  "must be relative to the workspace, without . and .. in it");
        if (part[len] == '\0')
            break;
        part += len + 1;
    }
    return 0;
}

static char *below(const char *path)
{
    return path[0] != '\0' ? mem_printf("./%s", path) : mem_strdup(".");
}

void outgoing_list(struct git_command *command, const char *folder, const char *path)
{
    static const char script[] =
        "cd -- \"$1\" || exit 3; [ -e \"$2\" ] || [ -L \"$2\" ] || exit 3; "
        "find \"$2\" -name .git -prune -o ! -path . -printf '%y %s %Ts %p\\0' 2>/dev/null; exit 0";
    AUTO_FREE
    char *start = below(path);
    const char *const args[] = { folder, start, NULL };

    git_script(command, script, args);
}

void outgoing_file(struct git_command *command, const char *folder, const char *path)
{
    static const char script[] = "cd -- \"$1\" || exit 3; "
                                 "[ -e \"$2\" ] || exit 3; [ -f \"$2\" ] || exit 4; "
                                 "exec cat \"$2\"";
    AUTO_FREE
    char *file = below(path);
    const char *const args[] = { folder, file, NULL };

    git_script(command, script, args);
}

/* Links stay links, and nobody's rights go along. A file that changes meanwhile is tar's 1. */
void outgoing_tar(struct git_command *command, const char *folder, const char *path)
{
    static const char script[] =
        "cd -- \"$1\" || exit 3; [ -e \"$2\" ] || [ -L \"$2\" ] || exit 3; "
        "tar --create --file=- --format=pax --exclude=.git --owner=0 --group=0 --numeric-owner "
        "--mode=u-s,g-s,o-t --warning=no-file-changed --warning=no-file-ignored \"$2\"; "
        "code=$?; [ $code -eq 1 ] && code=0; exit $code";
    AUTO_FREE
    char *start = below(path);
    const char *const args[] = { folder, start, NULL };

    git_script(command, script, args);
}

void outgoing_bundle(struct git_command *command, const char *folder, const char *have)
{
    static const char script[] = GIT_SCRIPT_FUNCTION
        "cd -- \"$1\" || exit 3; less=; "
        "for one in $2; do g cat-file -e \"$one^{commit}\" 2>/dev/null && less=\"$less ^$one\"; "
        "done; "
        "[ \"$(g rev-list --count HEAD $less --)\" = 0 ] && exit 6; "
        "g bundle create --quiet - HEAD $less";
    const char *const args[] = { folder, have, NULL };

    git_script(command, script, args);
}

void outgoing_patch(struct git_command *command, const char *folder, const char *base,
                    const char *path, const char *renames)
{
    /* Index and objects of its own; a large file is left out, as in a run's evidence. */
    static const char script[] = GIT_SCRIPT_FUNCTION
        "cd -- \"$1\" || exit 3; "
        "GIT_ALTERNATE_OBJECT_DIRECTORIES=$(g rev-parse --path-format=absolute --git-path objects) "
        "|| exit 3; "
        "export GIT_ALTERNATE_OBJECT_DIRECTORIES; "
        "export GIT_INDEX_FILE=/tmp/.sandbox-mcp-index "
        "GIT_OBJECT_DIRECTORY=/tmp/.sandbox-mcp-objects; "
        "mkdir -p \"$GIT_OBJECT_DIRECTORY\" && g read-tree HEAD || exit 5; "
        "{ printf '.\\0'; find . -name .git -prune -o -type f -size +262144k "
        "-printf ':(exclude,literal)%P\\0'; } | "
        "g add --all --ignore-errors --pathspec-from-file=- --pathspec-file-nul 2>/dev/null; "
        "tree=$(g write-tree) || exit 5; "
        "exec git -c core.quotePath=true -c diff.external= diff --no-ext-diff --no-textconv "
        "--no-color --binary \"$4\" --ignore-submodules=none --submodule=short "
        "--src-prefix=a/ --dst-prefix=b/ \"$2\" \"$tree\" -- \"$3\"";
    AUTO_FREE
    char *pathspec = path[0] != '\0' ? mem_printf(":(literal)%s", path) : mem_strdup(".");
    const char *const args[] = { folder, base, pathspec, renames, NULL };

    git_script(command, script, args);
}
