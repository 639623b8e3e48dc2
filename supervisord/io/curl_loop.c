/* curl_loop.c: sockets of libcurl as poll handles that stay registered while a connection waits in
 * the cache (saves two system calls a transfer), its one timer as a timer handle, and an idle
 * handle that runs what was deferred. */
#include "io/curl_loop.h"

#include <sys/socket.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include "common/list.h"
#include "common/mem.h"

/* Libcurl counts those in use as well, and closes what comes back when there are more: each request
 * of a crowd would then have a handshake of its own. */
#define CACHED_CONNECTIONS 128L
#define SPARE_HANDLES 16u

struct curl_loop {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    uv_idle_t deferred; /* active while resumes or the end are to be done */
    unsigned open_handles;
    unsigned inside; /* depth of calls into libcurl */
    bool closing;
    CURL *spare[SPARE_HANDLES]; /* done with, used again: making one is dear */
    unsigned spare_count;
    struct list jobs;    /* curl_job::link */
    struct list sockets; /* socket::link */
    void (*done)(void *data);
    void *done_data;
};

struct curl_job {
    struct list link; /* curl_loop::jobs */
    struct curl_loop *curl;
    CURL *easy;
    struct curl_job_callbacks callbacks;
    bool body_paused;
    bool upload_paused;
    bool resume_body;
    bool resume_upload;
};

struct socket {
    struct list link; /* curl_loop::sockets */
    uv_poll_t poll;
    struct curl_loop *curl;
    curl_socket_t fd;
    uint16_t port;   /* our own end's; 0 until it was asked for */
    int events;      /* what the poll handle watches; 0: stopped */
    bool network;    /* a connection; else the resolver's own pair */
    bool kept;       /* libcurl calls on_close_socket before it closes it */
    uint64_t cookie; /* the kernel's own name for it, since a number may come back as another */
    bool unwanted;   /* libcurl waits for nothing on it: paused or done */
    bool cached;     /* in libcurl's connection cache: its transfer is done, no other has begun */
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct curl_loop *curl = handle->data;

    if (--curl->open_handles > 0)
        return;
    if (curl->done != NULL)
        curl->done(curl->done_data);
    free(curl);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct socket *watched = CONTAINER_OF(handle, struct socket, poll);
    struct curl_loop *curl = watched->curl;

    free(watched);
    if (--curl->open_handles > 0)
        return;
    if (curl->done != NULL)
        curl->done(curl->done_data);
    free(curl);
}

static struct socket *find_socket(const struct curl_loop *curl, curl_socket_t fd)
{
    LIST_EACH(&curl->sockets, link) {
        struct socket *watched = LIST_ENTRY(link, struct socket, link);

        if (watched->fd == fd)
            return watched;
    }
    return NULL;
}

/* uv_close takes the descriptor out of the poll set at once, so its number may be used again right
 * after. */
static void forget_socket(struct socket *watched)
{
    list_remove(&watched->link);
    uv_close((uv_handle_t *)&watched->poll, on_socket_closed);
}

static uint16_t port_of(curl_socket_t fd)
{
    struct sockaddr_storage address = { 0 };
    struct sockaddr_in v4;
    socklen_t len = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    /* It lies at the same place in both families. */
    memcpy(&v4, &address, sizeof(v4));
    return ntohs(v4.sin_port);
}

/* The connection of a finished transfer, if libcurl keeps it. Only this tells it apart from one
 * whose transfer is paused, since libcurl takes its interest off both. */
static void mark_cached(struct curl_loop *curl, CURL *easy)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    struct socket *watched;

    if (curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
        return;
    watched = find_socket(curl, fd);
    /* Wanted: another transfer took it in the very call that ended this one. */
    if (watched == NULL || !watched->unwanted)
        return;
    watched->cached = true;
    if (watched->port == 0)
        watched->port = port_of(fd);
}

/* Takes finished transfers off and tells their owners, outside libcurl. */
static void report_done(struct curl_loop *curl)
{
    CURLMsg *message;
    int left;

    while (!curl->closing && (message = curl_multi_info_read(curl->multi, &left)) != NULL) {
        CURLcode result = message->data.result;
        CURL *easy = message->easy_handle;
        struct curl_job_callbacks callbacks;
        struct curl_job *job = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&job);
        mark_cached(curl, easy);
        curl->inside++;
        curl_multi_remove_handle(curl->multi, easy);
        curl->inside--;
        callbacks = job->callbacks;
        list_remove(&job->link);
        free(job);
        callbacks.on_done(callbacks.data, result);
    }
}

static void run_socket(struct curl_loop *curl, curl_socket_t fd, int flags)
{
    int running;

    curl->inside++;
    curl_multi_socket_action(curl->multi, fd, flags, &running);
    curl->inside--;
    report_done(curl);
}

static void stop_polling(struct socket *watched)
{
    watched->events = 0;
    uv_poll_stop(&watched->poll);
}

/* Bytes or an end on a connection that nobody uses. Libcurl would hand a whole unasked response to
 * the next request, so what came is thrown away and the connection made dead: libcurl sees that
 * before it reuses it. */
