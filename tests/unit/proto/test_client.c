#include "proto/client.h"

#include <pthread.h>

#include "common/mem.h"
#include "tests/harness/tmp.h"
#include "tests/unit/proto/peer.h"

static struct peer peer;
static struct client *client;
static struct error err;
static struct client_message message;
static pthread_t thread;

static void free_client(void *data)
{
    (void)data;
    client_free(STEAL(client));
    client_message_finish(&message);
}

static const char *start(void)
{
    const char *path = tmp_path("s");

    err = (struct error)ERROR_INIT;
    peer_listen(&peer, path);
    test_defer(free_client, NULL);
    return path;
}

static void *play_hello(void *data)
{
    peer_accept(&peer);
    peer_answer_hello(&peer, *(unsigned *)data);
    return NULL;
}

/* A connection on which hello is done. */
static void connect_both(void)
{
    static unsigned protocol = PROTO_VERSION;
    const char *path = start();

    pthread_create(&thread, NULL, play_hello, &protocol);
    CHECK_EQ(client_connect(&client, path, "test", 5000, &err), 0);
    pthread_join(thread, NULL);
    CHECK_STR(err.text, "");
}

TEST(nobody_listening_is_unavailable)
{
    err = (struct error)ERROR_INIT;
    CHECK_EQ(client_connect(&client, tmp_path("none"), "test", 100, &err), -1);
    CHECK_EQ((int)err.code, ERR_UNAVAILABLE);
}

TEST(a_daemon_that_does_not_answer_hello_is_a_timeout)
{
    CHECK_EQ(client_connect(&client, start(), "test", 20, &err), -1);
    CHECK_EQ((int)err.code, ERR_TIMEOUT);
}

TEST(another_protocol_version_is_a_conflict_that_names_both)
{
    static unsigned protocol = 99;
    const char *path = start();

    pthread_create(&thread, NULL, play_hello, &protocol);
    CHECK_EQ(client_connect(&client, path, "test", 5000, &err), -1);
    pthread_join(thread, NULL);
    CHECK_EQ((int)err.code, ERR_CONFLICT);
    CHECK_HAS(err.text, "99");
    CHECK_HAS(err.text, "9.9.9");
    CHECK_HAS(err.text, SANDBOX_VERSION);
}

static void *play_echo(void *data)
{
    (void)data;
    while (peer_read(&peer))
        if (peer.request.kind == ENVELOPE_REQUEST)
            peer_reply(&peer, peer.request.id, "{\"ok\":true}");
    return NULL;
}

TEST(a_call_returns_its_reply)
{
    connect_both();
    pthread_create(&thread, NULL, play_echo, NULL);
    CHECK_EQ(client_call(client, "system.status", NULL, 5000, &message, &err), 0);
    CHECK_EQ((int)message.envelope.kind, ENVELOPE_REPLY);
    CHECK(json_bool(json_get(message.envelope.body, "ok"), false));
    client_free(STEAL(client));
    pthread_join(thread, NULL);
}

static void *play_error(void *data)
{
    struct error error = ERROR_INIT;

    (void)data;
    CHECK(peer_read(&peer));
    error_argument(&error, "runId", "no such run");
    error.code = ERR_NOT_FOUND;
    peer_fail(&peer, peer.request.id, &error);
    return NULL;
}

TEST(a_call_returns_the_error_of_the_daemon)
{
    connect_both();
    pthread_create(&thread, NULL, play_error, NULL);
    CHECK_EQ(client_call(client, "run.get", "{\"runId\":\"x\"}", 5000, &message, &err), -1);
    pthread_join(thread, NULL);
    CHECK_EQ((int)err.code, ERR_NOT_FOUND);
    CHECK_STR(err.argument, "runId");
    CHECK(message.doc == NULL);
}

static void *play_mixed(void *data)
{
    uint64_t first;

    (void)data;
    CHECK(peer_read(&peer));
    first = peer.request.id;
    CHECK(peer_read(&peer));
    peer_event(&peer, first, "{\"n\":1}");
    peer_event(&peer, first, "{\"n\":2}");
    peer_reply(&peer, peer.request.id, NULL);
    return NULL;
}

TEST(events_that_come_during_a_call_are_kept)
{
    uint64_t id;

    connect_both();
    pthread_create(&thread, NULL, play_mixed, NULL);
    id = client_send(client, "run.events", "{}", NULL, 0, &err);
    CHECK(id != 0);
    CHECK_EQ(client_call(client, "system.status", NULL, 5000, &message, &err), 0);
    pthread_join(thread, NULL);
    client_message_finish(&message);
    for (uint64_t n = 1; n <= 2; n++) {
        CHECK_EQ(client_next(client, 1000, &message, &err), 1);
        CHECK_EQ(message.envelope.id, id);
        CHECK_EQ(json_u64(json_get(message.envelope.body, "n"), 0), n);
        client_message_finish(&message);
    }
    CHECK_EQ(client_next(client, 0, &message, &err), 0);
}

