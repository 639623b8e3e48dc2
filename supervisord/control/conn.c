/* conn.c: one client: frames in with bounded memory, hello first, requests in flight, replies and
 * events out.
 *
 * Back-pressure: above the stream's high mark nothing more is read from the client and its
 * subscriptions pause; what it had already sent is still served, up to a hard bound. */
#include <sodium.h>

#include "control/internal.h"
#include "proto/envelope.h"

#define HELLO_MS 10000
#define FINISH_MS 1000
#define QUEUE_MAX (16u << 20)  /* bytes not yet taken by the client */
#define GATHER_MAX (64u << 10) /* bytes of frames that wait to leave together */
#define OUT_KEEP (16u << 10)   /* a larger buffer is given back when it is empty */

struct conn {
    struct list link; /* control::conns */
    struct control *control;
    struct stream *stream;
    struct buf in;  /* one frame that has not arrived as a whole */
    struct buf out; /* frames that leave together, when what has arrived is dealt with */
    bool gathering;
    struct list requests; /* request::link */
    size_t request_count;
    struct request *awaiting_blob; /* also on requests */
    uint64_t accepted_mono_ms;
    bool greeted;
    bool is_local_person;
    bool closing;
    char name[24]; /* for the log */
};

struct conn *conn_of(struct list *link)
{
    return LIST_ENTRY(link, struct conn, link);
}

/* Requests
 * ------------------------------------------------------------------------------------------------------
 */

static void request_free(struct request *request)
{
    struct conn *conn = request->conn;

    if (conn->awaiting_blob == request)
        conn->awaiting_blob = NULL;
    list_remove(&request->link);
    conn->request_count--;
    json_free(request->doc);
    free(request);
}

static void request_drop(struct request *request)
{
    if (request->drop != NULL)
        request->drop(request);
    request_free(request);
}

static void flush(struct conn *conn)
{
    /* A broken connection reports its end by itself. */
    if (conn->out.len > 0)
        stream_write(conn->stream, conn->out.data, conn->out.len);
    buf_clear(&conn->out);
    if (conn->out.cap > OUT_KEEP)
        buf_finish(&conn->out);
    if (stream_over_high(conn->stream))
        stream_pause(conn->stream);
}

/* A frame stands in conn->out. The answers to requests that came together leave together: one write
 * for all of them. */
static void conn_send(struct conn *conn)
{
    if (!conn->gathering || conn->out.len >= GATHER_MAX)
        flush(conn);
}

static void send_error(struct conn *conn, uint64_t id, const struct error *error)
{
    struct error err = ERROR_INIT;

    if (!conn->closing && envelope_append_error(&conn->out, id, error, &err) == 0)
        conn_send(conn);
}

typedef int append_function(struct buf *out, uint64_t id, const char *body, struct error *err);

/* -1 when the body is too large for a frame. */
static int send_body(struct request *request, append_function *append, const struct buf *body,
                     struct error *err)
{
    struct conn *conn = request->conn;

    if (body != NULL && body->failed)
        return error_set(err, ERR_LIMIT, 0, "the answer is too large for one frame; ask for less");
    if (conn->closing)
        return 0;
    if (append(&conn->out, request->id, body != NULL ? buf_text(body) : NULL, err) < 0)
        return -1;
    conn_send(conn);
    return 0;
}

void request_reply(struct request *request, const struct buf *body)
{
    struct error err = ERROR_INIT;

    if (send_body(request, envelope_append_reply, body, &err) < 0)
        send_error(request->conn, request->id, &err);
    request_free(request);
}

void request_fail(struct request *request, const struct error *err)
{
    send_error(request->conn, request->id, err);
    request_free(request);
}

void request_end(struct request *request, const struct buf *body)
{
    struct error err = ERROR_INIT;

    if (send_body(request, envelope_append_end, body, &err) < 0)
        log_warn(request->conn->name, "the end of a stream was lost: %s", err.text);
    request_free(request);
}

void request_reply_open(struct request *request, const struct buf *body)
{
    struct error err = ERROR_INIT;

    request->streaming = true;
    if (send_body(request, envelope_append_reply, body, &err) < 0)
        log_warn(request->conn->name, "a reply was lost: %s", err.text);
}

