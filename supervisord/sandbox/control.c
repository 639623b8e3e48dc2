#include "sandbox/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/list.h"
#include "common/mem.h"
#include "io/handles.h"

struct question {
    struct list link; /* control_link::questions */
    uint64_t tag;
    control_reply_cb done;
    void *context;
};

struct packet {
    struct list link; /* control_link::unsent */
    size_t len;
    char bytes[];
};

struct control_link {
    uv_loop_t *loop;
    int fd;
    uv_poll_t poll;
    struct handles handles;
    struct list questions;
    struct list unsent;
    uint64_t last_tag;
    bool over;
    void (*on_lost)(void *data);
    void *data;
    void (*done)(void *data);
    void *done_data;
};

static void link_free(void *data)
{
    struct control_link *link = data;

    fd_close(&link->fd);
    if (link->done != NULL)
        link->done(link->done_data);
    free(link);
}

static void drop_unsent(struct control_link *link)
{
    while (!list_empty(&link->unsent)) {
        struct packet *packet = LIST_ENTRY(link->unsent.next, struct packet, link);

        list_remove(&packet->link);
        free(packet);
    }
}

static void answer_all(struct control_link *link, const struct error *err)
{
    int fds[3] = { -1, -1, -1 };

    while (!list_empty(&link->questions)) {
        struct question *question = LIST_ENTRY(link->questions.next, struct question, link);

        list_remove(&question->link);
        if (question->done != NULL)
            question->done(question->context, NULL, fds, 0, err);
        free(question);
    }
}

static void lose(struct control_link *link)
{
    static const struct error lost = { ERR_UNAVAILABLE, 0, "", "the sandbox is gone" };

    if (link->over)
        return;
    link->over = true;
    uv_poll_stop(&link->poll);
    drop_unsent(link);
    answer_all(link, &lost);
    if (link->on_lost != NULL)
        link->on_lost(link->data);
}

static bool try_send(struct control_link *link, const struct packet *packet)
{
    ssize_t sent = send(link->fd, packet->bytes, packet->len, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent == (ssize_t)packet->len ||
           (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct control_link *link)
{
    uv_poll_start(&link->poll,
                  UV_READABLE | UV_DISCONNECT | (list_empty(&link->unsent) ? 0 : UV_WRITABLE),
                  on_poll);
}

static void send_waiting(struct control_link *link)
{
    while (!list_empty(&link->unsent)) {
        struct packet *packet = LIST_ENTRY(link->unsent.next, struct packet, link);

        if (!try_send(link, packet))
            break;
        list_remove(&packet->link);
        free(packet);
    }
    watch(link);
}

struct incoming {
    struct init_reply reply;
    int fds[3];
    pid_t sender;
};

static void close_fds(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static void take_control(struct msghdr *message, int *fds, size_t *count, pid_t *sender)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET)
            continue;
        if (header->cmsg_type == SCM_RIGHTS) {
            size_t bytes = header->cmsg_len - CMSG_LEN(0);

            for (size_t i = 0; i < bytes / sizeof(int); i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
                if (*count < FD_PASS_MAX)
                    fds[(*count)++] = fd;
                else
                    close(fd);
            }
        }
        if (header->cmsg_type == SCM_CREDENTIALS &&
            header->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
            struct ucred credentials;

            memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
            *sender = credentials.pid;
        }
    }
}

