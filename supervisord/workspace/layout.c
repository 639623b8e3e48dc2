#include "workspace/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/paths.h"
#include "common/str.h"

void workspace_layout_init(struct workspace_layout *layout, const char *state_dir,
                           const char *session_id)
{
    layout->session = mem_printf("%s/sessions/%s", state_dir, session_id);
    layout->workspace = mem_printf("%s/workspace", layout->session);
    layout->home = mem_printf("%s/home", layout->session);
    layout->caches = mem_printf("%s/caches", layout->session);
    layout->checkpoints = mem_printf("%s/checkpoints/%s", state_dir, session_id);
}

void workspace_layout_finish(struct workspace_layout *layout)
{
    free(STEAL(layout->session));
    free(STEAL(layout->workspace));
    free(STEAL(layout->home));
    free(STEAL(layout->caches));
    free(STEAL(layout->checkpoints));
}

/* The folder itself is ours to make; it is looked at without following a link, and never entered.
 */
static int make_owned(const char *path, uid_t uid, struct error *err)
{
    AUTO_CLOSE
    int fd = -1;
    struct stat st;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(err, ERR_SYSTEM, errno, "make folder %s", path);
    fd = open(path, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open folder %s", path);
    if (fstat(fd, &st) < 0)
        return error_set(err, ERR_SYSTEM, errno, "look at folder %s", path);
    if (st.st_uid == uid)
        return 0;
    if (fchownat(fd, "", uid, uid, AT_EMPTY_PATH) < 0)
        return error_set(err, ERR_SYSTEM, errno, "give folder %s to uid %u", path, (unsigned)uid);
    return 0;
}

int workspace_make(const struct workspace_layout *layout, uid_t uid, struct error *err)
{
    size_t above = (size_t)(strrchr(layout->checkpoints, '/') - layout->checkpoints);
    AUTO_FREE
    char *checkpoints = mem_strndup(layout->checkpoints, above);

    if (paths_make_private(layout->session, err) < 0 || paths_make_private(checkpoints, err) < 0)
        return -1;
    if (make_owned(layout->workspace, uid, err) < 0 || make_owned(layout->home, uid, err) < 0 ||
        make_owned(layout->caches, uid, err) < 0 || make_owned(layout->checkpoints, uid, err) < 0)
        return -1;
    return 0;
}

int workspace_make_cache(const struct workspace_layout *layout, const char *name, uid_t uid,
                         const char *lower, char **upper, char **work, struct error *err)
{
    AUTO_FREE
    char *folder = mem_printf("%s/%s", layout->caches, name);
    AUTO_FREE
    char *new_upper = mem_printf("%s/upper", folder);
    AUTO_FREE
    char *new_work = mem_printf("%s/work", folder);

    if (access(lower, F_OK) < 0)
        return error_set(err, ERR_INVALID, 0,
                         "the cache folder %s is not there; make it, or take %s out of "
                         "sandbox.caches",
                         lower, name);
    if (make_owned(folder, uid, err) < 0 || make_owned(new_upper, uid, err) < 0 ||
        make_owned(new_work, uid, err) < 0)
        return -1;
    *upper = STEAL(new_upper);
    *work = STEAL(new_work);
    return 0;
}

void workspace_clear_caches(const struct workspace_layout *layout)
{
    DIR *dir = opendir(layout->caches);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        AUTO_FREE
        char *work = mem_printf("%s/work/work", entry->d_name);

        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), work, AT_REMOVEDIR);
    }
    if (dir != NULL)
        closedir(dir);
}

static int remove_folders(const char *const *folders, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (rmdir(folders[i]) < 0 && errno != ENOENT)
            return error_set(err, ERR_SYSTEM, errno, "remove folder %s", folders[i]);
    }
    return 0;
}

int workspace_remove_empty(const struct workspace_layout *layout, struct error *err)
{
    const char *const folders[] = { layout->workspace, layout->home, layout->caches,
                                    layout->checkpoints, layout->session };

    return remove_folders(folders, ARRAY_LEN(folders), err);
}

/* Mirrors ------------------------------------------------------------------------------------- */

#define MIRROR_OLD_S (24 * 3600)
#define MARK_MAX 8192
#define MIRROR_NAME_LEN 16

/* NAME is taken. */
static void init_mirror(struct workspace_mirror *mirror, const char *state_dir, char *name,
                        uid_t uid)
{
    mirror->name = name;
    mirror->parent = mem_printf("%s/mirrors", state_dir);
    mirror->own = mem_printf("%s/%s", mirror->parent, mirror->name);
    mirror->folder = mem_printf("%s/repository", mirror->own);
    mirror->mark = mem_printf("%s/whole", mirror->own);
    mirror->uid = uid;
}

