/* relay.c: reach, TLS where asked for, the upgrade's heads, then bytes. */
#include "proxy/relay.h"

#include <sodium.h>
#include <strings.h>

#include "common/mem.h"
#include "proxy/client_hello.h"
#include "proxy/reach.h"

#define FINISH_MS 10000u
#define PIECE_MAX (8u << 20)  /* with what a veil holds back */
#define HELLO_ROOM (1u << 20) /* what may come at once, beside a client's first message */

enum relay_state { RELAY_REACHING, RELAY_HEAD, RELAY_OPEN, RELAY_OVER };

struct relay {
    uv_timer_t idle;
    enum relay_state state;
    struct http_conn *http;
    struct relay_callbacks callbacks;
    struct host host;
    struct tls_context *tls;
    struct inject_veil *veil;
    struct reach *reach;   /* until connected */
    struct stream *stream; /* from then on */
    struct buf upgrade;    /* wiped once it is sent */
    struct buf head;       /* of the answer */
    struct buf hello;      /* of a tunnel: the client's first bytes, until they are understood */
    bool named;            /* and they were */
    bool upgrades;
    bool up_ended;
    bool down_ended;
    uint64_t idle_timeout_ms;
    uint64_t last_ms;
};

static void on_idle_closed(uv_handle_t *handle)
{
    struct relay *relay = CONTAINER_OF(handle, struct relay, idle);

    buf_finish(&relay->head);
    buf_finish(&relay->hello);
    free(relay);
}

static void wipe_upgrade(struct relay *relay)
{
    if (relay->upgrade.data != NULL)
        sodium_memzero(relay->upgrade.data, relay->upgrade.cap);
    buf_finish(&relay->upgrade);
}

/* Memory goes with the timer. */
static void shut(struct relay *relay, bool orderly)
{
    struct stream *stream = STEAL(relay->stream);
    struct reach *reach = STEAL(relay->reach);

    if (relay->state == RELAY_OVER)
        return;
    relay->state = RELAY_OVER;
    wipe_upgrade(relay);
    if (reach != NULL)
        reach_cancel(reach);
    if (stream != NULL && orderly)
        stream_finish(stream, FINISH_MS, NULL, NULL);
    else if (stream != NULL)
        stream_reset(stream, NULL, NULL);
    uv_close((uv_handle_t *)&relay->idle, on_idle_closed);
}

static void end(struct relay *relay, enum upstream_end how)
{
    struct relay_callbacks callbacks = relay->callbacks;

    shut(relay, how == UPSTREAM_END_OK);
    callbacks.on_end(callbacks.data, how);
}

static void touch(struct relay *relay, size_t up, size_t down)
{
    relay->last_ms = uv_now(relay->idle.loop);
    relay->callbacks.on_traffic(relay->callbacks.data, up, down);
}

/* Looks at the clock rather than being started anew for each byte. */
static void on_idle(uv_timer_t *timer)
{
    struct relay *relay = CONTAINER_OF(timer, struct relay, idle);
    uint64_t quiet_ms = uv_now(timer->loop) - relay->last_ms;

    if (quiet_ms < relay->idle_timeout_ms)
        uv_timer_start(timer, on_idle, relay->idle_timeout_ms - quiet_ms, 0);
    else
        end(relay, UPSTREAM_END_TIMEOUT);
}

/* From the upstream ----------------------------------------------------------------------------
 */

static void pass_down(struct relay *relay, const char *bytes, size_t len)
{
    AUTO_BUF struct buf shown = BUF_INIT(PIECE_MAX);

    touch(relay, 0, len);
    inject_veil_feed(relay->veil, bytes, len, &shown);
    if (shown.len > 0)
        http_conn_send(relay->http, buf_text(&shown), shown.len);
    if (http_conn_over_high(relay->http))
        stream_pause(relay->stream);
}

static void take_head(struct relay *relay, const char *bytes, size_t len)
{
    struct http_response_head head = { 0 };
    struct error err = ERROR_INIT;
    const char *head_end;
    size_t head_len;
    bool good;
    bool taken = false;

    buf_append(&relay->head, bytes, len);
    head_end = memmem(relay->head.data, relay->head.len, "\r\n\r\n", 4);
    if (head_end == NULL && !relay->head.failed && relay->head.len < HTTP_HEAD_MAX)
        return;
    head_len = head_end != NULL ? (size_t)(head_end - relay->head.data) + 4 : 0;
    good = head_end != NULL && http_response_check(relay->head.data, head_len, &head, &err) == 0 &&
           (head.status >= 200 || head.status == 101);
    if (good) {
        relay->state = RELAY_OPEN;
        taken = relay->callbacks.on_answer(relay->callbacks.data, &head);
    }
    http_response_head_finish(&head);
    if (!good) {
        end(relay, UPSTREAM_END_RESPONSE);
    } else if (!taken) {
        shut(relay, false);
    } else if (relay->head.len > head_len) {
        pass_down(relay, relay->head.data + head_len, relay->head.len - head_len);
        buf_finish(&relay->head);
    }
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct relay *relay = data;

    if (relay->state == RELAY_HEAD)
        take_head(relay, bytes, len);
    else if (relay->state == RELAY_OPEN)
        pass_down(relay, bytes, len);
}

