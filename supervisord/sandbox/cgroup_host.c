#include "sandbox/cgroup_host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/cgroup.h"

#define LEAF "supervisor"

const char *const cgroup_controller_names[CGROUP_CONTROLLERS] = {
    [CGROUP_TREE_MEMORY] = "memory",
    [CGROUP_TREE_PIDS] = "pids",
    [CGROUP_TREE_CPU] = "cpu",
};

/* Files ---------------------------------------------------------------------------------------- */

int cgroup_write(const char *folder, const char *name, const char *text)
{
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno;
    return write(fd, text, strlen(text)) < 0 ? errno : 0;
}

char *cgroup_read(const char *folder, const char *name)
{
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    struct error ignored = ERROR_INIT;
    char *text = NULL;

    if (fd_read_file(path, CGROUP_TEXT_MAX, &text, NULL, &ignored) < 0 || !text)
        return mem_strdup("");
    return text;
}

/* Version 2 ------------------------------------------------------------------------------------ */

static unsigned parse_controllers(const char *folder, const char *file)
{
    AUTO_FREE char *text = cgroup_read(folder, file);
    unsigned found = 0;

    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (cgroup_has_word(text, cgroup_controller_names[i]))
            found |= 1u << i;
    }
    return found;
}

unsigned cgroup_enable(const char *folder, unsigned wanted)
{
    unsigned enabled = parse_controllers(folder, "cgroup.subtree_control") & wanted;

    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        char text[16] = "+";

        if ((wanted & ~enabled & 1u << i) == 0)
            continue;
        str_copy(text + 1, sizeof(text) - 1, cgroup_controller_names[i]);
        if (cgroup_write(folder, "cgroup.subtree_control", text) == 0)
            enabled |= 1u << i;
    }
    return enabled;
}

/* systemd marks what it has handed over. The root of a cgroup namespace was made for those in it;
 * the true root is never full, so it does not come here. */
static bool is_ours(const char *folder, const struct cgroup_place *place)
{
    static const char *const marks[] = { "user.delegate", "trusted.delegate" };

    if (str_equal(folder, place->top))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        char value = '0';

        if (getxattr(folder, marks[i], &value, 1) == 1 && value == '1')
            return true;
    }
    return false;
}

static bool is_alone(const char *folder)
{
    AUTO_FREE char *text = cgroup_read(folder, "cgroup.procs");
    AUTO_FREE char *only = mem_printf("%d\n", (int)getpid());

    return str_equal(text, only);
}

static int move_to_leaf(const char *folder)
{
    AUTO_FREE char *leaf = mem_printf("%s/" LEAF, folder);

    if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
        return -1;
    return cgroup_write(leaf, "cgroup.procs", "0") == 0 ? 0 : -1;
}

/* Which controllers groups below FOLDER can have. */
static unsigned open_up(const char *folder, const struct cgroup_place *place)
{
    unsigned there = parse_controllers(folder, "cgroup.controllers");
    unsigned enabled;

    if (there == 0 || access(folder, W_OK) < 0)
        return 0;
    enabled = cgroup_enable(folder, there);
    if (enabled != there && is_ours(folder, place) && is_alone(folder) && move_to_leaf(folder) == 0)
        enabled = cgroup_enable(folder, there);
    return enabled;
}

static char *parent_of_leaf(const char *folder)
{
    return str_ends(folder, "/" LEAF) ? mem_strndup(folder, strlen(folder) - strlen("/" LEAF))
                                      : NULL;
}

static void add_part(struct cgroup_host *host, const char *folder, bool unified, unsigned controls)
{
    struct cgroup_part *part = &host->parts[host->part_count++];

    part->folder = mem_strdup(folder);
    part->unified = unified;
    part->controls = controls;
}

static unsigned find_unified(struct cgroup_host *host, const struct cgroup_place *place)
{
    /* An earlier supervisor's leaf, or the one systemd was told to use. */
    AUTO_FREE char *parent = place->own ? parent_of_leaf(place->own) : NULL;
    const char *const places[] = { parent, place->own, geteuid() == 0 ? place->top : NULL };

    host->has_groups = place->own != NULL;
    for (size_t i = 0; i < ARRAY_LEN(places) && !place->read_only; i++) {
        unsigned controls = places[i] ? open_up(places[i], place) : 0;

        if (controls == 0)
            continue;
        add_part(host, places[i], true, controls);
        return controls;
    }
    return 0;
}

/* Finding -------------------------------------------------------------------------------------- */

static void put_below(char **path, const char *root)
{
    char *old = STEAL(*path);

    if (old)
        *path = mem_printf("%s%s", root, old);
    free(old);
}

static void find_places(struct cgroup_places *places, const char *root)
{
    AUTO_FREE char *folder = mem_printf("%s/proc/self", root);
    AUTO_FREE char *mountinfo = cgroup_read(folder, "mountinfo");
    AUTO_FREE char *self = cgroup_read(folder, "cgroup");

    cgroup_places_parse(places, mountinfo, self);
    for (int tree = 0; tree < CGROUP_TREE_COUNT; tree++) {
        put_below(&places->trees[tree].top, root);
        put_below(&places->trees[tree].own, root);
    }
}

struct cgroup_host *cgroup_host_find(const char *root, const char *runtime_dir)
{
    struct cgroup_host *host = NEW(struct cgroup_host);
    struct cgroup_places places;
    unsigned found;

    find_places(&places, root);
    host->name = mem_printf("%016" PRIx64, str_hash(STR_HASH_START, runtime_dir));
    found = find_unified(host, &places.trees[CGROUP_TREE_UNIFIED]);
    for (unsigned tree = 0; tree < CGROUP_CONTROLLERS; tree++) {
        const struct cgroup_place *place = &places.trees[tree];

        if (!place->own)
            continue;
        host->has_groups = true;
        if ((found & 1u << tree) == 0 && !place->read_only && access(place->own, W_OK) == 0)
            add_part(host, place->own, false, 1u << tree);
    }
    cgroup_places_finish(&places);
    return host;
}

void cgroup_host_free(struct cgroup_host *host)
{
    if (!host)
        return;
    for (size_t i = 0; i < host->part_count; i++)
        free(host->parts[i].folder);
    free(host->name);
    free(host);
}

void cgroup_host_describe(const struct cgroup_host *host, struct buf *out)
{
    static const char *const words[CGROUP_CONTROLLERS] = {
        [CGROUP_TREE_MEMORY] = "memory",
        [CGROUP_TREE_PIDS] = "processes",
        [CGROUP_TREE_CPU] = "cpu",
    };

    for (size_t i = 0; i < host->part_count; i++) {
        const struct cgroup_part *part = &host->parts[i];

        for (unsigned one = 0; one < CGROUP_CONTROLLERS; one++) {
            if (part->controls & 1u << one)
                buf_printf(out, "%s%s by cgroup v%d", out->len ? ", " : "", words[one],
                           part->unified ? 2 : 1);
        }
    }
    if (host->part_count > 0)
        return;
    buf_append_str(out, host->has_groups
                            ? "no control group may be used: run the supervisor as a systemd user "
                              "service with Delegate=yes"
                            : "no control groups are mounted here");
}
