#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "init.h"

void control_setup(struct init *init)
{
    init->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        init->connections[i].fd = -1;
    for (size_t i = 0; i < CONNECTS_MAX; i++)
        init->connects[i].fd = -1;
}

/* What the connection had asked for is dropped with it. */
static void drop(struct init *init, struct connection *connection)
{
    close(connection->fd);
    connection->fd = -1;
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        if (init->waiters[i].connection == connection->serial)
            init->waiters[i].process = 0;
    }
    for (size_t i = 0; i < CONNECTS_MAX; i++) {
        if (init->connects[i].fd < 0 || init->connects[i].connection != connection->serial)
            continue;
        close(init->connects[i].fd);
        init->connects[i].fd = -1;
    }
}

/* A place for a new connection: when all are taken the oldest goes, for the newest supervisor is
 * the one that counts. */
static struct connection *place(struct init *init)
{
    struct connection *oldest = &init->connections[0];

    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (init->connections[i].fd < 0)
            return &init->connections[i];
        if (init->connections[i].serial < oldest->serial)
            oldest = &init->connections[i];
    }
    drop(init, oldest);
    return oldest;
}

/* Without a free descriptor who knocks would stay, and be reported without end: it is let in and
 * shown out. */
static void turn_away(struct init *init)
{
    int fd;

    close(init->spare);
    fd = accept4(init->control, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    init->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void control_accept(struct init *init)
{
    int fd = accept4(init->control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct connection *connection;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            turn_away(init);
        return;
    }
    connection = place(init);
    connection->fd = fd;
    connection->serial = ++init->last_serial;
}

static struct connection *find(struct init *init, uint32_t serial)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (init->connections[i].fd >= 0 && init->connections[i].serial == serial)
            return &init->connections[i];
    }
    return NULL;
}

/* Gathers the descriptors whose bit is set. */
static size_t attach(struct msghdr *message, void *room, size_t room_len, uint32_t bits,
                     const int fds[3])
{
    struct cmsghdr *header;
    int chosen[3];
    size_t count = 0;

    for (unsigned i = 0; i < 3; i++) {
        if (bits & (1u << i))
            chosen[count++] = fds[i];
    }
    if (count == 0)
        return 0;
    message->msg_control = room;
    message->msg_controllen = CMSG_SPACE(count * sizeof(int));
    if (message->msg_controllen > room_len)
        return 0;
    header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), chosen, count * sizeof(int));
    return count;
}

void control_reply(struct init *init, uint32_t serial, struct init_reply *reply, const int fds[3])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec bytes = { reply, sizeof(*reply) };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
    struct connection *connection = find(init, serial);

    if (!connection || reply->tag == 0)
        return;
    memset(&control, 0, sizeof(control));
    reply->protocol = INIT_PROTOCOL_VERSION;
    attach(&message, &control, sizeof(control), reply->fds, fds);
    /* A supervisor that doesn't read its replies is cut off rather than waited for; it can come
     * back. */
    if (sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        drop(init, connection);
}

void control_refuse(struct init *init, uint32_t serial, struct init_reply *reply, int error,
                    const char *what)
{
    size_t len = strlen(what);

    if (len > INIT_TEXT_MAX - 1)
        len = INIT_TEXT_MAX - 1;
    memset(reply->text, 0, INIT_TEXT_MAX);
    memcpy(reply->text, what, len);
    reply->error = error;
    reply->fds = 0;
    control_reply(init, serial, reply, NULL);
}

/* Verbs
 * -------------------------------------------------------------------------------------------------------------
 */

static struct init_reply reply_to(const struct init_request *request)
{
    return (struct init_reply){ .verb = request->verb,
                                .tag = request->tag,
                                .process = request->process };
}

static void on_listen(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);
    int fds[3] = { -1, -1, -1 };

    fds[0] = net_listen(init, (uint16_t)request->number);
    if (fds[0] < 0) {
        control_refuse(init, serial, &reply, errno, "listen");
        return;
    }
    reply.fds = 1;
    control_reply(init, serial, &reply, fds);
}

/* Splits LEN bytes into exactly COUNT strings at *AT and moves it behind them. */
static bool take_strings(char **at, char *end, uint32_t count, char **out)
{
    for (uint32_t i = 0; i < count; i++) {
        char *stop = *at < end ? memchr(*at, '\0', (size_t)(end - *at)) : NULL;

        if (!stop)
            return false;
        out[i] = *at;
        *at = stop + 1;
    }
    out[count] = NULL;
    return true;
}

static bool read_command(struct init *init, const struct init_request *request, struct spawn *spawn)
{
    char *at = init->packet.bytes + sizeof(*request);
    char *end = at + request->len;
    char *cwd[2];

    if (request->argc == 0 || request->argc > INIT_STRINGS_MAX || request->envc > INIT_STRINGS_MAX)
        return false;
    if (!take_strings(&at, end, 1, cwd) || !take_strings(&at, end, request->argc, init->argv) ||
        !take_strings(&at, end, request->envc, init->env) || at != end)
        return false;
    spawn->cwd = cwd[0];
    spawn->argv = init->argv;
    spawn->env = init->env;
    spawn->limits = init->limits;
    spawn->deadline = init->deadline;
    spawn->keep_lock = init->plain;
    return true;
}

