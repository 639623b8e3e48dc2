/* kernel.c: calls that reach the kernel itself, its namespaces, its clocks, its terminals. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fanotify.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Mounts */

static int try_mount(char **arguments)
{
    (void)arguments;
    return probe_error(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int try_remount(char **arguments)
{
    (void)arguments;
    return probe_error(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int try_umount(char **arguments)
{
    (void)arguments;
    return probe_error(umount2("/tmp", MNT_DETACH));
}

static int try_pivot_root(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_pivot_root, "/tmp", "/tmp"));
}

static int try_chroot(char **arguments)
{
    (void)arguments;
    return probe_error(chroot("/tmp"));
}

static int try_fsopen(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_fsopen, "tmpfs", 0));
}

static int try_open_tree(char **arguments)
{
    const unsigned clone_tree = 1;

    (void)arguments;
    return probe_error(syscall(SYS_open_tree, AT_FDCWD, "/", clone_tree));
}

static int try_mknod(char **arguments)
{
    return probe_error(mknod(arguments[0], S_IFBLK | 0600, makedev(254, 0)));
}

static int try_swapon(char **arguments)
{
    (void)arguments;
    return probe_error(swapon("/tmp/no-such-swap", 0));
}

/* Asks for nothing but that what is dirty be written. */
static int try_quotactl(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_quotactl, QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL));
}

/* The number of the file system's root folder on most file systems. */
static int try_open_by_handle(char **arguments)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + 8];
    } root = { 0 };
    const uint32_t inode = 2;
    int folder = open("/workspace", O_RDONLY | O_DIRECTORY);

    (void)arguments;
    root.handle.handle_bytes = 8;
    root.handle.handle_type = 1;
    memcpy(root.handle.f_handle, &inode, sizeof(inode));
    return probe_error(open_by_handle_at(folder, &root.handle, O_RDONLY));
}

/* Namespaces */

static int try_unshare_user(char **arguments)
{
    (void)arguments;
    return probe_error(unshare(CLONE_NEWUSER));
}

static int try_unshare_net(char **arguments)
{
    (void)arguments;
    return probe_error(unshare(CLONE_NEWNET));
}

static int try_clone_user(char **arguments)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

    (void)arguments;
    if (pid == 0)
        _exit(0);
    return probe_error(pid);
}

static int try_clone3_user(char **arguments)
{
    struct clone_args options = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
    long pid = syscall(SYS_clone3, &options, sizeof(options));

    (void)arguments;
    if (pid == 0)
        _exit(0);
    return probe_error(pid);
}

/* The upper half of the argument must not hide the flag from a filter. */
static int try_clone_user_wide(char **arguments)
{
    long pid = syscall(SYS_clone, (1ul << 40) | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

    (void)arguments;
    if (pid == 0)
        _exit(0);
    return probe_error(pid);
}

static int try_setns(char **arguments)
{
    static const char *const names[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup" };
    int first = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];
        int fd;
        int error;

        (void)snprintf(path, sizeof(path), "/proc/%s/ns/%s", arguments[0], names[i]);
        fd = open(path, O_RDONLY);
        error = fd < 0 ? errno : probe_error(setns(fd, 0));
        if (error == 0)
            return 0;
        if (first == 0)
            first = error;
    }
    return first;
}

/* Large surfaces */

static int try_keyctl(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1, 0, 0));
}

static int try_add_key(char **arguments)
{
    (void)arguments;
    return probe_error(
        syscall(SYS_add_key, "user", "probe", "x", (size_t)1, KEY_SPEC_PROCESS_KEYRING));
}

static int try_io_uring(char **arguments)
{
    struct io_uring_params params = { 0 };

    (void)arguments;
    return probe_error(syscall(SYS_io_uring_setup, 1, &params));
}

static int try_bpf(char **arguments)
{
    union bpf_attr attributes;

    (void)arguments;
    memset(&attributes, 0, sizeof(attributes));
    attributes.map_type = BPF_MAP_TYPE_ARRAY;
    attributes.key_size = 4;
    attributes.value_size = 4;
    attributes.max_entries = 1;
    return probe_error(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes)));
}

static int try_userfaultfd(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
}

static int try_perf_event(char **arguments)
{
    struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
                                     .size = sizeof(event),
                                     .config = PERF_COUNT_SW_TASK_CLOCK,
                                     .exclude_kernel = 1,
                                     .exclude_hv = 1 };

    (void)arguments;
    return probe_error(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0ul));
}

static int try_fanotify(char **arguments)
{
    (void)arguments;
    return probe_error(
        syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY | O_CLOEXEC));
}

/* The machine */

static int try_kexec_load(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_kexec_load, 0ul, 0ul, NULL, 0ul));
}

