#include "mcp-stdio/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK belongs to the open file, which may be shared with the client or a terminal; so it
 * isn't set on what was inherited. A pipe is opened once more through /proc, a socket has a flag
 * for each call, and the rest waits. */
static int reopen_pipe(int fd)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Opened files take the lowest free number; none of ours may become a standard descriptor that was
 * closed. */
static int fill_standard(struct error *err)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "open /dev/null");
    close(fd);
    return 0;
}

int output_take(struct output *output, struct error *err)
{
    struct stat info;
    int reopened;

    if (fill_standard(err) < 0)
        return -1;
    output->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (output->fd < 0)
        return error_set(err, ERR_SYSTEM, errno, "standard output");
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return error_set(err, ERR_SYSTEM, errno, "point standard output at standard error");
    output->kind = OUTPUT_WAITING;
    if (fstat(output->fd, &info) < 0)
        return error_set(err, ERR_SYSTEM, errno, "standard output");
    if (S_ISSOCK(info.st_mode))
        output->kind = OUTPUT_SOCKET;
    if (!S_ISFIFO(info.st_mode))
        return 0;
    reopened = reopen_pipe(output->fd);
    if (reopened >= 0) {
        close(output->fd);
        output->fd = reopened;
        output->kind = OUTPUT_PIPE;
    }
    return 0;
}

static ssize_t write_some(const struct output *output, const struct buf *buf)
{
    if (output->kind == OUTPUT_SOCKET)
        return send(output->fd, buf->data, buf->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(output->fd, buf->data, buf->len);
}

int output_flush(struct output *output, struct buf *buf, struct error *err)
{
    while (buf->len) {
        ssize_t written = write_some(output, buf);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN && output->kind != OUTPUT_WAITING)
            return 0;
        if (written < 0 && errno == EAGAIN) { /* inherited as non-blocking */
            struct pollfd wait = { .fd = output->fd, .events = POLLOUT };

            poll(&wait, 1, -1);
            continue;
        }
        if (written < 0)
            return error_set(err, ERR_SYSTEM, errno, "write to the client");
        buf_consume(buf, (size_t)written);
    }
    return 0;
}