static void close_all(int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* The program's ends in THEIRS, the supervisor's in OURS. -1 with errno, and then none is open. */
static int make_streams(uint32_t flags, int theirs[3], int ours[3])
{
    for (int i = 0; i < 3; i++)
        theirs[i] = ours[i] = -1;
    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (i == 0 && !(flags & INIT_SPAWN_STDIN))
            continue;
        if (pipe2(ends, O_CLOEXEC) < 0) {
            int error = errno;

            close_all(theirs);
            close_all(ours);
            errno = error;
            return -1;
        }
        theirs[i] = ends[i == 0 ? 0 : 1];
        ours[i] = ends[i == 0 ? 1 : 0];
    }
    return 0;
}

static void tell_streams(struct init *init, uint32_t serial, struct init_reply *reply,
                         const struct process *process)
{
    reply->process = process->id;
    for (unsigned i = 0; i < 3; i++) {
        if (process->streams[i] >= 0)
            reply->fds |= 1u << i;
    }
    control_reply(init, serial, reply, process->streams);
}

static void on_spawn(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);
    struct spawn spawn = { 0 };
    struct process *process;
    const char *failed;
    int ours[3];
    pid_t pid;

    if (!read_command(init, request, &spawn)) {
        control_refuse(init, serial, &reply, EINVAL, "malformed command");
        return;
    }
    if (make_streams(request->flags, spawn.streams, ours) < 0) {
        control_refuse(init, serial, &reply, errno, "pipes");
        return;
    }
    process = reap_add(init);
    if (!process) {
        errno = EAGAIN;
        failed = "too many processes";
        pid = -1;
    } else {
        pid = spawn_program(&spawn, &failed);
    }
    int error = errno;
    close_all(spawn.streams);
    if (pid < 0) {
        close_all(ours);
        if (process)
            reap_forget(process);
        control_refuse(init, serial, &reply, error, failed);
        return;
    }
    process->pid = pid;
    memcpy(process->streams, ours, sizeof(ours));
    tell_streams(init, serial, &reply, process);
}

static void on_attach(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);
    const struct process *process = request->process ? reap_find(init, request->process) : NULL;

    if (process)
        tell_streams(init, serial, &reply, process);
    else
        control_refuse(init, serial, &reply, ESRCH, "no such process");
}

/* Verbs on a process that need no answer of their own. A group whose leader has ended is still
 * signalled: its number stays taken as long as it has members. */
static void on_process_verb(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);
    struct process *process = request->process ? reap_find(init, request->process) : NULL;

    if (!process) {
        control_refuse(init, serial, &reply, ESRCH, "no such process");
        return;
    }
    if (request->verb == INIT_SIGNAL && kill(-process->pid, (int)request->number) < 0 &&
        errno != ESRCH) {
        control_refuse(init, serial, &reply, errno, "signal");
        return;
    }
    if (request->verb == INIT_FORGET && !process->ended) {
        control_refuse(init, serial, &reply, EBUSY, "still running");
        return;
    }
    if (request->verb == INIT_FORGET)
        reap_forget(process);
    if (request->verb == INIT_END_INPUT && process->streams[0] >= 0) {
        close(process->streams[0]);
        process->streams[0] = -1;
    }
    control_reply(init, serial, &reply, NULL);
}

static void on_status(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);

    for (size_t i = 0; i < INIT_PROCESSES_MAX; i++)
        reply.running += init->processes[i].id != 0 && !init->processes[i].ended;
    reply.landlock = init->landlock;
    control_reply(init, serial, &reply, NULL);
}

static void on_deadline(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);

    if (deadline_set(init, request->time_ms) < 0)
        control_refuse(init, serial, &reply, errno, "deadline");
    else
        control_reply(init, serial, &reply, NULL);
}

static void dispatch(struct init *init, uint32_t serial, const struct init_request *request)
{
    struct init_reply reply = reply_to(request);

    switch (request->verb) {
    case INIT_LISTEN:
        on_listen(init, serial, request);
        return;
    case INIT_CONNECT:
        net_connect(init, (uint16_t)request->number, serial, request->tag);
        return;
    case INIT_SPAWN:
        on_spawn(init, serial, request);
        return;
    case INIT_ATTACH:
        on_attach(init, serial, request);
        return;
    case INIT_WAIT:
        reap_wait(init, serial, request->tag, request->process);
        return;
    case INIT_FORGET:
    case INIT_SIGNAL:
    case INIT_END_INPUT:
        on_process_verb(init, serial, request);
        return;
    case INIT_HELLO:
    case INIT_STATUS:
        on_status(init, serial, request);
        return;
    case INIT_KILL_ALL:
        reap_kill_all(init);
        control_reply(init, serial, &reply, NULL);
        return;
    case INIT_DEADLINE:
        on_deadline(init, serial, request);
        return;
    default:
        control_refuse(init, serial, &reply, ENOSYS, "unknown verb");
    }
}

void control_receive(struct init *init, struct connection *connection)
{
    const struct init_request *request = &init->packet.request;
    struct init_reply reply;
    ssize_t got;

    got = recv(connection->fd, init->packet.bytes, sizeof(init->packet.bytes),
               MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < (ssize_t)sizeof(*request) || (size_t)got > sizeof(init->packet.bytes)) {
        drop(init, connection);
        return;
    }
    if (request->protocol != INIT_PROTOCOL_VERSION) {
        reply = reply_to(request);
        control_refuse(init, connection->serial, &reply, EPROTONOSUPPORT,
                       "other version of the protocol");
        return;
    }
    if (request->len != (size_t)got - sizeof(*request)) {
        drop(init, connection);
        return;
    }
    init->greeted = true;
    dispatch(init, connection->serial, request);
}