bool request_event(struct request *request, const struct buf *body)
{
    struct error err = ERROR_INIT;

    if (send_body(request, envelope_append_event, body, &err) < 0)
        log_warn(request->conn->name, "an event was lost: %s", err.text);
    return request->conn->closing || !stream_over_high(request->conn->stream);
}

bool request_event_blob(struct request *request, const void *data, size_t len)
{
    AUTO_BUF struct buf body = BUF_INIT(64);
    struct conn *conn = request->conn;
    struct error err = ERROR_INIT;

    buf_printf(&body, "{\"bytes\":%zu}", len);
    request_event(request, &body);
    if (conn->closing)
        return true;
    if (frame_append(&conn->out, FRAME_KIND_BLOB, data, len, &err) < 0)
        BUG(err.text);
    conn_send(conn);
    return !stream_over_high(conn->stream);
}

size_t request_queued(const struct request *request)
{
    const struct conn *conn = request->conn;

    return conn->closing ? 0 : stream_queued(conn->stream) + conn->out.len;
}

int request_read(struct request *request, const struct json_field *fields, void *target)
{
    struct error err = ERROR_INIT;

    if (json_read(request->params, fields, JSON_STRICT, target, &err) == 0)
        return 0;
    request_fail(request, &err);
    return -1;
}

/* Closing
 * -------------------------------------------------------------------------------------------------------
 */

static void on_stream_closed(void *data)
{
    struct conn *conn = data;
    struct control *control = conn->control;

    list_remove(&conn->link);
    if (conn->in.data != NULL)
        sodium_memzero(conn->in.data, conn->in.len); /* a part of a blob, perhaps */
    buf_finish(&conn->in);
    buf_finish(&conn->out);
    free(conn);
    control_conn_gone(control);
}

static void drop_requests(struct conn *conn)
{
    LIST_EACH(&conn->requests, link)
        request_drop(LIST_ENTRY(link, struct request, link));
}

/* Closes after what is queued has left. */
static void conn_close(struct conn *conn)
{
    if (conn->closing)
        return;
    drop_requests(conn);
    flush(conn);
    conn->closing = true;
    control_sweep_rest(conn->control);
    stream_finish(conn->stream, FINISH_MS, on_stream_closed, conn);
}

void conn_finish(struct conn *conn)
{
    struct error stopping = ERROR_INIT;

    error_set(&stopping, ERR_UNAVAILABLE, 0,
              "the supervisor is stopping; runs go on when it is back");
    LIST_EACH(&conn->requests, link) {
        struct request *request = LIST_ENTRY(link, struct request, link);

        if (!request->streaming)
            send_error(conn, request->id, &stopping);
        request_drop(request);
    }
    conn_close(conn);
}

bool conn_awaits_hello(const struct conn *conn)
{
    return !conn->greeted && !conn->closing;
}

bool conn_sweep(struct conn *conn, uint64_t mono_ms)
{
    if (conn->greeted || conn->closing)
        return false;
    if (mono_ms - conn->accepted_mono_ms < HELLO_MS)
        return true;
    log_debug(conn->name, "no hello in time");
    conn_close(conn);
    return false;
}

static void conn_break(struct conn *conn, const struct error *err)
{
    log_warn(conn->name, "connection ended: %s", err->text);
    conn_close(conn);
}

/* Requests coming in
 * --------------------------------------------------------------------------------------------- */

static struct request *find_request(struct conn *conn, uint64_t id)
{
    LIST_EACH(&conn->requests, link) {
        struct request *request = LIST_ENTRY(link, struct request, link);

        if (request->id == id)
            return request;
    }
    return NULL;
}

/* The client said hello (or not): tells whether the connection goes on. */
static int check_order(struct conn *conn, enum method method, struct error *err)
{
    if (!conn->greeted && method != METHOD_HELLO)
        return error_set(err, ERR_CONFLICT, 0, "the first request must be hello");
    if (conn->greeted && method == METHOD_HELLO)
        return error_set(err, ERR_CONFLICT, 0, "hello was said before");
    return 0;
}

