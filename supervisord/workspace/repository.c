#include "workspace/workspace.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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
    free(STEAL(repository->head));
    free(STEAL(repository->name));
}

static bool has_control(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return true;
    }
    return false;
}

/* Addresses are plain ASCII: letters that look like others are no way to another host. */
static bool has_bad_byte(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c <= 0x20 || c >= 0x7f || c == '\\')
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

/* The first line of a small file of the user's own; "" when there is none. */
static void read_line(const char *path, char *to, size_t size)
{
    FILE *file = fopen(path, "re");

    to[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(to, (int)size, file) == NULL)
        to[0] = '\0';
    to[strcspn(to, "\r\n")] = '\0';
    fclose(file);
}

/* PATH as it is written in a file of FOLDER: real, on the heap, or NULL. */
static char *resolve(const char *folder, const char *path)
{
    AUTO_FREE
    char *whole = path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", folder, path);

    return realpath(whole, NULL);
}

/* A linked worktree has only a HEAD to itself, and says where the rest is; a submodule has all of
 * it elsewhere. */
static int find_elsewhere(const char *real, const char *dot_git,
                          const struct repository_rules *rules, struct repository *out,
                          struct error *err)
{
    char line[PATH_MAX];
    AUTO_FREE
    char *own = NULL;
    AUTO_FREE
    char *common = NULL;
    AUTO_FREE
    char *common_file = NULL;

    read_line(dot_git, line, sizeof(line));
    if (str_starts(line, "gitdir: "))
        own = resolve(real, line + strlen("gitdir: "));
    if (own == NULL)
        return error_argument(err, REPOSITORY_ARGUMENT, "%s has a .git file that leads nowhere",
                              real);
    common_file = mem_printf("%s/commondir", own);
    read_line(common_file, line, sizeof(line));
    common = line[0] != '\0' ? resolve(own, line) : mem_strdup(own);
    if (common == NULL || !looks_like_git_dir(common))
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "%s is a linked worktree whose repository is not there", real);
    if (check_allowed(common, rules, err) < 0)
        return -1;
    out->head = mem_printf("%s/HEAD", own);
    out->git_dir = STEAL(common);
    return 0;
}

static int find_git_dir(const char *real, const struct repository_rules *rules,
                        struct repository *out, struct error *err)
{
    AUTO_FREE
    char *dot_git = mem_printf("%s/.git", real);
    struct stat st;

    if (stat(dot_git, &st) == 0 && S_ISREG(st.st_mode))
        return find_elsewhere(real, dot_git, rules, out, err);
    if (looks_like_git_dir(dot_git))
        out->git_dir = STEAL(dot_git);
    else if (looks_like_git_dir(real))
        out->git_dir = mem_strdup(real);
    else
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "%s is not a git repository (run git init and commit first)", real);
    out->head = mem_printf("%s/HEAD", out->git_dir);
    return 0;
}

/* How its objects are named stands in its configuration, which does not go into a sandbox. */
static bool names_by_sha256(const char *git_dir)
{
    AUTO_FREE
    char *path = mem_printf("%s/config", git_dir);
    FILE *file = fopen(path, "re");
    char line[512];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = strcasestr(line, "objectformat") != NULL && strcasestr(line, "sha256") != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

static int check_whole(const char *git_dir, struct error *err)
{
    AUTO_FREE
    char *path = mem_printf("%s/objects/info/alternates", git_dir);
    struct stat st;

    if (stat(path, &st) < 0 || st.st_size == 0)
        return 0;
    return error_argument(err, REPOSITORY_ARGUMENT,
                          "%s borrows objects from another repository, which does not go into a "
                          "sandbox; make it whole first: git repack -a -d && rm "
                          "objects/info/alternates",
                          git_dir);
}

static int parse_local(const char *text, const struct repository_rules *rules,
                       struct repository *out, struct error *err)
{
    const char *path = str_starts(text, "file://") ? text + strlen("file://") : text;
    char real[PATH_MAX];

    if (path[0] != '/')
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "a file:// address must hold an absolute path");
    if (has_control(path))
        return error_argument(err, REPOSITORY_ARGUMENT, "may not hold control characters");
    if (realpath(path, real) == NULL)
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "the folder %s does not exist or can't be read", path);
    if (check_allowed(real, rules, err) < 0 || find_git_dir(real, rules, out, err) < 0 ||
        check_whole(out->git_dir, err) < 0)
        return -1;
    out->kind = REPOSITORY_LOCAL;
    out->url = mem_strdup(REPOSITORY_LOCAL_URL);
    out->name = folder_name(real);
    out->sha256 = names_by_sha256(out->git_dir);
    return 0;
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
    if (text[0] == '/' || strncasecmp(text, "file://", 7) == 0)
        return parse_local(text, rules, out, err);
    if (has_bad_byte(text))
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "must be plain ASCII without spaces, control characters and "
                              "backslashes");
    if (strncasecmp(text, "https://", 8) == 0 || strncasecmp(text, "http://", 7) == 0)
        return parse_url(text, rules, out, err);
    if (str_starts(text, "git@") || str_starts(text, "ssh://"))
        return error_argument(err, REPOSITORY_ARGUMENT,
                              "ssh addresses can't be used, since no key enters a sandbox; use "
                              "https://host/owner/name");
    return error_argument(err, REPOSITORY_ARGUMENT,
                          "must be https://host/owner/name, file:///folder or an absolute folder");
}