/* 1: a reply, 0: nothing there, -1: the peer is gone or broke the rules. */
static int receive(struct control_link *link, struct incoming *in)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FD_PASS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec bytes = { &in->reply, sizeof(in->reply) };
    struct msghdr message = { .msg_iov = &bytes,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    int fds[FD_PASS_MAX];
    size_t count = 0;
    size_t used = 0;
    ssize_t got;

    in->fds[0] = in->fds[1] = in->fds[2] = -1;
    in->sender = 0;
    got = recvmsg(link->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    take_control(&message, fds, &count, &in->sender);
    for (unsigned i = 0; i < 3; i++) {
        if (in->reply.fds & (1u << i) && used < count)
            in->fds[i] = fds[used++];
    }
    close_fds(fds + used, count - used);
    if (got != (ssize_t)sizeof(in->reply) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        in->reply.protocol != INIT_PROTOCOL_VERSION || (in->reply.fds & ~7u) != 0) {
        close_fds(in->fds, 3);
        return -1;
    }
    in->reply.text[INIT_TEXT_MAX - 1] = '\0';
    return 1;
}

static struct question *find_question(struct control_link *link, uint64_t tag)
{
    LIST_EACH(&link->questions, at) {
        struct question *question = LIST_ENTRY(at, struct question, link);

        if (question->tag == tag)
            return question;
    }
    return NULL;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct control_link *link = poll->data;
    struct incoming in;
    int rc = 1;

    if (events & UV_WRITABLE)
        send_waiting(link);
    for (int i = 0; i < 16 && !link->over && (rc = receive(link, &in)) > 0; i++) {
        struct question *question = find_question(link, in.reply.tag);

        if (question == NULL) {
            close_fds(in.fds, 3);
            continue;
        }
        list_remove(&question->link);
        if (question->done != NULL)
            question->done(question->context, &in.reply, in.fds, in.sender, NULL);
        else
            close_fds(in.fds, 3);
        free(question);
    }
    if (!link->over && (rc < 0 || status < 0 || (rc == 0 && (events & UV_DISCONNECT) != 0)))
        lose(link);
}

int control_link_start(struct control_link **out, uv_loop_t *loop, const char *path,
                       void (*on_lost)(void *data), void *data, struct error *err)
{
    struct control_link *link;
    int on = 1;
    int fd = fd_connect_unix(path, SOCK_SEQPACKET, err);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        fd_set_nonblocking(fd, true, err) < 0) {
        close(fd);
        return error_set(err, ERR_SYSTEM, errno, "prepare control socket");
    }
    link = NEW(struct control_link);
    link->loop = loop;
    link->fd = fd;
    link->on_lost = on_lost;
    link->data = data;
    list_init(&link->questions);
    list_init(&link->unsent);
    handles_init(&link->handles, link_free, link);
    BUG_ON(uv_poll_init(loop, &link->poll, fd) != 0);
    handles_add(&link->handles, (uv_handle_t *)&link->poll, link);
    watch(link);
    *out = link;
    return 0;
}

void control_link_close(struct control_link *link, void (*done)(void *data), void *data)
{
    static const struct error closed = { ERR_CANCELLED, 0, "", "the sandbox was let go" };
    uv_handle_t *list[] = { (uv_handle_t *)&link->poll };

    link->over = true;
    link->done = done;
    link->done_data = data;
    drop_unsent(link);
    answer_all(link, &closed);
    handles_close_all(&link->handles, link->loop, list, ARRAY_LEN(list));
}

int control_link_ask(struct control_link *link, struct init_request request, const void *data,
                     size_t len, control_reply_cb done, void *context, struct error *err)
{
    struct packet *packet;

    if (link->over)
        return error_set(err, ERR_UNAVAILABLE, 0, "the sandbox is gone");
    if (len > INIT_DATA_MAX)
        return error_set(err, ERR_LIMIT, 0, "a command of %zu bytes is too long", len);
    packet = mem_new_zero(1, sizeof(*packet) + sizeof(request) + len);
    request.protocol = INIT_PROTOCOL_VERSION;
    request.tag = done != NULL ? ++link->last_tag : 0;
    request.len = (uint32_t)len;
    packet->len = sizeof(request) + len;
    memcpy(packet->bytes, &request, sizeof(request));
    if (len > 0)
        memcpy(packet->bytes + sizeof(request), data, len);
    if (done != NULL) {
        struct question *question = NEW(struct question);

        question->tag = request.tag;
        question->done = done;
        question->context = context;
        list_append(&link->questions, &question->link);
    }
    if (list_empty(&link->unsent) && try_send(link, packet)) {
        free(packet);
        return 0;
    }
    list_append(&link->unsent, &packet->link);
    watch(link);
    return 0;
}
