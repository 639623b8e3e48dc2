#include "common/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/mem.h"
#include "common/str.h"

void fd_close_cleanup(int *fd)
{
    fd_close(fd);
}

void fd_close(int *fd)
{
    int saved_errno = errno;

    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved_errno;
}

int fd_set_nonblocking(int fd, bool on, struct error *err)
{
    int flags = fcntl(fd, F_GETFL);
    int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;

    if (flags < 0 || (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0))
        return error_set(err, ERR_SYSTEM, errno, "set non-blocking mode");
    return 0;
}

int fd_socketpair(int out[2], struct error *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a socket pair");
    return 0;
}

/* Unix sockets --------------------------------------------------------------------------------- */

/* The address of PATH. When it is too long, *DIR becomes its folder's descriptor, which the address
 * goes through and which must stay open as long as the address is used. */
static int unix_address(const char *path, struct sockaddr_un *address, int *dir, struct error *err)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *folder = NULL;
    int len;

    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (str_copy(address->sun_path, sizeof(address->sun_path), path) && path[0])
        return 0;
    if (!slash)
        return error_set(err, ERR_INVALID, 0, "socket path %s is not usable", path);
    folder = mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    *dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        return error_set(err, errno == ENOENT ? ERR_UNAVAILABLE : ERR_SYSTEM, errno,
                         "open folder %s", folder);
    len = snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d%s", *dir, slash);
    if (len < 0 || (size_t)len >= sizeof(address->sun_path))
        return error_set(err, ERR_INVALID, 0, "name of socket %s is too long", path);
    return 0;
}

static int connect_retrying(int fd, const struct sockaddr_un *address)
{
    int rc;

    do
        rc = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* Removes a socket file that nobody listens on any more; refuses to touch anything else. */
static int remove_stale(const char *path, const struct sockaddr_un *address, int type,
                        struct error *err)
{
    AUTO_CLOSE int fd = -1;
    struct stat info;

    if (lstat(address->sun_path, &info) < 0)
        return errno == ENOENT ? 0 : error_set(err, ERR_SYSTEM, errno, "look at %s", path);
    if (!S_ISSOCK(info.st_mode))
        return error_set(err, ERR_CONFLICT, 0, "%s exists and is not a socket", path);
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a socket");
    if (connect_retrying(fd, address) == 0 || errno != ECONNREFUSED)
        return error_set(err, ERR_CONFLICT, 0, "another process listens on %s", path);
    if (unlink(address->sun_path) < 0 && errno != ENOENT)
        return error_set(err, ERR_SYSTEM, errno, "remove stale socket %s", path);
    return 0;
}

int fd_listen_unix(const char *path, int type, int backlog, struct error *err)
{
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int dir = -1;
    struct sockaddr_un address;

    if (unix_address(path, &address, &dir, err) < 0 || remove_stale(path, &address, type, err) < 0)
        return -1;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a socket");
    /* Linux gives the file that bind() makes the mode of the socket: so it is never open to others,
     * not for a moment, and the umask of the process, which other threads share, stays alone. */
    if (fchmod(fd, 0600) < 0)
        return error_set(err, ERR_SYSTEM, errno, "set the mode of socket %s", path);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return error_set(err, errno == EADDRINUSE ? ERR_CONFLICT : ERR_SYSTEM, errno,
                         "bind socket %s", path);
    if (listen(fd, backlog) < 0)
        return error_set(err, ERR_SYSTEM, errno, "listen on %s", path);
    return fd_steal(&fd);
}

int fd_connect_unix(const char *path, int type, struct error *err)
{
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int dir = -1;
    struct sockaddr_un address;

    if (unix_address(path, &address, &dir, err) < 0)
        return -1;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a socket");
    if (connect_retrying(fd, &address) < 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED;
        enum error_code code = absent ? ERR_UNAVAILABLE : errno == EACCES ? ERR_DENIED : ERR_SYSTEM;

        return error_set(err, code, errno, "connect to %s", path);
    }
    return fd_steal(&fd);
}

int fd_peer(int fd, uid_t *uid, pid_t *pid, struct error *err)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return error_set(err, ERR_SYSTEM, errno, "ask who the peer is");
    *uid = peer.uid;
    if (pid)
        *pid = peer.pid;
    return 0;
}

/* Descriptors over a socket -------------------------------------------------------------------- */

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

