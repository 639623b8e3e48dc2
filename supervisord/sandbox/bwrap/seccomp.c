#include "sandbox/bwrap/seccomp.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"

#define PROGRAM_MAX (16u << 10)

/* A list of what is refused rather than of what is allowed: the library of a stable distribution
 * doesn't know the names of newer calls, and each that a language's runtime begins to use would
 * break agents. In exchange everything newer than this list fails as on an older kernel
 * (newest_known below). */
static const char *const refused[] = {
    /* mounts and namespaces */
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "swapon",
    "swapoff",
    "quotactl",
    "quotactl_fd",
    /* the machine */
    "reboot",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "acct",
    "syslog",
    "iopl",
    "ioperm",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "vhangup",
    "nfsservctl",
    "uselib",
    "ustat",
    "sysfs",
    "_sysctl",
    /* large kernel surfaces, and io_uring, which makes sockets past this filter */
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "fanotify_init",
    "lookup_dcookie",
    "name_to_handle_at",
    "open_by_handle_at",
    /* keys are not namespaced */
    "add_key",
    "request_key",
    "keyctl",
    /* other processes' memory and descriptors */
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "kcmp",
    "process_madvise",
    /* memory placement, execution domains */
    "mbind",
    "set_mempolicy",
    "migrate_pages",
    "move_pages",
    "personality",
};

/* Numbers are the same on every architecture from 424 up. Those up to newest_known were looked at
 * one by one; of them these are refused: set_mempolicy_home_node, statmount, listmount,
 * open_tree_attr. */
static const int refused_numbers[] = { 450, 457, 458, 467 };
enum { NEWEST_KNOWN = 469, NUMBERS_END = 560 };

static const uint32_t namespace_flags[] = {
    CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP,
};

enum { FAMILIES_END = 46 };

static const uint32_t internet[] = { AF_INET, AF_INET6 };
enum { SOCKET_TYPE_MASK = 0xf };

/* A call that this architecture doesn't have needs no rule. */
static int refuse_names(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        int number = seccomp_syscall_resolve_name(refused[i]);
        int rc = number == __NR_SCMP_ERROR
                     ? -EFAULT
                     : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);

        if (rc < 0 && !(number < 0 && number != __NR_SCMP_ERROR))
            return rc;
    }
    return 0;
}

static int refuse_numbers(scmp_filter_ctx filter)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(refused_numbers); i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), refused_numbers[i], 0);
    for (int number = NEWEST_KNOWN + 1; rc == 0 && number < NUMBERS_END; number++) {
#ifdef __x86_64__
        if (number >= 512 && number <= 547) /* belong to x32 */
            continue;
#endif
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0);
    }
    return rc;
}

/* The kernel looks at the lower half of such an argument only, whatever the upper half holds. */
static struct scmp_arg_cmp is32(unsigned argument, uint32_t value, uint32_t mask)
{
    return (struct scmp_arg_cmp){
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value
    };
}

static struct scmp_arg_cmp compare(unsigned argument, enum scmp_compare op, uint64_t value)
{
    return (struct scmp_arg_cmp){ .arg = argument, .op = op, .datum_a = value, .datum_b = 0 };
}

static int refuse(scmp_filter_ctx filter, unsigned error, int number, struct scmp_arg_cmp condition)
{
    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(error), number, 1, &condition);
}

/* clone3 hides its flags behind a pointer; without it the C library uses clone. */
static int refuse_namespaces(scmp_filter_ctx filter)
{
    int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(namespace_flags); i++)
        rc =
            refuse(filter, EPERM, SCMP_SYS(clone), is32(0, namespace_flags[i], namespace_flags[i]));
    return rc;
}

static bool family_allowed(uint32_t family)
{
    return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

/* A network namespace doesn't hold some families (vsock reaches the hypervisor), so only four are
 * left. With anything in the upper half of the argument a family counts as larger than all. */
static int refuse_families(scmp_filter_ctx filter)
{
    int rc = refuse(filter, EAFNOSUPPORT, SCMP_SYS(socket), compare(0, SCMP_CMP_GE, FAMILIES_END));

    for (uint32_t family = 0; rc == 0 && family < FAMILIES_END; family++) {
        if (!family_allowed(family))
            rc = refuse(filter, EAFNOSUPPORT, SCMP_SYS(socket), compare(0, SCMP_CMP_EQ, family));
    }
    return rc;
}

/* Of netlink only routes, which every C library asks for; of the internet only streams and
 * datagrams: the other kinds load modules of the kernel that nothing here needs. */
static int refuse_kinds(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp routes_only[] = { compare(0, SCMP_CMP_EQ, AF_NETLINK),
                                                compare(2, SCMP_CMP_NE, 0) };
    int rc =
        seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2, routes_only);

    for (size_t i = 0; i < ARRAY_LEN(internet); i++) {
        for (uint32_t type = 0; rc == 0 && type <= SOCKET_TYPE_MASK; type++) {
            const struct scmp_arg_cmp one[] = { compare(0, SCMP_CMP_EQ, internet[i]),
                                                is32(1, type, SOCKET_TYPE_MASK) };

            if (type != SOCK_STREAM && type != SOCK_DGRAM)
                rc =
                    seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2, one);
        }
    }
    return rc;
}

