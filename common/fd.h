/* fd.h: descriptors. Everything made here is close-on-exec. */
#ifndef COMMON_FD_H
#define COMMON_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "error.h"

void fd_close_cleanup(int *fd);
#define AUTO_CLOSE __attribute__((cleanup(fd_close_cleanup)))

/* Takes the descriptor out of a variable, which becomes -1. */
static inline int fd_steal(int *fd)
{
    int value = *fd;

    *fd = -1;
    return value;
}

/* Closes and sets to -1; harmless on -1. */
void fd_close(int *fd);
int fd_set_nonblocking(int fd, bool on, struct error *err);

/* A connected pair of Unix stream sockets. */
int fd_socketpair(int out[2], struct error *err);

/* A Unix socket of TYPE (SOCK_STREAM or SOCK_SEQPACKET) bound to PATH with mode 0600 and listening.
 * A path longer than sun_path is reached through its directory's descriptor under /proc/self/fd. A
 * stale socket file at the path is removed first. Returns the descriptor or -1. */
int fd_listen_unix(const char *path, int type, int backlog, struct error *err);
/* Connects (blocking) to such a socket. ERR_UNAVAILABLE when nobody listens or the file is missing.
 */
int fd_connect_unix(const char *path, int type, struct error *err);

/* Uid and pid of the process at the other end (SO_PEERCRED). pid may be NULL. */
int fd_peer(int fd, uid_t *uid, pid_t *pid, struct error *err);

/* Sends LEN bytes with COUNT descriptors (at most FD_PASS_MAX), or receives them. Received
 * descriptors are close-on-exec; *count is the room on entry and the number on return; surplus ones
 * are closed. fd_recv returns bytes (0 at the end), or -1 with ERR_SYSTEM; EAGAIN is in err->sys.
 */
#define FD_PASS_MAX 8
int fd_send(int fd, const void *data, size_t len, const int *fds, size_t count, struct error *err);
ssize_t fd_recv(int fd, void *data, size_t len, int *fds, size_t *count, struct error *err);

/* Writes or reads all of it on a blocking descriptor, EINTR and short counts handled. */
int fd_write_all(int fd, const void *data, size_t len, struct error *err);
/* Reads a whole regular file of at most MAX bytes into *OUT (heap, NUL-terminated). */
int fd_read_file(const char *path, size_t max, char **out, size_t *len, struct error *err);
/* Replaces PATH durably: temporary file beside it with MODE, write, fsync, rename, fsync of the
 * directory. */
int fd_replace_file(const char *path, const void *data, size_t len, mode_t mode, struct error *err);

#endif
