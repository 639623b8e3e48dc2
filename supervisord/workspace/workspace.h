/* workspace.h: where a session's files lie on the host, which repository addresses are taken, and
 * which git commands bring code in and evidence out.
 *
 * A workspace is hostile: nothing here opens, follows or runs anything inside one. The git commands
 * are argument lists that the run starts inside the sandbox; what they print is a claim, parsed
 * with bounds. */
#ifndef WORKSPACE_WORKSPACE_H
#define WORKSPACE_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

/* Places on the host
 * ------------------------------------------------------------------------------------------- */

struct workspace_layout {
    char *session;   /* state/sessions/ses_… */
    char *workspace; /* …/workspace: /workspace inside */
    char *home;      /* …/home: /home/agent inside */
    char *caches;    /* …/caches: what the session added to caches */
    /* state/checkpoints/ses_…: no part of the session's files, and in no sandbox of an agent */
    char *checkpoints;
};

void workspace_layout_init(struct workspace_layout *layout, const char *state_dir,
                           const char *session_id);
void workspace_layout_finish(struct workspace_layout *layout);
/* Makes what is missing; workspace, home, caches and checkpoints belong to UID and are 0700 (the
 * last ones' mode is of no account: nobody gets into the folder above). Safe to repeat. */
int workspace_make(const struct workspace_layout *layout, uid_t uid, struct error *err);
/* Makes what a session adds to the cache NAME, whose shared part is LOWER: two heap paths, folders
 * of UID. ERR_NOT_FOUND when LOWER is not there. */
int workspace_make_cache(const struct workspace_layout *layout, const char *name, uid_t uid,
                         const char *lower, char **upper, char **work, struct error *err);
/* Removes what the kernel leaves in the work folders of caches, which only the supervisor's uid
 * may. No agent ever sees those. */
void workspace_clear_caches(const struct workspace_layout *layout);
/* Removes the folders, in which nothing may be left (they were emptied inside a sandbox). Those
 * that are not there are no error; the first that can't be removed is named, and ends it. */
int workspace_remove_empty(const struct workspace_layout *layout, struct error *err);

/* A repository that is kept for sessions to copy from: state/mirrors/NAME. What is in FOLDER counts
 * as long as the supervisor's mark beside it says of what it is. */
struct workspace_mirror {
    char *name;
    char *parent; /* state/mirrors */
    char *own;    /* …/NAME: the supervisor's */
    char *folder; /* …/repository: written by UID */
    char *mark;
    uid_t uid;
};
enum workspace_mirror_age { WORKSPACE_MIRROR_NONE, WORKSPACE_MIRROR_OLD, WORKSPACE_MIRROR_YOUNG };

void workspace_mirror_init(struct workspace_mirror *mirror, const char *state_dir, const char *url,
                           uid_t uid);
void workspace_mirror_copy(struct workspace_mirror *to, const struct workspace_mirror *from);
void workspace_mirror_finish(struct workspace_mirror *mirror);
int workspace_mirror_make(const struct workspace_mirror *mirror, struct error *err);
/* Old ones are whole, too. */
enum workspace_mirror_age workspace_mirror_age(const struct workspace_mirror *mirror,
                                               const char *url, const char *filter);
int workspace_mirror_mark(const struct workspace_mirror *mirror, const char *url,
                          const char *filter, struct error *err);
int workspace_mirror_unmark(const struct workspace_mirror *mirror, struct error *err);
/* Every mirror that there is, whole or not, of UID, which EACH takes over. URL is "" for one that
 * isn't whole; USED_MS: when it was last made or brought up to date. */
void workspace_mirrors_each(const char *state_dir, uid_t uid,
                            void (*each)(void *data, struct workspace_mirror *mirror,
                                         const char *url, uint64_t used_ms),
                            void *data);
/* Removes the folders, in which nothing may be left. */
int workspace_mirror_remove_empty(const struct workspace_mirror *mirror, struct error *err);

/* Repository addresses
 * ------------------------------------------------------------------------------------------ */

enum repository_kind { REPOSITORY_NONE, REPOSITORY_URL, REPOSITORY_LOCAL };

struct repository {
    enum repository_kind kind;
    char *url;     /* what git clone is given inside: an https URL or REPOSITORY_LOCAL_URL */
    char *git_dir; /* REPOSITORY_LOCAL: the repository's git directory on the host */
    char *head;    /* REPOSITORY_LOCAL: its HEAD, which a linked worktree has to itself */
    bool sha256;   /* REPOSITORY_LOCAL: its objects are named so */
    char *name;    /* folder name inside the workspace */
};

/* A local repository's parts are bound read-only below this folder inside; its config, which may
 * hold credentials, is not. */
#define REPOSITORY_LOCAL_DIR "/mnt/source.git"
#define REPOSITORY_LOCAL_URL "file:///mnt/source.git"

