#include "ctl/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/git_here.h"
#include "ctl/snapshot.h"

#define OUTPUT_MAX (1u << 20)
#define NAMES_TOLD 5
#define FOLDERS_OPEN 16

enum variable { VARIABLE_GIT_DIR, VARIABLE_INDEX, VARIABLE_COUNT };

/* A folder with a repository and an index. */
struct merging {
    const struct merge_options *options;
    char *scratch;
    char *objects;
    char *variables[VARIABLE_COUNT];
    struct buf *out; /* of the last command */
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void merging_finish(struct merging *merging)
{
    if (merging->scratch != NULL)
        nftw(merging->scratch, remove_one, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < VARIABLE_COUNT; i++)
        free(merging->variables[i]);
    free(merging->scratch);
    free(merging->objects);
}

/* git there: 0 or its exit code; -1. ARGS end with NULL. */
static int git(const struct merging *merging, const char *const *args, struct error *err)
{
    const char *const environment[] = { merging->variables[VARIABLE_GIT_DIR],
                                        merging->variables[VARIABLE_INDEX],
                                        "GIT_CONFIG_GLOBAL=/dev/null",
                                        "GIT_CONFIG_SYSTEM=/dev/null",
                                        "GIT_CONFIG_NOSYSTEM=1",
                                        "GIT_ATTR_NOSYSTEM=1",
                                        "XDG_CONFIG_HOME=/nonexistent",
                                        "HOME=/nonexistent",
                                        "GIT_AUTHOR_NAME=sandboxctl",
                                        "GIT_AUTHOR_EMAIL=sandboxctl@localhost",
                                        "GIT_COMMITTER_NAME=sandboxctl",
                                        "GIT_COMMITTER_EMAIL=sandboxctl@localhost",
                                        NULL };
    const struct git_here where = { .folder = merging->scratch, .environment = environment };

    buf_clear(merging->out);
    return git_here(&where, args, GIT_HERE_OUT, merging->out, err);
}

/* The same, and the id that it prints. */
static int git_id(const struct merging *merging, const char *const *args, char id[65],
                  struct error *err)
{
    int code = git(merging, args, err);
    size_t len = strspn(buf_text(merging->out), "0123456789abcdef");

    if (code != 0)
        return code;
    if ((len != 40 && len != 64) || len + 1 < merging->out->len)
        return 1;
    memcpy(id, buf_text(merging->out), len);
    id[len] = '\0';
    return 0;
}

/* What git says of the user's repository, one line. */
static int ask(const struct merging *merging, const char *const *args, struct error *err)
{
    const struct git_here where = { .folder = merging->options->top };
    int code;

    buf_clear(merging->out);
    code = git_here(&where, args, GIT_HERE_OUT, merging->out, err);
    git_here_cut_line(merging->out);
    return code;
}

/* Steps: 0, an exit code of git that ends it, or -1
 * --------------------------------------------------------------------------------------------- */

static int make_repository(struct merging *merging, struct error *err)
{
    static const char *const format_args[] = { "rev-parse", "--show-object-format", NULL };
    const char *const objects_args[] = { "rev-parse", "--path-format=absolute", "--git-path",
                                         "objects", NULL };
    AUTO_FREE
    char *format = NULL;
    AUTO_FREE
    char *alternates = mem_printf("%s/info/alternates", merging->objects);
    int code = ask(merging, format_args, err);

    if (code != 0)
        return code;
    format = mem_printf("--object-format=%s", buf_text(merging->out));
    const char *const init[] = {
        "init",        "--quiet", "--bare",
        "--template=", format,    merging->variables[VARIABLE_GIT_DIR] + strlen("GIT_DIR="),
        NULL
    };
    code = git(merging, init, err);
    if (code == 0)
        code = ask(merging, objects_args, err);
    if (code != 0)
        return code;
    buf_append_char(merging->out, '\n');
    return fd_replace_file(alternates, merging->out->data, merging->out->len, 0600, err);
}

/* The files here, whatever of them is committed. */
static int make_ours(const struct merging *merging, char tree[65], struct error *err)
{
    const struct snapshot_options options = { .folder = merging->options->top,
                                              .objects = merging->objects };
    struct snapshot snapshot;
    struct error why = ERROR_INIT;

    if (snapshot_make(&options, &snapshot, &why) < 0) {
        if (why.code == ERR_CONFLICT)
            return 1;
        *err = why;
        return -1;
    }
    str_copy(tree, 65, snapshot.tree);
    return 0;
}

static int make_theirs(const struct merging *merging, char tree[65], struct error *err)
{
    const char *const read[] = { "read-tree", merging->options->base, NULL };
    const char *const apply[] = {
        "apply", "--cached", "--whitespace=nowarn", "--", merging->options->patch, NULL
    };
    static const char *const write[] = { "write-tree", NULL };
    int code = git(merging, read, err);

    if (code == 0)
        code = git(merging, apply, err);
    return code == 0 ? git_id(merging, write, tree, err) : code;
}

static int commit(const struct merging *merging, const char *tree, const char *parent, char id[65],
                  struct error *err)
{
    const char *const first[] = { "commit-tree", "-m", "base", tree, NULL };
    const char *const next[] = { "commit-tree", "-m", "side", "-p", parent, tree, NULL };

