#include "agent/opencode/opencode_locate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"

#define HOW_TO_INSTALL "npm install -g opencode-ai, or sh docs/quickstart.sh"

#if defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "x64"
#endif

static const char *const packages[] = {
    ("opencode-linux-" ARCHITECTURE),
    ("opencode-linux-" ARCHITECTURE "-baseline"),
    ("opencode-linux-" ARCHITECTURE "-musl"),
    ("opencode-linux-" ARCHITECTURE "-baseline-musl"),
};

enum program_kind { PROGRAM_NONE, PROGRAM_BINARY, PROGRAM_SCRIPT };

static enum program_kind kind_of(const char *path)
{
    AUTO_CLOSE
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    char head[4] = "";

    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || access(path, X_OK) < 0)
        return PROGRAM_NONE;
    if (read(fd, head, sizeof(head)) != (ssize_t)sizeof(head))
        return PROGRAM_NONE;
    if (memcmp(head, "\177ELF", 4) == 0)
        return PROGRAM_BINARY;
    return memcmp(head, "#!", 2) == 0 ? PROGRAM_SCRIPT : PROGRAM_NONE;
}

/* The platform's package in a node_modules folder of DIR. */
static char *find_in_modules(const char *dir)
{
    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        AUTO_FREE
        char *path = mem_printf("%s/node_modules/%s/bin/opencode", dir, packages[i]);

        if (kind_of(path) == PROGRAM_BINARY)
            return realpath(path, NULL);
    }
    return NULL;
}

/* Node looks for packages in every folder above the script. */
static char *find_above(const char *script)
{
    AUTO_FREE
    char *dir = mem_strdup(script);
    char *slash;

    while ((slash = strrchr(dir, '/')) != NULL) {
        char *found;

        *slash = '\0';
        found = find_in_modules(dir);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* The real program behind PATH, heap, or NULL. */
static char *resolve(const char *path)
{
    AUTO_FREE
    char *real = realpath(path, NULL);

    if (real == NULL)
        return NULL;
    switch (kind_of(real)) {
    case PROGRAM_BINARY:
        return STEAL(real);
    case PROGRAM_SCRIPT:
        return find_above(real);
    case PROGRAM_NONE:
        break;
    }
    return NULL;
}

static char *resolve_in_path(const char *name)
{
    const char *at = getenv("PATH");

    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        AUTO_FREE
        char *candidate = mem_printf("%.*s/%s", (int)len, at, name);
        char *found = len > 0 && len < PATH_MAX && candidate[0] == '/' ? resolve(candidate) : NULL;

        if (found != NULL)
            return found;
        at += len + (at[len] == ':');
    }
    return NULL;
}

int opencode_locate(const char *configured, const char *data_dir, char **path, struct error *err)
{
    AUTO_FREE
    char *installed = mem_printf("%s/agents/opencode/bin/opencode", data_dir);
    char *found;

    if (configured[0] != '\0') {
        found = strchr(configured, '/') != NULL ? resolve(configured) : resolve_in_path(configured);
        if (found == NULL)
            return error_set(err, ERR_NOT_FOUND, 0, "no OpenCode program at %s, as configured: %s",
                             configured, HOW_TO_INSTALL);
        *path = found;
        return 0;
    }
    found = resolve(installed);
    if (found == NULL)
        found = resolve_in_path("opencode");
    if (found == NULL)
        return error_set(err, ERR_NOT_FOUND, 0, "OpenCode is not installed: %s", HOW_TO_INSTALL);
    *path = found;
    return 0;
}