/* An end while TLS or an upgrade is under way is a failure; later it is half of the end. */
static void on_stream_end(void *data, const struct error *err)
{
    struct relay *relay = data;
    AUTO_BUF struct buf rest = BUF_INIT(PIECE_MAX);

    if (err != NULL && strcmp(err->argument, "upstream_tls") == 0) {
        end(relay, UPSTREAM_END_TLS);
        return;
    }
    if (err != NULL || relay->state != RELAY_OPEN) {
        end(relay, UPSTREAM_END_CUT);
        return;
    }
    relay->down_ended = true;
    inject_veil_end(relay->veil, &rest);
    if (rest.len > 0)
        http_conn_send(relay->http, buf_text(&rest), rest.len);
    http_conn_end(relay->http);
    if (relay->up_ended)
        end(relay, UPSTREAM_END_OK);
}

static void on_stream_drain(void *data)
{
    struct relay *relay = data;

    if (relay->state == RELAY_OPEN)
        http_conn_resume_body(relay->http);
}

/* Connecting -----------------------------------------------------------------------------------
 */

static int start_stream(struct relay *relay, int fd, struct error *err)
{
    struct stream_callbacks callbacks = {
        .on_data = on_data, .on_end = on_stream_end, .on_drain = on_stream_drain, .data = relay
    };

    if (stream_start(&relay->stream, relay->idle.loop, fd, &callbacks, err) < 0)
        return -1;
    if (relay->tls == NULL)
        return 0;
    return tls_connect(relay->stream, relay->tls, relay->host.name, relay->host.literal, err);
}

static void on_reached(void *data, int fd, enum upstream_end how)
{
    struct relay *relay = data;
    struct error err = ERROR_INIT;

    relay->reach = NULL;
    if (fd < 0) {
        end(relay, how);
        return;
    }
    if (start_stream(relay, fd, &err) < 0) {
        end(relay, UPSTREAM_END_OTHER);
        return;
    }
    touch(relay, 0, 0);
    if (relay->upgrades) {
        relay->state = RELAY_HEAD;
        stream_write(relay->stream, relay->upgrade.data, relay->upgrade.len);
        wipe_upgrade(relay);
        return;
    }
    relay->state = RELAY_OPEN;
    relay->callbacks.on_open(relay->callbacks.data);
}

int relay_start(struct relay **out, uv_loop_t *loop, struct http_conn *http,
                const struct relay_options *options, const struct relay_callbacks *callbacks,
                struct error *err)
{
    struct relay *relay = NEW(struct relay);
    const struct reach_options reach = { .host = options->host,
                                         .exception = &options->exception,
                                         .parent = options->parent,
                                         .timeout_ms = options->connect_timeout_ms,
                                         .on_done = on_reached,
                                         .data = relay };

    relay->http = http;
    relay->callbacks = *callbacks;
    relay->host = *options->host;
    relay->tls = options->tls;
    relay->veil = options->veil;
    relay->idle_timeout_ms = options->idle_timeout_ms;
    buf_init(&relay->head, 2 * HTTP_HEAD_MAX);
    buf_init(&relay->hello, HELLO_ROOM);
    relay->upgrades = options->upgrade != NULL;
    if (relay->upgrades) {
        relay->upgrade = *options->upgrade;
        buf_init(options->upgrade, 0);
    }
    uv_timer_init(loop, &relay->idle);
    relay->last_ms = uv_now(loop);
    if (reach_start(&relay->reach, loop, &reach, err) < 0) {
        shut(relay, false);
        return -1;
    }
    uv_timer_start(&relay->idle, on_idle, relay->idle_timeout_ms, 0);
    *out = relay;
    return 0;
}

/* From the client ------------------------------------------------------------------------------
 */

static void pass_up(struct relay *relay, const char *bytes, size_t len)
{
    touch(relay, len, 0);
    stream_write(relay->stream, bytes, len);
    if (stream_over_high(relay->stream))
        http_conn_pause_body(relay->http);
}

/* Nobody takes part in a tunnel's TLS, but it must be for the tunnel's host: else one name would be
 * judged and another one reached, where many live behind one address. */
static void take_hello(struct relay *relay, const char *bytes, size_t len)
{
    char name[256] = "";
    enum client_hello hello;

    buf_append(&relay->hello, bytes, len);
    hello = client_hello_read(relay->hello.data, relay->hello.len, name);
    if (hello == CLIENT_HELLO_MORE && !relay->hello.failed)
        return;
    if (hello == CLIENT_HELLO_BAD || relay->hello.failed ||
        (hello == CLIENT_HELLO_NAME && strcasecmp(name, relay->host.name) != 0)) {
        end(relay, UPSTREAM_END_NAME);
        return;
    }
    relay->named = true;
    pass_up(relay, relay->hello.data, relay->hello.len);
    buf_finish(&relay->hello);
}

void relay_on_body(struct relay *relay, const char *bytes, size_t len)
{
    if (relay->state != RELAY_OPEN)
        return;
    if (relay->upgrades || relay->named)
        pass_up(relay, bytes, len);
    else
        take_hello(relay, bytes, len);
}

void relay_on_body_end(struct relay *relay)
{
    if (relay->state != RELAY_OPEN || relay->up_ended)
        return;
    relay->up_ended = true;
    if (relay->down_ended)
        end(relay, UPSTREAM_END_OK);
    else
        stream_end(relay->stream);
}

void relay_on_drain(struct relay *relay)
{
    if (relay->state == RELAY_OPEN && relay->stream != NULL)
        stream_resume(relay->stream);
}

void relay_cancel(struct relay *relay)
{
    shut(relay, false);
}
