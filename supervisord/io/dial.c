/* dial.c: the resolver runs in libuv's threads; connecting is a socket and a poll handle. */
#include "io/dial.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"

/* One try at one address; its handle closes while the next is under way. */
struct attempt {
    uv_poll_t poll;
    struct dial *dial;
    int fd;
};

struct dial {
    uv_getaddrinfo_t lookup;
    uv_timer_t timer;
    struct attempt *attempt; /* NULL: none under way */
    struct dial_options options;
    char *name;
    struct addrinfo *addresses;
    struct addrinfo *next;
    bool looking;  /* the resolver has it */
    bool over;     /* told or cancelled */
    unsigned open; /* handles, and the resolver */
    struct error last;
};

static void part_closed(struct dial *dial)
{
    if (--dial->open > 0)
        return;
    if (dial->addresses != NULL)
        uv_freeaddrinfo(dial->addresses);
    free(dial->name);
    free(dial);
}

static void on_timer_closed(uv_handle_t *handle)
{
    part_closed(CONTAINER_OF(handle, struct dial, timer));
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct attempt *attempt = CONTAINER_OF(handle, struct attempt, poll);

    part_closed(attempt->dial);
    free(attempt);
}

/* Ends the attempt under way and returns its descriptor, which nothing watches any more. */
static int end_attempt(struct dial *dial)
{
    struct attempt *attempt = STEAL(dial->attempt);

    if (attempt == NULL)
        return -1;
    uv_close((uv_handle_t *)&attempt->poll, on_poll_closed);
    return attempt->fd;
}

static void shut(struct dial *dial)
{
    int fd = end_attempt(dial);

    dial->over = true;
    if (fd >= 0)
        close(fd);
    if (dial->looking)
        uv_cancel((uv_req_t *)&dial->lookup); /* calls back also when it comes too late */
    uv_close((uv_handle_t *)&dial->timer, on_timer_closed);
}

static void tell(struct dial *dial, int fd, const struct error *err)
{
    struct dial_options options = dial->options;

    shut(dial);
    options.on_done(options.data, fd, err);
}

static void on_timeout(uv_timer_t *timer)
{
    struct dial *dial = CONTAINER_OF(timer, struct dial, timer);
    struct error err = ERROR_INIT;

    error_set(&err, ERR_TIMEOUT, 0, "no connection to %s in time", dial->name);
    tell(dial, -1, &err);
}

static void try_next(struct dial *dial);

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct attempt *attempt = CONTAINER_OF(poll, struct attempt, poll);
    struct dial *dial = attempt->dial;
    socklen_t len = sizeof(int);
    int problem = 0;
    int fd;

    (void)events;
    /* Of a refused connection libuv only says that something is wrong. */
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &problem, &len) < 0)
        problem = errno;
    if (problem == 0 && status < 0)
        problem = -status;
    fd = end_attempt(dial);
    if (problem == 0) {
        tell(dial, fd, NULL);
        return;
    }
    close(fd);
    error_set(&dial->last, ERR_SYSTEM, problem, "connect to %s", dial->name);
    try_next(dial);
}

static void give_up(struct dial *dial)
{
    struct error err = dial->last;

    if (err.code == ERR_NONE)
        error_set(&err, ERR_NOT_FOUND, 0, "%s has no address", dial->name);
    tell(dial, -1, &err);
}

/* 0 when an attempt is under way, else an errno. */
static int start_attempt(struct dial *dial, const struct addrinfo *address)
{
    AUTO_CLOSE
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct attempt *attempt;
    int status;

    if (fd < 0)
        return errno;
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS)
        return errno;
    attempt = NEW(struct attempt);
    status = uv_poll_init_socket(dial->timer.loop, &attempt->poll, fd);
    if (status != 0) {
        free(attempt);
        return -status;
    }
    attempt->dial = dial;
    attempt->fd = fd;
    fd = -1; /* the attempt has it */
    dial->attempt = attempt;
    dial->open++;
    uv_poll_start(&attempt->poll, UV_WRITABLE, on_writable);
    return 0;
}

static void try_next(struct dial *dial)
{
    while (dial->next != NULL) {
        struct addrinfo *address = dial->next;
        int problem = start_attempt(dial, address);

        dial->next = address->ai_next;
        if (problem == 0)
            return;
        error_set(&dial->last, ERR_SYSTEM, problem, "connect to %s", dial->name);
    }
    give_up(dial);
}

static bool all_allowed(const struct dial *dial)
{
    for (const struct addrinfo *item = dial->addresses; item != NULL; item = item->ai_next)
        if (!dial->options.allow(dial->options.data, item->ai_addr))
            return false;
    return true;
}

static void on_resolved(uv_getaddrinfo_t *lookup, int status, struct addrinfo *list)
{
    struct dial *dial = CONTAINER_OF(lookup, struct dial, lookup);
    struct error err = ERROR_INIT;

    dial->looking = false;
    dial->addresses = list;
    if (dial->over) {
        part_closed(dial);
        return;
    }
    dial->open--; /* the timer is open still */
    if (status != 0 || list == NULL) {
        error_set(&err, ERR_NOT_FOUND, 0, "%s has no address", dial->name);
        tell(dial, -1, &err);
    } else if (!all_allowed(dial)) {
        error_set(&err, ERR_DENIED, 0, "%s leads to an address that is not allowed", dial->name);
        tell(dial, -1, &err);
    } else {
        dial->next = list;
        try_next(dial);
    }
}

/* RFC 6761: these names are this machine, and no resolver is asked. */
static const char *name_to_look_up(const char *name)
{
    static const char suffix[] = ".localhost";
    size_t len = strlen(name);

    return len >= sizeof(suffix) && strcasecmp(name + len - sizeof(suffix) + 1, suffix) == 0
               ? "localhost"
               : name;
}

int dial_start(struct dial **out, uv_loop_t *loop, const struct dial_options *options,
               struct error *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct dial *dial = NEW(struct dial);
    AUTO_FREE
    char *port = mem_printf("%u", options->port);
    int status;

    dial->options = *options;
    dial->name = mem_strdup(options->name);
    dial->options.name = dial->name;
    dial->last = (struct error)ERROR_INIT;
    status =
        uv_getaddrinfo(loop, &dial->lookup, on_resolved, name_to_look_up(dial->name), port, &hints);
    if (status != 0) {
        free(dial->name);
        free(dial);
        return error_set(err, ERR_SYSTEM, -status, "look up %s", options->name);
    }
    dial->looking = true;
    uv_timer_init(loop, &dial->timer);
    uv_timer_start(&dial->timer, on_timeout, options->timeout_ms, 0);
    dial->open = 2;
    *out = dial;
    return 0;
}

void dial_cancel(struct dial *dial)
{
    if (!dial->over)
        shut(dial);
}