    return git_id(merging, parent[0] != '\0' ? next : first, id, err);
}

/* "TREE\0NAME\0NAME\0…": names when there are conflicts. */
static void tell_conflicts(const struct buf *out, struct buf *conflicts)
{
    size_t told = 0;

    for (size_t at = strlen(buf_text(out)) + 1; at < out->len; at += strlen(out->data + at) + 1) {
        if (told++ == NAMES_TOLD) {
            buf_append_str(conflicts, ", …");
            return;
        }
        if (told > 1)
            buf_append_str(conflicts, ", ");
        str_append_escaped(conflicts, out->data + at, strlen(out->data + at), 100);
    }
}

static int merge(const struct merging *merging, const char *ours, const char *theirs, char id[65],
                 struct buf *conflicts, struct error *err)
{
    const char *const args[] = { "-c",          "core.attributesFile=/dev/null",
                                 "merge-tree",  "--write-tree",
                                 "--name-only", "--no-messages",
                                 "-z",          ours,
                                 theirs,        NULL };
    int code = git(merging, args, err);
    size_t len = strspn(buf_text(merging->out), "0123456789abcdef");

    if (code == 1)
        tell_conflicts(merging->out, conflicts);
    if (code != 0)
        return code;
    if (len != 40 && len != 64)
        return 2;
    memcpy(id, buf_text(merging->out), len);
    id[len] = '\0';
    return 0;
}

static int write_merged(const struct merging *merging, const char *ours, const char *merged,
                        struct error *err)
{
    AUTO_FREE
    char *output = mem_printf("--output=%s", merging->options->merged);
    const char *const args[] = { "diff",
                                 "--binary",
                                 "--no-renames",
                                 "--no-ext-diff",
                                 "--no-textconv",
                                 "--no-color",
                                 "--submodule=short",
                                 "--ignore-submodules=none",
                                 "--src-prefix=a/",
                                 "--dst-prefix=b/",
                                 output,
                                 ours,
                                 merged,
                                 "--",
                                 NULL };

    return git(merging, args, err);
}

static int run(struct merging *merging, enum merge_end *end, struct buf *conflicts,
               struct error *err)
{
    AUTO_FREE
    char *base_tree = mem_printf("%s^{tree}", merging->options->base);
    const char *const base_args[] = { "rev-parse", "--verify", "--quiet", base_tree, NULL };
    char trees[3][65];
    char commits[3][65];
    char merged[65];
    int code = make_repository(merging, err);

    if (code == 0)
        code = git_id(merging, base_args, trees[0], err);
    if (code == 0)
        code = make_ours(merging, trees[1], err);
    if (code == 0)
        code = make_theirs(merging, trees[2], err);
    for (size_t i = 0; i < ARRAY_LEN(trees) && code == 0; i++)
        code = commit(merging, trees[i], i > 0 ? commits[0] : "", commits[i], err);
    if (code != 0)
        return code;
    code = merge(merging, commits[1], commits[2], merged, conflicts, err);
    *end = code == 1 ? MERGE_CONFLICTS : MERGE_IMPOSSIBLE;
    if (code == 0)
        code = write_merged(merging, trees[1], merged, err);
    if (code == 0)
        *end = MERGE_CLEAN;
    return code;
}

static int make_scratch(struct merging *merging, struct error *err)
{
    merging->scratch = git_here_scratch();
    if (mkdtemp(merging->scratch) == NULL) {
        error_set(err, ERR_SYSTEM, errno, "make %s", merging->scratch);
        free(STEAL(merging->scratch));
        return -1;
    }
    merging->objects = mem_printf("%s/repository/objects", merging->scratch);
    merging->variables[VARIABLE_GIT_DIR] = mem_printf("GIT_DIR=%s/repository", merging->scratch);
    merging->variables[VARIABLE_INDEX] = mem_printf("GIT_INDEX_FILE=%s/index", merging->scratch);
    return 0;
}

int merge_patch(const struct merge_options *options, enum merge_end *end, struct buf *conflicts,
                struct error *err)
{
    AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
    struct merging merging = { .options = options, .out = &out };
    int code = make_scratch(&merging, err);

    *end = MERGE_IMPOSSIBLE;
    if (code == 0)
        code = run(&merging, end, conflicts, err);
    merging_finish(&merging);
    return code < 0 ? -1 : 0;
}
