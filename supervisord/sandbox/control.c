#include "sandbox/control.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/list.h"
#include "common/mem.h"
#include "common/str.h"
#include "io/handles.h"

#define QUEUE_MAX (1024u * 1024u) /* bytes that wait because init doesn't read */
#define SEND_BUFFER (400 * 1024)  /* a packet must fit as a whole */
#define PACKETS_A_TURN 32

struct question {
    struct list link; /* control::questions */
    uint64_t tag;
    uint32_t verb;
    control_done_cb done;
    void *data;
};

struct packet {
    struct list link; /* control::packets */
    size_t len;
    char bytes[];
};

struct control_link {
    uv_loop_t *loop;
    struct handles handles;
    uv_poll_t poll;
    int fd;
    bool lost;
    uint64_t last_tag;
    struct list questions;
    struct list packets;
    size_t queued_bytes;
    struct control_callbacks callbacks;
    void (*closed)(void *data);
    void *closed_data;
};

static void on_event(uv_poll_t *poll, int status, int events);

static void close_fds(int fds[3])
{
    for (int i = 0; i < 3; i++)
        fd_close(&fds[i]);
}

/* Ending
 * ------------------------------------------------------------------------------------------------------------
 */

static void fail_questions(struct control_link *control, const struct error *err)
{
    while (!list_empty(&control->questions)) {
        struct question *question = LIST_ENTRY(control->questions.next, struct question, link);

        list_remove(&question->link);
        question->done(question->data, NULL, err);
        free(question);
    }
}

static void drop_packets(struct control_link *control)
{
    LIST_EACH(&control->packets, link) {
        list_remove(link);
        free(LIST_ENTRY(link, struct packet, link));
    }
    control->queued_bytes = 0;
}

/* Only from the loop. A callback may close the control, whose memory stays until its handle is
 * closed. */
void control_link_cut(struct control_link *control, const struct error *err)
{
    if (control->lost)
        return;
    control->lost = true;
    uv_poll_stop(&control->poll);
    drop_packets(control);
    fail_questions(control, err);
    if (!control->handles.closing)
        control->callbacks.on_lost(control->callbacks.data, err);
}

static void on_closed(void *data)
{
    struct control_link *control = data;
    struct error err = ERROR_INIT;

    control->lost = true;
    error_set(&err, ERR_CANCELLED, 0, "the sandbox was let go");
    fail_questions(control, &err);
    drop_packets(control);
    fd_close(&control->fd);
    if (control->closed)
        control->closed(control->closed_data);
    free(control);
}

void control_link_close(struct control_link *control, void (*done)(void *data), void *data)
{
    uv_handle_t *list[] = { (uv_handle_t *)&control->poll };

    control->closed = done;
    control->closed_data = data;
    handles_close_all(&control->handles, control->loop, list, ARRAY_LEN(list));
}

/* Sending
 * -----------------------------------------------------------------------------------------------------------
 */

static void want_events(struct control_link *control)
{
    int events = UV_READABLE | (list_empty(&control->packets) ? 0 : UV_WRITABLE);

    if (!control->lost && !control->handles.closing)
        BUG_ON(uv_poll_start(&control->poll, events, on_event) != 0);
}

/* 1: sent, 0: not now, -1: never. A broken connection counts as sent: its end shows when we read.
 */
static int send_packet(struct control_link *control, const void *bytes, size_t len)
{
    ssize_t sent;

    do
        sent = send(control->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == EMSGSIZE)
        return -1;
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) ? 0 : 1;
}

static void flush_packets(struct control_link *control)
{
    LIST_EACH(&control->packets, link) {
        struct packet *packet = LIST_ENTRY(link, struct packet, link);

        if (!send_packet(control, packet->bytes, packet->len))
            return;
        control->queued_bytes -= packet->len;
        list_remove(&packet->link);
        free(packet);
    }
    want_events(control);
}

static int transmit(struct control_link *control, struct init_request *request, const void *data,
                    size_t len, struct error *err)
{
    size_t total = sizeof(*request) + len;
    struct packet *packet;
    int sent = 0;

    if (control->lost || control->handles.closing)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox has ended");
    if (len > INIT_DATA_MAX)
        return error_set(err, ERR_LIMIT, 0, "a command of %zu bytes is too long for the sandbox",
                         len);
    if (control->queued_bytes + total > QUEUE_MAX)
        return error_set(err, ERR_LIMIT, 0, "the sandbox is too busy to take more");
    request->protocol = INIT_PROTOCOL_VERSION;
    request->len = (uint32_t)len;
    packet = mem_new_zero(1, sizeof(*packet) + total);
    packet->len = total;
    memcpy(packet->bytes, request, sizeof(*request));
    if (len)
        memcpy(packet->bytes + sizeof(*request), data, len);
    if (list_empty(&control->packets))
        sent = send_packet(control, packet->bytes, total);
    if (sent) {
        free(packet);
        return sent > 0 ? 0
                        : error_set(err, ERR_LIMIT, EMSGSIZE,
                                    "send a command of %zu bytes to the sandbox", len);
    }
    control->queued_bytes += total;
    list_append(&control->packets, &packet->link);
    want_events(control);
    return 0;
}

int control_link_ask(struct control_link *control, struct init_request *request, const void *data,
                     size_t len, control_done_cb done, void *done_data, struct error *err)
{
    struct question *question;

    request->tag = ++control->last_tag;
    if (transmit(control, request, data, len, err) < 0)
        return -1;
    question = NEW(struct question);
    *question = (struct question){
        .tag = request->tag, .verb = request->verb, .done = done, .data = done_data
    };
    list_append(&control->questions, &question->link);
    return 0;
}

