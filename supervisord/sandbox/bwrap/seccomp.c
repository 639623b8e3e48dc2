#include "sandbox/bwrap/seccomp.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"

/* A list of what is refused, not of what is allowed: the distribution's libseccomp is older than
 * the kernels and runtimes that sandboxes meet, and with an allow list each new call of a language
 * runtime would break it. Numbers above the newest known call are refused as unknown, so that
 * nothing unforeseen gets in. */
static const int refused[] = {
    /* mounts and namespaces */
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(mount_setattr),
    /* the machine */
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(reboot),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(quotactl_fd),
    SCMP_SYS(syslog),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(vhangup),
    SCMP_SYS(nfsservctl),
    SCMP_SYS(uselib),
    SCMP_SYS(ustat),
    SCMP_SYS(sysfs),
    SCMP_SYS(_sysctl),
    /* kernel surface with a bad record */
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(fanotify_init),
    SCMP_SYS(lookup_dcookie),
    SCMP_SYS(name_to_handle_at),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(keyctl),
    /* other processes' memory: init must stay out of reach */
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp),
    SCMP_SYS(process_madvise),
    /* placement */
    SCMP_SYS(mbind),
    SCMP_SYS(set_mempolicy),
    SCMP_SYS(migrate_pages),
    SCMP_SYS(move_pages),
    SCMP_SYS(personality),
};

#define NEWEST_KNOWN_CALL 470 /* numbers from here on are refused as unknown */
#define LAST_CALL_NUMBER 600

static int add_refused(scmp_filter_ctx filter)
{
    int rc = 0;

    for (size_t i = 0; i < ARRAY_LEN(refused) && rc == 0; i++) {
        /* Calls that this machine's architecture lacks have negative numbers and need no rule. */
        if (refused[i] >= 0)
            rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
    }
    return rc;
}

static int add_clone(scmp_filter_ctx filter)
{
    static const unsigned long namespaces[] = { CLONE_NEWUSER,  CLONE_NEWNS,  CLONE_NEWPID,
                                                CLONE_NEWNET,   CLONE_NEWIPC, CLONE_NEWUTS,
                                                CLONE_NEWCGROUP };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_LEN(namespaces) && rc == 0; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
    /* Its flags lie in memory, out of a filter's sight; C libraries fall back to clone. */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return rc;
}

/* A network namespace doesn't hold back every family (AF_VSOCK), and raw or odd ones are only
 * attack surface. */
static int add_sockets(scmp_filter_ctx filter)
{
    int rc = 0;

    for (unsigned family = 0; family < 64 && rc == 0; family++) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
            continue;
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                              SCMP_A0_32(SCMP_CMP_EQ, family));
    }
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                              SCMP_A0_32(SCMP_CMP_GE, 64));
    /* Every libc asks NETLINK_ROUTE for its addresses. */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2,
                              SCMP_A0_32(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2_32(SCMP_CMP_NE, 0));
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2,
                              SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)(i == 0 ? AF_INET : AF_INET6)),
                              SCMP_A1_32(SCMP_CMP_MASKED_EQ, 0xf, SOCK_RAW));
    return rc;
}

static int add_terminal(scmp_filter_ctx filter)
{
    int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                              SCMP_A1_32(SCMP_CMP_EQ, TIOCSTI));

    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                              SCMP_A1_32(SCMP_CMP_EQ, TIOCLINUX));
    return rc;
}

static int add_unknown(scmp_filter_ctx filter)
{
    static const int newer[] = { 457, 458, 467 }; /* statmount, listmount, open_tree_attr */
    int rc = 0;

    for (size_t i = 0; i < ARRAY_LEN(newer) && rc == 0; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), newer[i], 0);
    for (int number = NEWEST_KNOWN_CALL; number < LAST_CALL_NUMBER && rc == 0; number++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0);
    return rc;
}

static int build(scmp_filter_ctx filter)
{
    int (*const parts[])(scmp_filter_ctx) = { add_refused, add_clone, add_sockets, add_terminal,
                                              add_unknown };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_LEN(parts) && rc == 0; i++)
        rc = parts[i](filter);
    return rc;
}

int seccomp_program_fd(struct error *err)
{
    /* Foreign architectures (32-bit calls, x32) are killed: libseccomp's default for them. */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    AUTO_CLOSE int fd = -1;
    int rc;

    if (filter == NULL)
        return error_set(err, ERR_LIMIT, 0, "no memory for the system-call filter");
    fd = memfd_create("seccomp", MFD_CLOEXEC);
    rc = build(filter);
    if (rc == 0)
        rc = fd >= 0 ? seccomp_export_bpf(filter, fd) : -errno;
    seccomp_release(filter);
    if (rc < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, ERR_SYSTEM, rc < 0 ? -rc : errno, "make the system-call filter");
    return fd_steal(&fd);
}
