#include "ctl/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/git_here.h"

#define OUTPUT_MAX (1u << 20)
#define NAMES_MAX (64u << 20)
#define MESSAGE "Uncommitted changes\n\nFiles that were not committed when the run began."

/* A folder of ours with a copy of the index, in which git may do as it likes. */
struct making {
    const struct snapshot_options *options;
    struct buf top;
    char *scratch;
    char *index;
    char *variables[2]; /* "GIT_INDEX_FILE=…", "GIT_OBJECT_DIRECTORY=…" or NULL */
};

static void making_finish(struct making *making)
{
    AUTO_FREE
    char *lock = mem_printf("%s.lock", making->index != NULL ? making->index : "");

    if (making->scratch != NULL) {
        unlink(making->index);
        unlink(lock);
        rmdir(making->scratch);
    }
    buf_finish(&making->top);
    free(making->scratch);
    free(making->index);
    free(making->variables[0]);
    free(making->variables[1]);
}

/* git
 * ---------------------------------------------------------------------------------------------- */

/* With the copy of the index. WHAT failed when git ends with anything but 0. */
static int git(const struct making *making, const char *const *args, const char *what,
               struct buf *out, struct error *err)
{
    const char *const environment[] = { making->variables[0], making->variables[1], NULL };
    const struct git_here where = { .folder = buf_text(&making->top), .environment = environment };
    int code = git_here(&where, args, GIT_HERE_OUT, out, err);

    if (code <= 0)
        return code;
    /* Once more, for its words: they must not mix with what it prints. */
    buf_clear(out);
    git_here(&where, args, GIT_HERE_ALL, out, err);
    return git_here_failed(ERR_CONFLICT, what, out, err);
}

/* An id that git prints, on its first line. */
static int git_id(const struct making *making, const char *const *args, const char *what,
                  char id[65], struct error *err)
{
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    size_t len;

    if (git(making, args, what, &out, err) < 0)
        return -1;
    git_here_cut_line(&out);
    len = strspn(buf_text(&out), "0123456789abcdef");
    if ((len != 40 && len != 64) || len != out.len)
        return git_here_failed(ERR_CONFLICT, what, &out, err);
    str_copy(id, 65, buf_text(&out));
    return 0;
}

/* Steps
 * -------------------------------------------------------------------------------------------- */

static int find_top(struct making *making, struct error *err)
{
    static const char *const args[] = { "rev-parse", "--show-toplevel", NULL };
    const struct git_here where = { .folder = making->options->folder };
    int code = git_here(&where, args, GIT_HERE_OUT, &making->top, err);

    if (code < 0)
        return -1;
    git_here_cut_line(&making->top);
    return code == 0 && making->top.len > 0
               ? 0
               : error_set(err, ERR_CONFLICT, 0,
                           "only a git work tree on this machine has uncommitted files: go there, "
                           "or name it with --repo");
}

static int copy_file(const char *from, const char *to, struct error *err)
{
    AUTO_CLOSE
    int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t got;

    if (in < 0)
        return error_set(err, ERR_SYSTEM, errno, "read the index %s", from);
    if (out < 0)
        return error_set(err, ERR_SYSTEM, errno, "make %s", to);
    do
        got = sendfile(out, in, NULL, 1u << 30);
    while (got > 0);
    return got < 0 ? error_set(err, ERR_SYSTEM, errno, "write %s", to) : 0;
}

/* A copy, for what the user's has noted of files that are left out on purpose, and of those that
 * needn't be read again. */
static int copy_index(struct making *making, struct error *err)
{
    static const char *const args[] = { "rev-parse", "--path-format=absolute", "--git-path",
                                        "index", NULL };
    const struct git_here where = { .folder = buf_text(&making->top) };
    AUTO_BUF struct buf index = BUF_INIT(OUTPUT_MAX);
    int code = git_here(&where, args, GIT_HERE_OUT, &index, err);

    if (code < 0)
        return -1;
    git_here_cut_line(&index);
    if (code != 0 || index.len == 0)
        return error_set(err, ERR_CONFLICT, 0, "the repository's index can't be found");
    making->scratch = git_here_scratch();
    if (mkdtemp(making->scratch) == NULL) {
        error_set(err, ERR_SYSTEM, errno, "make %s", making->scratch);
        free(STEAL(making->scratch));
        return -1;
    }
    making->index = mem_printf("%s/index", making->scratch);
    making->variables[0] = mem_printf("GIT_INDEX_FILE=%s", making->index);
    if (making->options->objects != NULL)
        making->variables[1] = mem_printf("GIT_OBJECT_DIRECTORY=%s", making->options->objects);
    return copy_file(buf_text(&index), making->index, err);
}

static int refuse_conflicts(const struct making *making, struct error *err)
{
    static const char *const args[] = { "ls-files", "--unmerged", NULL };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);

    if (git(making, args, "the index can't be read", &out, err) < 0)
        return -1;
    return out.len == 0 ? 0
                        : error_set(err, ERR_CONFLICT, 0,
                                    "a merge has conflicts here: resolve them and git add the "
                                    "files, or start without the uncommitted changes");
}

