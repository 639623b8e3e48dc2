#include "ctl/bring.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/git_here.h"
#include "ctl/merge.h"
#include "ctl/program.h"

#define OUTPUT_MAX (1u << 20)
#define BUNDLE_HEAD_MAX (1u << 20)
#define PATCH_MAX (256u << 20)

extern char **environ;

/* Programs
 * -------------------------------------------------------------------------------------------- */

static int git(const char *top, const char *const *args, enum git_here_capture capture,
               struct buf *out, struct error *err)
{
    const struct git_here where = { .folder = top };

    return git_here(&where, args, capture, out, err);
}

/* Repository
 * ------------------------------------------------------------------------------------------ */

int bring_find_repository(struct buf *top, struct error *err)
{
    static const char *const args[] = { "rev-parse", "--show-toplevel", NULL };
    int code = git(NULL, args, GIT_HERE_OUT, top, err);

    if (code < 0)
        return -1;
    git_here_cut_line(top);
    return code == 0 && top->len > 0
               ? 0
               : error_set(err, ERR_CONFLICT, 0,
                           "the current folder is in no git work tree; go to the repository that "
                           "the work is for");
}

int bring_list_tips(const char *top, struct buf *tips, struct error *err)
{
    static const char *const args[] = { "for-each-ref",
                                        "--count=250",
                                        "--sort=-committerdate",
                                        "--format=%(objectname)",
                                        "refs/heads",
                                        "refs/remotes",
                                        NULL };

    return git(top, args, GIT_HERE_OUT, tips, err) < 0 ? -1 : 0;
}

int bring_check_branch(const char *top, const char *branch, bool *there, struct error *err)
{
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", branch);
    const char *const check[] = { "check-ref-format", "--branch", branch, NULL };
    const char *const show[] = { "show-ref", "--verify", "--quiet", ref, NULL };
    AUTO_BUF struct buf out = BUF_INIT(4096);
    int code = branch[0] == '-' ? 1 : git(top, check, GIT_HERE_ALL, &out, err);

    if (code < 0)
        return -1;
    if (code != 0)
        return error_argument(err, "branch", "no name that git takes; give one with --branch");
    code = git(top, show, GIT_HERE_ALL, &out, err);
    *there = code == 0;
    return code < 0 ? -1 : 0;
}

/* Bundles
 * --------------------------------------------------------------------------------------------- */

static bool is_object(const char *text)
{
    size_t len = strspn(text, "0123456789abcdef");

    return (len == 40 || len == 64) && text[len] == '\0';
}

static int check_made(const char *top, const char *branch, const char *commit, struct error *err)
{
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", branch);
    const char *const args[] = { "rev-parse", "--verify", "--quiet", ref, NULL };
    AUTO_BUF struct buf out = BUF_INIT(4096);
    int code = git(top, args, GIT_HERE_OUT, &out, err);

    if (code < 0)
        return -1;
    git_here_cut_line(&out);
    return code == 0 && str_equal(buf_text(&out), commit)
               ? 0
               : error_set(err, ERR_CONFLICT, 0, "the branch is not what the session said");
}

/* Where the objects begin: behind the empty line that ends the list of names. */
static int seek_objects(int fd, struct error *err)
{
    AUTO_FREE
    char *head = mem_new_zero(1, BUNDLE_HEAD_MAX + 1);
    ssize_t got = pread(fd, head, BUNDLE_HEAD_MAX, 0);
    const char *end = got > 0 ? memmem(head, (size_t)got, "\n\n", 2) : NULL;

    if (end == NULL || lseek(fd, end + 2 - head, SEEK_SET) < 0)
        return error_set(err, ERR_CONFLICT, 0, "what came is no bundle");
    return 0;
}

/* git's own fetch doesn't look into a bundle's objects, whatever the settings say. So they are
 * unpacked once beside the bundle, strictly, before git may take them. */