static int check_room(struct conn *conn, struct error *err)
{
    if (conn->control->closing)
        return error_set(err, ERR_UNAVAILABLE, 0, "the supervisor is stopping");
    if (conn->request_count >= conn->control->max_requests)
        return error_set(err, ERR_LIMIT, 0, "%u requests are in flight on this connection",
                         (unsigned)conn->control->max_requests);
    if (stream_queued(conn->stream) > QUEUE_MAX)
        return error_set(err, ERR_LIMIT, 0, "too many unread replies on this connection");
    return 0;
}

/* Params that were left out are {}. */
static void set_params(struct request *request, const struct envelope *envelope,
                       struct json_doc **doc)
{
    struct error err = ERROR_INIT;

    request->params = envelope->body;
    if (request->params != NULL) {
        request->doc = STEAL(*doc);
        return;
    }
    if (json_parse(&request->doc, "{}", 2, 2, &err) < 0)
        BUG(err.text);
    request->params = json_root(request->doc);
}

/* Takes *DOC when it makes a request. */
static void take_request(struct conn *conn, const struct envelope *envelope, struct json_doc **doc)
{
    enum method method = method_find(envelope->method);
    struct error err = ERROR_INIT;
    struct request *request;

    if (check_order(conn, method, &err) < 0) {
        send_error(conn, envelope->id, &err);
        conn_break(conn, &err);
        return;
    }
    if (method == METHOD_COUNT)
        error_argument(&err, "method", "there is no method %s", envelope->method);
    else
        check_room(conn, &err);
    if (err.code != ERR_NONE) {
        send_error(conn, envelope->id, &err);
        return;
    }
    request = NEW(struct request);
    request->conn = conn;
    request->control = conn->control;
    request->id = envelope->id;
    request->method = method;
    set_params(request, envelope, doc);
    request->is_local_person = conn->is_local_person;
    list_append(&conn->requests, &request->link);
    conn->request_count++;
    if ((method_infos[method].flags & METHOD_BLOB) != 0)
        conn->awaiting_blob = request;
    else
        dispatch(request);
}

static int take_json(struct conn *conn, const struct frame *frame, struct error *err)
{
    AUTO_JSON struct json_doc *doc = NULL;
    struct envelope envelope;
    struct request *request;

    if (conn->awaiting_blob != NULL)
        return error_set(err, ERR_INVALID, 0, "a blob must follow its request");
    if (json_parse(&doc, frame->data, frame->len, FRAME_JSON_MAX, err) < 0)
        return -1;
    if (envelope_read(doc, &envelope, err) < 0)
        return -1;
    request = find_request(conn, envelope.id);
    if (envelope.kind == ENVELOPE_CANCEL) {
        if (request != NULL)
            request_drop(request);
        return 0;
    }
    if (envelope.kind != ENVELOPE_REQUEST)
        return error_set(err, ERR_INVALID, 0, "a client sends requests and cancels only");
    if (request != NULL)
        return error_set(err, ERR_INVALID, 0, "request id is in use");
    take_request(conn, &envelope, &doc);
    return 0;
}

static int take_blob(struct conn *conn, const struct frame *frame, struct error *err)
{
    struct request *request = STEAL(conn->awaiting_blob);

    if (request == NULL)
        return error_set(err, ERR_INVALID, 0, "a blob without a request");
    request->blob = frame->data;
    request->blob_len = frame->len;
    dispatch(request);
    return 0;
}

static int take_frame(struct conn *conn, const struct frame *frame, struct error *err)
{
    return frame->kind == FRAME_KIND_BLOB ? take_blob(conn, frame, err)
                                          : take_json(conn, frame, err);
}

/* A blob is a secret: neither our buffer nor the scratch space of io keeps it. The bytes are const
 * only to those who read them. */
static void wipe(const char *bytes, size_t len)
{
    sodium_memzero((void *)(uintptr_t)bytes, len);
}

/* Adds to the frame in conn->in as many of LEN bytes as belong to it; the buffer is made large
 * enough at once, so that no part of a blob is left behind in memory that was given back. */
