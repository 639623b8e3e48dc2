/* upstream_curl.c: libcurl does the connection, TLS and chunked decoding; this file judges the
 * response's head itself before a byte of it goes on, since libcurl lets pass much that must not
 * pass. */
#include "proxy/upstream_internal.h"

#include <sodium.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "proxy/addr_own.h"
#include "proxy/inject.h"
#include "proxy/parent.h"

#define INTERIM_MAX 16 /* 1xx heads before the final one */
#define UPLOAD_HIGH (256u << 10)
#define UPLOAD_LOW (64u << 10)
#define UPLOAD_MAX (512u << 10)   /* the high mark and what one read of the client may add */
#define UPLOAD_BUFFER (64L << 10) /* libcurl allocates it for each request */
#define CONNECTION_IDLE_SECONDS 50L
#define CONNECTION_LIFE_SECONDS 600L

struct transfer {
    struct upstream base;
    uv_timer_t idle;
    struct curl_loop *curl;
    struct curl_job *job; /* NULL once it is done */
    CURL *easy;
    struct curl_slist *headers;
    struct curl_slist *parent_headers;
    const struct parent *parent; /* NULL: straight there */
    struct host host;
    struct upstream_callbacks callbacks;
    struct addr_exception exception;
    uint64_t head_timeout_ms;
    uint64_t idle_timeout_ms;
    uint64_t last_ms; /* loop time of the last byte either way */
    struct buf upload;
    size_t upload_at; /* bytes of it that libcurl took */
    bool upload_ended;
    bool upload_waits; /* libcurl paused for want of bytes */
    bool upload_full;  /* on_room is owed */
    struct buf head;
    unsigned interim;
    bool connected; /* to the host, through the parent too */
    bool head_done;
    bool head_bad;
    bool address_denied;
    bool unasked; /* bytes nobody asked for waited on the cached connection */
    bool retried;
    bool timed_out;
};

static struct transfer *transfer_of(struct upstream *base)
{
    return CONTAINER_OF(base, struct transfer, base);
}

static void on_idle_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF(handle, struct transfer, idle));
}

/* Wipes, then frees. */
static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *item = list; item != NULL; item = item->next)
        sodium_memzero(item->data, strlen(item->data));
    curl_slist_free_all(list);
}

static void append_text(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);

    if (longer == NULL)
        BUG("no memory for a header");
    *list = longer;
}

/* Memory goes with the timer; everything else now. */
static void release(struct transfer *upstream)
{
    if (upstream->easy != NULL)
        curl_loop_give_handle(upstream->curl, upstream->easy);
    free_headers(upstream->headers);
    free_headers(upstream->parent_headers);
    upstream->easy = NULL;
    upstream->headers = NULL;
    upstream->parent_headers = NULL;
    buf_finish(&upstream->upload);
    buf_finish(&upstream->head);
    uv_close((uv_handle_t *)&upstream->idle, on_idle_closed);
}

static void touch(struct transfer *upstream)
{
    upstream->last_ms = uv_now(upstream->idle.loop);
}

/* Address checks
 * ----------------------------------------------------------------------------------------------------
 */

static curl_socket_t on_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *upstream = data;

    (void)purpose;
    /* The parent's own address is a person's choice. */
    if (upstream->parent == NULL && (!addr_allowed(&address->addr, &upstream->exception) ||
                                     addr_is_own(&address->addr, &upstream->exception))) {
        upstream->address_denied = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                  address->protocol);
}

/* Before each request, also on a connection used again: nothing of the head was written yet. */
static int on_before_request(void *data, char *peer, char *local, int peer_port, int local_port)
{
    struct transfer *upstream = data;

    (void)local;
    (void)peer_port;
    upstream->connected = true;
    /* A name with one address that is not allowed is not trusted with its others either. */
    if (upstream->address_denied ||
        (upstream->parent == NULL && !addr_allowed_text(peer, &upstream->exception))) {
        upstream->address_denied = true;
        return CURL_PREREQFUNC_ABORT;
    }
    if (curl_loop_has_unasked_input(upstream->curl, (uint16_t)local_port)) {
        upstream->unasked = true;
        return CURL_PREREQFUNC_ABORT;
    }
    return CURL_PREREQFUNC_OK;
}

/* Response
 * -------------------------------------------------------------------------------------------------------
 */

static void on_idle(uv_timer_t *timer);

