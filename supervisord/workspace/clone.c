/* clone.c: the commands that bring a repository in, and what they say. Addresses, refs and names
 * come as arguments of their own, behind what ends options; no shell reads them. */
#include "workspace/workspace.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"
#include "workspace/git_command.h"

#define MIRROR_PACKS_MAX 16

/* git as it fetches: it follows no redirect, since what the run may read and push has one address.
 */
static void add_fetcher(struct git_command *command)
{
    git_command_add(command, "-c", "http.followRedirects=false", "-c", "protocol.ext.allow=never",
                    "-c", "transfer.bundleURI=false", NULL);
}

void git_clear_folder(struct git_command *command, const char *folder)
{
    git_command_init(command);
    git_command_add(command, "find", folder, "-mindepth", "1", "-depth", "-delete", NULL);
}

void git_remove_folder(struct git_command *command, const char *folder)
{
    git_command_init(command);
    git_command_add(command, "rm", "-rf", "--", folder, NULL);
}

void git_ask(struct git_command *command, const char *url)
{
    git_command_init(command);
    git_command_add(command, "git", NULL);
    add_fetcher(command);
    git_command_add(command, "ls-remote", "--symref", "--", url, NULL);
}

/* $5: first the names and then the packs, so that what a name means is among them. A pack without
 * its index is not whole yet. */
#define COPY_MIRROR                                                                                \
    "if [ -n \"$5\" ] && [ -f \"$5/r.git/packed-refs\" ]; then "                                   \
    "sed -n '/^# pack-refs/p; / refs[/]remotes[/]origin[/]/p' \"$5/r.git/packed-refs\" "           \
    ">.git/packed-refs; "                                                                          \
    "for index in \"$5\"/r.git/objects/pack/*.idx; do pack=${index%.idx}; "                        \
    "to=.git/objects/pack/${pack##*/}; "                                                           \
    "if [ -e \"$pack.promisor\" ]; then : >\"$to.promisor\"; fi; "                                 \
    "cp -- \"$pack.pack\" \"$to.pack\"; cp -- \"$index\" \"$to.idx\"; done; "                      \
    "if [ -s \"$5/r.git/shallow\" ]; then cp -- \"$5/r.git/shallow\" .git/shallow; fi; fi"

void git_clone_init(struct git_command *command, const struct repository *repository,
                    const struct git_base *base, const char *mirror, const char *folder)
{
    static const char script[] = "set -e; "
                                 "git init --quiet --object-format=\"$2\" --initial-branch=\"$3\" "
                                 "-- \"$1\"; "
                                 "cd -- \"$1\"; "
                                 "git config remote.origin.url \"$4\"; "
                                 "git config remote.origin.fetch "
                                 "'+refs/heads/*:refs/remotes/origin/*'; " COPY_MIRROR;
    const char *branch = base->head_branch[0] != '\0' ? base->head_branch : "main";

    if (base->kind == GIT_BASE_BRANCH)
        branch = base->name;
    git_command_script(command, script, folder, base->format, branch, repository->url, mirror,
                       NULL);
}

void git_mirror(struct git_command *command, const struct git_mirror_wish *wish)
{
    /* The files of the default branch are fetched too, however large: every session needs them. */
    static const char script[] =
        "set -e; cd -- \"$1\"; chmod 755 .; "
        "if [ -n \"$5\" ]; then find . -mindepth 1 -delete; fi; "
        "git init --quiet --bare --object-format=\"$4\" r.git; cd r.git; "
        "find objects -name 'tmp_*' -delete; find objects/pack -name '.tmp-*' -delete; "
        "git config remote.origin.url \"$2\"; "
        "git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; "
        "f() { git -c gc.auto=0 -c fetch.unpackLimit=1 -c http.followRedirects=false "
        "-c protocol.ext.allow=never fetch --progress --no-write-fetch-head "
        "--no-recurse-submodules \"$@\"; }; "
        "if [ -n \"$3\" ]; then f --prune --force --tags --filter=\"$3\" --depth=2147483647 "
        "origin; "
        "else f --prune --force --tags --update-shallow origin; fi; "
        "git remote set-head origin --auto >/dev/null || true; "
        "if git rev-parse --verify --quiet refs/remotes/origin/HEAD >/dev/null; then "
        "git rev-list --objects --missing=print 'refs/remotes/origin/HEAD^{tree}' | "
        "sed -n 's/^?//p' >/tmp/missing; "
        "if [ -s /tmp/missing ]; then f --no-tags --filter=blob:none --stdin origin </tmp/missing; "
        "fi; fi; "
        "git pack-refs --all; "
        /* One pack a fetch: now and then they become one, as they are, without a search for what
         * could be stored more tightly. Who copies one that goes meanwhile does without a mirror.
         */
        "if [ \"$(ls objects/pack/*.pack | wc -l)\" -gt \"$6\" ]; then "
        "nice git -c pack.threads=1 -c pack.window=0 -c pack.writeReverseIndex=false "
        "repack -a -d -q || true; fi";
    AUTO_FREE
    char *packs = mem_printf("%d", MIRROR_PACKS_MAX);

    git_command_script(command, script, wish->folder, wish->url, wish->filter, wish->format,
                       wish->fresh ? "fresh" : "", packs, NULL);
}

