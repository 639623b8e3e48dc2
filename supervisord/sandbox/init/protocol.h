/* protocol.h: what crosses the control socket between a supervisor and sandbox-init. Both sides
 * compile this file.
 *
 * SOCK_SEQPACKET: one packet is one message, in the machine's own byte order (both ends are one
 * machine). A request is the struct and LEN bytes behind it; a reply is the struct, with
 * descriptors by SCM_RIGHTS. Every request with a tag other than 0 gets exactly one reply, in any
 * order. docs/sandbox.md explains the verbs. */
#ifndef INIT_PROTOCOL_H
#define INIT_PROTOCOL_H

#include <stdint.h>

#define INIT_PROTOCOL_VERSION 2u

#define INIT_DATA_MAX (136u * 1024u) /* behind a request: a command's strings */
#define INIT_STRINGS_MAX 4096u       /* arguments, and as many variables */
#define INIT_TEXT_MAX 160u
#define INIT_PROCESSES_MAX 256u /* running, or ended and not yet forgotten */

enum init_verb {
    INIT_HELLO = 1, /* who are you: the sender's pid comes as credentials */
    INIT_LISTEN,    /* number: port; a listening socket on 127.0.0.1 */
    INIT_CONNECT,   /* number: port; a connected socket */
    INIT_SPAWN,     /* folder, argv, env as NUL-terminated strings; our ends of the streams */
    INIT_ATTACH,    /* process; our ends of its streams again */
    INIT_WAIT,      /* process; the reply comes when it has ended */
    INIT_FORGET,    /* process; its status was received */
    INIT_SIGNAL,    /* process, number: signal; to its process group */
    INIT_END_INPUT, /* process; its standard input ends once all copies are closed */
    INIT_STATUS,    /* how many processes run */
    INIT_KILL_ALL,  /* SIGKILL to everything but init */
    INIT_DEADLINE,  /* time_ms from now init ends, and everything with it; 0: never */
};

enum { INIT_SPAWN_STDIN = 1 }; /* flags: standard input is a pipe, else /dev/null */

struct init_request {
    uint32_t protocol;
    uint32_t verb;
    uint64_t tag;
    uint32_t process;
    uint32_t number;
    uint32_t argc;
    uint32_t envc;
    uint32_t flags;
    uint32_t len;
    uint64_t time_ms;
};

struct init_reply {
    uint32_t protocol;
    uint32_t verb;
    uint64_t tag;
    int32_t error; /* errno; 0: done */
    uint32_t process;
    uint32_t
        fds; /* bit n: a descriptor comes along, for stream n of a process; 1 for a lone socket */
    int32_t code;             /* exit status, or -1 */
    int32_t signal;           /* that ended the process, or 0 */
    uint32_t running;         /* hello and status */
    uint32_t landlock;        /* hello and status: the kernel's interface in force here; 0: none */
    char text[INIT_TEXT_MAX]; /* NUL-terminated: what failed */
};

/* How init is started: sandbox-init PROCESSES OPEN_FILES FILE_SIZE [PLACE...] with limits of what
 * it starts (0: as inherited), and places that Landlock leaves to it and to them: a letter below
 * and a path behind it. Without a place there is no Landlock. */
enum init_place {
    INIT_PLACE_READ = 'r',    /* to read and to execute */
    INIT_PLACE_WRITE = 'w',   /* everything that may be done with files */
    INIT_PLACE_DEVICES = 'd', /* to read, to write and to control what is there */
};

/* Before all else in the arguments: init is not process 1 of a pid namespace but a process among
 * others. It then takes no settings, and what it starts keeps the lock open. */
#define INIT_PLAIN "plain"

/* With these open. */
enum {
    INIT_FD_CONTROL = 3, /* the listening control socket */
    INIT_FD_LOCK = 4, /* held open and never used: the flock on it says that this sandbox lives */
};

/* How init ends. */
enum { INIT_EXIT_UNGREETED = 1, INIT_EXIT_DEADLINE = 124, INIT_EXIT_NO_START = 125 };

#endif
