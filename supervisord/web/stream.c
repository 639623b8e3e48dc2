/* stream.c: server-sent events: one run's log, or the board. A stream is a cursor into what is
 * stored: a browser that connects again goes on behind the last number it saw, and one that reads
 * slowly costs no memory. Beside its log, a run's stream tells how the run stands now. */
#include "web/internal.h"

#define EVENT_MAX (1u << 20)
#define VIEW_MAX (4u << 20)

struct stream {
    struct web_conn *conn;
    struct id run;                         /* "": the board */
    struct run_subscription *subscription; /* of a run */
    uint64_t after;                        /* of the board */
    bool paused;
    bool dirty; /* something is to be told as soon as it may be */
};

uint64_t stream_after(const char *last_event_id, const char *target)
{
    char text[24];
    uint64_t after = 0;

    if (last_event_id != NULL && str_parse_u64(last_event_id, UINT64_C(1) << 53, &after))
        return after;
    if (query_value(target, "after", text, sizeof(text)) &&
        str_parse_u64(text, UINT64_C(1) << 53, &after))
        return after;
    return 0;
}

static void stream_send(struct stream *stream, const struct buf *text)
{
    if (text->failed || http_conn_send(stream->conn->http, text->data, text->len))
        return;
    stream->paused = true;
    if (stream->subscription != NULL)
        run_subscription_pause(stream->subscription);
}

static void stream_send_text(struct stream *stream, const char *text)
{
    AUTO_BUF struct buf copy = BUF_INIT(256);

    buf_append_str(&copy, text);
    stream_send(stream, &copy);
}

/* A new stream whose answer has begun, or NULL when there are too many. */
static struct stream *start(const struct call *call)
{
    struct web *web = call->conn->web;
    struct http_headers headers;
    struct stream *stream;

    if (web->streams >= web->max_streams) {
        web_respond_error(call->conn->http, 503, "too_many",
                          "too many pages are live at once; close some");
        return NULL;
    }
    stream = NEW(struct stream);
    stream->conn = call->conn;
    call->conn->stream = stream;
    web->streams++;
    http_headers_init(&headers);
    web_headers(&headers, "text/event-stream");
    http_conn_begin(call->conn->http, 200, NULL, &headers, -1);
    http_headers_finish(&headers);
    stream_send_text(stream, "retry: 2000\n\n");
    return stream;
}

static void forget(struct stream *stream)
{
    stream->conn->web->streams--;
    stream->conn->stream = NULL;
    free(stream);
}

/* One run
 * ----------------------------------------------------------------------------------------------------------
 */

static void append_view(struct stream *stream, const struct run_record *run, struct buf *text)
{
    struct json_writer writer;

    buf_append_str(text, "event: run\ndata: ");
    json_write_init(&writer, text);
    api_write_run(&writer, stream->conn->web, run);
    buf_append_str(text, "\n\n");
}

static void flush_run(struct stream *stream)
{
    AUTO_BUF struct buf text = BUF_INIT(VIEW_MAX);
    struct error err = ERROR_INIT;
    struct run_record run;

    stream->dirty = false;
    run_record_init(&run);
    if (run_load(stream->conn->web->runs, &stream->run, &run, &err) == 0) {
        append_view(stream, &run, &text);
        stream_send(stream, &text);
    }
    run_record_finish(&run);
}

static void on_event(void *data, const struct event_record *event)
{
    struct stream *stream = data;
    AUTO_BUF struct buf text = BUF_INIT(EVENT_MAX);
    struct json_writer writer;

    buf_printf(&text, "id: %llu\ndata: ", (unsigned long long)event->number);
    json_write_init(&writer, &text);
    view_event(&writer, event);
    buf_append_str(&text, "\n\n");
    stream_send(stream, &text);
}

static void on_ended(void *data, const struct run_record *run)
{
    struct stream *stream = data;
    struct http_conn *http = stream->conn->http;
    AUTO_BUF struct buf text = BUF_INIT(VIEW_MAX);

    append_view(stream, run, &text);
    buf_append_str(&text, "event: end\ndata: {}\n\n");
    forget(stream); /* its subscription ends with this call */
    if (!text.failed)
        http_conn_send(http, text.data, text.len);
    http_conn_end(http);
}

void stream_run(const struct call *call)
{
    struct run_subscriber subscriber = { .on_event = on_event, .on_ended = on_ended };
    uint64_t after =
        stream_after(http_headers_get(&call->request->headers, "last-event-id"), call->target);
    struct run_subscription *subscription;
    struct error err = ERROR_INIT;
    struct stream *stream;

    stream = start(call);
    if (stream == NULL)
        return;
    stream->run = call->run->id;
    subscriber.data = stream;
    if (run_subscribe(&subscription, call->conn->web->runs, &call->run->id, after, &subscriber,
                      &err) < 0) {
        log_warn(call->run->id.text, "its events can't be followed: %s", err.text);
        forget(stream);
        http_conn_reset(call->conn->http);
        return;
    }
    stream->subscription = subscription;
    flush_run(stream);
}