void git_size(struct git_command *command, const char *folder)
{
    AUTO_FREE
    char *own = mem_printf("%s/.git", folder);

    git_command_script(command, "du -sk -- \"$1\" | cut -f 1", own, NULL);
}

static void begin_fetch(struct git_command *command, const char *folder, const char *filter)
{
    AUTO_FREE
    char *wish = mem_printf("--filter=%s", filter);

    git_command_begin(command, folder);
    add_fetcher(command);
    git_command_add(command, "fetch", "--progress", "--no-recurse-submodules",
                    "--no-write-fetch-head", filter[0] != '\0' ? wish : "--update-shallow", NULL);
}

void git_clone_base(struct git_command *command, const struct git_base *base, const char *filter,
                    const char *folder)
{
    AUTO_FREE
    char *spec = mem_printf("+%s:%s", base->source, base->target);

    begin_fetch(command, folder, filter);
    /* With a filter, git 2.39 asks a remote that is shallow itself for what lies behind its end,
     * and for that again, until there are no processes left. Told a depth, even that of everything,
     * it takes the end for what it is. */
    if (filter[0] != '\0')
        git_command_add(command, "--depth=2147483647", NULL);
    git_command_add(command, "--no-tags", "--", "origin", spec, NULL);
}

void git_clone_rest(struct git_command *command, const char *filter, const char *folder)
{
    begin_fetch(command, folder, filter);
    git_command_add(command, "--tags", "--prune", "--", "origin", NULL);
}

/* $2 what to begin at, $3 the base as a branch of its own or "", $4 the branch for the work or "",
 * $5 the remote's default branch or "". A branch `agent` leaves no room for `agent/x`. */
void git_clone_checkout(struct git_command *command, const struct git_base *base, const char *work,
                        const char *folder)
{
    static const char script[] =
        "cd -- \"$1\" || exit; "
        "g() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false \"$@\"; }; "
        "if [ -n \"$5\" ]; then "
        "g symbolic-ref refs/remotes/origin/HEAD \"refs/remotes/origin/$5\"; fi; "
        "if [ -n \"$3\" ]; then g branch --quiet --track -- \"$3\" \"$2\" || exit; fi; "
        "if [ -z \"$4\" ] && [ -n \"$3\" ]; then g checkout --progress \"$3\" --; "
        "elif [ -z \"$4\" ]; then g checkout --progress --detach \"$2^{commit}\" --; "
        "elif g branch --quiet --no-track -- \"$4\" \"$2^{commit}\"; then "
        "g checkout --progress \"$4\" --; "
        "else g checkout --progress --no-track -b \"$6\" \"$2^{commit}\" --; fi";
    AUTO_FREE
    char *flat = branch_flat(work);

    git_command_script(command, script, folder, base->target,
                       base->kind == GIT_BASE_BRANCH ? base->name : "", work, base->head_branch,
                       flat, NULL);
}