static bool end_head(struct transfer *upstream)
{
    struct http_response_head head = { 0 };
    struct error err = ERROR_INIT;
    bool good = http_response_check(upstream->head.data, upstream->head.len, &head, &err) == 0;

    buf_clear(&upstream->head);
    if (good && head.status >= 200) {
        upstream->head_done = true;
        if (upstream->idle_timeout_ms < upstream->head_timeout_ms)
            uv_timer_start(&upstream->idle, on_idle, upstream->idle_timeout_ms, 0);
        upstream->callbacks.on_head(upstream->callbacks.data, &head);
    } else if (good && (head.status == 101 || ++upstream->interim > INTERIM_MAX)) {
        good = false; /* an upgrade that nobody asked for, or a flood */
    }
    upstream->head_bad = !good;
    http_response_head_finish(&head);
    return good;
}

static bool on_header(void *data, const char *line, size_t len)
{
    struct transfer *upstream = data;

    touch(upstream);
    if (upstream->head_done)
        return true; /* a trailer: dropped */
    buf_append(&upstream->head, line, len);
    if (upstream->head.failed) {
        upstream->head_bad = true;
        return false;
    }
    if ((len == 2 && line[0] == '\r') || (len == 1 && line[0] == '\n'))
        return end_head(upstream);
    return true;
}

static bool on_body(void *data, const char *bytes, size_t len)
{
    struct transfer *upstream = data;

    touch(upstream);
    return upstream->callbacks.on_body(upstream->callbacks.data, bytes, len);
}

/* Request body
 * ---------------------------------------------------------------------------------------------------
 */

static size_t upload_left(const struct transfer *upstream)
{
    return upstream->upload.len - upstream->upload_at;
}

static size_t on_read(void *data, char *to, size_t len)
{
    struct transfer *upstream = data;
    size_t left = upload_left(upstream);

    touch(upstream);
    if (left == 0) {
        upstream->upload_waits = !upstream->upload_ended;
        return upstream->upload_ended ? 0 : CURL_READFUNC_PAUSE;
    }
    if (len > left)
        len = left;
    memcpy(to, upstream->upload.data + upstream->upload_at, len);
    upstream->upload_at += len;
    if (upstream->upload_at == upstream->upload.len) {
        buf_clear(&upstream->upload);
        upstream->upload_at = 0;
    }
    if (upstream->upload_full && upload_left(upstream) <= UPLOAD_LOW) {
        upstream->upload_full = false;
        upstream->callbacks.on_room(upstream->callbacks.data);
    }
    return len;
}

static void wake_upload(struct transfer *upstream)
{
    if (!upstream->upload_waits || upstream->job == NULL)
        return;
    upstream->upload_waits = false;
    curl_job_resume_upload(upstream->job);
}

static bool send_body(struct upstream *base, const void *data, size_t len)
{
    struct transfer *upstream = transfer_of(base);

    touch(upstream);
    if (upstream->upload_at > 0 && upstream->upload.len + len > UPLOAD_MAX) {
        buf_consume(&upstream->upload, upstream->upload_at);
        upstream->upload_at = 0;
    }
    buf_append(&upstream->upload, data, len);
    BUG_ON(upstream->upload.failed);
    wake_upload(upstream);
    if (upload_left(upstream) > UPLOAD_HIGH)
        upstream->upload_full = true;
    return !upstream->upload_full;
}

static void send_end(struct upstream *base)
{
    struct transfer *upstream = transfer_of(base);

    upstream->upload_ended = true;
    wake_upload(upstream);
}

static void resume(struct upstream *base)
{
    struct transfer *upstream = transfer_of(base);

    if (upstream->job != NULL)
        curl_job_resume(upstream->job);
}

/* End
 * --------------------------------------------------------------------------------------------------------------
 */

