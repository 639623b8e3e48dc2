/* The kernel's own file rules, on top of what the mounts allow: should a mount come out weaker than
 * meant, or a kernel setting be writable by its owner, the agent still can't use it.
 *
 * The rules hold init, too, so that everything in a sandbox is one domain: a program that
 * somebody starts beside the agent may signal the agent's. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init.h"

/* As in the kernel's interface; the C library's headers may be older than the kernel. */
enum {
    CREATE_RULESET = 444,
    ADD_RULE = 445,
    RESTRICT_SELF = 446,
    CREATE_VERSION = 1,
    RULE_PATH_BENEATH = 1,
};

/* Interface 1 refuses every rename and link from one folder to another, which package managers
 * can't live with. */
#define ABI_LEAST 2

#define RIGHT(n) (UINT64_C(1) << (n))
#define EXECUTE RIGHT(0)
#define WRITE_FILE RIGHT(1)
#define READ_FILE RIGHT(2)
#define READ_DIR RIGHT(3)
#define MAKE_CHAR RIGHT(6)
#define MAKE_BLOCK RIGHT(11)
#define REFER RIGHT(13)     /* from interface 2 on */
#define TRUNCATE RIGHT(14)  /* 3 */
#define IOCTL_DEV RIGHT(15) /* 5 */

#define SCOPE_ABSTRACT_SOCKETS RIGHT(0) /* 6 */
#define SCOPE_SIGNALS RIGHT(1)

#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)

struct ruleset {
    uint64_t files;
    uint64_t network; /* left alone: agents talk to their own servers on any port */
    uint64_t scoped;
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

static uint64_t known_rights(long abi)
{
    uint64_t rights = REFER | (REFER - 1);

    if (abi >= 3)
        rights |= TRUNCATE;
    if (abi >= 5)
        rights |= IOCTL_DEV;
    return rights;
}

static uint64_t rights_of(char kind)
{
    switch (kind) {
    case INIT_PLACE_READ:
        return EXECUTE | READ_FILE | READ_DIR;
    case INIT_PLACE_WRITE:
        return (REFER | TRUNCATE | (REFER - 1)) & ~(MAKE_CHAR | MAKE_BLOCK);
    case INIT_PLACE_DEVICES:
        return READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV;
    default:
        return 0;
    }
}

/* A place that isn't there needs no rule. */
static bool add_place(int rules, const char *path, uint64_t rights)
{
    struct path_beneath rule = { .allowed = rights, .parent_fd = -1 };
    struct stat info;
    bool added;

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return errno == ENOENT;
    if (fstat(rule.parent_fd, &info) == 0 && !S_ISDIR(info.st_mode))
        rule.allowed &= OF_FILES;
    added = syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0u) == 0;
    close(rule.parent_fd);
    return added;
}

static bool add_places(int rules, char *const *places, size_t count, uint64_t known)
{
    /* Every folder may be looked through: some programs open the root itself. */
    if (!add_place(rules, "/", READ_DIR))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t rights = rights_of(places[i][0]) & known;

        if (!rights || !add_place(rules, places[i] + 1, rights))
            return false;
    }
    return true;
}

/* All or nothing: rules of which some are missing would keep programs from their own files. */
uint32_t landlock_apply(char *const *places, size_t count)
{
    long abi = syscall(CREATE_RULESET, NULL, 0ul, CREATE_VERSION);
    struct ruleset ruleset = { 0 };
    bool held;
    int rules;

    if (count == 0 || abi < ABI_LEAST)
        return 0;
    ruleset.files = known_rights(abi);
    ruleset.scoped = abi >= 6 ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0;
    rules = (int)syscall(CREATE_RULESET, &ruleset, sizeof(ruleset), 0u);
    if (rules < 0)
        return 0;
    held =
        add_places(rules, places, count, ruleset.files) && syscall(RESTRICT_SELF, rules, 0u) == 0;
    close(rules);
    return held ? (uint32_t)abi : 0;
}