void git_branch_off(struct git_command *command)
{
    static const char script[] =
        "off() { ( cd -- \"$1\" && "
        "g() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false \"$@\"; } && "
        "g symbolic-ref --quiet HEAD && g branch --quiet --no-track -- \"$2\" HEAD && "
        "g symbolic-ref HEAD \"refs/heads/$2\" ) >/dev/null; }; "
        "while [ $# -gt 0 ]; do "
        "if off \"$1\" \"$2\"; then printf 1; elif off \"$1\" \"$3\"; then printf 2; "
        "else printf 0; fi; shift 3; done";

    git_command_script(command, script, NULL);
}

void git_branch_off_add(struct git_command *command, const char *folder, const char *name)
{
    AUTO_FREE
    char *flat = branch_flat(name);

    git_command_add(command, folder, name, flat, NULL);
}

void git_clone_submodules(struct git_command *command, const char *folder)
{
    /* Each by itself: one that can't be had is named, and costs the others nothing. */
    static const char script[] =
        "cd -- \"$1\" && [ -f .gitmodules ] || exit 0; "
        "git config -z --file .gitmodules --get-regexp '^submodule\\..*\\.path$' | "
        "sed -z 's/^[^\\n]*\\n//' | "
        "xargs -0 -r -n 1 sh -c '"
        "git -c core.hooksPath=/dev/null -c http.followRedirects=false -c protocol.ext.allow=never "
        "submodule update --init --recursive --progress -- \"$1\" </dev/null >&2 || "
        "printf \"%s\\n\" \"$1\"' sh";

    git_command_script(command, script, folder, NULL);
}

void git_count_lfs(struct git_command *command, const char *folder)
{
    static const char script[] =
        "git -C \"$1\" ls-files -z -- ':(attr:filter=lfs)' | tr -dc '\\0' | wc -c";

    git_command_script(command, script, folder, NULL);
}

void git_name_clone(struct git_command *command, const char *from, const char *to,
                    const char *owner)
{
    static const char script[] =
        "note=.git/sandbox-mcp-clone; "
        "if [ -e \"$2\" ] || [ -L \"$2\" ]; then "
        "grep -qsxF -e \"$3\" \"$2/$note\" && exec rm -rf -- \"$1\"; exit 1; fi; "
        "printf '%s\\n' \"$3\" >\"$1/$note\" && mv -T -- \"$1\" \"$2\"";

    git_command_script(command, script, from, to, owner, NULL);
}

void git_init(struct git_command *command, const char *folder)
{
    git_command_init(command);
    git_command_add(command, "git", "init", "--quiet", "--initial-branch=main", "--", folder, NULL);
}

void git_first_commit(struct git_command *command, const char *folder)
{
    git_command_begin(command, folder);
    git_command_add(command, "commit", "--quiet", "--allow-empty", "-m", "Start", NULL);
}

/* The line ends with a percentage and two numbers, whatever the words before. */
bool git_parse_progress(const char *line, struct git_progress *progress)
{
    static const char *const between[] = { "% (", "/", ")" };
    const char *words = str_starts(line, "remote: ") ? line + strlen("remote: ") : line;
    const char *at = strchr(words, ':');
    uint64_t numbers[3] = { 0 };

    if (at == NULL || at == words)
        return false;
    for (at++; *at == ' '; at++)
        ;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (!isdigit((unsigned char)*at))
            return false;
        for (; isdigit((unsigned char)*at) && numbers[i] < UINT64_MAX / 10 - 10; at++)
            numbers[i] = numbers[i] * 10 + (uint64_t)(*at - '0');
        if (!str_starts(at, between[i]))
            return false;
        at += strlen(between[i]);
    }
    if (numbers[0] > 100)
        return false;
    *progress = (struct git_progress){ (unsigned)numbers[0], numbers[1], numbers[2] };
    return true;
}

struct clone_symptom {
    const char *words;
    const char *reason;
    const char *hint;
};

void git_clone_diagnose(const char *stderr_text, bool local, const char **reason, const char **hint)
{
    static const struct clone_symptom symptoms[] = {
        { "couldn't find remote ref", "branch_not_found",
          "the argument `branch` names no branch, tag or commit of that repository" },
        { "not our ref", "branch_not_found",
          "the server doesn't give that commit; name a branch or tag" },
        { "returned error: 30", "moved",
          "the repository has another address now; open it in a browser and name the new one" },
        { "request_not_allowed", "not_git",
          "the server speaks git's old (dumb) protocol only, or has no repository there; name a "
          "repository of a git server" },
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
