#include "workspace/workspace.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/str.h"

#define REPOSITORY_ARGUMENT "repository"

void repository_finish(struct repository *repository)
{
    free(STEAL(repository->url));
    free(STEAL(repository->git_dir));
    free(STEAL(repository->name));
}

static bool has_bad_byte(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c <= 0x20 || c == 0x7f || c == '\\')
            return true;
    }
    return false;
}

/* The last component without ".git", made of characters that are harmless in a path. */
static char *folder_name(const char *path)
{
    size_t len = strlen(path);
    const char *start;
    char *name;

    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len > 4 && strncmp(path + len - 4, ".git", 4) == 0)
        len -= 4;
    while (len > 0 && path[len - 1] == '/')
        len--;
    for (start = path + len; start > path && start[-1] != '/'; start--)
        ;
    len = (size_t)(path + len - start);
    if (len > 100)
        len = 100;
    name = mem_strndup(start, len);
    for (char *p = name; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && *p != '.' && *p != '_' && *p != '-')
            *p = '_';
    }
    while (name[0] == '.' || name[0] == '-')
        name[0] = '_';
    if (name[0] == '\0') {
        free(name);
        name = mem_strdup("repository");
    }
    return name;
}

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool looks_like_git_dir(const char *path)
{
    AUTO_FREE
    char *objects = mem_printf("%s/objects", path);
    AUTO_FREE
    char *refs = mem_printf("%s/refs", path);
    AUTO_FREE
    char *head = mem_printf("%s/HEAD", path);

    return is_directory(objects) && is_directory(refs) && access(head, R_OK) == 0;
}

static bool below(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    while (len > 1 && folder[len - 1] == '/')
        len--;
    if (strncmp(path, folder, len) != 0)
        return false;
    return path[len] == '\0' || path[len] == '/' || len == 1;
}

static int check_allowed(const char *real, const struct repository_rules *rules, struct error *err)
{
    if (rules->any_local)
        return 0;
    for (size_t i = 0; i < rules->local_folder_count; i++) {
        if (below(real, rules->local_folders[i]))
            return 0;
    }
    error_argument(err, REPOSITORY_ARGUMENT,
                   "the folder is not below any of `localRepositories` in the configuration; add "
                   "it there, or start "
                   "the run with sandboxctl");
    err->code = ERR_DENIED;
    return -1;
}

static int parse_local(const char *text, const struct repository_rules *rules,
                       struct repository *out, struct error *err)
{
    const char *path = str_starts(text, "file://") ? text + strlen("file://") : text;
    char real[PATH_MAX];
    AUTO_FREE
    char *dot_git = NULL;
    struct stat st;

    if (path[0] != '/')
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "a file:// address must hold an absolute path");
    if (realpath(path, real) == NULL)
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "the folder %s does not exist or can't be read", path);
    if (check_allowed(real, rules, err) < 0)
        return -1;
    dot_git = mem_printf("%s/.git", real);
    out->kind = REPOSITORY_LOCAL;
    out->url = mem_strdup(REPOSITORY_LOCAL_URL);
    out->name = folder_name(real);
    if (looks_like_git_dir(dot_git)) {
        out->git_dir = STEAL(dot_git);
        return 0;
    }
    if (looks_like_git_dir(real)) {
        out->git_dir = mem_strdup(real);
        return 0;
    }
    if (stat(dot_git, &st) == 0 && S_ISREG(st.st_mode))
        return error_argument(
            err, REPOSITORY_ARGUMENT,
            "%s is a linked worktree or a submodule; name the main repository's folder", real);
    return error_argument(err, REPOSITORY_ARGUMENT,
                          "%s is not a git repository (run git init and commit first)", real);
}

static bool target_matches(const char *url, const char *target)
{
    size_t len = strlen(target);

    while (len > 0 && target[len - 1] == '/')
        len--;
    return strncasecmp(url, target, len) == 0 && url[len] == '/' && url[len + 1] != '\0';
}

