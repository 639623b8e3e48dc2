/* listener.h: accepts connections on a listening socket that someone made: bounded number, paused
 * while descriptors are short. */
#ifndef IO_LISTENER_H
#define IO_LISTENER_H

#include <stdint.h>
#include <uv.h>

#include "common/error.h"

struct listener;

/* Takes FD (listening; closed also on failure). ON_ACCEPT owns the connected, non-blocking,
 * close-on-exec FD and tells with listener_release when that connection is over, so that the limit
 * can be kept. At the limit accepting pauses (connections wait in the kernel's queue). On
 * EMFILE/ENFILE/ENOMEM it pauses and tries again after a release or a second. */
int listener_start(struct listener **out, uv_loop_t *loop, int fd, uint32_t max_connections,
                   void (*on_accept)(void *data, int fd), void *data, struct error *err);
void listener_release(struct listener *listener);
void listener_close(struct listener *listener, void (*done)(void *data),
                    void *data); /* done may be NULL */

/* A listening TCP socket on ADDRESS ("127.0.0.1", "::1"); PORT 0 picks one, *BOUND gets it. */
int listener_tcp_socket(const char *address, uint16_t port, uint16_t *bound, struct error *err);
/* Takes PORT of ADDRESS so that nobody else can listen there, and doesn't either: connections are
 * refused. *FD is the socket that holds it, or -1 where this machine has no such address.
 * ERR_CONFLICT: somebody has it. */
int listener_tcp_hold(const char *address, uint16_t port, int *fd, struct error *err);

#endif