static void spoil_cached(struct socket *watched)
{
    char waste[4096];

    while (recv(watched->fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
        ;
    (void)shutdown(watched->fd, SHUT_RDWR);
    stop_polling(watched);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct socket *watched = CONTAINER_OF(poll, struct socket, poll);
    int flags = 0;

    if (watched->cached) {
        spoil_cached(watched);
        return;
    }
    if (watched->unwanted) {
        stop_polling(watched);
        return;
    }
    if (status < 0)
        flags |= CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    run_socket(watched->curl, watched->fd, flags);
}

static bool is_network_socket(curl_socket_t fd)
{
    int domain = 0;
    socklen_t len = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           (domain == AF_INET || domain == AF_INET6);
}

static uint64_t cookie_of(curl_socket_t fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);

    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

/* Libcurl takes its interest off a connection that it keeps, or closes through on_close_socket, and
 * off one that never came about, which it has closed by itself. Watching the number of the latter
 * would be the end of the loop. */
static bool is_kept(struct socket *watched)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);

    if (!watched->kept)
        watched->kept = watched->network && watched->cookie != 0 &&
                        cookie_of(watched->fd) == watched->cookie &&
                        getpeername(watched->fd, (struct sockaddr *)&address, &len) == 0;
    return watched->kept;
}

static struct socket *watch_socket(struct curl_loop *curl, curl_socket_t fd)
{
    struct socket *watched = NEW(struct socket);

    if (uv_poll_init_socket(curl->loop, &watched->poll, fd) != 0) {
        free(watched);
        return NULL;
    }
    curl->open_handles++;
    watched->poll.data = curl;
    watched->curl = curl;
    watched->fd = fd;
    watched->network = is_network_socket(fd);
    watched->cookie = cookie_of(fd);
    list_append(&curl->sockets, &watched->link);
    return watched;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *unused)
{
    struct curl_loop *curl = data;
    struct socket *watched = find_socket(curl, fd);
    int events;

    (void)easy;
    (void)unused;
    if (what == CURL_POLL_REMOVE) {
        if (watched == NULL)
            return 0;
        if (!is_kept(watched)) {
            forget_socket(watched);
            return 0;
        }
        watched->unwanted = true;
        if (watched->events != 0 && watched->events != UV_READABLE) {
            watched->events = UV_READABLE;
            uv_poll_start(&watched->poll, UV_READABLE, on_poll);
        }
        return 0;
    }
    if (watched != NULL && !watched->kept && cookie_of(fd) != watched->cookie) {
        forget_socket(watched);
        watched = NULL;
    }
    if (watched == NULL)
        watched = watch_socket(curl, fd);
    if (watched == NULL)
        return -1;
    events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    watched->cached = watched->unwanted = false;
    if (events != watched->events) {
        watched->events = events;
        if (events == 0)
            stop_polling(watched);
        else
            uv_poll_start(&watched->poll, events, on_poll);
    }
    return 0;
}

static int on_close_socket(void *data, curl_socket_t fd)
{
    struct socket *watched = find_socket(data, fd);

    if (watched != NULL)
        forget_socket(watched);
    return close(fd);
}