static int add_files(const struct making *making, struct error *err)
{
    static const char *const tracked[] = { "add", "--update", "--", ".", NULL };
    const struct snapshot_options *options = making->options;
    const char *const untracked[] = { "--literal-pathspecs", "add", "--", options->untracked,
                                      NULL };
    const char *const environment[] = { making->variables[0], making->variables[1], NULL };
    const struct git_here where = { .folder = options->folder, .environment = environment };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    int code;

    if (git(making, tracked, "the changed files can't be read", &out, err) < 0)
        return -1;
    if (options->untracked == NULL)
        return 0;
    code = git_here(&where, untracked, GIT_HERE_ALL, &out, err);
    return code > 0 ? git_here_failed(ERR_INVALID, "--include-untracked", &out, err) : code;
}

static int count_left_out(const struct making *making, uint64_t *count, struct error *err)
{
    static const char *const args[] = { "ls-files", "--others", "--exclude-standard", "-z", NULL };
    AUTO_BUF struct buf out = BUF_INIT(NAMES_MAX);

    if (git(making, args, "untracked files can't be listed", &out, err) < 0)
        return -1;
    for (size_t i = 0; i < out.len; i++)
        *count += out.data[i] == '\0';
    return 0;
}

/* "1700000000 ID" of HEAD: its time becomes that of the commit. */
static int read_time(const struct making *making, char **time, struct error *err)
{
    static const char *const args[] = { "rev-list", "--max-count=1", "--timestamp", "HEAD", "--",
                                        NULL };
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    uint64_t seconds = 0;

    if (git(making, args, "HEAD can't be read", &out, err) < 0)
        return -1;
    AUTO_FREE
    char *number = mem_strndup(buf_text(&out), strcspn(buf_text(&out), " \n"));
    if (!str_parse_u64(number, UINT64_C(1) << 40, &seconds))
        seconds = 0;
    *time = mem_printf("@%llu +0000", (unsigned long long)seconds);
    return 0;
}

static int commit_tree(const struct making *making, const char *head, const char *tree,
                       char commit[65], struct error *err)
{
    const char *const args[] = { "commit-tree", "-p", head, "-m", MESSAGE, tree, NULL };
    AUTO_FREE
    char *time = NULL;
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);

    if (read_time(making, &time, err) < 0)
        return -1;
    AUTO_FREE
    char *author_date = mem_printf("GIT_AUTHOR_DATE=%s", time);
    AUTO_FREE
    char *committer_date = mem_printf("GIT_COMMITTER_DATE=%s", time);
    const char *const environment[] = { "GIT_AUTHOR_NAME=sandboxctl",
                                        "GIT_AUTHOR_EMAIL=sandboxctl@localhost",
                                        "GIT_COMMITTER_NAME=sandboxctl",
                                        "GIT_COMMITTER_EMAIL=sandboxctl@localhost",
                                        author_date,
                                        committer_date,
                                        NULL };
    const struct git_here where = { .folder = buf_text(&making->top), .environment = environment };
    int code = git_here(&where, args, GIT_HERE_OUT, &out, err);

    if (code < 0)
        return -1;
    git_here_cut_line(&out);
    if (code > 0 || strspn(buf_text(&out), "0123456789abcdef") != out.len || out.len == 0)
        return git_here_failed(ERR_CONFLICT, "the commit can't be made", &out, err);
    str_copy(commit, 65, buf_text(&out));
    return 0;
}

static int make(struct making *making, struct snapshot *out, struct error *err)
{
    static const char *const head_args[] = { "rev-parse", "--verify", "--quiet", "HEAD^{commit}",
                                             NULL };
    static const char *const head_tree_args[] = { "rev-parse", "--verify", "HEAD^{tree}", NULL };
    static const char *const tree_args[] = { "write-tree", NULL };
    char head[65];
    char head_tree[65];

    if (find_top(making, err) < 0 ||
        git_id(making, head_args, "commit something first: HEAD has no commit", head, err) < 0 ||
        copy_index(making, err) < 0 ||
        git_id(making, head_tree_args, "HEAD can't be read", head_tree, err) < 0 ||
        refuse_conflicts(making, err) < 0 || add_files(making, err) < 0 ||
        count_left_out(making, &out->left_out, err) < 0 ||
        git_id(making, tree_args, "the files can't be kept", out->tree, err) < 0)
        return -1;
    return str_equal(out->tree, head_tree) || making->options->objects != NULL
               ? 0
               : commit_tree(making, head, out->tree, out->commit, err);
}

int snapshot_make(const struct snapshot_options *options, struct snapshot *out, struct error *err)
{
    struct making making = { .options = options, .top = BUF_INIT(8192) };
    int rc;

    *out = (struct snapshot){ .commit = "" };
    rc = make(&making, out, err);
    making_finish(&making);
    return rc;
}

size_t snapshot_count_changed(const char *folder)
{
    static const char *const args[] = { "--no-optional-locks",
                                        "status",
                                        "--porcelain",
                                        "-z",
                                        "--untracked-files=no",
                                        "--no-renames",
                                        "--ignore-submodules=all",
                                        NULL };
    const struct git_here where = { .folder = folder };
    AUTO_BUF struct buf out = BUF_INIT(NAMES_MAX);
    struct error err = ERROR_INIT;
    size_t count = 0;

    if (git_here(&where, args, GIT_HERE_OUT, &out, &err) != 0)
        return 0;
    for (size_t i = 0; i < out.len; i++)
        count += out.data[i] == '\0';
    return count;
}