static int check_path(const char *path, struct error *err)
{
    if (strchr(path, '?') != NULL || strchr(path, '#') != NULL || strchr(path, '%') != NULL)
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "the address may not hold a query, a fragment or %% escapes");
    for (const char *p = path; (p = strstr(p, "/.")) != NULL; p += 2) {
        if (p[2] == '/' || p[2] == '\0' || (p[2] == '.' && (p[3] == '/' || p[3] == '\0')))
            return error_argument(err, REPOSITORY_ARGUMENT,
                                  "the address may not hold . or .. as a folder");
    }
    if (strstr(path, "//") != NULL)
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "the address may not hold empty folder names");
    return 0;
}

static int parse_url(const char *text, const struct repository_rules *rules, struct repository *out,
                     struct error *err)
{
    const char *authority = strstr(text, "://") + 3;
    const char *path = strchr(authority, '/');
    const char *at = strchr(authority, '@');

    if (at != NULL && (path == NULL || at < path))
        return error_argument(
            err, REPOSITORY_ARGUMENT,
            "the address holds credentials; leave them out: they are added by the "
            "proxy (sandboxctl secret set GITHUB_TOKEN)");
    if (path == NULL || path[1] == '\0')
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "the address names no repository: https://host/owner/name");
    if (check_path(path, err) < 0)
        return -1;
    for (size_t i = 0; i < rules->target_count || rules->any_target; i++) {
        if (rules->any_target || target_matches(text, rules->targets[i])) {
            out->kind = REPOSITORY_URL;
            out->url = mem_strdup(text);
            out->name = folder_name(path);
            return 0;
        }
    }
    error_argument(
        err, REPOSITORY_ARGUMENT,
        "no git service is configured for %.*s; add one under `services` in the configuration",
        (int)(path - text), text);
    err->code = ERR_DENIED;
    return -1;
}

int repository_parse(const char *text, const struct repository_rules *rules, struct repository *out,
                     struct error *err)
{
    *out = (struct repository){ .kind = REPOSITORY_NONE };
    if (text == NULL || text[0] == '\0')
        return 0;
    if (text[0] == '-')
        return error_argument(err, REPOSITORY_ARGUMENT, "may not begin with a dash");
    if (text[0] == '/')
        return parse_local(text, rules, out, err);
    if (has_bad_byte(text))
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "may not hold spaces, control characters or backslashes");
    if (strncasecmp(text, "file://", 7) == 0)
        return parse_local(text, rules, out, err);
    if (strncasecmp(text, "https://", 8) == 0 || strncasecmp(text, "http://", 7) == 0)
        return parse_url(text, rules, out, err);
    if (str_starts(text, "git@") || str_starts(text, "ssh://"))
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "ssh addresses can't be used, since no key enters a sandbox; use "
                              "https://host/owner/name");
    return error_argument(err, REPOSITORY_ARGUMENT,
                          "must be https://host/owner/name, file:///folder or an absolute folder");
}

int branch_check(const char *branch, struct error *err)
{
    size_t len = strlen(branch);

    if (len == 0)
        return 0;
    if (branch[0] == '-')
        return error_argument(err, "branch", "may not begin with a dash");
    if (len > 255)
        return error_argument(err, "branch", "is longer than 255 bytes");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)branch[i];

        if (c <= 0x20 || c == 0x7f || strchr("~^:?*[\\", c) != NULL)
            return error_argument(
                err, "branch",
                "is no valid name: spaces, control characters and ~^:?*[\\ can't be used");
    }
    if (branch[0] == '/' || branch[len - 1] == '/' || branch[len - 1] == '.' ||
        strstr(branch, "..") != NULL || strstr(branch, "//") != NULL ||
        strstr(branch, "@{") != NULL || strstr(branch, "/.") != NULL || branch[0] == '.' ||
        str_ends(branch, ".lock") || strstr(branch, ".lock/") != NULL || str_equal(branch, "@"))
        return error_argument(err, "branch", "is no valid name (git check-ref-format)");
    return 0;
}
