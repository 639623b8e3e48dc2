#include "service_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

/* The number of descriptors that are for this very process. */
static uint64_t take_count(void)
{
    const char *pid_text = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    uint64_t pid = 0;
    uint64_t count = 0;

    if (pid_text == NULL || count_text == NULL || !str_parse_u64(pid_text, UINT32_MAX, &pid) ||
        !str_parse_u64(count_text, 1000, &count) || pid != (uint64_t)getpid())
        count = 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return count;
}

static bool listens(int fd)
{
    int type = 0;
    int accepting = 0;
    socklen_t len = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM)
        return false;
    len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &len) == 0 && accepting != 0;
}

static int check_socket(int fd, const char *path, struct error *err)
{
    struct sockaddr_un address = { 0 };
    socklen_t len = sizeof(address);

    if (!listens(fd) || getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        address.sun_family != AF_UNIX)
        return error_set(err, ERR_INVALID, 0, "the unit gives something else than a socket: %s",
                         "its ListenStream must be one path");
    if (strncmp(address.sun_path, path, sizeof(address.sun_path)) != 0)
        return error_set(err, ERR_INVALID, 0,
                         "the unit listens on %.100s, but clients look for %s: run "
                         "`sandboxctl service install` again",
                         address.sun_path, path);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return error_set(err, ERR_SYSTEM, errno, "keep the unit's socket from children");
    return fd_set_nonblocking(fd, true, err);
}

int service_manager_socket(const char *path, int *fd, struct error *err)
{
    uint64_t count = take_count();

    *fd = -1;
    if (count == 0)
        return 0;
    if (count != 1)
        return error_set(err, ERR_INVALID, 0, "the unit gives %llu sockets, one is wanted",
                         (unsigned long long)count);
    if (check_socket(FIRST_FD, path, err) < 0)
        return -1;
    *fd = FIRST_FD;
    return 0;
}

/* A path, or an abstract name behind an @ (sd_notify(3)). */
static bool notify_address(struct sockaddr_un *address, socklen_t *len)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t size = name != NULL ? strlen(name) : 0;

    if (size < 2 || size >= sizeof(address->sun_path) || (name[0] != '/' && name[0] != '@'))
        return false;
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path, name, size);
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

void service_manager_tell(const char *message)
{
    struct sockaddr_un address;
    socklen_t len;
    AUTO_CLOSE
    int fd = -1;

    if (!notify_address(&address, &len))
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 ||
        sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&address, len) < 0)
        log_warn("supervisor", "the service manager can't be told: %s", strerror(errno));
}