static size_t gather(struct conn *conn, const char *bytes, size_t len)
{
    struct buf *in = &conn->in;
    size_t wanted = FRAME_HEAD_SIZE;
    size_t take;

    if (in->len >= FRAME_HEAD_SIZE) {
        const unsigned char *head = (const unsigned char *)in->data;

        wanted =
            4 + ((size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3]);
        buf_reserve(in, wanted - in->len);
    }
    take = wanted - in->len < len ? wanted - in->len : len;
    buf_append(in, bytes, take);
    return take;
}

/* One step through the bytes that arrived: a whole frame straight from them, or a piece of one into
 * the buffer. Returns how many were used, -1 when the client broke the rules. */
static long step(struct conn *conn, const char *bytes, size_t len, struct error *err)
{
    struct frame frame = { 0 };
    long used;
    int rc;

    if (conn->in.len == 0) {
        used = frame_parse(bytes, len, &frame, err);
        if (used < 0)
            return -1;
        if (used > 0) {
            rc = take_frame(conn, &frame, err);
            if (frame.kind == FRAME_KIND_BLOB)
                wipe(bytes, (size_t)used);
            return rc < 0 ? -1 : used;
        }
    }
    used = (long)gather(conn, bytes, len);
    if (conn->in.failed)
        return error_set(err, ERR_LIMIT, 0, "no memory for a frame");
    if (conn->in.len >= FRAME_HEAD_SIZE && conn->in.data[FRAME_HEAD_SIZE - 1] == FRAME_KIND_BLOB)
        wipe(bytes, (size_t)used);
    rc = (int)frame_parse(conn->in.data, conn->in.len, &frame, err);
    if (rc > 0) {
        rc = take_frame(conn, &frame, err);
        if (frame.kind == FRAME_KIND_BLOB)
            sodium_memzero(conn->in.data, conn->in.len);
        buf_finish(&conn->in);
    }
    return rc < 0 ? -1 : used;
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct conn *conn = data;
    struct error err = ERROR_INIT;

    conn->gathering = true;
    while (len > 0 && !conn->closing) {
        long used = step(conn, bytes, len, &err);

        if (used < 0) {
            conn_break(conn, &err);
            break;
        }
        bytes += used;
        len -= (size_t)used;
    }
    conn->gathering = false;
    if (!conn->closing)
        flush(conn);
}

static void on_end(void *data, const struct error *err)
{
    struct conn *conn = data;

    if (err != NULL)
        log_debug(conn->name, "connection lost: %s", err->text);
    conn_close(conn);
}

static void on_drain(void *data)
{
    struct conn *conn = data;

    stream_resume(conn->stream);
    LIST_EACH(&conn->requests, link) {
        struct request *request = LIST_ENTRY(link, struct request, link);

        if (request->drain != NULL)
            request->drain(request);
    }
}

int conn_start(struct control *control, int fd, struct error *err)
{
    struct conn *conn = NEW(struct conn);
    struct stream_callbacks callbacks = {
        .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .data = conn
    };

    conn->control = control;
    conn->accepted_mono_ms = clock_mono_ms(control->clock);
    list_init(&conn->requests);
    buf_init(&conn->in, FRAME_JSON_MAX + FRAME_HEAD_SIZE);
    buf_init(&conn->out, GATHER_MAX + FRAME_JSON_MAX + FRAME_HEAD_SIZE);
    snprintf(conn->name, sizeof(conn->name), "conn-%llu",
             (unsigned long long)++control->conn_number);
    if (stream_start(&conn->stream, control->loop, fd, &callbacks, err) < 0) {
        free(conn);
        return -1;
    }
    list_append(&control->conns, &conn->link);
    control_sweep_soon(control);
    return 0;
}

void conn_greeted(struct request *request, const char *role, const char *version)
{
    struct conn *conn = request->conn;

    conn->greeted = true;
    control_sweep_rest(conn->control);
    conn->is_local_person = str_equal(role, "ctl");
    log_debug(conn->name, "hello from %s %s", role, version);
}

void conn_refuse(struct request *request, const struct error *err)
{
    struct conn *conn = request->conn;

    request_fail(request, err);
    conn_break(conn, err);
}