/* Addresses of the git services, "https://github.com", against which URLs are judged. */
struct repository_rules {
    const char *const *targets;
    size_t target_count;
    const char *const *local_folders; /* absolute, real paths */
    size_t local_folder_count;
    bool any_local;  /* a person asked: any local folder */
    bool any_target; /* it was judged before: only its form is looked at */
};

/* Judges TEXT ("" gives REPOSITORY_NONE) and fills OUT (finish it in any case). Errors name the
 * argument `repository`. Local folders are looked at on the host (they are the user's own, not a
 * workspace). */
int repository_parse(const char *text, const struct repository_rules *rules, struct repository *out,
                     struct error *err);
void repository_finish(struct repository *repository);

/* What a run may name as the place to begin at: a branch, a tag, a whole ref ("refs/pull/7/head")
 * or a commit's id. Rules of git check-ref-format, and no leading dash. Errors name the argument
 * `branch`. */
int branch_check(const char *branch, struct error *err);
/* Whether it is a commit's id: 40 or 64 hex digits in lower case. */
bool branch_is_commit(const char *branch);
/* The name of a session's own branch: TEMPLATE with {slug} replaced by words of TITLE
 * ("fix-the-sum") and {id} by the last characters of SESSION. Heap; "" for an empty template.
 * Whatever the title, the name is one that branch_check takes if the template is. */
char *branch_from_template(const char *template, const char *title, const char *session);
/* Without folders, for where another branch has the name of one of them: heap string. */
char *branch_flat(const char *branch);
/* Names the argument `branch` too; the caller says which setting it is. */
int branch_template_check(const char *template, struct error *err);

/* git, inside the sandbox
 * ----------------------------------------------------------------------------------------- */

#define GIT_ARGV_MAX 32

/* An argument list; strings are on the heap. */
struct git_command {
    char *argv[GIT_ARGV_MAX];
    size_t argc;
};

void git_command_finish(struct git_command *command);

/* The environment for git commands of ours (agent's configuration is not read); static, ends with
 * NULL. */
const char *const *git_environment(void);
/* The same with a temporary index, for building a tree of the work folder without touching the
 * agent's index. */
const char *const *git_environment_scratch(void);

/* /etc/gitconfig of a sandbox: identity, safety, and for each git service that https addresses go
 * to the proxy with the run's token. */
struct git_route {
    const char *from; /* "https://github.com/" */
    const char *to;   /* "http://127.0.0.1:4999/proxy/github/" */
};
struct git_settings {
    const char *name; /* who commits */
    const char *email;
    const struct git_route *routes;
    size_t route_count;
    const char *proxy_base;
    const char *basic_credentials;
};
void git_config_write(struct buf *out, const struct git_settings *settings);

/* What git says of a remote repository, line by line as it comes, in bounded memory. */
struct git_remote {
    char *wanted; /* as in branch_check, "" the default branch */
    struct buf line;
    char *head_ref; /* what its HEAD names, "" unknown */
    char *head;     /* the commit there, "" none */
    char *base_ref; /* what WANTED is, "" not there */
    unsigned base_rank;
    char *names; /* some branches, for a message */
    size_t id_len;
    uint64_t branches;
    uint64_t tags;
};
void git_remote_init(struct git_remote *remote, const char *wanted);
void git_remote_finish(struct git_remote *remote);
void git_remote_feed(struct git_remote *remote, const char *bytes, size_t len);

enum git_base_kind { GIT_BASE_NONE, GIT_BASE_BRANCH, GIT_BASE_TAG, GIT_BASE_OTHER };
/* Where the work begins. */
struct git_base {
    enum git_base_kind kind; /* NONE: the repository is empty */
    char *source;            /* to be fetched: "refs/heads/main", "HEAD", a commit's id */
    char *target;            /* where it is kept: "refs/remotes/origin/main" */
    char *name;              /* as people say it: "main", "v1.0", "refs/pull/7/head" */
    char *head_branch;       /* the remote's default branch, "" unknown */
    const char *format;      /* "sha1" or "sha256" */
    bool more;               /* there are other branches or tags */
};
/* ERR_NOT_FOUND, with words for a person, when there is no such place. BASE is finished in any
 * case. */
int git_remote_base(struct git_remote *remote, struct git_base *base, struct error *err);
void git_base_finish(struct git_base *base);

/* A line of git's progress, "Receiving objects:  45% (450/1000), …"; false when it is something
 * else. */
struct git_progress {
    unsigned percent;
    uint64_t done;
    uint64_t total;
};
bool git_parse_progress(const char *line, struct git_progress *progress);

