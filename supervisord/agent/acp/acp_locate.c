#include "agent/acp/acp_locate.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/str.h"

#define PACKAGE_MAX (256u << 10)
#define MODULES "/node_modules/"

/* Found ---------------------------------------------------------------------------------------- */

void acp_found_finish(struct acp_found *found)
{
    free(found->source);
    free(found->target);
    free(found->program);
    free(found->interpreter);
    *found = (struct acp_found){ 0 };
}

char *acp_found_format(const struct acp_found *found)
{
    return mem_printf("%s\n%s\n%s\n%s", found->source, found->target, found->program,
                      found->interpreter);
}

int acp_found_parse(struct acp_found *found, const char *text, struct error *err)
{
    char **parts[] = { &found->source, &found->target, &found->program, &found->interpreter };

    *found = (struct acp_found){ 0 };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        size_t len = strcspn(text, "\n");

        *parts[i] = mem_strndup(text, len);
        text += len + (text[len] == '\n');
    }
    if (found->program[0] == '\0' || text[0] != '\0') {
        acp_found_finish(found);
        return error_set(err, ERR_NOT_FOUND, 0, "the agent's program was not looked for");
    }
    return 0;
}

/* Programs ------------------------------------------------------------------------------------- */

enum program_kind { PROGRAM_NONE, PROGRAM_PLAIN, PROGRAM_NODE };

static bool is_file(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* What has a first line with "node" in it needs an interpreter; packages don't always mark such
 * files as programs. */
static enum program_kind kind_of(const char *path)
{
    AUTO_CLOSE
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char head[128] = "";
    ssize_t len;

    if (fd < 0 || !is_file(path) || (len = read(fd, head, sizeof(head) - 1)) < 4)
        return PROGRAM_NONE;
    head[len] = '\0';
    if (memcmp(head, "\177ELF", 4) == 0)
        return access(path, X_OK) == 0 ? PROGRAM_PLAIN : PROGRAM_NONE;
    head[strcspn(head, "\r\n")] = '\0';
    if (str_starts(head, "#!") && strstr(head, "node") != NULL)
        return PROGRAM_NODE;
    return str_starts(head, "#!") && access(path, X_OK) == 0 ? PROGRAM_PLAIN : PROGRAM_NONE;
}

/* The first FORMAT-like place "DIR/name" on PATH that RESOLVE accepts. */
static char *each_in_path(char *(*resolve)(const char *dir, const void *data), const void *data)
{
    const char *at = getenv("PATH");

    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        AUTO_FREE
        char *dir = mem_strndup(at, len < PATH_MAX ? len : PATH_MAX);
        char *found = dir[0] == '/' ? resolve(dir, data) : NULL;

        if (found != NULL)
            return found;
        at += len + (at[len] == ':');
    }
    return NULL;
}

static char *node_in(const char *dir, const void *data)
{
    AUTO_FREE
    char *path = mem_printf("%s/node", dir);
    AUTO_FREE
    char *real = realpath(path, NULL);

    (void)data;
    return real != NULL && kind_of(real) == PROGRAM_PLAIN ? STEAL(real) : NULL;
}

/* Packages ------------------------------------------------------------------------------------- */

static struct json_doc *read_package(const char *dir)
{
    AUTO_FREE
    char *path = mem_printf("%s/package.json", dir);
    AUTO_FREE
    char *text = NULL;
    struct json_doc *doc = NULL;
    struct error ignored = ERROR_INIT;
    size_t len = 0;

    if (fd_read_file(path, PACKAGE_MAX, &text, &len, &ignored) < 0 ||
        json_parse(&doc, text, len, PACKAGE_MAX, &ignored) < 0)
        return NULL;
    return doc;
}

/* The folder above FILE with a package.json in it: heap, or NULL. */
static char *package_of(const char *file)
{
    AUTO_FREE
    char *dir = mem_strdup(file);
    char *slash;

    while ((slash = strrchr(dir, '/')) != NULL && slash != dir) {
        *slash = '\0';
        AUTO_FREE
        char *manifest = mem_printf("%s/package.json", dir);
        if (is_file(manifest))
            return STEAL(dir);
    }
    return NULL;
}

/* Its dependencies lie beside it rather than in it. */
static bool needs_siblings(const char *dir)
{
    AUTO_FREE
    char *own = mem_printf("%s/node_modules", dir);
    AUTO_JSON struct json_doc *doc = read_package(dir);
    const struct json_value *root = doc != NULL ? json_root(doc) : NULL;

    return access(own, F_OK) != 0 && (json_count(json_get(root, "dependencies")) > 0 ||
                                      json_count(json_get(root, "optionalDependencies")) > 0);
}

/* The last MODULES in PATH. */
static const char *last_modules(const char *path)
{
    const char *last = NULL;

    for (const char *at = strstr(path, MODULES); at != NULL; at = strstr(at + 1, MODULES))
        last = at;
    return last;
}