/* Before there was a connection to the host; the log is told what the parent answered. */
static bool parent_failed(const struct transfer *upstream, CURLcode result)
{
    static const CURLcode failures[] = { CURLE_COULDNT_RESOLVE_PROXY,
                                         CURLE_COULDNT_CONNECT,
                                         CURLE_PROXY,
                                         CURLE_RECV_ERROR,
                                         CURLE_SEND_ERROR,
                                         CURLE_GOT_NOTHING,
                                         CURLE_WEIRD_SERVER_REPLY };
    bool failed = false;
    long status = 0;

    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        failed = failed || result == failures[i];
    if (upstream->parent == NULL || upstream->connected || !failed)
        return false;
    curl_easy_getinfo(upstream->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    parent_refused(upstream->parent, &upstream->host, status >= 300 ? status : 0,
                   curl_easy_strerror(result));
    return true;
}

static enum upstream_end classify(const struct transfer *upstream, CURLcode result)
{
    if (upstream->timed_out)
        return UPSTREAM_END_TIMEOUT;
    if (upstream->address_denied)
        return UPSTREAM_END_ADDRESS;
    if (upstream->head_bad)
        return UPSTREAM_END_RESPONSE;
    if (parent_failed(upstream, result))
        return UPSTREAM_END_PARENT;
    switch ((int)result) {
    case CURLE_OK:
        return upstream->head_done ? UPSTREAM_END_OK : UPSTREAM_END_RESPONSE;
    case CURLE_COULDNT_RESOLVE_HOST:
        return UPSTREAM_END_RESOLVE;
    case CURLE_COULDNT_CONNECT:
        return UPSTREAM_END_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        return UPSTREAM_END_TIMEOUT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return UPSTREAM_END_TLS;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_GOT_NOTHING:
        return UPSTREAM_END_CUT;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
        return UPSTREAM_END_RESPONSE;
    default:
        return upstream->head_done ? UPSTREAM_END_CUT : UPSTREAM_END_OTHER;
    }
}

static void end(struct transfer *upstream, CURLcode result)
{
    struct upstream_callbacks callbacks = upstream->callbacks;
    enum upstream_end end_kind = classify(upstream, result);

    upstream->job = NULL;
    release(upstream);
    callbacks.on_end(callbacks.data, end_kind);
}

static int start_job(struct transfer *upstream, struct error *err);

static void on_done(void *data, CURLcode result)
{
    struct transfer *upstream = data;
    struct error err = ERROR_INIT;

    /* Nothing was sent yet, so once more on a connection of its own is safe. */
    if (result == CURLE_ABORTED_BY_CALLBACK && upstream->unasked && !upstream->retried) {
        upstream->retried = true;
        curl_easy_setopt(upstream->easy, CURLOPT_FRESH_CONNECT, 1L);
        if (start_job(upstream, &err) == 0)
            return;
    }
    end(upstream, result);
}

static int start_job(struct transfer *upstream, struct error *err)
{
    struct curl_job_callbacks callbacks = {
        .on_header = on_header,
        .on_body = on_body,
        .on_read = on_read,
        .on_done = on_done,
        .data = upstream,
    };

    upstream->job = NULL;
    return curl_job_start(&upstream->job, upstream->curl, upstream->easy, &callbacks, err);
}

/* Looks at the clock rather than being started anew for each byte. */
static void on_idle(uv_timer_t *timer)
{
    struct transfer *upstream = CONTAINER_OF(timer, struct transfer, idle);
    uint64_t quiet_ms = uv_now(timer->loop) - upstream->last_ms;
    uint64_t limit_ms = upstream->head_done ? upstream->idle_timeout_ms : upstream->head_timeout_ms;

    if (quiet_ms < limit_ms) {
        uv_timer_start(timer, on_idle, limit_ms - quiet_ms, 0);
        return;
    }
    upstream->timed_out = true;
    curl_job_cancel(upstream->job);
    end(upstream, CURLE_OPERATION_TIMEDOUT);
}

static void cancel(struct upstream *base)
{
    struct transfer *upstream = transfer_of(base);

    if (upstream->job != NULL)
        curl_job_cancel(upstream->job);
    upstream->job = NULL;
    release(upstream);
}

/* Options
 * --------------------------------------------------------------------------------------------------------
 */

static void set_method(CURL *easy, const struct http_request *request)
{
    bool takes_body = strcmp(request->method, "POST") == 0 || strcmp(request->method, "PUT") == 0 ||
                      strcmp(request->method, "PATCH") == 0;

    if (request->body_kind == HTTP_BODY_NONE && !takes_body) {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        if (strcmp(request->method, "HEAD") == 0)
            curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        else
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
        return;
    }
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                     request->body_kind == HTTP_BODY_CHUNKED ? (curl_off_t)-1
                                                             : (curl_off_t)request->content_length);
}

static void set_trust(CURL *easy, const char *ca_file)
{
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (ca_file != NULL) {
        /* The file beside the system's folder, which is read by need. */
        curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
        return;
    }
    /* With a folder set, libcurl reads the whole bundle anew for each connection, 20 ms each. */
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}