/* The board
 * --------------------------------------------------------------------------------------------------------
 */

static bool is_deleted(struct web *web, const struct id *id)
{
    struct error err = ERROR_INIT;
    struct session_record session;
    int rc;

    session_record_init(&session);
    rc = store_session_load(web->store, id, &session, &err);
    session_record_finish(&session);
    return rc < 0 && err.code == ERR_NOT_FOUND;
}

static void append_change(struct web *web, const struct id *id, uint64_t number, struct buf *text)
{
    char cursor[FEED_CURSOR_SIZE];
    struct error err = ERROR_INIT;
    struct json_writer writer;
    struct run_record run;

    feed_cursor(&web->feed, number, cursor);
    json_write_init(&writer, text);
    run_record_init(&run);
    if (!id_parse(ID_KIND_RUN, id->text, NULL)) {
        if (is_deleted(web, id))
            buf_printf(text, "id: %s\nevent: gone\ndata: {\"sessionId\":\"%s\"}\n\n", cursor,
                       id->text);
    } else if (run_load(web->runs, id, &run, &err) == 0) {
        buf_printf(text, "id: %s\nevent: run\ndata: ", cursor);
        api_write_item(&writer, web, &run);
        buf_append_str(text, "\n\n");
    }
    run_record_finish(&run);
}

static bool wants(const struct stream *stream, uint64_t number)
{
    return stream != NULL && stream->run.text[0] == '\0' && !stream->paused &&
           stream->after < number;
}

/* Each change is put into words once for all boards that are behind it. */
static void flush_change(struct web *web, const struct id *id, uint64_t number)
{
    AUTO_BUF struct buf text = BUF_INIT(EVENT_MAX);

    LIST_EACH(&web->conns, link) {
        struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        if (!wants(conn->stream, number))
            continue;
        if (text.len == 0)
            append_change(web, id, number, &text);
        conn->stream->after = number;
        if (text.len > 0)
            stream_send(conn->stream, &text);
    }
}

/* It missed more than is known: it asks for everything again. */
static void start_anew(struct stream *stream)
{
    const struct feed *feed = &stream->conn->web->feed;
    AUTO_BUF struct buf text = BUF_INIT(256);
    char cursor[FEED_CURSOR_SIZE];

    stream->after = feed->number;
    feed_cursor(feed, feed->number, cursor);
    buf_printf(&text, "id: %s\nevent: reset\ndata: {}\n\n", cursor);
    stream_send(stream, &text);
}

static void flush_boards(struct web *web)
{
    LIST_EACH(&web->conns, link) {
        struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        if (wants(conn->stream, web->feed.lost))
            start_anew(conn->stream);
    }
    for (size_t i = 0; i < web->feed.count; i++)
        flush_change(web, &web->feed.entries[i].id, web->feed.entries[i].number);
}

void stream_board(const struct call *call)
{
    struct web *web = call->conn->web;
    const char *last = http_headers_get(&call->request->headers, "last-event-id");
    char text[FEED_CURSOR_SIZE] = "";
    struct stream *stream = start(call);

    if (stream == NULL)
        return;
    if (last == NULL && query_value(call->target, "after", text, sizeof(text)))
        last = text;
    if (last == NULL || !feed_parse(&web->feed, last, &stream->after))
        start_anew(stream);
    else if (stream->after < web->feed.number)
        web_flush_soon(web);
}

/* All
 * --------------------------------------------------------------------------------------------------------------
 */

bool stream_changed(struct web_conn *conn, const struct id *id)
{
    struct stream *stream = conn->stream;

    if (stream->run.text[0] == '\0')
        return true;
    if (!str_equal(stream->run.text, id->text))
        return false;
    stream->dirty = true;
    return true;
}

void stream_flush(struct web *web)
{
    flush_boards(web);
    LIST_EACH(&web->conns, link) {
        struct web_conn *conn = LIST_ENTRY(link, struct web_conn, link);

        if (conn->stream != NULL && conn->stream->dirty && !conn->stream->paused)
            flush_run(conn->stream);
    }
}

void stream_drained(struct web_conn *conn)
{
    if (conn->stream == NULL)
        return;
    conn->stream->paused = false;
    if (conn->stream->subscription != NULL)
        run_subscription_resume(conn->stream->subscription);
    web_flush_soon(conn->web);
}

void stream_stop(struct web_conn *conn)
{
    if (conn->stream == NULL)
        return;
    run_unsubscribe(conn->stream->subscription);
    forget(conn->stream);
}