void workspace_mirror_init(struct workspace_mirror *mirror, const char *state_dir, const char *url,
                           uid_t uid)
{
    uint64_t hash = str_hash(STR_HASH_START, url);

    /* Two addresses may have one name: the mark says whose it is. */
    init_mirror(mirror, state_dir, mem_printf("%016llx", (unsigned long long)hash), uid);
}

void workspace_mirror_copy(struct workspace_mirror *to, const struct workspace_mirror *from)
{
    *to = (struct workspace_mirror){ .name = mem_strdup(from->name),
                                     .parent = mem_strdup(from->parent),
                                     .own = mem_strdup(from->own),
                                     .folder = mem_strdup(from->folder),
                                     .mark = mem_strdup(from->mark),
                                     .uid = from->uid };
}

void workspace_mirror_finish(struct workspace_mirror *mirror)
{
    free(STEAL(mirror->name));
    free(STEAL(mirror->parent));
    free(STEAL(mirror->own));
    free(STEAL(mirror->folder));
    free(STEAL(mirror->mark));
}

int workspace_mirror_make(const struct workspace_mirror *mirror, struct error *err)
{
    if (paths_make_private(mirror->parent, err) < 0 || paths_make_private(mirror->own, err) < 0)
        return -1;
    return make_owned(mirror->folder, mirror->uid, err);
}

static char *mark_of(const char *url, const char *filter)
{
    return mem_printf("%s\n%s\n", url, filter);
}

enum workspace_mirror_age workspace_mirror_age(const struct workspace_mirror *mirror,
                                               const char *url, const char *filter)
{
    AUTO_FREE
    char *wanted = mark_of(url, filter);
    AUTO_FREE
    char *found = NULL;
    struct error ignored = ERROR_INIT;
    struct stat st;
    size_t len;

    if (stat(mirror->mark, &st) < 0 ||
        fd_read_file(mirror->mark, MARK_MAX, &found, &len, &ignored) < 0 ||
        !str_equal(found, wanted))
        return WORKSPACE_MIRROR_NONE;
    return time(NULL) - st.st_mtime < MIRROR_OLD_S ? WORKSPACE_MIRROR_YOUNG : WORKSPACE_MIRROR_OLD;
}

int workspace_mirror_mark(const struct workspace_mirror *mirror, const char *url,
                          const char *filter, struct error *err)
{
    AUTO_FREE
    char *mark = mark_of(url, filter);

    return fd_replace_file(mirror->mark, mark, strlen(mark), 0600, err);
}

int workspace_mirror_unmark(const struct workspace_mirror *mirror, struct error *err)
{
    if (unlink(mirror->mark) < 0 && errno != ENOENT)
        return error_set(err, ERR_SYSTEM, errno, "remove %s", mirror->mark);
    return 0;
}

static bool is_mirror_name(const char *name)
{
    return strlen(name) == MIRROR_NAME_LEN && strspn(name, "0123456789abcdef") == MIRROR_NAME_LEN;
}

/* Its mark is as young as its newest content; without one it counts by the folder. */
static uint64_t used_of(const struct workspace_mirror *mirror, char **url)
{
    struct error ignored = ERROR_INIT;
    struct stat st;
    size_t len;
    bool whole = stat(mirror->mark, &st) == 0 &&
                 fd_read_file(mirror->mark, MARK_MAX, url, &len, &ignored) == 0;

    if (whole)
        (*url)[strcspn(*url, "\n")] = '\0';
    else if (lstat(mirror->own, &st) < 0)
        return 0;
    return st.st_mtime > 0 ? (uint64_t)st.st_mtime * 1000 : 0;
}

void workspace_mirrors_each(const char *state_dir, uid_t uid,
                            void (*each)(void *data, struct workspace_mirror *mirror,
                                         const char *url, uint64_t used_ms),
                            void *data)
{
    AUTO_FREE
    char *parent = mem_printf("%s/mirrors", state_dir);
    DIR *dir = opendir(parent);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct workspace_mirror mirror;
        AUTO_FREE
        char *url = NULL;
        uint64_t used_ms;

        if (!is_mirror_name(entry->d_name))
            continue;
        init_mirror(&mirror, state_dir, mem_strdup(entry->d_name), uid);
        used_ms = used_of(&mirror, &url);
        each(data, &mirror, url != NULL ? url : "", used_ms);
    }
    if (dir != NULL)
        closedir(dir);
}

int workspace_mirror_remove_empty(const struct workspace_mirror *mirror, struct error *err)
{
    const char *const folders[] = { mirror->folder, mirror->own };

    return remove_folders(folders, ARRAY_LEN(folders), err);
}