static void on_timer(uv_timer_t *timer)
{
    run_socket(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout_asked(CURLM *multi, long timeout_ms, void *data)
{
    struct curl_loop *curl = data;

    (void)multi;
    if (timeout_ms < 0 || curl->closing)
        uv_timer_stop(&curl->timer);
    else
        uv_timer_start(&curl->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

/* Both directions are set in one call, so the other one's state goes along. */
static void resume_job(struct curl_job *job)
{
    struct curl_loop *curl = job->curl;

    if (job->resume_body)
        job->body_paused = false;
    if (job->resume_upload)
        job->upload_paused = false;
    job->resume_body = job->resume_upload = false;
    curl->inside++;
    curl_easy_pause(job->easy, (job->body_paused ? CURLPAUSE_RECV : 0) |
                                   (job->upload_paused ? CURLPAUSE_SEND : 0));
    curl->inside--;
}

static struct curl_job *next_to_resume(struct curl_loop *curl)
{
    LIST_EACH(&curl->jobs, link) {
        struct curl_job *job = LIST_ENTRY(link, struct curl_job, link);

        if (job->resume_body || job->resume_upload)
            return job;
    }
    return NULL;
}

static void cancel_all(struct curl_loop *curl)
{
    while (!list_empty(&curl->jobs)) {
        struct curl_job *job = LIST_ENTRY(curl->jobs.next, struct curl_job, link);
        struct curl_job_callbacks callbacks = job->callbacks;

        curl_job_cancel(job);
        callbacks.on_done(callbacks.data, CURLE_ABORTED_BY_CALLBACK);
    }
}

static void finish_close(struct curl_loop *curl)
{
    cancel_all(curl);
    while (curl->spare_count > 0)
        curl_easy_cleanup(curl->spare[--curl->spare_count]);
    curl->inside++;
    curl_multi_cleanup(curl->multi);
    curl->inside--;
    while (!list_empty(&curl->sockets))
        forget_socket(LIST_ENTRY(curl->sockets.next, struct socket, link));
    uv_close((uv_handle_t *)&curl->timer, on_handle_closed);
    uv_close((uv_handle_t *)&curl->deferred, on_handle_closed);
}

static void on_deferred(uv_idle_t *idle)
{
    struct curl_loop *curl = idle->data;
    struct curl_job *job;

    uv_idle_stop(idle);
    if (curl->closing) {
        finish_close(curl);
        return;
    }
    while ((job = next_to_resume(curl)) != NULL)
        resume_job(job);
    /* Libcurl doesn't always wake by itself after an unpause. */
    run_socket(curl, CURL_SOCKET_TIMEOUT, 0);
}

int curl_loop_start(struct curl_loop **out, uv_loop_t *loop, struct error *err)
{
    struct curl_loop *curl = NEW(struct curl_loop);

    curl->multi = curl_multi_init();
    if (curl->multi == NULL) {
        free(curl);
        return error_set(err, ERR_LIMIT, 0, "no memory for libcurl");
    }
    curl->loop = loop;
    list_init(&curl->jobs);
    list_init(&curl->sockets);
    uv_timer_init(loop, &curl->timer);
    uv_idle_init(loop, &curl->deferred);
    curl->open_handles = 2;
    curl->timer.data = curl;
    curl->deferred.data = curl;
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, on_timeout_asked);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_MAXCONNECTS, CACHED_CONNECTIONS);
    curl_multi_setopt(curl->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    *out = curl;
    return 0;
}

void curl_loop_close(struct curl_loop *curl, void (*done)(void *data), void *data)
{
    if (curl->closing)
        return;
    curl->closing = true;
    curl->done = done;
    curl->done_data = data;
    uv_timer_stop(&curl->timer);
    uv_idle_start(&curl->deferred, on_deferred);
}

static size_t on_header(char *line, size_t size, size_t count, void *data)
{
    struct curl_job *job = data;

    if (job->callbacks.on_header != NULL &&
        !job->callbacks.on_header(job->callbacks.data, line, size * count))
        return 0;
    return size * count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct curl_job *job = data;

    if (size * count == 0 || job->callbacks.on_body == NULL)
        return size * count;
    if (job->callbacks.on_body(job->callbacks.data, bytes, size * count))
        return size * count;
    job->body_paused = true;
    return CURL_WRITEFUNC_PAUSE;
}

static size_t on_read(char *to, size_t size, size_t count, void *data)
{
    struct curl_job *job = data;
    size_t len;

    if (job->callbacks.on_read == NULL)
        return 0; /* libcurl's default would read our standard input */
    len = job->callbacks.on_read(job->callbacks.data, to, size * count);
    if (len == CURL_READFUNC_PAUSE)
        job->upload_paused = true;
    return len;
}

int curl_job_start(struct curl_job **out, struct curl_loop *curl, CURL *easy,
                   const struct curl_job_callbacks *callbacks, struct error *err)
{
    struct curl_job *job;
    CURLMcode status;

    if (curl->closing)
        return error_set(err, ERR_CANCELLED, 0, "connection pool is closing");
    job = NEW(struct curl_job);
    job->curl = curl;
    job->easy = easy;
    job->callbacks = *callbacks;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, job);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, job);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, job);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, job);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, curl);
    status = curl_multi_add_handle(curl->multi, easy);
    if (status != CURLM_OK) {
        free(job);
        return error_set(err, ERR_UNAVAILABLE, 0, "libcurl: %s", curl_multi_strerror(status));
    }
    list_append(&curl->jobs, &job->link);
    *out = job;
    return 0;
}

void curl_job_resume(struct curl_job *job)
{
    job->resume_body = true;
    uv_idle_start(&job->curl->deferred, on_deferred);
}

void curl_job_resume_upload(struct curl_job *job)
{
    job->resume_upload = true;
    uv_idle_start(&job->curl->deferred, on_deferred);
}

void curl_job_cancel(struct curl_job *job)
{
    struct curl_loop *curl = job->curl;

    BUG_ON(curl->inside > 0);
    curl->inside++;
    curl_multi_remove_handle(curl->multi, job->easy);
    curl->inside--;
    list_remove(&job->link);
    free(job);
}

bool curl_loop_has_unasked_input(const struct curl_loop *curl, uint16_t local_port)
{
    LIST_EACH(&curl->sockets, link) {
        struct socket *watched = LIST_ENTRY(link, struct socket, link);
        char byte;

        if (watched->cached && watched->port == local_port &&
            recv(watched->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            return true;
    }
    return false;
}

CURL *curl_loop_take_handle(struct curl_loop *curl)
{
    return curl->spare_count > 0 ? curl->spare[--curl->spare_count] : curl_easy_init();
}

void curl_loop_give_handle(struct curl_loop *curl, CURL *easy)
{
    if (curl->spare_count == SPARE_HANDLES || curl->closing) {
        curl_easy_cleanup(easy);
        return;
    }
    curl_easy_reset(easy);
    curl->spare[curl->spare_count++] = easy;
}
