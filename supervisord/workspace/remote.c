/* remote.c: what a remote repository says of itself (git ls-remote --symref), and where to begin in
 * it. Its lines are a stranger's. */
#include "workspace/workspace.h"

#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define LINE_MAX_BYTES 1024 /* longer ones are dropped; no name that we take is as long */
#define NAMES_MAX 5

/* What is meant by a name, best first. */
enum rank { RANK_NONE, RANK_SHORT, RANK_TAG, RANK_BRANCH, RANK_WHOLE };

void git_remote_init(struct git_remote *remote, const char *wanted)
{
    *remote = (struct git_remote){ .wanted = mem_strdup(wanted) };
    buf_init(&remote->line, LINE_MAX_BYTES);
    remote->head_ref = mem_strdup("");
    remote->head = mem_strdup("");
    remote->base_ref = mem_strdup("");
    remote->names = mem_strdup("");
}

void git_remote_finish(struct git_remote *remote)
{
    buf_finish(&remote->line);
    free(STEAL(remote->wanted));
    free(STEAL(remote->head_ref));
    free(STEAL(remote->head));
    free(STEAL(remote->base_ref));
    free(STEAL(remote->names));
}

static void put(char **to, const char *text)
{
    free(*to);
    *to = mem_strdup(text);
}

/* Whether the name can be given to git and written down: its own rules, and UTF-8. */
static bool usable(const char *ref)
{
    struct error ignored = ERROR_INIT;

    return ref[0] != '\0' && str_is_utf8(ref, strlen(ref)) && branch_check(ref, &ignored) == 0;
}

static enum rank rank_of(const char *ref, const char *wanted)
{
    if (wanted[0] == '\0')
        return RANK_NONE;
    if (str_starts(wanted, "refs/") && str_equal(ref, wanted))
        return RANK_WHOLE;
    if (str_starts(ref, "refs/heads/") && str_equal(ref + strlen("refs/heads/"), wanted))
        return RANK_BRANCH;
    if (str_starts(ref, "refs/tags/") && str_equal(ref + strlen("refs/tags/"), wanted))
        return RANK_TAG;
    /* "pull/7/head" */
    if (str_starts(ref, "refs/") && str_equal(ref + strlen("refs/"), wanted))
        return RANK_SHORT;
    return RANK_NONE;
}

static void note_branch(struct git_remote *remote, const char *name)
{
    AUTO_FREE
    char *names = NULL;

    if (remote->branches++ >= NAMES_MAX || !usable(name))
        return;
    names = mem_printf("%s%s%.60s", remote->names, remote->names[0] != '\0' ? ", " : "", name);
    put(&remote->names, names);
}

static void take_ref(struct git_remote *remote, const char *id, const char *ref)
{
    enum rank rank = rank_of(ref, remote->wanted);

    if (str_equal(ref, "HEAD")) {
        put(&remote->head, id);
        return;
    }
    if (str_starts(ref, "refs/heads/"))
        note_branch(remote, ref + strlen("refs/heads/"));
    else if (str_starts(ref, "refs/tags/"))
        remote->tags++;
    if (rank > remote->base_rank) {
        remote->base_rank = rank;
        put(&remote->base_ref, ref);
    }
}

/* "ref: refs/heads/main\tHEAD", or "ID\tREF". */
static void take_line(struct git_remote *remote)
{
    AUTO_FREE
    char *line = mem_strndup(buf_text(&remote->line), remote->line.len);
    char *tab = strchr(line, '\t');

    if (tab == NULL || strlen(line) != remote->line.len)
        return;
    *tab = '\0';
    if (str_starts(line, "ref: ") && str_equal(tab + 1, "HEAD")) {
        put(&remote->head_ref, line + strlen("ref: "));
    } else if (branch_is_commit(line) && tab[1] != '\0') {
        remote->id_len = strlen(line);
        take_ref(remote, line, tab + 1);
    }
}

