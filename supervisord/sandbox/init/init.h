/* init.h: the parts of sandbox-init. One struct holds everything; there is no heap. */
#ifndef INIT_INIT_H
#define INIT_INIT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol.h"

#define CONNECTIONS_MAX 8u
#define WAITERS_MAX 256u
#define LISTENERS_MAX 16u
#define CONNECTS_MAX 32u
#define CONNECT_TIMEOUT_MS 5000

struct process {
    uint32_t id; /* 0: free */
    pid_t pid;
    bool ended;
    int status;     /* as from waitpid, once ended */
    int streams[3]; /* the supervisor's ends: write end of 0, read ends of 1 and 2; -1 where there
                       is none */
};

struct connection {
    int fd;          /* -1: free */
    uint32_t serial; /* never reused, so that a late answer can't reach a newcomer */
};

struct waiter {
    uint32_t process; /* 0: free */
    uint32_t connection;
    uint64_t tag;
};

struct pending_connect {
    int fd; /* -1: free */
    uint32_t connection;
    uint64_t tag;
    int64_t deadline_ms;
};

struct listener {
    uint16_t port; /* 0: free */
    int fd;
};

struct init {
    int control;  /* listening */
    int signals;  /* signalfd for SIGCHLD */
    int deadline; /* timerfd */
    int spare;    /* given up for a moment when the table of descriptors is full */
    uint32_t landlock;
    bool greeted;
    bool plain;         /* not process 1 */
    uint64_t limits[3]; /* processes, open files, file size */
    uint32_t last_process;
    uint32_t last_serial;
    struct process processes[INIT_PROCESSES_MAX];
    struct connection connections[CONNECTIONS_MAX];
    struct waiter waiters[WAITERS_MAX];
    struct pending_connect connects[CONNECTS_MAX];
    struct listener listeners[LISTENERS_MAX];
    union {
        struct init_request request;
        char bytes[sizeof(struct init_request) + INIT_DATA_MAX + 1];
    } packet;
    char *argv[INIT_STRINGS_MAX + 1];
    char *env[INIT_STRINGS_MAX + 1];
};

/* control.c: connections of supervisors and their requests. */
void control_setup(struct init *init);
void control_accept(struct init *init);
void control_receive(struct init *init, struct connection *connection);
/* Sends to the connection with that serial, if it still is there; FDS go with it in order, as many
 * as REPLY->fds has bits. */
void control_reply(struct init *init, uint32_t serial, struct init_reply *reply, const int fds[3]);
/* A reply that says what failed. */
void control_refuse(struct init *init, uint32_t serial, struct init_reply *reply, int error,
                    const char *what);

/* landlock.c: PLACES are arguments as in protocol.h. Holds this process and all that it starts from
 * now on to them. Returns the kernel's interface that is in force, 0 when there is none. */
uint32_t landlock_apply(char *const *places, size_t count);

/* deadline.c: when init ends by itself. */
int deadline_setup(void); /* -1 with errno */
int deadline_set(const struct init *init, uint64_t in_ms);

/* net.c: sockets on the sandbox's loopback. */
void net_up(void);
int net_listen(struct init *init, uint16_t port); /* borrowed; -1 with errno */
void net_connect(struct init *init, uint16_t port, uint32_t serial, uint64_t tag);
void net_connected(struct init *init, struct pending_connect *connect);
int64_t net_now_ms(void);

/* spawn.c: starting a program. FAILED names the step; returns the pid, or -1 with errno. */
struct spawn {
    char *cwd;
    char **argv;
    char **env;
    int streams[3]; /* the program's ends; -1: /dev/null */
    const uint64_t *limits;
    int deadline;
    bool keep_lock;
};
pid_t spawn_program(const struct spawn *spawn, const char **failed);

/* reap.c: the table of processes. */
void reap_setup(struct init *init);
struct process *reap_add(struct init *init); /* NULL when the table is full of running ones */
struct process *reap_find(struct init *init, uint32_t id);
void reap_forget(struct process *process);
void reap_ended(struct init *init); /* after SIGCHLD */
/* SIGKILL to everything but init. As a plain process: to its children, and to those that become its
 * children by that, until there are none. */
void reap_kill_all(struct init *init);
void reap_wait(struct init *init, uint32_t serial, uint64_t tag, uint32_t id);

#endif
