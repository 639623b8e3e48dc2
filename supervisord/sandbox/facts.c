#include "sandbox/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "sandbox/layer.h"

static const struct {
    const char *name; /* below /proc/PID/ns */
    enum sandbox_layer layer;
} namespaces[] = {
    { "user", SANDBOX_LAYER_USER_NAMESPACE },     { "pid", SANDBOX_LAYER_PID_NAMESPACE },
    { "net", SANDBOX_LAYER_NETWORK_NAMESPACE },   { "ipc", SANDBOX_LAYER_IPC_NAMESPACE },
    { "uts", SANDBOX_LAYER_UTS_NAMESPACE },       { "mnt", SANDBOX_LAYER_MOUNT_NAMESPACE },
    { "cgroup", SANDBOX_LAYER_CGROUP_NAMESPACE },
};

static uint32_t bit(enum sandbox_layer layer)
{
    return UINT32_C(1) << layer;
}

/* The text behind "NAME:\t", up to the end of its line; NULL if there is no such line. */
static const char *field(const char *status, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = status; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1;
    }
    return NULL;
}

static bool field_is_zero(const char *status, const char *name)
{
    const char *text = field(status, name);
    char *end;

    return text && strtoull(text, &end, 16) == 0 && end != text && *end == '\n';
}

static bool field_is(const char *status, const char *name, unsigned long value)
{
    const char *text = field(status, name);

    return text && strtoul(text, NULL, 10) == value;
}

/* NSpid lists the pid in each namespace from ours inwards. */
static bool is_first(const char *status)
{
    const char *text = field(status, "NSpid");
    unsigned long last = 0;
    unsigned count = 0;

    while (text && *text && *text != '\n') {
        char *end;

        last = strtoul(text, &end, 10);
        if (end == text)
            break;
        count++;
        text = end;
    }
    return count >= 2 && last == 1;
}

static bool has_no_capabilities(const char *status)
{
    static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };

    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        if (!field_is_zero(status, sets[i]))
            return false;
    }
    return true;
}

int facts_parse(const char *status, struct sandbox_facts *facts)
{
    const char *uids = field(status, "Uid");
    unsigned long four[4];

    if (!uids || sscanf(uids, "%lu %lu %lu %lu", &four[0], &four[1], &four[2], &four[3]) != 4)
        return -1;
    *facts = (struct sandbox_facts){
        .uid = (uid_t)four[0],
        .one_uid = four[0] == four[1] && four[0] == four[2] && four[0] == four[3],
        .first = is_first(status),
        .filtered = field_is(status, "Seccomp", 2),
        .no_new_privs = field_is(status, "NoNewPrivs", 1),
        .no_capabilities = has_no_capabilities(status),
    };
    return 0;
}

/* /proc knows no sizes, so it is read as a stream. */
static int read_status(pid_t pid, char *to, size_t size)
{
    AUTO_FREE char *path = mem_printf("/proc/%d/status", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -1;
    while (len + 1 < size) {
        ssize_t got = read(fd, to + len, size - 1 - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    to[len] = '\0';
    return len > 0 ? 0 : -1;
}

/* One that can't be read counts as ours: nothing is claimed that was not seen. */
static bool is_own(pid_t pid, const char *name)
{
    AUTO_FREE char *ours = mem_printf("/proc/self/ns/%s", name);
    AUTO_FREE char *theirs = mem_printf("/proc/%d/ns/%s", (int)pid, name);
    char a[64] = "";
    char b[64] = "";

    return readlink(ours, a, sizeof(a) - 1) > 0 && readlink(theirs, b, sizeof(b) - 1) > 0 &&
           !str_equal(a, b);
}

int facts_read(pid_t pid, struct sandbox_facts *facts, struct error *err)
{
    char status[4096];

    if (read_status(pid, status, sizeof(status)) < 0 || facts_parse(status, facts) < 0)
        return error_set(err, ERR_UNAVAILABLE, 0, "process %d can't be looked at", (int)pid);
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        if (is_own(pid, namespaces[i].name))
            facts->own_namespaces |= bit(namespaces[i].layer);
    }
    return 0;
}

uint32_t facts_layers(const struct sandbox_facts *facts, uid_t our_uid, uint32_t landlock)
{
    uint32_t layers = facts->own_namespaces;

    if (facts->one_uid && facts->uid != our_uid && facts->uid != 0)
        layers |= bit(SANDBOX_LAYER_OWN_UID);
    if (facts->no_capabilities)
        layers |= bit(SANDBOX_LAYER_NO_CAPABILITIES);
    if (facts->no_new_privs)
        layers |= bit(SANDBOX_LAYER_NO_NEW_PRIVILEGES);
    if (facts->filtered)
        layers |= bit(SANDBOX_LAYER_SECCOMP);
    if (landlock > 0 && facts->no_new_privs)
        layers |= bit(SANDBOX_LAYER_LANDLOCK);
    return layers;
}
