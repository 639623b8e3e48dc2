#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

void reap_setup(struct init *init)
{
    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++) {
        for (int stream = 0; stream < 3; stream++)
            init->processes[i].streams[stream] = -1;
    }
}

/* Lets go of a place: the streams' ends are closed, the id is never used again. */
void reap_forget(struct process *process)
{
    for (int stream = 0; stream < 3; stream++) {
        if (process->streams[stream] >= 0)
            close(process->streams[stream]);
        process->streams[stream] = -1;
    }
    process->id = 0;
}

/* Nobody may ever fetch the status of a process, so when the table is full the one that ended and
 * is oldest goes. */
static struct process *oldest_ended(struct init *init)
{
    struct process *oldest = NULL;

    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++) {
        struct process *process = &init->processes[i];

        if (process->ended && (!oldest || process->id < oldest->id))
            oldest = process;
    }
    return oldest;
}

struct process *reap_add(struct init *init)
{
    struct process *process = reap_find(init, 0);

    if (!process) {
        process = oldest_ended(init);
        if (!process)
            return NULL;
        reap_forget(process);
    }
    process->ended = false;
    process->status = 0;
    process->pid = 0;
    process->id = ++init->last_process;
    return process;
}

struct process *reap_find(struct init *init, uint32_t id)
{
    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++) {
        if (init->processes[i].id == id)
            return &init->processes[i];
    }
    return NULL;
}

static void tell_status(struct init *init, uint32_t serial, uint64_t tag,
                        const struct process *process)
{
    struct init_reply reply = { .verb = INIT_WAIT, .tag = tag, .process = process->id, .code = -1 };

    if (WIFEXITED(process->status))
        reply.code = WEXITSTATUS(process->status);
    else if (WIFSIGNALED(process->status))
        reply.signal = WTERMSIG(process->status);
    control_reply(init, serial, &reply, NULL);
}

static void tell_waiters(struct init *init, const struct process *process)
{
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        struct waiter *waiter = &init->waiters[i];

        if (waiter->process != process->id)
            continue;
        waiter->process = 0;
        tell_status(init, waiter->connection, waiter->tag, process);
    }
}

static void note_end(struct init *init, pid_t pid, int status)
{
    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++) {
        struct process *process = &init->processes[i];

        if (process->id == 0 || process->ended || process->pid != pid)
            continue;
        process->ended = true;
        process->status = status;
        tell_waiters(init, process);
    }
}

void reap_ended(struct init *init)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(init->signals, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        note_end(init, pid, status);
}

/* Kills the children that there are now. False when the kernel doesn't list them. */
static bool kill_children(void)
{
    char path[64];
    char text[4096];
    char *at = text;
    ssize_t len;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    /* The last number may be cut off, and be another's then. */
    while (strchr(at, ' ')) {
        pid_t child = (pid_t)strtol(at, NULL, 10);

        if (child > 1)
            kill(child, SIGKILL);
        at = strchr(at, ' ') + 1;
    }
    return true;
}

void reap_kill_all(struct init *init)
{
    int status;
    pid_t pid;

    if (!init->plain) {
        kill(-1, SIGKILL);
        return;
    }
    /* Whose parent dies becomes our child: so this ends with the last one. */
    while (kill_children() && (pid = waitpid(-1, &status, 0)) > 0)
        note_end(init, pid, status);
}

void reap_wait(struct init *init, uint32_t serial, uint64_t tag, uint32_t id)
{
    struct init_reply reply = { .verb = INIT_WAIT, .tag = tag, .process = id };
    const struct process *process = id ? reap_find(init, id) : NULL;

    if (!process) {
        control_refuse(init, serial, &reply, ESRCH, "no such process");
        return;
    }
    if (process->ended) {
        tell_status(init, serial, tag, process);
        return;
    }
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        if (init->waiters[i].process != 0)
            continue;
        init->waiters[i] = (struct waiter){ id, serial, tag };
        return;
    }
    control_refuse(init, serial, &reply, EAGAIN, "too many waits");
}