static void set_connection(CURL *easy, struct transfer *upstream,
                           const struct upstream_options *options)
{
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, options->service->scheme);
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, options->service->scheme);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 0L);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_timeout_ms);
    /* A transfer that ends while its name is being looked up must not wait for the resolver. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, CONNECTION_IDLE_SECONDS);
    curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, CONNECTION_LIFE_SECONDS);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, upstream);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_before_request);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, upstream);
}

/* LINE ends with a line feed behind END. In libcurl's form "Name;" has an empty value. */
static void add_header(struct curl_slist **list, const char *line, const char *end)
{
    size_t len = (size_t)(end - line) - strlen("\r\n");
    AUTO_FREE
    char *text = mem_strndup(line, len);

    if (strchr(text, ':') == text + len - 1)
        text[len - 1] = ';';
    append_text(list, text);
    sodium_memzero(text, len);
}

/* And takes out what libcurl would add by itself. */
static void set_headers(struct transfer *upstream, const struct upstream_options *options)
{
    static const char *const own[] = { "Accept", "Content-Type", "Expect" };
    const struct http_headers *given = &options->request->headers;
    const char *end = options->lines->data + options->lines->len;
    const char *next;

    for (const char *line = options->lines->data; line < end; line = next) {
        next = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        add_header(&upstream->headers, line, next);
    }
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        AUTO_FREE
        char *without = mem_printf("%s:", own[i]);

        if (strcmp(own[i], "Expect") == 0 || http_headers_get(given, own[i]) == NULL)
            append_text(&upstream->headers, without);
    }
    curl_easy_setopt(upstream->easy, CURLOPT_HTTPHEADER, upstream->headers);
}

/* Whatever the environment says. All that goes through a parent goes in a tunnel, so that it sees
 * no more of a request in the clear than any other hop. */
static void set_parent(CURL *easy, struct transfer *upstream)
{
    struct buf line;

    curl_easy_setopt(easy, CURLOPT_PROXY,
                     upstream->parent != NULL ? upstream->parent->address : "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    if (upstream->parent == NULL)
        return;
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* they aren't the host's */
    curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    parent_line(upstream->parent, &line);
    if (line.len > 0)
        add_header(&upstream->parent_headers, line.data, line.data + line.len);
    inject_free(&line);
    curl_easy_setopt(easy, CURLOPT_PROXYHEADER, upstream->parent_headers);
}

static void set_options(struct transfer *upstream, const struct upstream_options *options)
{
    size_t size = strlen(options->service->origin) + strlen(options->path) + 1;
    char *url = mem_new_zero(1, size);
    CURL *easy = upstream->easy;

    stpcpy(stpcpy(url, options->service->origin), options->path);

    curl_easy_setopt(easy, CURLOPT_URL, url);
    inject_path_free(url); /* a credential may be in it */
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    set_headers(upstream, options);
    set_method(easy, options->request);
    set_trust(easy, options->ca_file);
    set_connection(easy, upstream, options);
    set_parent(easy, upstream);
}

static const struct upstream_way by_curl = {
    .send = send_body, .send_end = send_end, .resume = resume, .cancel = cancel
};

int upstream_curl_start(struct upstream **out, uv_loop_t *loop,
                        const struct upstream_options *options,
                        const struct upstream_callbacks *callbacks, struct error *err)
{
    struct transfer *upstream = NEW(struct transfer);

    uv_timer_init(loop, &upstream->idle);
    upstream->base.way = &by_curl;
    upstream->curl = options->curl;
    upstream->callbacks = *callbacks;
    upstream->exception = options->service->exception;
    upstream->host = options->service->where;
    if (parent_takes(options->parent, &upstream->host, &upstream->exception))
        upstream->parent = options->parent;
    upstream->head_timeout_ms = options->head_timeout_ms;
    upstream->idle_timeout_ms = options->idle_timeout_ms;
    upstream->upload_ended = options->request->body_kind == HTTP_BODY_NONE;
    buf_init(&upstream->upload, UPLOAD_MAX);
    buf_init(&upstream->head, HTTP_HEAD_MAX);
    touch(upstream);
    upstream->easy = curl_loop_take_handle(upstream->curl);
    if (upstream->easy == NULL) {
        release(upstream);
        return error_set(err, ERR_LIMIT, 0, "no memory for libcurl");
    }
    set_options(upstream, options);
    if (start_job(upstream, err) < 0) {
        release(upstream);
        return -1;
    }
    uv_timer_start(&upstream->idle, on_idle, upstream->head_timeout_ms, 0);
    *out = &upstream->base;
    return 0;
}