static void place_script(struct acp_found *found, const char *script)
{
    AUTO_FREE
    char *package = package_of(script);
    const char *modules = package != NULL ? last_modules(package) : NULL;

    if (package == NULL) {
        found->source = mem_strdup(script);
        found->target = mem_strdup(ACP_PROGRAM_DIR "/program.mjs");
        found->program = mem_strdup(found->target);
    } else if (modules == NULL) {
        found->source = mem_strdup(package);
        found->target = mem_strdup(ACP_PROGRAM_DIR "/package");
        found->program = mem_printf("%s%s", found->target, script + strlen(package));
    } else if (needs_siblings(package)) {
        found->source = mem_strndup(package, (size_t)(modules - package) + sizeof(MODULES) - 2);
        found->target = mem_strdup(ACP_PROGRAM_DIR "/node_modules");
        found->program = mem_printf(ACP_PROGRAM_DIR "%s", script + (modules - package));
    } else {
        found->source = mem_strdup(package);
        found->target = mem_printf(ACP_PROGRAM_DIR "%s", modules);
        found->program = mem_printf("%s%s", found->target, script + strlen(package));
    }
}

static char *describe(const char *real, enum program_kind kind)
{
    struct acp_found found = { 0 };
    char *text;

    if (kind == PROGRAM_NODE) {
        found.interpreter = each_in_path(node_in, NULL);
        place_script(&found, real);
    } else {
        found.source = mem_strdup(real);
        found.target = mem_printf(ACP_PROGRAM_DIR "%s", strrchr(real, '/'));
        found.program = mem_strdup(found.target);
    }
    if (found.interpreter == NULL)
        found.interpreter = mem_strdup("");
    text = acp_found_format(&found);
    acp_found_finish(&found);
    return text;
}

/* The real program behind PATH, described; or NULL. */
static char *resolve(const char *path)
{
    AUTO_FREE
    char *real = realpath(path, NULL);
    enum program_kind kind = real != NULL ? kind_of(real) : PROGRAM_NONE;

    if (kind == PROGRAM_NONE || strchr(real, '\n') != NULL)
        return NULL;
    return describe(real, kind);
}

/* The program that a package in DIR says it has. */
static char *resolve_package(const char *dir, const char *program)
{
    AUTO_JSON struct json_doc *doc = read_package(dir);
    const struct json_value *bin = doc != NULL ? json_get(json_root(doc), "bin") : NULL;
    const char *relative = json_string(bin);

    if (doc == NULL)
        return NULL;
    if (relative == NULL)
        relative = json_string(json_get(bin, program));
    if (relative == NULL)
        relative = json_string(json_first(bin));
    if (relative == NULL)
        return NULL;
    AUTO_FREE
    char *path = mem_printf("%s/%s", dir, relative);
    return resolve(path);
}

static char *resolve_in_modules(const char *modules, const struct agent_profile *profile)
{
    for (size_t i = 0; i < profile->package_count; i++) {
        AUTO_FREE
        char *dir = mem_printf("%s/%s", modules, profile->packages[i]);
        char *found = resolve_package(dir, profile->program);

        if (found != NULL)
            return found;
    }
    return NULL;
}

/* Places --------------------------------------------------------------------------------------- */

static char *resolve_in_data(const struct agent_profile *profile, const char *data_dir)
{
    const char *const names[] = { profile->name, profile->program };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE
        char *program = mem_printf("%s/agents/%s/bin/%s", data_dir, names[i], profile->program);
        AUTO_FREE
        char *modules = mem_printf("%s/agents/%s/node_modules", data_dir, names[i]);
        char *found = resolve(program);

        if (found == NULL)
            found = resolve_in_modules(modules, profile);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static char *resolve_in_dir(const char *dir, const void *data)
{
    const struct agent_profile *profile = data;
    AUTO_FREE
    char *path = mem_printf("%s/%s", dir, profile->program);

    return resolve(path);
}

/* npm's global packages lie beside the folder that their programs are linked from. */
static char *resolve_beside_dir(const char *dir, const void *data)
{
    AUTO_FREE
    char *modules = mem_printf("%s/../lib/node_modules", dir);

    return resolve_in_modules(modules, data);
}

int acp_locate(const struct agent_profile *profile, const char *configured, const char *data_dir,
               char **path, struct error *err)
{
    char *found = NULL;

    (void)configured;
    if (strchr(profile->program, '/') != NULL) {
        found = resolve(profile->program);
    } else {
        found = resolve_in_data(profile, data_dir);
        if (found == NULL)
            found = each_in_path(resolve_in_dir, profile);
        if (found == NULL)
            found = each_in_path(resolve_beside_dir, profile);
    }
    if (found == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "the agent %s is not installed (no program %s): %s",
                         profile->name, profile->program,
                         profile->install[0] != '\0' ? profile->install
                                                     : "set agents.NAME.program to its path");
    struct acp_found parsed;
    bool no_node = acp_found_parse(&parsed, found, err) == 0 && parsed.interpreter[0] == '\0' &&
                   (str_starts(parsed.target, ACP_PROGRAM_DIR "/node_modules") ||
                    str_starts(parsed.target, ACP_PROGRAM_DIR "/package") ||
                    str_ends(parsed.target, "/program.mjs"));
    acp_found_finish(&parsed);
    if (no_node) {
        free(found);
        return error_set(err, ERR_NOT_FOUND, 0,
                         "the agent %s needs Node.js, and there is no program node on PATH",
                         profile->name);
    }
    *path = found;
    return 0;
}