/* An answer that the protocol isn't there is one that programs are ready for; to send pings they
 * are rather not allowed. */
static int refuse_protocol(scmp_filter_ctx filter, uint32_t family, uint32_t type,
                           struct scmp_arg_cmp protocol)
{
    const struct scmp_arg_cmp all[] = { compare(0, SCMP_CMP_EQ, family),
                                        is32(1, type, SOCKET_TYPE_MASK), protocol };
    unsigned error = protocol.datum_a == IPPROTO_ICMP ? EPERM : EPROTONOSUPPORT;

    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(error), SCMP_SYS(socket), 3, all);
}

/* TCP and UDP, by name or as what goes without saying. Of SCTP and its like modules are loaded. */
static int refuse_protocols_of(scmp_filter_ctx filter, uint32_t family, uint32_t type)
{
    int rc = refuse_protocol(filter, family, type, compare(2, SCMP_CMP_GE, IPPROTO_UDP + 1));

    for (uint32_t protocol = 1; rc == 0 && protocol < IPPROTO_UDP; protocol++) {
        if (protocol != IPPROTO_TCP)
            rc = refuse_protocol(filter, family, type, compare(2, SCMP_CMP_EQ, protocol));
    }
    return rc;
}

static int refuse_protocols(scmp_filter_ctx filter)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(internet); i++) {
        rc = refuse_protocols_of(filter, internet[i], SOCK_STREAM);
        if (rc == 0)
            rc = refuse_protocols_of(filter, internet[i], SOCK_DGRAM);
    }
    return rc;
}

static int refuse_pairs(scmp_filter_ctx filter)
{
    return refuse(filter, EAFNOSUPPORT, SCMP_SYS(socketpair), compare(0, SCMP_CMP_NE, AF_UNIX));
}

/* Input put into a terminal is read by whoever reads it next, possibly outside; a line discipline
 * is a module of the kernel. */
static int refuse_terminal_tricks(scmp_filter_ctx filter)
{
    static const uint32_t tricks[] = { TIOCSTI, TIOCLINUX, TIOCSETD };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(tricks); i++)
        rc = refuse(filter, EPERM, SCMP_SYS(ioctl), is32(1, tricks[i], UINT32_MAX));
    return rc;
}

/* init has the agent's uid, so the agent could take its descriptors, memory or time from it.
 * Others' limits can be read, and one's own be set. */
static int refuse_limits_of_others(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp sets[] = { compare(0, SCMP_CMP_NE, 0), compare(2, SCMP_CMP_NE, 0) };

    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 2, sets);
}

static int fill(scmp_filter_ctx filter)
{
    static int (*const parts[])(scmp_filter_ctx) = {
        refuse_names,    refuse_numbers,         refuse_namespaces,
        refuse_families, refuse_kinds,           refuse_protocols,
        refuse_pairs,    refuse_terminal_tricks, refuse_limits_of_others,
    };
    /* A call by another architecture's numbers (i386, x32) would pass a filter that knows only
     * ours. */
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(parts); i++)
        rc = parts[i](filter);
    return rc;
}

static int compile(int fd)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int rc = filter ? fill(filter) : -ENOMEM;

    if (rc == 0)
        rc = seccomp_export_bpf(filter, fd);
    if (filter)
        seccomp_release(filter);
    return rc;
}

/* The program is the same for every sandbox, and compiling it takes a millisecond. */
static uint8_t program[PROGRAM_MAX];
static size_t program_len;

static int remember(int fd)
{
    ssize_t len = pread(fd, program, sizeof(program), 0);

    if (len <= 0)
        return len < 0 ? -errno : -EIO;
    if ((size_t)len < sizeof(program))
        program_len = (size_t)len; /* else it is too long to be kept, and compiled each time */
    return 0;
}

int seccomp_make_file(struct error *err)
{
    AUTO_CLOSE int fd = memfd_create("seccomp", MFD_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "make the system call filter");
    if (program_len > 0) {
        if (fd_write_all(fd, program, program_len, err) < 0)
            return error_wrap(err, "make the system call filter");
    } else {
        rc = compile(fd);
        if (rc == 0)
            rc = remember(fd);
    }
    if (rc < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, ERR_SYSTEM, rc < 0 ? -rc : errno, "make the system call filter");
    return fd_steal(&fd);
}
