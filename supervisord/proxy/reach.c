/* reach.c: dial; with a parent then its CONNECT, on the bare socket: not a byte behind the answer's
 * head is read here, so that the socket can be handed on. */
#include "proxy/reach.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "http/http.h"
#include "io/dial.h"
#include "proxy/addr_own.h"
#include "proxy/inject.h"

#define HEAD_MAX (8u << 10)

struct reach {
    uv_timer_t timer; /* of CONNECT, as the poll handle */
    uv_poll_t poll;
    uv_loop_t *loop;
    struct reach_options options;
    struct host host;
    struct addr_exception exception;
    struct dial *dial; /* until connected */
    int fd;            /* from then on, while CONNECT is under way; else -1 */
    unsigned open;     /* handles */
    bool through;
    uint64_t started_ms;
    struct buf request; /* wiped once it is sent */
    size_t sent;
    struct buf head;
};

static void free_reach(struct reach *reach)
{
    buf_finish(&reach->head);
    free(reach);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct reach *reach = CONTAINER_OF(handle, struct reach, timer);

    if (--reach->open == 0)
        free_reach(reach);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct reach *reach = CONTAINER_OF(handle, struct reach, poll);

    if (--reach->open == 0)
        free_reach(reach);
}

/* Returns the socket of a CONNECT under way, which nothing watches any more, or -1. */
static int shut(struct reach *reach)
{
    struct dial *dial = STEAL(reach->dial);
    int fd = reach->fd;

    inject_free(&reach->request);
    reach->fd = -1;
    if (dial != NULL)
        dial_cancel(dial);
    if (reach->open == 0) {
        free_reach(reach);
        return fd;
    }
    uv_close((uv_handle_t *)&reach->poll, on_poll_closed);
    uv_close((uv_handle_t *)&reach->timer, on_timer_closed);
    return fd;
}

void reach_cancel(struct reach *reach)
{
    int fd = shut(reach);

    if (fd >= 0)
        close(fd);
}

static void fail(struct reach *reach, enum upstream_end how)
{
    struct reach_options options = reach->options;

    reach_cancel(reach);
    options.on_done(options.data, -1, how);
}

/* Through the parent
 * -------------------------------------------------------------------------------------------- */

static void refuse(struct reach *reach, int status, const char *why)
{
    parent_refused(reach->options.parent, &reach->host, status, why);
    fail(reach, UPSTREAM_END_PARENT);
}

static void on_timeout(uv_timer_t *timer)
{
    struct reach *reach = CONTAINER_OF(timer, struct reach, timer);

    parent_refused(reach->options.parent, &reach->host, 0, "no answer in time");
    fail(reach, UPSTREAM_END_TIMEOUT);
}

/* A 2xx has no body, whatever its framing says (RFC 9110, 9.3.6). */
static void take_head(struct reach *reach)
{
    struct reach_options options = reach->options;
    struct http_response_head head = { 0 };
    struct error err = ERROR_INIT;
    bool good = http_response_check(reach->head.data, reach->head.len, &head, &err) == 0;
    int status = head.status;

    http_response_head_finish(&head);
    if (!good)
        refuse(reach, 0, "its answer breaks the rules of HTTP");
    else if (status < 200 || status > 299)
        refuse(reach, status, "");
    else
        options.on_done(options.data, shut(reach), UPSTREAM_END_OK);
}

/* Keeps what belongs to the head of LEN bytes that were looked at, and returns their number; *WHOLE
 * when it ends with them. */
static size_t keep_head(struct reach *reach, const char *bytes, size_t len, bool *whole)
{
    size_t before = reach->head.len;
    const char *end;

    buf_append(&reach->head, bytes, len);
    end = memmem(reach->head.data, reach->head.len, "\r\n\r\n", 4);
    *whole = end != NULL;
    if (end != NULL)
        reach->head.len = (size_t)(end - reach->head.data) + 4;
    return reach->head.len - before;
}

static void read_head(struct reach *reach)
{
    char bytes[HEAD_MAX];
    ssize_t len = recv(reach->fd, bytes, HEAD_MAX - reach->head.len, MSG_PEEK);
    bool whole = false;
    size_t used;

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len <= 0) {
        refuse(reach, 0, "it broke the connection");
        return;
    }
    used = keep_head(reach, bytes, (size_t)len, &whole);
    if (recv(reach->fd, bytes, used, 0) != (ssize_t)used)
        refuse(reach, 0, "it broke the connection");
    else if (whole)
        take_head(reach);
    else if (reach->head.len == HEAD_MAX)
        refuse(reach, 0, "the head of its answer is too long");
}