void git_remote_feed(struct git_remote *remote, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\n') {
            buf_append_char(&remote->line, bytes[i]);
            continue;
        }
        if (!remote->line.failed)
            take_line(remote);
        buf_clear(&remote->line);
    }
}

/* The branch that a ref is, or NULL. */
static const char *branch_of(const char *ref)
{
    return str_starts(ref, "refs/heads/") && usable(ref + strlen("refs/heads/"))
               ? ref + strlen("refs/heads/")
               : NULL;
}

static void set_branch(struct git_base *base, const char *branch)
{
    base->kind = GIT_BASE_BRANCH;
    base->source = mem_printf("refs/heads/%s", branch);
    base->target = mem_printf("refs/remotes/origin/%s", branch);
    base->name = mem_strdup(branch);
}

static void set_other(struct git_base *base, const char *source, const char *name)
{
    base->kind = GIT_BASE_OTHER;
    base->source = mem_strdup(source);
    base->target = mem_strdup("refs/sandbox/base");
    base->name = mem_strdup(name);
}

static void set_ref(struct git_base *base, const char *ref)
{
    const char *branch = branch_of(ref);

    if (branch != NULL) {
        set_branch(base, branch);
    } else if (str_starts(ref, "refs/tags/")) {
        base->kind = GIT_BASE_TAG;
        base->source = mem_strdup(ref);
        base->target = mem_strdup(ref);
        base->name = mem_strdup(ref + strlen("refs/tags/"));
    } else {
        set_other(base, ref, ref);
    }
}

static int no_default(const struct git_remote *remote, struct error *err)
{
    AUTO_BUF struct buf shown = BUF_INIT(1024);

    str_append_escaped(&shown, remote->head_ref, strlen(remote->head_ref), 100);
    return error_set(err, ERR_NOT_FOUND, 0,
                     "its default branch %s has no commit; name one of its branches: %s%s",
                     buf_text(&shown), remote->names, remote->branches > NAMES_MAX ? ", …" : "");
}

static int choose(const struct git_remote *remote, struct git_base *base, struct error *err)
{
    const char *head_branch = branch_of(remote->head_ref);

    if (branch_is_commit(remote->wanted) && remote->base_rank == RANK_NONE) {
        set_other(base, remote->wanted, remote->wanted);
    } else if (remote->wanted[0] != '\0' && remote->base_rank == RANK_NONE) {
        return error_set(err, ERR_NOT_FOUND, 0, "it has no branch, tag or ref `%.100s`%s%s",
                         remote->wanted, remote->names[0] != '\0' ? "; it has: " : "",
                         remote->names);
    } else if (remote->wanted[0] != '\0') {
        set_ref(base, remote->base_ref);
    } else if (remote->head[0] == '\0') {
        return remote->branches > 0 ? no_default(remote, err) : 0;
    } else if (head_branch != NULL) {
        set_branch(base, head_branch);
    } else {
        set_other(base, "HEAD", remote->head);
    }
    return 0;
}

int git_remote_base(struct git_remote *remote, struct git_base *base, struct error *err)
{
    const char *head_branch = branch_of(remote->head_ref);

    *base = (struct git_base){ .kind = GIT_BASE_NONE };
    base->head_branch = mem_strdup(head_branch != NULL ? head_branch : "");
    base->format = remote->id_len == 64 ? "sha256" : "sha1";
    base->more = remote->branches + remote->tags > 1 || remote->branches == 0;
    if (choose(remote, base, err) < 0)
        return -1;
    if (base->kind == GIT_BASE_NONE) {
        base->source = mem_strdup("");
        base->target = mem_strdup("HEAD");
        base->name = mem_strdup(base->head_branch[0] != '\0' ? base->head_branch : "main");
    }
    return 0;
}

void git_base_finish(struct git_base *base)
{
    free(STEAL(base->source));
    free(STEAL(base->target));
    free(STEAL(base->name));
    free(STEAL(base->head_branch));
}