static int check_objects(const char *top, const char *bundle, struct error *err)
{
    AUTO_FREE
    char *pack = mem_printf("%s.pack", bundle);
    AUTO_FREE
    char *names = mem_printf("%s.idx", bundle);
    AUTO_FREE
    char *reverse = mem_printf("%s.rev", bundle);
    const char *const args[] = { "index-pack", "--stdin", "--fix-thin", "--strict",
                                 "-o",         names,     pack,         NULL };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    AUTO_CLOSE
    int fd = open(bundle, O_RDONLY | O_CLOEXEC);
    const struct git_here where = { .folder = top, .input = fd };
    int code;

    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open %s", bundle);
    if (seek_objects(fd, err) < 0)
        return -1;
    code = git_here(&where, args, GIT_HERE_ALL, &out, err);
    unlink(pack);
    unlink(names);
    unlink(reverse);
    if (code < 0)
        return -1;
    return code > 0 ? git_here_failed(ERR_CONFLICT, "git does not take the commits", &out, err) : 0;
}

int bring_bundle(const char *top, const char *bundle, const char *branch, const char *commit,
                 struct error *err)
{
    AUTO_FREE
    char *wanted = mem_printf("%s HEAD", commit);
    AUTO_FREE
    char *refspec = mem_printf("HEAD:refs/heads/%s", branch);
    const char *const verify[] = { "bundle", "verify", "--quiet", bundle, NULL };
    const char *const heads[] = { "bundle", "list-heads", bundle, NULL };
    const char *const fetch[] = { "fetch",
                                  "--quiet",
                                  "--no-tags",
                                  "--no-recurse-submodules",
                                  "--no-write-fetch-head",
                                  "--refmap=",
                                  "--",
                                  bundle,
                                  refspec,
                                  NULL };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    int code = git(top, verify, GIT_HERE_ALL, &out, err);

    if (code > 0)
        return git_here_failed(ERR_CONFLICT, "the commits don't fit this repository", &out, err);
    buf_clear(&out);
    if (code == 0)
        code = git(top, heads, GIT_HERE_OUT, &out, err);
    if (code < 0)
        return -1;
    if (out.len > 0 && out.data[out.len - 1] == '\n')
        out.data[--out.len] = '\0';
    if (code > 0 || !is_object(commit) || !str_equal(buf_text(&out), wanted))
        return error_set(err, ERR_CONFLICT, 0, "what came is not the session's commit");
    buf_clear(&out);
    if (check_objects(top, bundle, err) < 0)
        return -1;
    code = git(top, fetch, GIT_HERE_ALL, &out, err);
    if (code < 0)
        return -1;
    if (code > 0)
        return git_here_failed(ERR_CONFLICT,
                               "git does not take the commits (a branch is only moved forward, and "
                               "not while it is checked out)",
                               &out, err);
    return check_made(top, branch, commit, err);
}

int bring_known(const char *top, const char *branch, const char *commit, struct error *err)
{
    AUTO_FREE
    char *ref = mem_printf("refs/heads/%s", branch);
    const char *const ancestor[] = { "merge-base", "--is-ancestor", ref, commit, NULL };
    const char *const make[] = { "branch", "--no-track", "--", branch, commit, NULL };
    const char *const move[] = { "branch", "--no-track", "--force", "--", branch, commit, NULL };
    const char *const *args = make;
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    int code;

    if (!is_object(commit))
        return error_set(err, ERR_CONFLICT, 0, "the session has no commit");
    code = git(top, ancestor, GIT_HERE_ALL, &out, err);
    if (code < 0)
        return -1;
    if (code == 0) /* else there is none of the name, or git says that there is */
        args = move;
    buf_clear(&out);
    code = git(top, args, GIT_HERE_ALL, &out, err);
    if (code < 0)
        return -1;
    return code > 0 ? git_here_failed(ERR_CONFLICT, "the branch can't be made", &out, err)
                    : check_made(top, branch, commit, err);
}

