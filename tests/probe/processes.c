/* processes.c: reaching into other processes, and for more rights than one has. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int try_signal(char **arguments)
{
    return probe_error(kill(probe_number(arguments[0]), probe_number(arguments[1])));
}

static int try_ptrace(char **arguments)
{
    return probe_error(ptrace(PTRACE_SEIZE, probe_number(arguments[0]), NULL, NULL));
}

/* The address is where a static program's text lies. */
static int try_vm_read(char **arguments)
{
    char bytes[16];
    struct iovec here = { bytes, sizeof(bytes) };
    struct iovec there = { (void *)(uintptr_t)0x400000, sizeof(bytes) };

    return probe_error(process_vm_readv(probe_number(arguments[0]), &here, 1, &there, 1, 0));
}

static int try_pidfd_getfd(char **arguments)
{
    int process = (int)syscall(SYS_pidfd_open, probe_number(arguments[0]), 0);
    int last = EBADF;

    if (process < 0)
        return errno;
    for (int fd = 0; fd < 64; fd++) {
        if (syscall(SYS_pidfd_getfd, process, fd, 0) >= 0)
            return 0;
        last = errno;
    }
    return last;
}

static int read_of(const char *pid, const char *name)
{
    char path[128];
    char byte;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
    fd = open(path, O_RDONLY);
    if (fd < 0)
        return errno;
    return probe_error(read(fd, &byte, 1));
}

/* To open it is enough: reading needs an address. */
static int try_memory(char **arguments)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%s/mem", arguments[0]);
    return probe_error(open(path, O_RDWR));
}

static int try_environment(char **arguments)
{
    return read_of(arguments[0], "environ");
}

static int try_root(char **arguments)
{
    return read_of(arguments[0], "root/etc/passwd");
}

static int try_descriptors(char **arguments)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%s/fd", arguments[0]);
    return opendir(path) != NULL ? 0 : errno;
}

static int try_setuid(char **arguments)
{
    (void)arguments;
    return probe_error(setuid(0));
}

static int try_setgroups(char **arguments)
{
    const gid_t groups[] = { 0 };

    (void)arguments;
    return probe_error(setgroups(1, groups));
}

static int try_new_privileges(char **arguments)
{
    (void)arguments;
    return probe_error(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static int try_nice(char **arguments)
{
    (void)arguments;
    return probe_error(setpriority(PRIO_PROCESS, 0, -20));
}

static int try_fifo(char **arguments)
{
    const struct sched_param priority = { .sched_priority = 1 };

    (void)arguments;
    return probe_error(sched_setscheduler(0, SCHED_FIFO, &priority));
}

static int try_more_files(char **arguments)
{
    struct rlimit limit;

    (void)arguments;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return errno;
    limit.rlim_max++;
    return probe_error(setrlimit(RLIMIT_NOFILE, &limit));
}

static int try_core(char **arguments)
{
    const struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    (void)arguments;
    return probe_error(setrlimit(RLIMIT_CORE, &limit));
}

const struct probe process_probes[] = {
    { "signal", try_signal, 2 },
    { "ptrace", try_ptrace, 1 },
    { "vm-read", try_vm_read, 1 },
    { "pidfd-getfd", try_pidfd_getfd, 1 },
    { "memory", try_memory, 1 },
    { "environment", try_environment, 1 },
    { "root", try_root, 1 },
    { "descriptors", try_descriptors, 1 },
    { "setuid", try_setuid, 0 },
    { "setgroups", try_setgroups, 0 },
    { "new-privileges", try_new_privileges, 0 },
    { "nice", try_nice, 0 },
    { "fifo", try_fifo, 0 },
    { "more-files", try_more_files, 0 },
    { "core", try_core, 0 },
    { NULL, NULL, 0 },
};