static void on_event(uv_poll_t *poll, int status, int events);

static void write_request(struct reach *reach)
{
    const struct buf *request = &reach->request;
    ssize_t len = send(reach->fd, request->data + reach->sent, request->len - reach->sent,
                       MSG_NOSIGNAL | MSG_DONTWAIT);

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len < 0) {
        refuse(reach, 0, "it broke the connection");
        return;
    }
    reach->sent += (size_t)len;
    if (reach->sent < request->len)
        return;
    inject_free(&reach->request);
    uv_poll_start(&reach->poll, UV_READABLE, on_event);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct reach *reach = CONTAINER_OF(poll, struct reach, poll);

    (void)events;
    if (status < 0)
        refuse(reach, 0, "it broke the connection");
    else if (reach->request.len > 0)
        write_request(reach);
    else
        read_head(reach);
}

/* Into memory of the right size: growing would leave copies of the credential behind. */
static void make_request(struct reach *reach)
{
    char target[HOST_TEXT_SIZE];
    struct buf line;
    size_t size;

    host_format(&reach->host, target);
    parent_line(reach->options.parent, &line);
    size = 2 * sizeof(target) + line.len + 64;
    buf_init(&reach->request, size);
    if (buf_reserve(&reach->request, size) == NULL)
        BUG("no memory for a request");
    buf_printf(&reach->request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
    if (line.len > 0)
        buf_append(&reach->request, line.data, line.len);
    buf_append_str(&reach->request, "\r\n");
    BUG_ON(reach->request.failed);
    inject_free(&line);
}

static void start_connect(struct reach *reach, int fd)
{
    uint64_t gone_ms = uv_now(reach->loop) - reach->started_ms;
    uint64_t timeout_ms = reach->options.timeout_ms;

    reach->fd = fd;
    if (uv_poll_init_socket(reach->loop, &reach->poll, fd) != 0) {
        refuse(reach, 0, "its connection can't be watched");
        return;
    }
    uv_timer_init(reach->loop, &reach->timer);
    reach->open = 2;
    uv_timer_start(&reach->timer, on_timeout, gone_ms < timeout_ms ? timeout_ms - gone_ms : 0, 0);
    make_request(reach);
    uv_poll_start(&reach->poll, UV_WRITABLE, on_event);
}

/* Dialling
 * -------------------------------------------------------------------------------------------- */

static enum upstream_end dial_failure(const struct error *err)
{
    switch ((int)err->code) {
    case ERR_NOT_FOUND:
        return UPSTREAM_END_RESOLVE;
    case ERR_DENIED:
        return UPSTREAM_END_ADDRESS;
    case ERR_TIMEOUT:
        return UPSTREAM_END_TIMEOUT;
    default:
        return UPSTREAM_END_CONNECT;
    }
}

static void on_dialled(void *data, int fd, const struct error *problem)
{
    struct reach *reach = data;
    struct reach_options options = reach->options;

    reach->dial = NULL;
    if (problem != NULL && reach->through) {
        refuse(reach, 0, problem->text);
    } else if (problem != NULL) {
        fail(reach, dial_failure(problem));
    } else if (reach->through) {
        start_connect(reach, fd);
    } else {
        shut(reach);
        options.on_done(options.data, fd, UPSTREAM_END_OK);
    }
}

/* The parent was named by a person, and is mostly at a private address. */
static bool allow_address(void *data, const struct sockaddr *address)
{
    const struct reach *reach = data;

    return reach->through ||
           (addr_allowed(address, &reach->exception) && !addr_is_own(address, &reach->exception));
}

int reach_start(struct reach **out, uv_loop_t *loop, const struct reach_options *options,
                struct error *err)
{
    struct reach *reach = NEW(struct reach);
    const struct host *to;
    struct dial_options dial = { .timeout_ms = options->timeout_ms,
                                 .allow = allow_address,
                                 .on_done = on_dialled,
                                 .data = reach };

    reach->loop = loop;
    reach->options = *options;
    reach->host = *options->host;
    reach->exception = *options->exception;
    reach->fd = -1;
    reach->through = parent_takes(options->parent, options->host, options->exception);
    reach->started_ms = uv_now(loop);
    buf_init(&reach->head, HEAD_MAX);
    to = reach->through ? &options->parent->where : options->host;
    dial.name = to->name;
    dial.port = to->port;
    if (dial_start(&reach->dial, loop, &dial, err) < 0) {
        free_reach(reach);
        return -1;
    }
    *out = reach;
    return 0;
}