static int try_init_module(char **arguments)
{
    static char nothing[16];

    (void)arguments;
    return probe_error(syscall(SYS_init_module, nothing, sizeof(nothing), ""));
}

static int try_clock_settime(char **arguments)
{
    struct timespec now;

    (void)arguments;
    clock_gettime(CLOCK_REALTIME, &now);
    return probe_error(clock_settime(CLOCK_REALTIME, &now));
}

static int try_sethostname(char **arguments)
{
    struct utsname names;

    (void)arguments;
    if (uname(&names) < 0)
        return errno;
    return probe_error(sethostname(names.nodename, strlen(names.nodename)));
}

static int try_syslog(char **arguments)
{
    const int read_all = 3;
    char text[4096];

    (void)arguments;
    return probe_error(klogctl(read_all, text, sizeof(text)));
}

static int try_personality(char **arguments)
{
    (void)arguments;
    return probe_error(personality(ADDR_NO_RANDOMIZE));
}

#ifdef __x86_64__
#include <sys/io.h>

static int try_iopl(char **arguments)
{
    (void)arguments;
    return probe_error(iopl(3));
}

static int try_x32(char **arguments)
{
    const long x32_bit = 0x40000000;

    (void)arguments;
    return probe_error(syscall(x32_bit | SYS_getpid));
}

/* Number 20 is getpid for a 32-bit program. */
static int try_i386(char **arguments)
{
    long result = 20;

    (void)arguments;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result < 0 ? (int)-result : 0;
}
#else
static int not_here(char **arguments)
{
    (void)arguments;
    return ENOSYS;
}

#define try_iopl not_here
#define try_x32 not_here
#define try_i386 not_here
#endif

/* Terminals */

static int open_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name;

    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        return 0;
    name = ptsname(master);
    setsid();
    return name != NULL ? open(name, O_RDWR) : 0;
}

static int try_tiocsti(char **arguments)
{
    (void)arguments;
    return probe_error(ioctl(open_terminal(), TIOCSTI, "x"));
}

/* The kernel looks at the lower half of the request only. */
static int try_tiocsti_wide(char **arguments)
{
    (void)arguments;
    return probe_error(syscall(SYS_ioctl, open_terminal(), (1ul << 40) | TIOCSTI, "x"));
}

static int try_tioclinux(char **arguments)
{
    char paste = 3;

    (void)arguments;
    return probe_error(ioctl(open_terminal(), TIOCLINUX, &paste));
}

static int try_controlling_terminal(char **arguments)
{
    (void)arguments;
    return probe_error(open("/dev/tty", O_RDWR));
}

/* What must work */

static int try_memfd(char **arguments)
{
    int fd = memfd_create("probe", MFD_CLOEXEC);

    (void)arguments;
    return fd < 0 ? errno : probe_error(write(fd, "x", 1));
}

const struct probe kernel_probes[] = {
    { "mount", try_mount, 0 },
    { "remount", try_remount, 0 },
    { "umount", try_umount, 0 },
    { "pivot-root", try_pivot_root, 0 },
    { "chroot", try_chroot, 0 },
    { "fsopen", try_fsopen, 0 },
    { "open-tree", try_open_tree, 0 },
    { "mknod", try_mknod, 1 },
    { "swapon", try_swapon, 0 },
    { "quotactl", try_quotactl, 0 },
    { "open-by-handle", try_open_by_handle, 0 },
    { "unshare-user", try_unshare_user, 0 },
    { "unshare-net", try_unshare_net, 0 },
    { "clone-user", try_clone_user, 0 },
    { "clone-user-wide", try_clone_user_wide, 0 },
    { "clone3-user", try_clone3_user, 0 },
    { "setns", try_setns, 1 },
    { "keyctl", try_keyctl, 0 },
    { "add-key", try_add_key, 0 },
    { "io-uring", try_io_uring, 0 },
    { "bpf", try_bpf, 0 },
    { "userfaultfd", try_userfaultfd, 0 },
    { "perf-event", try_perf_event, 0 },
    { "fanotify", try_fanotify, 0 },
    { "kexec-load", try_kexec_load, 0 },
    { "init-module", try_init_module, 0 },
    { "clock-settime", try_clock_settime, 0 },
    { "sethostname", try_sethostname, 0 },
    { "syslog", try_syslog, 0 },
    { "personality", try_personality, 0 },
    { "iopl", try_iopl, 0 },
    { "x32", try_x32, 0 },
    { "i386", try_i386, 0 },
    { "tiocsti", try_tiocsti, 0 },
    { "tiocsti-wide", try_tiocsti_wide, 0 },
    { "tioclinux", try_tioclinux, 0 },
    { "controlling-terminal", try_controlling_terminal, 0 },
    { "memfd", try_memfd, 0 },
    { NULL, NULL, 0 },
};
