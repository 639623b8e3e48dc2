#include "workspace/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/paths.h"

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
        return error_set(err, ERR_NOT_FOUND, 0,
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

int workspace_remove_empty(const struct workspace_layout *layout, struct error *err)
{
    const char *const folders[] = { layout->workspace, layout->home, layout->caches,
                                    layout->checkpoints, layout->session };

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        if (rmdir(folders[i]) < 0 && errno != ENOENT)
            return error_set(err, ERR_SYSTEM, errno, "remove folder %s", folders[i]);
    }
    return 0;
}