void git_clear_folder(struct git_command *command, const char *folder); /* empties a folder */
/* Removes FOLDER, whatever is there. */
void git_remove_folder(struct git_command *command, const char *folder);
/* Everything that the remote has, on stdout, for git_remote_feed. */
void git_ask(struct git_command *command, const char *url);
/* An empty repository in FOLDER, with nothing in it but whence it will come. */
/* With MIRROR, GIT_MIRROR_DIR or "", what that has is copied; it may be gone. */
#define GIT_MIRROR_DIR "/mnt/mirror"
void git_clone_init(struct git_command *command, const struct repository *repository,
                    const struct git_base *base, const char *mirror, const char *folder);
struct git_mirror_wish {
    const char *url;
    const char *filter;
    const char *format;
    const char *folder;
    bool fresh; /* nothing that is there counts */
};
/* Makes a mirror, or brings it up to date. Whoever copies from it meanwhile gets what was there or
 * what is new, whole in either case. */
void git_mirror(struct git_command *command, const struct git_mirror_wish *wish);
/* Prints the KiB that the repository's own files take. */
void git_size(struct git_command *command, const char *folder);
/* What the work begins with comes first; FILTER is git's, "" none. */
void git_clone_base(struct git_command *command, const struct git_base *base, const char *filter,
                    const char *folder);
/* The files, on a new branch WORK; "" on the base itself. */
void git_clone_checkout(struct git_command *command, const struct git_base *base, const char *work,
                        const char *folder);
/* Puts HEAD of each FOLDER that is added, if it is on a branch, on a new branch NAME where it
 * stands. Files and index stay, and so does what can't be read. Prints for each one character. */
#define GIT_BRANCHED '1'
#define GIT_BRANCHED_FLAT '2' /* it has the name that branch_flat gives */
void git_branch_off(struct git_command *command);
void git_branch_off_add(struct git_command *command, const char *folder, const char *name);
/* All other branches and tags. */
void git_clone_rest(struct git_command *command, const char *filter, const char *folder);
/* Prints the paths of those that could not be had. */
void git_clone_submodules(struct git_command *command, const char *folder);
/* Prints how many files are pointers to Git LFS. */
void git_count_lfs(struct git_command *command, const char *folder);
/* Gives a whole clone its name TO; fails when something is there, unless it is this very clone of
 * OWNER's, which was named before. */
void git_name_clone(struct git_command *command, const char *from, const char *to,
                    const char *owner);
void git_init(struct git_command *command, const char *folder);
void git_first_commit(struct git_command *command, const char *folder);
void git_head(struct git_command *command, const char *folder);
void git_branch(struct git_command *command, const char *folder);
void git_empty_tree(struct git_command *command, const char *folder);
void git_count_commits(struct git_command *command, const char *folder, const char *base);
void git_read_head_tree(struct git_command *command, const char *folder); /* scratch index */
/* Scratch index. Files above 256 MiB are left out; their number is what it prints. */
void git_stage_all(struct git_command *command, const char *folder);
void git_write_tree(struct git_command *command, const char *folder); /* scratch index */
void git_untracked(struct git_command *command, const char *folder);
void git_shortstat(struct git_command *command, const char *folder, const char *base,
                   const char *tree);
/* For git_kinds_feed, on stdout. */
void git_kinds(struct git_command *command, const char *folder, const char *base, const char *tree);
/* What the remote URL has of BRANCH, for git_parse_object; nothing: it isn't there. It is asked
 * outside of the repository, whose settings are the agent's. */
void git_read_back(struct git_command *command, const char *url, const char *branch);
void git_patch(struct git_command *command, const char *folder, const char *base, const char *tree);

/* An object name (40 or 64 hex digits) that the first line is or begins with before a tab, or "".
 */
void git_parse_object(const struct buf *output, char to[65]);
/* The first line, at most SIZE - 1 bytes, escaped. */
void git_parse_line(const struct buf *output, char *to, size_t size);
struct git_stat {
    uint64_t files;
    uint64_t insertions;
    uint64_t deletions;
};
void git_parse_shortstat(const struct buf *output, struct git_stat *stat); /* of --shortstat */
/* Counted as the output comes, in bounded memory. */
struct git_kinds {
    struct buf head;
    unsigned names; /* that still follow and mean nothing */
    uint64_t binary_files;
    uint64_t renames;
    uint64_t submodules;
};
void git_kinds_init(struct git_kinds *kinds);
void git_kinds_finish(struct git_kinds *kinds);
void git_kinds_feed(struct git_kinds *kinds, const char *bytes, size_t len);
uint64_t git_parse_count(const struct buf *output);      /* a decimal number */
uint64_t git_count_names(const char *bytes, size_t len); /* NUL-ended names */

/* What went wrong with a clone, from git's own words: fills code-like REASON ("not_found",
 * "denied", "branch_not_found", "moved", "unreachable", "not_git", "failed") and a HINT for a
 * person. */
void git_clone_diagnose(const char *stderr_text, bool local, const char **reason,
                        const char **hint);

#endif
