/* sse.c: a run's events as a stream of server-sent events. A browser that connects again goes on
 * behind the last number it saw. */
#include "web/internal.h"

struct sse {
    struct web_conn *conn;
    struct run_subscription *subscription;
};

#define EVENT_MAX (1u << 20)

uint64_t sse_after(const char *last_event_id, const char *target)
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

static void on_event(void *data, const struct event_record *event)
{
    struct sse *sse = data;
    AUTO_BUF struct buf text = BUF_INIT(EVENT_MAX);
    struct json_writer writer;

    buf_printf(&text, "id: %llu\ndata: ", (unsigned long long)event->number);
    json_write_init(&writer, &text);
    api_write_event(&writer, event);
    buf_append_str(&text, "\n\n");
    if (!text.failed && !http_conn_send(sse->conn->http, text.data, text.len))
        run_subscription_pause(sse->subscription);
}

static void on_ended(void *data, const struct run_record *run)
{
    static const char end[] = "event: end\ndata: {}\n\n";
    struct sse *sse = data;
    struct http_conn *http = sse->conn->http;

    (void)run;
    sse->conn->sse = NULL; /* the subscription ends with this call */
    free(sse);
    http_conn_send(http, end, strlen(end));
    http_conn_end(http);
}

void sse_start(struct web_conn *conn, const struct run_record *run,
               const struct http_request *request)
{
    static const char retry[] = "retry: 2000\n\n";
    struct run_subscriber subscriber = { .on_event = on_event, .on_ended = on_ended };
    uint64_t after =
        sse_after(http_headers_get(&request->headers, "last-event-id"), request->target);
    struct error err = ERROR_INIT;
    struct http_headers headers;
    struct sse *sse = NEW(struct sse);

    sse->conn = conn;
    subscriber.data = sse;
    if (run_subscribe(&sse->subscription, conn->web->runs, &run->id, after, &subscriber, &err) <
        0) {
        free(sse);
        log_warn(run->id.text, "its events can't be followed: %s", err.text);
        web_respond_error(conn->http, 500, "internal", "the events can't be followed");
        return;
    }
    conn->sse = sse;
    http_headers_init(&headers);
    web_headers(&headers, "text/event-stream");
    http_conn_begin(conn->http, 200, NULL, &headers, -1);
    http_headers_finish(&headers);
    http_conn_send(conn->http, retry, strlen(retry));
}

void sse_drained(struct web_conn *conn)
{
    if (conn->sse != NULL)
        run_subscription_resume(conn->sse->subscription);
}

void sse_stop(struct web_conn *conn)
{
    if (conn->sse == NULL)
        return;
    run_unsubscribe(conn->sse->subscription);
    free(STEAL(conn->sse));
}
