#include "sandbox/cgroup_find.h"

#include <stddef.h>

#include "common/mem.h"
#include "common/str.h"

static const char *const controllers[CGROUP_TREE_COUNT] = {
    [CGROUP_TREE_MEMORY] = "memory",
    [CGROUP_TREE_PIDS] = "pids",
    [CGROUP_TREE_CPU] = "cpu",
};

/* Text within a longer one. */
struct span {
    const char *at;
    size_t len;
};

static bool span_is(struct span span, const char *text)
{
    return span.len == strlen(text) && memcmp(span.at, text, span.len) == 0;
}

/* Takes the part up to SEPARATOR off the front of REST. */
static struct span take(struct span *rest, char separator)
{
    const char *end = rest->len ? memchr(rest->at, separator, rest->len) : NULL;
    struct span part = { rest->at, end ? (size_t)(end - rest->at) : rest->len };
    size_t used = part.len + (end != NULL);

    rest->at += used;
    rest->len -= used;
    return part;
}

static bool has_part(struct span list, const char *name)
{
    while (list.len) {
        if (span_is(take(&list, ','), name))
            return true;
    }
    return false;
}

/* The kernel writes space, tab, newline and backslash as \040 and so on. */
static char *unescape(struct span span)
{
    char *text = mem_new_zero(span.len + 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < span.len; i++) {
        const char *at = span.at + i;

        if (at[0] == '\\' && span.len - i >= 4 && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' &&
            at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
            text[len++] = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            i += 3;
        } else {
            text[len++] = at[0];
        }
    }
    return text;
}

/* Mounts --------------------------------------------------------------------------------------- */

struct mount {
    struct span root; /* the part of the tree that is mounted */
    struct span target;
    struct span options;
    struct span type;
    struct span features; /* options of the file system: the controllers of a version 1 tree */
};

static bool parse_mount(struct span line, struct mount *mount)
{
    for (int skipped = 0; skipped < 3; skipped++)
        take(&line, ' ');
    mount->root = take(&line, ' ');
    mount->target = take(&line, ' ');
    mount->options = take(&line, ' ');
    while (line.len && !span_is(take(&line, ' '), "-"))
        ;
    mount->type = take(&line, ' ');
    take(&line, ' ');
    mount->features = take(&line, ' ');
    return mount->root.len > 0 && mount->target.len > 0 && mount->target.at[0] == '/';
}

static bool is_tree(const struct mount *mount, enum cgroup_tree tree)
{
    if (tree == CGROUP_TREE_UNIFIED)
        return span_is(mount->type, "cgroup2");
    return span_is(mount->type, "cgroup") && has_part(mount->features, controllers[tree]);
}

/* Our own group's path in TREE, from /proc/self/cgroup; NULL if there is none. On the heap. */
static char *own_path(const char *self, enum cgroup_tree tree)
{
    struct span rest = { self, strlen(self) };

    while (rest.len) {
        struct span line = take(&rest, '\n');
        struct span number = take(&line, ':');
        struct span list = take(&line, ':');
        bool found = tree == CGROUP_TREE_UNIFIED ? span_is(number, "0") && list.len == 0
                                                 : has_part(list, controllers[tree]);

        if (found && line.len && line.at[0] == '/')
            return mem_strndup(line.at, line.len);
    }
    return NULL;
}

/* Where the group PATH is seen below a mount of ROOT at TARGET; NULL if it is not. A path with ".."
 * in it lies outside of our cgroup namespace. */
static char *seen_at(const char *target, const char *root, const char *path)
{
    size_t len = str_equal(root, "/") ? 0 : strlen(root);
    const char *below = path + len;

    if (strstr(path, "/..") || strstr(root, "/.."))
        return NULL;
    if (strncmp(path, root, len) != 0 || (*below != '\0' && *below != '/'))
        return NULL;
    return mem_printf("%s%s", target, str_equal(below, "/") ? "" : below);
}

static void place_finish(struct cgroup_place *place)
{
    free(STEAL(place->top));
    free(STEAL(place->own));
}

static void consider(struct cgroup_place *place, const struct mount *mount, const char *path)
{
    AUTO_FREE char *root = unescape(mount->root);
    AUTO_FREE char *target = unescape(mount->target);
    AUTO_FREE char *own = seen_at(target, root, path);
    bool read_only = has_part(mount->options, "ro") || has_part(mount->features, "ro");

    if (!own || (place->top && (!place->read_only || read_only)))
        return;
    place_finish(place);
    place->top = STEAL(target);
    place->own = STEAL(own);
    place->read_only = read_only;
}

void cgroup_places_parse(struct cgroup_places *out, const char *mountinfo, const char *self)
{
    *out = (struct cgroup_places){ 0 };
    for (int tree = 0; tree < CGROUP_TREE_COUNT; tree++) {
        AUTO_FREE char *path = own_path(self, (enum cgroup_tree)tree);
        struct span rest = { mountinfo, strlen(mountinfo) };

        while (path && rest.len) {
            struct mount mount;

            if (parse_mount(take(&rest, '\n'), &mount) && is_tree(&mount, (enum cgroup_tree)tree))
                consider(&out->trees[tree], &mount, path);
        }
    }
}

void cgroup_places_finish(struct cgroup_places *places)
{
    for (int tree = 0; tree < CGROUP_TREE_COUNT; tree++)
        place_finish(&places->trees[tree]);
}

/* Words ---------------------------------------------------------------------------------------- */

unsigned long long cgroup_count_in(const char *text, const char *name)
{
    struct span rest = { text, strlen(text) };

    while (rest.len) {
        struct span line = take(&rest, '\n');

        if (span_is(take(&line, ' '), name) && line.len)
            return strtoull(line.at, NULL, 10);
    }
    return 0;
}

bool cgroup_has_word(const char *text, const char *word)
{
    struct span rest = { text, strcspn(text, "\n") };

    while (rest.len) {
        if (span_is(take(&rest, ' '), word))
            return true;
    }
    return false;
}
