/* peer.h: the daemon's end of the socket, played by a test. */
#ifndef TESTS_UNIT_PROTO_PEER_H
#define TESTS_UNIT_PROTO_PEER_H

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fd.h"
#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/version.h"
#include "tests/harness/test.h"

#define PEER_WAIT_MS 5000

struct peer {
    int listen_fd;
    int fd; /* the one connection */
    struct buf in;
    struct json_doc *doc; /* of the last request */
    struct envelope request;
};

static inline void peer_drop(struct peer *peer)
{
    fd_close(&peer->fd);
    buf_clear(&peer->in);
}

static inline void peer_finish(void *data)
{
    struct peer *peer = data;

    peer_drop(peer);
    fd_close(&peer->listen_fd);
    json_free(peer->doc);
    peer->doc = NULL;
    buf_finish(&peer->in);
}

static inline void peer_listen(struct peer *peer, const char *path)
{
    struct error err = ERROR_INIT;

    *peer = (struct peer){ .fd = -1 };
    buf_init(&peer->in, 16u << 20);
    peer->listen_fd = fd_listen_unix(path, SOCK_STREAM, 8, &err);
    CHECK_STR(err.text, "");
    test_defer(peer_finish, peer);
}

static inline bool peer_wait(int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    return poll(&entry, 1, PEER_WAIT_MS) == 1;
}

static inline void peer_accept(struct peer *peer)
{
    CHECK(peer_wait(peer->listen_fd));
    peer->fd = accept4(peer->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    CHECK(peer->fd >= 0);
}

/* The next request or cancel is in peer->request; false at the end of the connection. */
static inline bool peer_read(struct peer *peer)
{
    struct error err = ERROR_INIT;
    struct frame frame;
    long used;

    while ((used = frame_parse(buf_text(&peer->in), peer->in.len, &frame, &err)) == 0) {
        char *to = buf_reserve(&peer->in, 65536);
        ssize_t got;

        CHECK(peer_wait(peer->fd));
        got = recv(peer->fd, to, 65536, 0);
        if (got <= 0)
            return false;
        buf_commit(&peer->in, (size_t)got);
    }
    CHECK(used > 0);
    json_free(peer->doc);
    peer->doc = NULL;
    CHECK_EQ(json_parse(&peer->doc, frame.data, frame.len, FRAME_JSON_MAX, &err), 0);
    CHECK_EQ(envelope_read(peer->doc, &peer->request, &err), 0);
    buf_consume(&peer->in, (size_t)used);
    return true;
}

/* Nothing has come, and nothing is coming. */
static inline bool peer_is_quiet(struct peer *peer)
{
    struct pollfd entry = { .fd = peer->fd, .events = POLLIN };

    return peer->in.len == 0 && poll(&entry, 1, 0) == 0;
}

static inline void peer_send(struct peer *peer, const struct buf *frames)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(fd_send(peer->fd, frames->data, frames->len, NULL, 0, &err), 0);
}

static inline void peer_reply(struct peer *peer, uint64_t id, const char *body)
{
    AUTO_BUF struct buf frames = BUF_INIT(16u << 20);
    struct error err = ERROR_INIT;

    CHECK_EQ(envelope_append_reply(&frames, id, body, &err), 0);
    peer_send(peer, &frames);
}

static inline void peer_event(struct peer *peer, uint64_t id, const char *body)
{
    AUTO_BUF struct buf frames = BUF_INIT(16u << 20);
    struct error err = ERROR_INIT;

    CHECK_EQ(envelope_append_event(&frames, id, body, &err), 0);
    peer_send(peer, &frames);
}

static inline void peer_fail(struct peer *peer, uint64_t id, const struct error *error)
{
    AUTO_BUF struct buf frames = BUF_INIT(16u << 20);
    struct error err = ERROR_INIT;

    CHECK_EQ(envelope_append_error(&frames, id, error, &err), 0);
    peer_send(peer, &frames);
}

static inline void peer_answer_hello(struct peer *peer, unsigned protocol)
{
    AUTO_BUF struct buf body = BUF_INIT(256);

    CHECK(peer_read(peer));
    CHECK_STR(peer->request.method, "hello");
    buf_printf(&body, "{\"protocol\":%u,\"pid\":1,\"version\":\"9.9.9\"}", protocol);
    peer_reply(peer, peer->request.id, buf_text(&body));
}

#endif
