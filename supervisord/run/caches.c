/* caches.c: folders of this machine that sandboxes may read, and download caches: the lower part is
 * the user's own and never changes, what a session adds lies in a folder of the session. */
#include "run/internal.h"

#include <string.h>

#include "common/str.h"

#define FOLDERS_MAX 16

/* The places inside lie below no folder that the agent could replace. */
static const struct kind {
    const char *name;
    const char *folder; /* below the user's home */
    const char *target;
    const char *variable;
} kinds[] = {
    { "npm", ".npm", "/opt/cache/npm", "npm_config_cache=/opt/cache/npm" },
    { "pip", ".cache/pip", "/opt/cache/pip", "PIP_CACHE_DIR=/opt/cache/pip" },
    { "cargo", ".cargo/registry", "/opt/cache/cargo/registry", "CARGO_HOME=/opt/cache/cargo" },
    { "go", "go/pkg/mod", "/opt/cache/go", "GOMODCACHE=/opt/cache/go" },
};

static const struct kind *find_kind(const char *setting)
{
    size_t len = strcspn(setting, "=");

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strlen(kinds[i].name) == len && strncmp(kinds[i].name, setting, len) == 0)
            return &kinds[i];
    }
    return NULL;
}

const char *caches_variable(const struct run *run, size_t index)
{
    const struct runs_options *options = &run->runs->options;
    const struct kind *kind;

    if (index >= options->cache_count)
        return NULL;
    kind = find_kind(options->caches[index]);
    return kind != NULL ? kind->variable : NULL;
}

static bool has_overlay(const struct sandbox_spec *spec, const char *target)
{
    for (size_t i = 0; i < spec->overlay_count; i++) {
        if (str_equal(spec->overlays[i].target, target))
            return true;
    }
    return false;
}

static int add_cache(struct run *run, struct sandbox_spec *spec, const char *setting,
                     struct error *err)
{
    const struct kind *kind = find_kind(setting);
    const char *path = strchr(setting, '=');
    AUTO_FREE
    char *lower = NULL;
    AUTO_FREE
    char *upper = NULL;
    AUTO_FREE
    char *work = NULL;

    if (kind == NULL || has_overlay(spec, kind->target))
        return 0;
    lower = path != NULL ? mem_strdup(path + 1)
                         : mem_printf("%s/%s", run->runs->options.home, kind->folder);
    if (workspace_make_cache(&run->layout, kind->name, run->session.host_uid, lower, &upper, &work,
                             err) < 0)
        return -1;
    sandbox_spec_add_overlay(spec, lower, upper, work, kind->target);
    return 0;
}

int caches_add(struct run *run, struct sandbox_spec *spec, struct error *err)
{
    const struct runs_options *options = &run->runs->options;

    if (options->folder_count > FOLDERS_MAX)
        return error_set(err, ERR_LIMIT, 0, "sandbox.readOnlyFolders has more than %d folders",
                         FOLDERS_MAX);
    for (size_t i = 0; i < options->folder_count; i++) {
        size_t len = strcspn(options->folders[i], ":");
        AUTO_FREE
        char *source = mem_strndup(options->folders[i], len);

        sandbox_spec_add_mount(spec, source, options->folders[i] + len + 1, SANDBOX_READ_ONLY);
    }
    for (size_t i = 0; i < options->cache_count; i++) {
        if (add_cache(run, spec, options->caches[i], err) < 0)
            return -1;
    }
    return 0;
}