TEST(a_call_without_answer_is_cancelled)
{
    connect_both();
    CHECK_EQ(client_call(client, "run.get", NULL, 10, &message, &err), -1);
    CHECK_EQ((int)err.code, ERR_TIMEOUT);
    CHECK(peer_read(&peer));
    CHECK_EQ((int)peer.request.kind, ENVELOPE_REQUEST);
    CHECK(peer_read(&peer));
    CHECK_EQ((int)peer.request.kind, ENVELOPE_CANCEL);
}

TEST(a_closed_connection_is_unavailable)
{
    connect_both();
    peer_drop(&peer);
    CHECK_EQ(client_next(client, 1000, &message, &err), -1);
    CHECK_EQ((int)err.code, ERR_UNAVAILABLE);
}

TEST(a_frame_in_pieces_and_two_frames_at_once_are_read)
{
    AUTO_BUF struct buf frames = BUF_INIT(1000);
    size_t half;

    connect_both();
    CHECK_EQ(envelope_append_event(&frames, 5, "{\"n\":1}", &err), 0);
    half = frames.len - 3;
    CHECK_EQ(envelope_append_event(&frames, 5, "{\"n\":2}", &err), 0);
    CHECK_EQ(fd_send(peer.fd, frames.data, half, NULL, 0, &err), 0);
    CHECK_EQ(client_next(client, 10, &message, &err), 0);
    CHECK_EQ(fd_send(peer.fd, frames.data + half, frames.len - half, NULL, 0, &err), 0);
    CHECK_EQ(client_next(client, 1000, &message, &err), 1);
    client_message_finish(&message);
    CHECK_EQ(client_next(client, 1000, &message, &err), 1);
    CHECK_EQ(json_u64(json_get(message.envelope.body, "n"), 0), 2);
}

TEST(nonsense_from_the_daemon_ends_the_connection)
{
    connect_both();
    CHECK_EQ(fd_send(peer.fd, "\0\0\0\3X{}", 7, NULL, 0, &err), 0);
    CHECK_EQ(client_next(client, 1000, &message, &err), -1);
    CHECK_EQ((int)err.code, ERR_BUG);
}

TEST(a_blob_follows_its_request)
{
    struct frame frame;

    connect_both();
    CHECK(client_send(client, "secret.set", "{\"name\":\"K\"}", "s3cret", 6, &err) != 0);
    CHECK(peer_read(&peer));
    CHECK_STR(peer.request.method, "secret.set");
    while (peer.in.len < FRAME_HEAD_SIZE + 6) {
        char *to = buf_reserve(&peer.in, 100);
        ssize_t got = recv(peer.fd, to, 100, 0);

        CHECK(got > 0);
        buf_commit(&peer.in, (size_t)(got > 0 ? got : 0));
    }
    CHECK_EQ(frame_parse(peer.in.data, peer.in.len, &frame, &err), FRAME_HEAD_SIZE + 6);
    CHECK_EQ((int)frame.kind, FRAME_KIND_BLOB);
    CHECK_EQ(memcmp(frame.data, "s3cret", 6), 0);
}

TEST(an_open_client_never_waits)
{
    const char *path = start();

    CHECK_EQ(client_open(&client, path, "mcp", &err), 0);
    CHECK(!client_ready(client));
    CHECK_EQ(client_next(client, 0, &message, &err), 0);
    peer_accept(&peer);
    peer_answer_hello(&peer, PROTO_VERSION);
    CHECK_EQ(client_next(client, 0, &message, &err), 0);
    CHECK(client_ready(client));
    CHECK(client_send(client, "run.list", NULL, NULL, 0, &err) != 0);
    CHECK(client_sending(client));
    CHECK(peer_is_quiet(&peer));
    CHECK_EQ(client_flush(client, &err), 0);
    CHECK(!client_sending(client));
    CHECK(peer_read(&peer));
    CHECK_STR(peer.request.method, "run.list");
}

static int traced[2];

static void trace(void *data, bool out, const char *text, size_t len)
{
    (void)data;
    (void)text;
    (void)len;
    traced[out]++;
}

TEST(a_trace_sees_both_directions)
{
    connect_both();
    traced[0] = traced[1] = 0;
    client_set_trace(client, trace, NULL);
    CHECK(client_send(client, "secret.set", "{\"name\":\"K\"}", "s", 1, &err) != 0);
    peer_event(&peer, 1, NULL);
    CHECK_EQ(client_next(client, 1000, &message, &err), 1);
    CHECK_EQ(traced[0], 1);
    CHECK_EQ(traced[1], 2);
}
