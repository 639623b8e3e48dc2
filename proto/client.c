#include "proto/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/list.h"
#include "common/mem.h"
#include "proto/frame.h"
#include "proto/methods.h"
#include "proto/msg_system.h"
#include "proto/version.h"

#define OUT_MAX (64u << 20)
#define IN_MAX (FRAME_JSON_MAX + FRAME_HEAD_SIZE + READ_SIZE)
#define READ_SIZE (64u << 10)
#define HELLO_ID 1

enum sending {
    SEND_AT_ONCE, /* client_connect: what client_send gets is on its way when it returns, if the
                     socket takes it */
    SEND_GATHERED,
};

struct client {
    int fd; /* non-blocking; waiting is done with poll */
    enum sending sending;
    bool ready;   /* hello is answered */
    bool drained; /* the last read took all that was there */
    uint64_t last_id;
    struct buf in;
    size_t in_at; /* what is in front of it has been dealt with */
    struct buf out;
    struct list queue; /* struct queued::link: messages for others than the running client_call */
    void (*trace)(void *data, bool out, const char *text, size_t len);
    void *trace_data;
    bool takes_blobs;
};

struct queued {
    struct list link; /* client::queue */
    struct client_message message;
};

/* Sending -------------------------------------------------------------------------------------- */

bool client_sending(const struct client *client)
{
    return client->out.len > 0;
}