void control_link_tell(struct control_link *control, struct init_request *request)
{
    struct error ignored = ERROR_INIT;

    request->tag = 0;
    transmit(control, request, NULL, 0, &ignored);
}

/* Receiving
 * ---------------------------------------------------------------------------------------------------------
 */

union control_data {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(3 * sizeof(int))];
};

/* Surplus descriptors don't fit into the room and are closed by the kernel; what doesn't belong is
 * closed here. */
static unsigned take_control(struct msghdr *message, struct control_answer *answer, int received[3])
{
    unsigned count = 0;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET)
            continue;
        if (header->cmsg_type == SCM_CREDENTIALS &&
            header->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
            struct ucred sender;

            memcpy(&sender, CMSG_DATA(header), sizeof(sender));
            answer->sender = sender.pid;
        }
        if (header->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= header->cmsg_len; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (count < 3)
                received[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

/* Puts the received descriptors where the bits say. False when their number differs: then all are
 * closed. */
static bool sort_fds(struct control_answer *answer, int received[3], unsigned count)
{
    unsigned used = 0;

    for (unsigned i = 0; i < 3; i++)
        answer->fds[i] = -1;
    if (answer->reply.fds > 7 || (unsigned)__builtin_popcount(answer->reply.fds) != count) {
        close_fds(received);
        return false;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (answer->reply.fds & (1u << i))
            answer->fds[i] = received[used++];
    }
    return true;
}

static enum error_code code_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return ERR_LIMIT;
    case EADDRINUSE:
    case EBUSY:
        return ERR_CONFLICT;
    case ECONNREFUSED:
        return ERR_UNAVAILABLE;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case EINVAL:
    case E2BIG:
        return ERR_INVALID;
    default:
        return ERR_SYSTEM;
    }
}

static void explain(const struct init_reply *reply, struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(1024);

    str_append_escaped(&text, reply->text, strnlen(reply->text, sizeof(reply->text)), 200);
    error_set(err, code_of(reply->error),
              reply->error > 0 && reply->error < 4096 ? reply->error : EIO, "in the sandbox: %s",
              buf_text(&text));
}

static struct question *find_question(struct control_link *control, uint64_t tag, uint32_t verb)
{
    LIST_EACH(&control->questions, link) {
        struct question *question = LIST_ENTRY(link, struct question, link);

        if (question->tag == tag)
            return question->verb == verb ? question : NULL;
    }
    return NULL;
}

/* -1 with ERR: the connection can't go on. 0: nothing more to read now. 1: one answer was given. */
static int receive(struct control_link *control, struct error *err)
{
    struct control_answer answer = { .sender = 0 };
    union control_data room;
    struct iovec bytes = { &answer.reply, sizeof(answer.reply) };
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof(room)
    };
    int received[3] = { -1, -1, -1 };
    struct error local = ERROR_INIT;
    struct question *question;
    ssize_t got;
    bool complete;

    memset(&room, 0, sizeof(room));
    got = recvmsg(control->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR
                   ? 0
                   : error_set(err, ERR_UNAVAILABLE, errno, "the sandbox has ended");
    complete = sort_fds(&answer, received, take_control(&message, &answer, received));
    if (got == 0)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox has ended");
    question = find_question(control, answer.reply.tag, answer.reply.verb);
    if (got != sizeof(answer.reply) || (message.msg_flags & MSG_TRUNC) || !question ||
        (!complete && !(message.msg_flags & MSG_CTRUNC))) {
        close_fds(answer.fds);
        return error_set(err, ERR_UNAVAILABLE, 0,
                         "the sandbox's first process sent something that it must not send");
    }
    list_remove(&question->link);
    if (answer.reply.protocol != INIT_PROTOCOL_VERSION)
        error_set(&local, ERR_UNAVAILABLE, 0,
                  "the sandbox was started by another version of the supervisor");
    else if (answer.reply.error != 0)
        explain(&answer.reply, &local);
    else if (!complete) /* our table is full: the kernel left them out */
        error_set(&local, ERR_LIMIT, EMFILE, "receive descriptors from the sandbox");
    question->done(question->data, &answer, local.code == ERR_NONE ? NULL : &local);
    free(question);
    close_fds(answer.fds);
    return 1;
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct control_link *control = poll->data;
    struct error err = ERROR_INIT;
    int rc = 1;

    if (status < 0)
        error_set(&err, ERR_UNAVAILABLE, -status, "the sandbox has ended");
    if (events & UV_WRITABLE)
        flush_packets(control);
    for (int i = 0; status >= 0 && i < PACKETS_A_TURN && rc == 1 && !control->handles.closing; i++)
        rc = receive(control, &err);
    if (!control->handles.closing && (status < 0 || rc < 0))
        control_link_cut(control, &err);
}

int control_link_start(struct control_link **out, uv_loop_t *loop, int fd,
                       const struct control_callbacks *callbacks, struct error *err)
{
    AUTO_CLOSE int owned = fd;
    struct control_link *control;
    int on = 1;
    int size = SEND_BUFFER;

    /* Asked for before the first request, or the first answer would come without its sender. */
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return error_set(err, ERR_SYSTEM, errno, "ask for the sender's credentials");
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    if (fd_set_nonblocking(fd, true, err) < 0)
        return -1;
    control = NEW(struct control_link);
    control->loop = loop;
    control->fd = fd_steal(&owned);
    control->callbacks = *callbacks;
    list_init(&control->questions);
    list_init(&control->packets);
    handles_init(&control->handles, on_closed, control);
    BUG_ON(uv_poll_init(loop, &control->poll, control->fd) != 0);
    handles_add(&control->handles, (uv_handle_t *)&control->poll, control);
    want_events(control);
    *out = control;
    return 0;
}
