#include "common/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"

static bool is_close_on_exec(int fd)
{
    return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

TEST(close_is_harmless_on_nothing_and_clears_the_variable)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int copy = fd;

    fd_close(&fd);
    CHECK_EQ(fd, -1);
    CHECK_EQ(fcntl(copy, F_GETFD), -1);
    fd_close(&fd);
    fd = 5;
    CHECK_EQ(fd_steal(&fd), 5);
    CHECK_EQ(fd, -1);
}

TEST(blocking_can_be_turned_off_and_on)
{
    AUTO_CLOSE int a = -1;
    AUTO_CLOSE int b = -1;
    struct error err = ERROR_INIT;
    int pair[2];
    char byte;

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    a = pair[0];
    b = pair[1];
    CHECK(is_close_on_exec(a) && is_close_on_exec(b));
    CHECK_EQ(fd_set_nonblocking(a, true, &err), 0);
    CHECK_EQ(read(a, &byte, 1), -1);
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(fd_set_nonblocking(a, false, &err), 0);
    CHECK_EQ(fcntl(a, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(fd_set_nonblocking(-1, true, &err), -1);
    CHECK_EQ(err.sys, EBADF);
}

static void check_socket_at(const char *path, int type)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int listener = fd_listen_unix(path, type, 5, &err);
    AUTO_CLOSE int client = -1;
    AUTO_CLOSE int server = -1;
    struct stat info;
    uid_t uid = 0;
    pid_t pid = 0;
    char text[3] = "";

    CHECK_STR(err.text, "");
    CHECK(listener >= 0 && is_close_on_exec(listener));
    CHECK_EQ(stat(path, &info), 0);
    CHECK(S_ISSOCK(info.st_mode));
    CHECK_EQ(info.st_mode & 0777, 0600);
    client = fd_connect_unix(path, type, &err);
    CHECK(client >= 0 && is_close_on_exec(client));
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK_EQ(fd_peer(server, &uid, &pid, &err), 0);
    CHECK_EQ(uid, getuid());
    CHECK_EQ(pid, getpid());
    CHECK_EQ(fd_peer(server, &uid, NULL, &err), 0);
    CHECK_EQ(fd_write_all(client, "hi", 2, &err), 0);
    CHECK_EQ(read(server, text, 2), 2);
    CHECK_STR(text, "hi");
}

TEST(unix_sockets_listen_and_connect)
{
    mode_t old = umask(0);

    check_socket_at(tmp_path("stream"), SOCK_STREAM);
    check_socket_at(tmp_path("packet"), SOCK_SEQPACKET);
    umask(old);
}

TEST(a_path_longer_than_an_address_works)
{
    char path[400];
    size_t len;

    CHECK(strlen(tmp_dir()) < 200);
    snprintf(path, sizeof(path), "%s", tmp_dir());
    for (int i = 0; i < 3; i++) {
        len = strlen(path);
        memset(path + len, 'x', 51);
        path[len] = '/';
        path[len + 51] = '\0';
        CHECK_EQ(mkdir(path, 0700), 0);
    }
    len = strlen(path);
    snprintf(path + len, sizeof(path) - len, "/supervisor.sock");
    check_socket_at(path, SOCK_STREAM);
    check_socket_at(path, SOCK_STREAM); /* the first one is stale by now */
}

TEST(a_name_that_no_address_holds_is_refused)
{
    struct error err = ERROR_INIT;
    char name[201];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CHECK_EQ(fd_listen_unix(tmp_path(name), SOCK_STREAM, 5, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_EQ(fd_listen_unix(name, SOCK_STREAM, 5, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_EQ(fd_connect_unix("", SOCK_STREAM, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
}

TEST(a_stale_socket_is_replaced_and_a_live_one_is_not)
{
    struct error err = ERROR_INIT;
    const char *path = tmp_path("sock");
    int fd = fd_listen_unix(path, SOCK_STREAM, 5, &err);

    CHECK(fd >= 0);
    CHECK_EQ(fd_listen_unix(path, SOCK_STREAM, 5, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    CHECK_EQ(fd_listen_unix(path, SOCK_SEQPACKET, 5, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    fd_close(&fd);
    fd = fd_listen_unix(path, SOCK_SEQPACKET, 5, &err);
    CHECK(fd >= 0);
    fd_close(&fd);
}

TEST(what_is_not_a_socket_stays)
{
    struct error err = ERROR_INIT;
    const char *path = tmp_file("file", "keep", 4, 0600);

    CHECK_EQ(fd_listen_unix(path, SOCK_STREAM, 5, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    CHECK_EQ(access(path, F_OK), 0);
}

TEST(nobody_listening_is_unavailable)
{
    struct error err = ERROR_INIT;
    const char *path = tmp_path("sock");
    int fd;

    CHECK_EQ(fd_connect_unix(path, SOCK_STREAM, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
    fd = fd_listen_unix(path, SOCK_STREAM, 5, &err);
    fd_close(&fd);
    err = (struct error)ERROR_INIT;
    CHECK_EQ(fd_connect_unix(path, SOCK_STREAM, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
    err = (struct error)ERROR_INIT;
    CHECK_EQ(fd_connect_unix(tmp_path("no/such/folder"), SOCK_STREAM, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
}

static unsigned count_open(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(descriptors_travel_and_are_close_on_exec)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fds[FD_PASS_MAX];
    int pair[2];
    size_t count = FD_PASS_MAX;
    char text[8] = "";

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fds[i] = null;
    CHECK_EQ(fd_send(pair[0], "hello", 5, fds, FD_PASS_MAX, &err), 0);
    CHECK_EQ(fd_recv(pair[1], text, sizeof(text), fds, &count, &err), 5);
    CHECK_STR(text, "hello");
    CHECK_EQ(count, FD_PASS_MAX);
    for (size_t i = 0; i < count; i++) {
        CHECK(fds[i] >= 0 && fds[i] != null && is_close_on_exec(fds[i]));
        fd_close(&fds[i]);
    }
    fd_close(&pair[0]);
    count = FD_PASS_MAX;
    CHECK_EQ(fd_recv(pair[1], text, sizeof(text), fds, &count, &err), 0);
    CHECK_EQ(count, 0);
    fd_close(&pair[1]);
}

TEST(surplus_descriptors_are_closed)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fds[FD_PASS_MAX] = { null, null, null, null, null, null, null, null };
    int taken[1] = { -1 };
    int pair[2];
    size_t count = 1;
    unsigned before;
    char byte;

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    before = count_open();
    CHECK_EQ(fd_send(pair[0], "x", 1, fds, FD_PASS_MAX, &err), 0);
    CHECK_EQ(fd_recv(pair[1], &byte, 1, taken, &count, &err), 1);
    CHECK_EQ(count, 1);
    fd_close(&taken[0]);
    CHECK_EQ(count_open(), before);
    CHECK_EQ(fd_send(pair[0], "x", 1, fds, 3, &err), 0);
    count = 0;
    CHECK_EQ(fd_recv(pair[1], &byte, 1, NULL, &count, &err), 1);
    CHECK_EQ(count, 0);
    CHECK_EQ(count_open(), before);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

/* More than fd_recv has room for in its control buffer, as only a foreign sender can. */
TEST(descriptors_of_a_rude_sender_are_not_leaked)
{
    enum { MANY = 40 };
    struct error err = ERROR_INIT;
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MANY * sizeof(int))];
    } control;
    char byte = 'x';
    struct iovec iov = { &byte, 1 };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    int fds[FD_PASS_MAX];
    size_t count = FD_PASS_MAX;
    unsigned before;
    int pair[2];

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(MANY * sizeof(int));
    for (size_t i = 0; i < MANY; i++)
        memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &null, sizeof(int));
    before = count_open();
    CHECK_EQ(sendmsg(pair[0], &message, 0), 1);
    CHECK_EQ(fd_recv(pair[1], &byte, 1, fds, &count, &err), 1);
    CHECK(count <= FD_PASS_MAX);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    CHECK_EQ(count_open(), before);
    fd_close(&pair[0]);
    fd_close(&pair[1]);
}

TEST(nothing_to_receive_yet_says_eagain)
{
    struct error err = ERROR_INIT;
    size_t count = 0;
    int pair[2];
    char byte;

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    CHECK_EQ(fd_set_nonblocking(pair[0], true, &err), 0);
    CHECK_EQ(fd_recv(pair[0], &byte, 1, NULL, &count, &err), -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
    CHECK_EQ(err.sys, EAGAIN);
    fd_close(&pair[1]);
    CHECK_EQ(fd_send(pair[0], "x", 1, NULL, 0, &err), -1);
    CHECK_EQ(err.sys, EPIPE);
    fd_close(&pair[0]);
}

static void *read_all(void *data)
{
    size_t *total = data;
    int fd = (int)total[1];
    char chunk[1000];
    ssize_t got;

    while ((got = read(fd, chunk, sizeof(chunk))) > 0)
        *total += (size_t)got;
    return NULL;
}

TEST(more_than_a_socket_holds_is_sent_whole)
{
    static char data[2000000];
    struct error err = ERROR_INIT;
    size_t total[2] = { 0, 0 };
    pthread_t reader;
    int pair[2];

    CHECK_EQ(fd_socketpair(pair, &err), 0);
    CHECK_EQ(fd_set_nonblocking(pair[0], true, &err), 0);
    total[1] = (size_t)pair[1];
    CHECK_EQ(pthread_create(&reader, NULL, read_all, total), 0);
    CHECK_EQ(fd_send(pair[0], data, sizeof(data), NULL, 0, &err), 0);
    CHECK_EQ(fd_set_nonblocking(pair[0], false, &err), 0);
    CHECK_EQ(fd_write_all(pair[0], data, sizeof(data), &err), 0);
    fd_close(&pair[0]);
    CHECK_EQ(pthread_join(reader, NULL), 0);
    CHECK_EQ(total[0], 2 * sizeof(data));
    fd_close(&pair[1]);
}

TEST(a_file_is_read_whole_up_to_its_limit)
{
    struct error err = ERROR_INIT;
    const char *path = tmp_file("file",
                                "12\0"
                                "45",
                                5, 0600);
    AUTO_FREE char *text = NULL;
    AUTO_FREE char *empty = NULL;
    AUTO_FREE char *none = NULL;
    size_t len = 0;

    CHECK_EQ(fd_read_file(path, 5, &text, &len, &err), 0);
    CHECK_EQ(len, 5);
    CHECK(memcmp(text,
                 "12\0"
                 "45",
                 6) == 0);
    CHECK_EQ(fd_read_file(path, 4, &none, &len, &err), -1);
    CHECK_EQ(err.code, ERR_LIMIT);
    CHECK(none == NULL);
    CHECK_EQ(fd_read_file(tmp_file("empty", "", 0, 0600), 0, &empty, &len, &err), 0);
    CHECK_EQ(len, 0);
    CHECK_STR(empty, "");
}

TEST(a_file_of_several_chunks_is_read)
{
    static char data[200001];
    struct error err = ERROR_INIT;
    AUTO_FREE char *text = NULL;
    size_t len = 0;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 7);
    CHECK_EQ(
        fd_read_file(tmp_file("large", data, sizeof(data), 0600), sizeof(data), &text, &len, &err),
        0);
    CHECK_EQ(len, sizeof(data));
    CHECK(memcmp(text, data, len) == 0);
}

TEST(only_regular_files_are_read)
{
    struct error err = ERROR_INIT;
    const char *fifo = tmp_path("fifo");
    char *text = NULL;
    size_t len;

    CHECK_EQ(mkfifo(fifo, 0600), 0);
    CHECK_EQ(fd_read_file(fifo, 100, &text, &len, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_EQ(fd_read_file(tmp_dir(), 100, &text, &len, &err), -1);
    CHECK_EQ(err.code, ERR_INVALID);
    CHECK_EQ(fd_read_file("/dev/zero", 100, &text, &len, &err), -1);
    CHECK_EQ(fd_read_file(tmp_path("missing"), 100, &text, &len, &err), -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    CHECK(text == NULL);
}

TEST(a_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it)
{
    struct error err = ERROR_INIT;
    const char *path = tmp_file("file", "old", 3, 0644);
    AUTO_FREE char *text = NULL;
    struct stat info;
    size_t len;

    CHECK_EQ(fd_replace_file(path, "new content", 11, 0640, &err), 0);
    CHECK_EQ(fd_read_file(path, 100, &text, &len, &err), 0);
    CHECK_STR(text, "new content");
    CHECK_EQ(stat(path, &info), 0);
    CHECK_EQ(info.st_mode & 0777, 0640);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(tmp_dir()), 0);
}

TEST(a_file_that_cannot_be_replaced_leaves_nothing_behind)
{
    struct error err = ERROR_INIT;
    const char *folder = tmp_subdir("folder");

    CHECK_EQ(fd_replace_file(folder, "x", 1, 0600, &err), -1);
    CHECK_EQ(err.code, ERR_SYSTEM);
    CHECK_EQ(rmdir(folder), 0);
    CHECK_EQ(rmdir(tmp_dir()), 0);
    CHECK_EQ(fd_replace_file(tmp_path("no/such"), "x", 1, 0600, &err), -1);
}

TEST(a_file_in_the_current_folder_can_be_replaced)
{
    struct error err = ERROR_INIT;
    AUTO_CLOSE int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_EQ(chdir(tmp_dir()), 0);
    CHECK_EQ(fd_replace_file("here", "x", 1, 0600, &err), 0);
    CHECK_EQ(fchdir(before), 0);
    CHECK_EQ(access(tmp_path("here"), F_OK), 0);
}