int client_flush(struct client *client, struct error *err)
{
    while (client->out.len) {
        ssize_t sent = send(client->fd, client->out.data, client->out.len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return 0;
        if (sent < 0)
            return error_set(err, ERR_UNAVAILABLE, errno,
                             "the connection to the supervisor is over");
        buf_consume(&client->out, (size_t)sent);
    }
    return 0;
}

static void trace_out(const struct client *client, size_t from)
{
    struct frame frame;
    struct error ignored;
    long used;

    if (!client->trace)
        return;
    for (; from < client->out.len; from += (size_t)used) {
        used = frame_parse(client->out.data + from, client->out.len - from, &frame, &ignored);
        BUG_ON(used <= 0);
        client->trace(client->trace_data, true, frame.kind == FRAME_KIND_BLOB ? NULL : frame.data,
                      frame.len);
    }
}

static int sent_or_gathered(struct client *client, size_t from, struct error *err)
{
    trace_out(client, from);
    return client->sending == SEND_AT_ONCE ? client_flush(client, err) : 0;
}

uint64_t client_send(struct client *client, const char *method, const char *body, const void *blob,
                     size_t blob_len, struct error *err)
{
    size_t before = client->out.len;
    uint64_t id = client->last_id + 1;

    if (envelope_append_request(&client->out, id, method, body, err) < 0)
        return 0;
    if (blob && frame_append(&client->out, FRAME_KIND_BLOB, blob, blob_len, err) < 0) {
        client->out.len = before;
        client->out.failed = false;
        return 0;
    }
    client->last_id = id;
    return sent_or_gathered(client, before, err) < 0 ? 0 : id;
}

int client_cancel(struct client *client, uint64_t id, struct error *err)
{
    size_t before = client->out.len;

    if (envelope_append_cancel(&client->out, id, err) < 0)
        return -1;
    return sent_or_gathered(client, before, err);
}

/* Receiving ------------------------------------------------------------------------------------ */

void client_message_finish(struct client_message *message)
{
    json_free(message->doc);
    *message = (struct client_message){ .doc = NULL };
}

static int not_understood(struct error *err)
{
    err->code = ERR_BUG;
    return error_wrap(err, "the supervisor sent a message that is not understood");
}

int client_message_read(struct client_message *message, struct error *err)
{
    if (message->doc)
        return 0;
    if (json_parse(&message->doc, message->body, message->body_len, FRAME_JSON_MAX, err) < 0)
        return not_understood(err);
    message->envelope.body = json_root(message->doc);
    return 0;
}

/* Who asks the same again and again need not read the same answer again and again. */
static bool peek(const struct client *client, const struct frame *frame,
                 struct client_message *message)
{
    uint64_t id;

    if (client->sending != SEND_GATHERED || !client->ready || frame->kind != FRAME_KIND_JSON ||
        !envelope_peek_reply(frame->data, frame->len, &id, &message->body, &message->body_len))
        return false;
    message->doc = NULL;
    message->envelope = (struct envelope){ .kind = ENVELOPE_REPLY, .id = id };
    return true;
}

static int read_message(const struct client *client, const struct frame *frame,
                        struct client_message *message, struct error *err)
{
    struct json_doc *doc;

    if (frame->kind == FRAME_KIND_BLOB && client->takes_blobs)
        return 0;
    if (frame->kind != FRAME_KIND_JSON)
        return error_set(err, ERR_BUG, 0, "the supervisor sent a blob");
    if (json_parse(&doc, frame->data, frame->len, FRAME_JSON_MAX, err) < 0 ||
        envelope_read(doc, &message->envelope, err) < 0)
        return not_understood(err);
    message->doc = doc;
    return 0;
}

/* 1: MESSAGE filled from what was read before; 0: more bytes are needed. */
static int take_message(struct client *client, struct client_message *message, struct error *err)
{
    struct frame frame;
    long used = frame_parse(buf_text(&client->in) + client->in_at, client->in.len - client->in_at,
                            &frame, err);

    if (used < 0) {
        err->code = ERR_BUG;
        return error_wrap(err, "the supervisor broke the protocol");
    }
    if (used == 0) {
        buf_consume(&client->in, client->in_at);
        client->in_at = 0;
        return 0;
    }
    if (client->trace)
        client->trace(client->trace_data, false, frame.kind == FRAME_KIND_BLOB ? NULL : frame.data,
                      frame.len);
    if (!peek(client, &frame, message) && read_message(client, &frame, message, err) < 0)
        return -1;
    message->text = frame.data;
    message->len = frame.len;
    client->in_at += (size_t)used;
    return 1;
}

/* 1: something was read; 0: nothing is there now. */
static int read_some(struct client *client, struct error *err)
{
    char *to;
    ssize_t got;

    if (client->drained) {
        client->drained = false;
        return 0;
    }
    to = buf_reserve(&client->in, READ_SIZE);
    if (!to)
        return error_set(err, ERR_LIMIT, 0, "no memory for the supervisor's answer");
    do
        got = recv(client->fd, to, READ_SIZE, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got < 0)
        return error_set(err, ERR_UNAVAILABLE, errno, "the connection to the supervisor is over");
    if (got == 0)
        return error_set(err, ERR_UNAVAILABLE, 0, "the supervisor closed the connection");
    buf_commit(&client->in, (size_t)got);
    client->drained = (size_t)got < READ_SIZE;
    return 1;
}

static int check_hello(struct client *client, const struct envelope *answer, struct error *err)
{
    struct hello_result hello = { .protocol = 0 };

    if (answer->id != HELLO_ID ||
        (answer->kind != ENVELOPE_REPLY && answer->kind != ENVELOPE_ERROR))
        return error_set(err, ERR_BUG, 0, "the supervisor did not answer hello first");
    if (answer->kind == ENVELOPE_ERROR) {
        *err = answer->error;
        return error_wrap(err, "the supervisor refused this program (version %s, protocol %d)",
                          SANDBOX_VERSION, PROTO_VERSION);
    }
    if (json_read(answer->body, hello_result_fields, JSON_LENIENT, &hello, err) < 0)
        return error_wrap(err, "hello of the supervisor");
    if (hello.protocol != PROTO_VERSION)
        return error_set(
            err, ERR_CONFLICT, 0,
            "the supervisor (version %s) speaks protocol %u, this program (version %s) speaks %d",
            hello.version, hello.protocol, SANDBOX_VERSION, PROTO_VERSION);
    client->ready = true;
    return 0;
}

/* Like client_next with a timeout of 0, but past the queue. */
static int next_now(struct client *client, struct client_message *message, struct error *err)
{
    for (;;) {
        int rc = take_message(client, message, err);

        if (rc == 0)
            rc = read_some(client, err);
        else if (rc > 0 && client->ready)
            return 1;
        else if (rc > 0) {
            rc = check_hello(client, &message->envelope, err);
            client_message_finish(message);
            if (rc == 0)
                continue;
        }
        if (rc <= 0)
            return rc;
    }
}

/* Until the socket can be read, or written when something waits to be sent. 1, or 0 after
 * DEADLINE_MS. */
static int wait_for_socket(struct client *client, uint64_t deadline_ms, struct error *err)
{
    struct pollfd wait = { .fd = client->fd, .events = POLLIN };
    uint64_t now_ms = clock_mono_ms(clock_system());
    int timeout_ms = -1;
    int rc;

    if (client_sending(client))
        wait.events |= POLLOUT;
    if (deadline_ms != UINT64_MAX)
        timeout_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
    rc = poll(&wait, 1, timeout_ms);
    if (rc < 0 && errno != EINTR)
        return error_set(err, ERR_SYSTEM, errno, "wait for the supervisor");
    if (rc != 0)
        client->drained = false;
    return rc == 0 ? 0 : 1;
}

static uint64_t deadline_of(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : clock_mono_ms(clock_system()) + (uint64_t)timeout_ms;
}

/* next_now until DEADLINE_MS, or until hello is answered when MESSAGE is not what is waited for. */
static int next_until(struct client *client, uint64_t deadline_ms, bool hello,
                      struct client_message *message, struct error *err)
{
    for (;;) {
        int rc = next_now(client, message, err);

        if (rc != 0 || (hello && client->ready))
            return rc;
        if (client_flush(client, err) < 0)
            return -1;
        rc = wait_for_socket(client, deadline_ms, err);
        if (rc <= 0)
            return rc;
    }
}

static bool take_queued(struct client *client, struct client_message *message)
{
    struct queued *queued;

    if (list_empty(&client->queue))
        return false;
    queued = LIST_ENTRY(client->queue.next, struct queued, link);
    list_remove(&queued->link);
    *message = queued->message;
    free(queued);
    return true;
}

int client_next(struct client *client, int timeout_ms, struct client_message *message,
                struct error *err)
{
    *message = (struct client_message){ .doc = NULL };
    if (take_queued(client, message))
        return 1;
    if (timeout_ms == 0)
        return next_now(client, message, err);
    return next_until(client, deadline_of(timeout_ms), false, message, err);
}

/* Calls ---------------------------------------------------------------------------------------- */

static void keep_for_later(struct client *client, const struct client_message *message)
{
    struct queued *queued = NEW(struct queued);

    queued->message = *message;
    queued->message.text = NULL;
    list_append(&client->queue, &queued->link);
}

static int wait_for_reply(struct client *client, uint64_t id, int timeout_ms,
                          struct client_message *message, struct error *err)
{
    uint64_t deadline_ms = deadline_of(timeout_ms);

    for (;;) {
        int rc = next_until(client, deadline_ms, false, message, err);

        if (rc < 0)
            return -1;
        if (rc == 0) {
            client_cancel(client, id, err);
            return error_set(err, ERR_TIMEOUT, 0, "the supervisor did not answer within %d ms",
                             timeout_ms);
        }
        if (message->envelope.id == id)
            return 0;
        keep_for_later(client, message);
    }
}

int client_call_blob(struct client *client, const char *method, const char *body, const void *blob,
                     size_t blob_len, int timeout_ms, struct client_message *message,
                     struct error *err)
{
    uint64_t id = client_send(client, method, body, blob, blob_len, err);

    *message = (struct client_message){ .doc = NULL };
    if (id == 0 || wait_for_reply(client, id, timeout_ms, message, err) < 0)
        return -1;
    if (message->envelope.kind == ENVELOPE_REPLY)
        return 0;
    if (message->envelope.kind == ENVELOPE_ERROR)
        *err = message->envelope.error;
    else
        error_set(err, ERR_BUG, 0, "the supervisor sent no reply to %s", method);
    client_message_finish(message);
    return -1;
}

int client_call(struct client *client, const char *method, const char *body, int timeout_ms,
                struct client_message *message, struct error *err)
{
    return client_call_blob(client, method, body, NULL, 0, timeout_ms, message, err);
}

/* Life ----------------------------------------------------------------------------------------- */

static int send_hello(struct client *client, const char *role, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(512);
    struct json_writer writer;

    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_u64(&writer, "protocol", PROTO_VERSION);
    json_member_string(&writer, "role", role);
    json_member_string(&writer, "version", SANDBOX_VERSION);
    json_write_object_end(&writer);
    if (client_send(client, method_infos[METHOD_HELLO].name, buf_text(&body), NULL, 0, err) == 0)
        return -1;
    return client_flush(client, err);
}

int client_open(struct client **out, const char *path, const char *role, struct error *err)
{
    struct client *client;
    int fd = fd_connect_unix(path, SOCK_STREAM | SOCK_NONBLOCK, err);

    if (fd < 0) {
        /* The one reason why connecting to a Unix socket would have to wait. */
        if (err->code == ERR_SYSTEM && err->sys == EAGAIN)
            return error_set(err, ERR_UNAVAILABLE, 0, "the supervisor takes no connections on %s",
                             path);
        return -1;
    }
    client = NEW(struct client);
    client->fd = fd;
    client->sending = SEND_GATHERED;
    list_init(&client->queue);
    buf_init(&client->in, IN_MAX);
    buf_init(&client->out, OUT_MAX);
    if (send_hello(client, role, err) < 0) {
        client_free(client);
        return -1;
    }
    *out = client;
    return 0;
}

int client_connect(struct client **out, const char *path, const char *role, int timeout_ms,
                   struct error *err)
{
    struct client *client = NULL;
    struct client_message message = { .doc = NULL };
    int rc;

    if (client_open(&client, path, role, err) < 0)
        return -1;
    client->sending = SEND_AT_ONCE;
    rc = next_until(client, deadline_of(timeout_ms), true, &message, err);
    if (rc > 0)
        keep_for_later(client, &message);
    if (rc == 0 && !client->ready)
        rc = error_set(err, ERR_TIMEOUT, 0, "the supervisor did not answer hello within %d ms",
                       timeout_ms);
    if (rc < 0) {
        client_free(client);
        return -1;
    }
    *out = client;
    return 0;
}

void client_free(struct client *client)
{
    struct client_message message;

    if (!client)
        return;
    while (take_queued(client, &message))
        client_message_finish(&message);
    buf_finish(&client->in);
    buf_finish(&client->out);
    fd_close(&client->fd);
    free(client);
}

void client_set_trace(struct client *client,
                      void (*trace)(void *data, bool out, const char *text, size_t len), void *data)
{
    client->trace = trace;
    client->trace_data = data;
}

int client_fd(const struct client *client)
{
    return client->fd;
}

void client_take_blobs(struct client *client)
{
    client->takes_blobs = true;
}

bool client_ready(const struct client *client)
{
    return client->ready;
}