/* Patches
 * --------------------------------------------------------------------------------------------- */

/* A part that git itself or another file system might take for its own folder. */
static bool part_allowed(const char *part, size_t len)
{
    if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0))
        return false;
    return strncasecmp(part, ".git", 4) != 0 ||
           (len != 4 && part[4] != ' ' && part[4] != '.' && part[4] != ':' && part[4] != '~');
}

static bool path_allowed(const char *path)
{
    if (strncasecmp(path, "git~", 4) == 0)
        return false;
    for (;;) {
        size_t len = strcspn(path, "/");

        if (!part_allowed(path, len))
            return false;
        if (path[len] == '\0')
            return true;
        path += len + 1;
    }
}

/* "12\t3\tPATH\0" each, and for a rename "12\t3\t\0OLD\0NEW\0". */
static int judge_paths(const struct buf *list, size_t *files, struct error *err)
{
    const char *at = list->data;
    const char *end = list->data + list->len;

    *files = 0;
    while (at < end) {
        const char *first = memchr(at, '\t', (size_t)(end - at));
        const char *second = first != NULL ? strchr(first + 1, '\t') : NULL;
        const char *path = second != NULL ? second + 1 : at;

        if (path[0] == '\0' && path + 1 < end) /* then two names follow */
            path++;
        if (!path_allowed(path)) {
            AUTO_BUF struct buf shown = BUF_INIT(1024);

            str_append_escaped(&shown, path, strlen(path), 150);
            return error_set(err, ERR_DENIED, 0, "the changes touch %s, which they must not",
                             buf_text(&shown));
        }
        at = path + strlen(path) + 1;
        (*files)++;
    }
    return 0;
}

static bool target_allowed(const char *line, size_t len)
{
    AUTO_FREE
    char *target = mem_strndup(line, len);

    if (target[0] == '/' || target[0] == '\0')
        return false;
    for (const char *part = target;; part++) {
        size_t part_len = strcspn(part, "/");

        if (part_len == 2 && strncmp(part, "..", 2) == 0)
            return false;
        part += part_len;
        if (*part == '\0')
            return true;
    }
}

/* Links that lead out of the tree, and submodules. A line of a file's own begins with a space, a
 * plus or a minus, so it is never taken for one of these. */
static int judge_links(const char *text, size_t len, struct error *err)
{
    const char *end = text + len;
    bool link = false;

    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        size_t line = line_end != NULL ? (size_t)(line_end - text) : (size_t)(end - text);
        AUTO_FREE
        char *head = mem_strndup(text, line < 200 ? line : 200);

        if (str_starts(head, "diff --git "))
            link = false;
        if ((str_starts(head, "new file mode ") || str_starts(head, "new mode ") ||
             str_starts(head, "index ")) &&
            str_ends(head, " 160000"))
            return error_set(err, ERR_DENIED, 0,
                             "the changes move a submodule, which a patch can't; use sandboxctl "
                             "pull without --apply");
        if ((str_starts(head, "new file mode ") || str_starts(head, "new mode ") ||
             str_starts(head, "index ")) &&
            str_ends(head, " 120000"))
            link = true;
        if (link &&
            (str_starts(head, "GIT binary patch") || str_starts(head, "rename ") ||
             str_starts(head, "copy ") ||
             (head[0] == '+' && !str_starts(head, "+++ ") && !target_allowed(text + 1, line - 1))))
            return error_set(err, ERR_DENIED, 0,
                             "the changes make a link that leads out of the repository");
        text += line + 1;
    }
    return 0;
}