/* The descriptors travel with the first byte; what is left of a short send follows without them. */
static ssize_t send_once(int fd, const void *data, size_t len, const int *fds, size_t count)
{
    union control control = { .bytes = { 0 } };
    struct iovec bytes = { (void *)(uintptr_t)data, len };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };

    if (count) {
        struct cmsghdr *header;

        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

int fd_send(int fd, const void *data, size_t len, const int *fds, size_t count, struct error *err)
{
    const char *at = data;
    bool begun = false;

    BUG_ON(len == 0 || count > FD_PASS_MAX);
    while (len) {
        ssize_t sent = send_once(fd, at, len, fds, begun ? 0 : count);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN && begun) {
            struct pollfd wait = { .fd = fd, .events = POLLOUT };

            poll(&wait, 1, -1);
            continue;
        }
        if (sent < 0)
            return error_set(err, ERR_SYSTEM, errno, "send on a socket");
        begun = true;
        at += sent;
        len -= (size_t)sent;
    }
    return 0;
}

/* Moves the descriptors of one control message to FDS, and closes those for which there is no room.
 */
static size_t take_descriptors(struct cmsghdr *header, int *fds, size_t have, size_t room)
{
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < count; i++) {
        int received;

        memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        if (have < room)
            fds[have++] = received;
        else
            close(received);
    }
    return have;
}

ssize_t fd_recv(int fd, void *data, size_t len, int *fds, size_t *count, struct error *err)
{
    union control control = { .bytes = { 0 } };
    struct iovec bytes = { data, len };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
    size_t have = 0;
    ssize_t got;

    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    do
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        *count = 0;
        return error_set(err, ERR_SYSTEM, errno, "receive on a socket");
    }
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
         header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            have = take_descriptors(header, fds, have, *count);
    *count = have;
    return got;
}

/* Files ---------------------------------------------------------------------------------------- */

int fd_write_all(int fd, const void *data, size_t len, struct error *err)
{
    const char *at = data;

    while (len) {
        ssize_t written = write(fd, at, len);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return error_set(err, ERR_SYSTEM, errno, "write");
        at += written;
        len -= (size_t)written;
    }
    return 0;
}

/* Reads to the end; one byte more than MAX is asked for, so that a file which grew is noticed. */
static int read_to_end(int fd, const char *path, size_t max, struct buf *content, struct error *err)
{
    for (;;) {
        size_t left = max - content->len;
        size_t chunk = left < 65536 ? left + 1 : 65536;
        char *to = buf_reserve(content, chunk);
        ssize_t got;

        if (!to)
            return error_set(err, ERR_LIMIT, 0, "no memory for %s", path);
        got = read(fd, to, chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, ERR_SYSTEM, errno, "read %s", path);
        if (got == 0)
            return 0;
        if ((size_t)got > left)
            return error_set(err, ERR_LIMIT, 0, "%s is larger than %zu bytes", path, max);
        buf_commit(content, (size_t)got);
    }
}

int fd_read_file(const char *path, size_t max, char **out, size_t *len, struct error *err)
{
    /* Non-blocking, or opening a FIFO would wait for its writer. */
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    AUTO_BUF struct buf content = BUF_INIT(max + 1);
    struct stat info;

    if (fd < 0) {
        enum error_code code = errno == EACCES ? ERR_DENIED : ERR_SYSTEM;

        return error_set(err, errno == ENOENT ? ERR_NOT_FOUND : code, errno, "open %s", path);
    }
    if (fstat(fd, &info) < 0)
        return error_set(err, ERR_SYSTEM, errno, "look at %s", path);
    if (!S_ISREG(info.st_mode))
        return error_set(err, ERR_INVALID, 0, "%s is not a regular file", path);
    if (read_to_end(fd, path, max, &content, err) < 0)
        return -1;
    if (len)
        *len = content.len;
    *out = buf_steal(&content);
    return 0;
}

static int write_and_rename(const char *temporary, int fd, const char *path, const void *data,
                            size_t len, mode_t mode, struct error *err)
{
    if (fchmod(fd, mode) < 0)
        return error_set(err, ERR_SYSTEM, errno, "set the mode of %s", temporary);
    if (fd_write_all(fd, data, len, err) < 0)
        return error_wrap(err, "%s", temporary);
    if (fsync(fd) < 0)
        return error_set(err, ERR_SYSTEM, errno, "sync %s", temporary);
    if (rename(temporary, path) < 0)
        return error_set(err, ERR_SYSTEM, errno, "rename %s to %s", temporary, path);
    return 0;
}

int fd_replace_file(const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *folder =
        slash ? mem_strndup(path, (size_t)(slash - path) + 1) : mem_strdup("./");
    AUTO_FREE char *temporary = mem_printf("%s.%s.XXXXXX", folder, slash ? slash + 1 : path);
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return error_set(err, ERR_SYSTEM, errno, "open folder %s", folder);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "make a file in %s", folder);
    if (write_and_rename(temporary, fd, path, data, len, mode, err) < 0) {
        unlink(temporary);
        return -1;
    }
    if (fsync(dir) < 0)
        return error_set(err, ERR_SYSTEM, errno, "sync folder %s", folder);
    return 0;
}