/* Judges the patch; FILES: how many it changes. */
static int judge(const char *top, const char *patch, size_t *files, struct error *err)
{
    const char *const list[] = { "apply", "--numstat", "-z", "--", patch, NULL };
    AUTO_BUF struct buf out = BUF_INIT(16u << 20);
    AUTO_FREE
    char *text = NULL;
    size_t len;
    int code;

    if (fd_read_file(patch, PATCH_MAX, &text, &len, err) < 0 || judge_links(text, len, err) < 0)
        return -1;
    code = git(top, list, GIT_HERE_OUT, &out, err);
    if (code < 0)
        return -1;
    if (code > 0)
        return error_set(err, ERR_CONFLICT, 0, "git can't read the changes as a patch");
    return judge_paths(&out, files, err);
}

/* As a whole or not at all: 0, git's exit code with its words in OUT, or -1. */
static int apply(const char *top, const char *patch, struct buf *out, struct error *err)
{
    const char *const check[] = { "apply", "--check", "--whitespace=nowarn", "--", patch, NULL };
    const char *const apply_args[] = { "apply", "--whitespace=nowarn", "--", patch, NULL };
    int code = git(top, check, GIT_HERE_ALL, out, err);

    return code == 0 ? git(top, apply_args, GIT_HERE_ALL, out, err) : code;
}

static int refuse(const struct buf *out, const struct buf *conflicts, struct error *err)
{
    git_here_failed(ERR_CONFLICT, "nothing was changed, since the changes don't fit", out, err);
    if (conflicts->len > 0)
        error_set(err, ERR_CONFLICT, 0, "%.300s; both sides changed %s", err->text,
                  buf_text(conflicts));
    return -1;
}

static bool is_empty(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size == 0;
}

/* What changed here meanwhile may go together with it all the same. WORDS are git's on the patch as
 * it is. */
static int put_on_merged(const struct bring_patch *bring, const struct buf *words,
                         struct bring_patched *patched, struct error *err)
{
    AUTO_FREE
    char *merged = mem_printf("%s.merged", bring->patch);
    AUTO_BUF struct buf conflicts = BUF_INIT(4096);
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    const struct merge_options options = {
        .top = bring->top, .base = bring->base, .patch = bring->patch, .merged = merged
    };
    enum merge_end end;
    int rc = merge_patch(&options, &end, &conflicts, err);

    if (rc == 0 && end != MERGE_CLEAN)
        rc = refuse(words, &conflicts, err);
    patched->merged = true;
    patched->files = 0;
    if (rc == 0 && !is_empty(merged)) {
        rc = judge(bring->top, merged, &patched->files, err);
        if (rc == 0)
            rc = apply(bring->top, merged, &out, err);
    }
    unlink(merged);
    return rc > 0 ? refuse(&out, &conflicts, err) : rc;
}

int bring_patch(const struct bring_patch *bring, struct bring_patched *patched, struct error *err)
{
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    AUTO_BUF struct buf none = BUF_INIT(1);
    int code;

    *patched = (struct bring_patched){ .files = 0 };
    if (judge(bring->top, bring->patch, &patched->files, err) < 0)
        return -1;
    code = apply(bring->top, bring->patch, &out, err);
    if (code <= 0)
        return code;
    return is_object(bring->base) ? put_on_merged(bring, &out, patched, err)
                                  : refuse(&out, &none, err);
}

/* Archives
 * -------------------------------------------------------------------------------------------- */

int bring_unpack(const char *folder, int in, int *child, struct error *err)
{
    const char *const argv[] = { "tar",
                                 "--extract",
                                 "--file=-",
                                 "--keep-old-files",
                                 "--no-same-owner",
                                 "--no-same-permissions",
                                 "--delay-directory-restore",
                                 "--directory",
                                 folder,
                                 NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int rc;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(const void *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        return error_set(err, ERR_UNAVAILABLE, rc, "tar is needed here and can't be started");
    *child = pid;
    return 0;
}

int bring_wait(int child, const char *what, struct error *err)
{
    int code = program_wait(child);

    return code == 0 ? 0 : error_set(err, ERR_SYSTEM, 0, "%s ended with %d", what, code);
}
