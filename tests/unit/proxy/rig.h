/* rig.h: a whole proxy on one loop: a scripted upstream, the proxy with one run, and raw clients.
 */
#ifndef TESTS_UNIT_PROXY_RIG_H
#define TESTS_UNIT_PROXY_RIG_H

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "io/listener.h"
#include "io/stream.h"
#include "io/tls.h"
#include "proxy/addr_check.h"
#include "proxy/proxy.h"
#include "vault/ca.h"
#include "vault/vault.h"

#define RIG_SECRET "sk-canary-0123456789-real-SECRET"
#define RIG_QUERY_SECRET "a secret&with=more/than#letters"
#define RIG_QUERY_ESCAPED "a%20secret%26with%3Dmore%2Fthan%23letters"
#define RIG_DECISIONS 64
#define RIG_WATCHDOG_MS 30000

struct rig;

/* One connection at the upstream. */
struct rig_upstream {
    struct rig *rig;
    struct listener *listener; /* that it came in by */
    struct stream *stream;
    struct buf in;     /* raw bytes of the request under way */
    unsigned answered; /* requests on this connection */
    bool ended;        /* the proxy closed or cut it */
};

struct rig_client {
    struct stream *stream;
    struct buf in;
    bool ended;
    bool reset;
};

struct rig_decision {
    char service[32];
    char method[16];
    char host[64];
    char path[128];
    enum audit_verdict verdict;
    char detail[256];
    char reason[48];
    uint32_t status;
    uint64_t request_bytes;
    uint64_t response_bytes;
    uint64_t input_tokens;
    uint64_t output_tokens;
    uint64_t microdollars;
};

/* The proxy's clock: the system's, and so much more. */
struct rig_clock {
    struct clock clock; /* first */
    uint64_t ahead_ms;
};

static inline uint64_t rig_wall_ms(const struct clock *clock)
{
    return clock_wall_ms(clock_system()) + ((const struct rig_clock *)clock)->ahead_ms;
}

static inline uint64_t rig_mono_ms(const struct clock *clock)
{
    return clock_mono_ms(clock_system()) + ((const struct rig_clock *)clock)->ahead_ms;
}

struct rig {
    uv_loop_t loop;
    struct rig_clock clock;
    uv_timer_t watchdog;
    bool late;
    uint16_t upstream_port;
    uint16_t tls_port; /* the same upstream behind TLS, as localhost */
    struct listener *tls_listener;
    const char *tls_name;    /* what its certificate is for; "localhost" */
    struct vault *tls_vault; /* of its own certificate authority */
    struct ca *tls_ca;
    struct tls_context *tls_server;
    struct ca *ca;                  /* the proxy's */
    struct tls_context *tls_client; /* trusts that one */
    struct tls_context *tls_direct; /* trusts the upstream's */
    uint16_t proxy_port;
    struct listener *upstream_listener;
    struct listener *evil_listener; /* a host that no credential is for */
    uint16_t evil_port;
    struct rig_upstream *upstreams[RIG_DECISIONS];
    unsigned upstream_count;
    unsigned requests; /* whole requests that the upstream saw */
    struct buf seen;   /* every raw byte the upstream saw */
    struct buf evil_seen;
    void (*script)(struct rig_upstream *upstream, const char *request);
    bool raw_upload; /* the script gets each piece as it comes */
    struct vault *vault;
    struct proxy *proxy;
    char token[PROXY_TOKEN_SIZE];
    uint8_t hash[PROXY_TOKEN_HASH_SIZE];
    struct rig_decision decisions[RIG_DECISIONS];
    unsigned decision_count;
    unsigned traffic;
    char pushed[512]; /* as on_pushed told it last */
    bool proxy_closed;
    const char *private_name; /* what the service private leads to; NULL: this machine has none */
    unsigned closed;
};

static inline void rig_say(struct rig_upstream *upstream, const char *text)
{
    stream_write(upstream->stream, text, strlen(text));
}

static inline void rig_count_closed(void *data)
{
    struct rig *rig = data;

    rig->closed++;
}

static inline void rig_upstream_close(struct rig_upstream *upstream)
{
    if (upstream->stream == NULL)
        return;
    stream_finish(upstream->stream, 2000, NULL, NULL);
    upstream->stream = NULL;
}

static inline void rig_upstream_cut(struct rig_upstream *upstream)
{
    stream_reset(upstream->stream, NULL, NULL);
    upstream->stream = NULL;
}

/* Whole once the head and a body by its length or last chunk are there. */
static inline bool rig_request_whole(const char *text, size_t len)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4);
    const char *length = strcasestr(text, "content-length:");
    size_t body;

    if (end == NULL)
        return false;
    body = len - (size_t)(end + 4 - text);
    if (strcasestr(text, "transfer-encoding: chunked") != NULL)
        return len >= 5 && memcmp(text + len - 5, "0\r\n\r\n", 5) == 0;
    return length == NULL || length > end || body >= strtoul(length + 15, NULL, 10);
}

static inline void rig_on_upstream_data(void *data, const char *bytes, size_t len)
{
    struct rig_upstream *upstream = data;
    struct rig *rig = upstream->rig;

    buf_append(&rig->seen, bytes, len);
    buf_append(&upstream->in, bytes, len);
    if (rig->raw_upload) {
        rig->script(upstream, buf_text(&upstream->in));
        return;
    }
    if (!rig_request_whole(buf_text(&upstream->in), upstream->in.len))
        return;
    rig->requests++;
    upstream->answered++;
    AUTO_FREE
    char *request = buf_steal(&upstream->in);
    rig->script(upstream, request);
}

static inline void rig_on_upstream_end(void *data, const struct error *err)
{
    struct rig_upstream *upstream = data;

    upstream->ended = true;
    if (upstream->stream != NULL && err == NULL)
        rig_upstream_close(upstream);
    else if (upstream->stream != NULL)
        stream_close(upstream->stream, NULL, NULL);
    upstream->stream = NULL;
}

static inline void rig_on_upstream_accept(void *data, int fd)
{
    struct rig *rig = data;
    struct rig_upstream *upstream = NEW(struct rig_upstream);
    struct stream_callbacks callbacks = { .on_data = rig_on_upstream_data,
                                          .on_end = rig_on_upstream_end,
                                          .data = upstream };
    struct error err = ERROR_INIT;

    upstream->rig = rig;
    buf_init(&upstream->in, 128u << 20);
    /* A connection that was reset while it waited is over before it began. */
    if (stream_start(&upstream->stream, &rig->loop, fd, &callbacks, &err) < 0) {
        upstream->stream = NULL;
        upstream->ended = true;
    }
    CHECK(rig->upstream_count < RIG_DECISIONS);
    upstream->listener = rig->upstream_listener;
    rig->upstreams[rig->upstream_count++] = upstream;
}

static inline void rig_on_evil_data(void *data, const char *bytes, size_t len)
{
    struct rig_upstream *upstream = data;

    buf_append(&upstream->rig->evil_seen, bytes, len);
    if (memmem(bytes, len, "\r\n\r\n", 4) != NULL && upstream->stream != NULL)
        rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
}

static inline void rig_on_evil_accept(void *data, int fd)
{
    struct rig *rig = data;
    struct rig_upstream *upstream = NEW(struct rig_upstream);
    struct stream_callbacks callbacks = { .on_data = rig_on_evil_data,
                                          .on_end = rig_on_upstream_end,
                                          .data = upstream };
    struct error err = ERROR_INIT;

    upstream->rig = rig;
    upstream->listener = rig->evil_listener;
    buf_init(&upstream->in, 1u << 20);
    CHECK_EQ(stream_start(&upstream->stream, &rig->loop, fd, &callbacks, &err), 0);
    CHECK(rig->upstream_count < RIG_DECISIONS);
    rig->upstreams[rig->upstream_count++] = upstream;
}

static inline void rig_on_tls_accept(void *data, int fd)
{
    struct rig *rig = data;
    struct error err = ERROR_INIT;
    struct tls_identity identity;
    struct ca_leaf leaf;

    rig_on_upstream_accept(data, fd);
    rig->upstreams[rig->upstream_count - 1]->listener = rig->tls_listener;
    if (rig->upstreams[rig->upstream_count - 1]->stream == NULL)
        return;
    CHECK_EQ(ca_leaf(rig->tls_ca, rig->tls_name, false, &leaf, &err), 0);
    identity = (struct tls_identity){ leaf.certificate, leaf.issuer, leaf.key };
    CHECK_EQ(tls_accept(rig->upstreams[rig->upstream_count - 1]->stream, rig->tls_server,
                        rig->tls_name, &identity, &err),
             0);
}

/* Drops what is over: the rig keeps what it saw, and has room for so much only. */
static inline void rig_forget(struct rig *rig)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < rig->upstream_count; i++) {
        struct rig_upstream *upstream = rig->upstreams[i];

        if (upstream->stream != NULL) {
            rig->upstreams[kept++] = upstream;
            continue;
        }
        listener_release(upstream->listener);
        buf_finish(&upstream->in);
        free(upstream);
    }
    rig->upstream_count = kept;
    rig->decision_count = 0;
    buf_finish(&rig->seen);
    buf_init(&rig->seen, 256u << 20);
}

static inline unsigned rig_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static inline void rig_count_handle(uv_handle_t *handle, void *data)
{
    unsigned *count = data;

    (void)handle;
    (*count)++;
}

static inline unsigned rig_handles(struct rig *rig)
{
    unsigned count = 0;

    uv_walk(&rig->loop, rig_count_handle, &count);
    return count;
}

/* The sanitizer counts its own heap; without it the C library does. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static inline size_t rig_heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    return mallinfo2().uordblks;
}

static inline struct tls_context *rig_trusting(const struct ca *ca, const char *file)
{
    struct tls_context *context;
    struct error err = ERROR_INIT;

    CHECK_EQ(fd_replace_file(file, ca_pem(ca), strlen(ca_pem(ca)), 0600, &err), 0);
    CHECK_EQ(tls_client_context_new(&context, file, &err), 0);
    return context;
}

/* The upstream's certificate authority is another installation's. */
static inline void rig_start_tls(struct rig *rig, const char *state_dir, char **ca_file)
{
    AUTO_FREE
    char *other = mem_printf("%s/upstream", state_dir);
    AUTO_FREE
    char *own_file = mem_printf("%s/proxy.pem", state_dir);
    struct vault_options options = { .state_dir = other, .clock = clock_system() };
    struct error err = ERROR_INIT;
    int fd;

    CHECK(mkdir(other, 0700) == 0 || errno == EEXIST);
    CHECK_EQ(vault_open(&rig->tls_vault, &options, &err), 0);
    CHECK_EQ(ca_open(&rig->tls_ca, rig->tls_vault, clock_system(), &err), 0);
    CHECK_EQ(ca_open(&rig->ca, rig->vault, clock_system(), &err), 0);
    CHECK_EQ(tls_server_context_new(&rig->tls_server, &err), 0);
    *ca_file = mem_printf("%s/upstream.pem", state_dir);
    rig->tls_direct = rig_trusting(rig->tls_ca, *ca_file);
    rig->tls_client = rig_trusting(rig->ca, own_file);
    rig->tls_name = "localhost";
    fd = listener_tcp_socket("127.0.0.1", 0, &rig->tls_port, &err);
    CHECK(fd >= 0);
    CHECK_EQ(listener_start(&rig->tls_listener, &rig->loop, fd, 64, rig_on_tls_accept, rig, &err),
             0);
}

static inline void rig_on_decision(void *data, const struct proxy_decision *from)
{
    struct rig *rig = data;
    struct rig_decision *to = &rig->decisions[rig->decision_count];

    CHECK(rig->decision_count < RIG_DECISIONS);
    CHECK(strcmp(from->run_id, "run_1") == 0 || strcmp(from->run_id, "probe") == 0);
    rig->decision_count++;
    snprintf(to->service, sizeof(to->service), "%s", from->service);
    snprintf(to->method, sizeof(to->method), "%s", from->method);
    snprintf(to->host, sizeof(to->host), "%s", from->host);
    snprintf(to->path, sizeof(to->path), "%s", from->path);
    snprintf(to->detail, sizeof(to->detail), "%s", from->detail);
    snprintf(to->reason, sizeof(to->reason), "%s", from->reason);
    to->verdict = from->verdict;
    to->status = from->status;
    to->request_bytes = from->request_bytes;
    to->response_bytes = from->response_bytes;
    to->input_tokens = from->input_tokens;
    to->output_tokens = from->output_tokens;
    to->microdollars = from->microdollars;
}

static inline void rig_on_traffic(void *data, const char *run_id)
{
    struct rig *rig = data;

    CHECK(strcmp(run_id, "run_1") == 0 || strcmp(run_id, "probe") == 0);
    rig->traffic++;
}

static inline void rig_on_pushed(void *data, const char *run_id, const char *pushed)
{
    struct rig *rig = data;

    CHECK_STR(run_id, "run_1");
    snprintf(rig->pushed, sizeof(rig->pushed), "%s", pushed);
}

static inline void rig_on_watchdog(uv_timer_t *timer)
{
    struct rig *rig = timer->data;

    rig->late = true;
}

#define RIG_UNTIL(rig, condition)                                                                  \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            uv_run(&(rig)->loop, UV_RUN_ONCE);                                                     \
            if ((rig)->late)                                                                       \
                CHECK_FAILED("in time: " #condition);                                              \
        }                                                                                          \
    } while (0)

static inline void rig_default_script(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
}

static inline bool rig_is_private(const char *name)
{
    struct addrinfo *list = NULL;
    bool private = getaddrinfo(name, NULL, NULL, &list) == 0 && list != NULL;

    for (struct addrinfo *item = list; item != NULL; item = item->ai_next)
    private = private && addr_class(item->ai_addr) != NULL;
    if (list != NULL)
        freeaddrinfo(list);
    return private;
}

/* A name that isn't localhost and leads to no public address, as this machine has it; NULL when it
 * has none. */
static inline const char *rig_private_name(void)
{
    static char host[256];
    const char *const names[] = { host, "ip6-localhost", "localhost.localdomain", "a.localhost" };

    if (gethostname(host, sizeof(host) - 1) != 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], "localhost") != 0 && rig_is_private(names[i]))
            return names[i];
    return NULL;
}

/* EXTRA may be NULL. */
static inline struct rig *rig_start(const struct proxy_options *extra)
{
    struct rig *rig = NEW(struct rig);
    struct vault_options vault_options = { .state_dir = tmp_dir(), .clock = clock_system() };
    struct proxy_options options = extra != NULL ? *extra : (struct proxy_options){ 0 };
    const struct proxy_repository own = { .service = "github", .path = "/o/r.git", .branch = "" };
    struct proxy_grant grant = { .run_id = "run_1", .repositories = &own, .repository_count = 1 };
    struct error err = ERROR_INIT;
    AUTO_FREE
    char *ca_file = NULL;
    AUTO_FREE
    char *secure = NULL;
    AUTO_FREE
    char *scm = NULL;
    AUTO_FREE
    char *target = NULL;
    AUTO_FREE
    char *far = NULL;
    AUTO_FREE
    char *far_secure = NULL;
    AUTO_FREE
    char *prefixed = NULL;
    AUTO_FREE
    char *private_target = NULL;
    int fd;

    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    uv_timer_init(&rig->loop, &rig->watchdog);
    rig->watchdog.data = rig;
    uv_timer_start(&rig->watchdog, rig_on_watchdog, RIG_WATCHDOG_MS, 0);
    buf_init(&rig->seen, 256u << 20);
    buf_init(&rig->evil_seen, 1u << 20);
    rig->script = rig_default_script;
    fd = listener_tcp_socket("127.0.0.1", 0, &rig->upstream_port, &err);
    CHECK(fd >= 0);
    CHECK_EQ(listener_start(&rig->upstream_listener, &rig->loop, fd, 64, rig_on_upstream_accept,
                            rig, &err),
             0);
    fd = listener_tcp_socket("127.0.0.1", 0, &rig->evil_port, &err);
    CHECK(fd >= 0);
    CHECK_EQ(listener_start(&rig->evil_listener, &rig->loop, fd, 64, rig_on_evil_accept, rig, &err),
             0);
    CHECK_EQ(vault_open(&rig->vault, &vault_options, &err), 0);
    CHECK_EQ(vault_put(rig->vault, "MODEL_KEY", RIG_SECRET, strlen(RIG_SECRET), NULL, &err), 0);
    CHECK_EQ(vault_put(rig->vault, "GIT_KEY", RIG_SECRET, strlen(RIG_SECRET), NULL, &err), 0);

    rig_start_tls(rig, vault_options.state_dir, &ca_file);
    secure = mem_printf("https://localhost:%u/api", rig->tls_port);
    scm = mem_printf("https://localhost:%u/scm", rig->tls_port);
    CHECK_EQ(
        vault_put(rig->vault, "QUERY_KEY", RIG_QUERY_SECRET, strlen(RIG_QUERY_SECRET), NULL, &err),
        0);
    target = mem_printf("http://127.0.0.1:%u", rig->upstream_port);
    /* No resolver is asked for these unless a test does. */
    far = mem_printf("http://far.example:%u", rig->upstream_port);
    far_secure = mem_printf("https://far.example:%u", rig->tls_port);
    prefixed = mem_printf("http://127.0.0.1:%u/base/v1/", rig->upstream_port);
    rig->private_name = rig_private_name();
    private_target =
        mem_printf("http://%s:%u", rig->private_name != NULL ? rig->private_name : "a.invalid",
                   rig->upstream_port);
    const char *const allow[] = { "POST /chat/completions", "GET /models/..." };
    const char *const any_repository[] = { "..." };
    const struct proxy_service services[] = {
        { .name = "anthropic",
          .probe = "/v1/models",
          .target = target,
          .inject_header = "x-api-key",
          .inject_value = "{MODEL_KEY}",
          .secret = "MODEL_KEY" },
        { .name = "github",
          .probe = "/o/public.git/info/refs?service=git-upload-pack",
          .target = target,
          .inject_header = "authorization",
          .inject_value = "Basic {GIT_KEY:basic:x-access-token}",
          .secret = "GIT_KEY" },
        { .name = "corp",
          .probe = "/ping",
          .target = prefixed,
          .inject_header = "Authorization",
          .inject_value = "Bearer {MODEL_KEY}",
          .allow = allow,
          .allow_count = 2 },
        { .name = "keyless",
          .probe = "/v1/models",
          .target = target,
          .inject_header = "x-api-key",
          .inject_value = "{ABSENT_KEY}" },
        { .name = "plain", .target = target, .inject_header = "" },
        { .name = "secure",
          .probe = "/v1/models?limit=1",
          .target = secure,
          .inject_header = "authorization",
          .inject_value = "Bearer {MODEL_KEY}",
          .secret = "MODEL_KEY" },
        { .name = "scm",
          .target = scm,
          .inject_header = "authorization",
          .inject_value = "Basic {GIT_KEY:basic:x-access-token}",
          .secret = "GIT_KEY",
          .repositories = any_repository,
          .repository_count = 1 },
        { .name = "queried",
          .probe = "/models",
          .target = target,
          .inject_query = "key",
          .inject_value = "{QUERY_KEY}",
          .secret = "QUERY_KEY" },
        { .name = "private", .probe = "/x", .target = private_target, .inject_header = "" },
        { .name = "brain",
          .target = target,
          .inject_header = "x-api-key",
          .inject_value = "{MODEL_KEY}",
          .secret = "MODEL_KEY",
          .model = true },
        { .name = "far",
          .target = far,
          .inject_header = "x-api-key",
          .inject_value = "{MODEL_KEY}",
          .secret = "MODEL_KEY" },
        { .name = "far-secure",
          .probe = "/x",
          .target = far_secure,
          .inject_header = "x-api-key",
          .inject_value = "{MODEL_KEY}",
          .secret = "MODEL_KEY" },
    };
    options.services = services;
    options.service_count = ARRAY_LEN(services);
    AUTO_FREE
    char *files = mem_printf("GET,HEAD localhost:%u/files/...", rig->tls_port);
    AUTO_FREE
    char *opaque = mem_printf("127.0.0.1:%u", rig->tls_port);
    AUTO_FREE
    char *clear = mem_printf("127.0.0.1:%u", rig->upstream_port);
    AUTO_FREE
    char *named = mem_printf("%s:%u", rig->private_name != NULL ? rig->private_name : "a.invalid",
                             rig->upstream_port);
    AUTO_FREE
    char *nowhere = mem_printf("nowhere.invalid:%u", rig->upstream_port);
    AUTO_FREE
    char *other = mem_printf("other.localhost:%u", rig->tls_port);
    AUTO_FREE
    char *evil = mem_printf("127.0.0.1:%u", rig->evil_port);
    AUTO_FREE
    char *far_clear = mem_printf("clear.example:%u", rig->upstream_port);
    AUTO_FREE
    char *far_read = mem_printf("GET,HEAD read.example:%u", rig->tls_port);
    AUTO_FREE
    char *far_opaque = mem_printf("opaque.example:%u", rig->tls_port);
    const char *const egress[] = { files, opaque, clear,     named,    nowhere,
                                   other, evil,   far_clear, far_read, far_opaque };
    options.egress = egress;
    options.egress_count = ARRAY_LEN(egress);
    options.ca = rig->ca;
    if (options.ca_file == NULL)
        options.ca_file = ca_file;
    options.on_decision = rig_on_decision;
    options.on_traffic = rig_on_traffic;
    options.on_pushed = rig_on_pushed;
    options.data = rig;
    rig->clock.clock = (struct clock){ .wall_ms = rig_wall_ms, .mono_ms = rig_mono_ms };
    CHECK_EQ(proxy_start(&rig->proxy, &rig->loop, rig->vault, &rig->clock.clock, &options, &err),
             0);
    CHECK_EQ(proxy_grant_run(rig->proxy, &grant, rig->token, rig->hash, &err), 0);
    fd = listener_tcp_socket("127.0.0.1", 0, &rig->proxy_port, &err);
    CHECK(fd >= 0);
    CHECK_EQ(proxy_attach(rig->proxy, "run_1", fd, &err), 0);
    return rig;
}

static inline void rig_on_proxy_closed(void *data)
{
    struct rig *rig = data;

    rig->proxy_closed = true;
}

/* Closes everything and requires that nothing is left on the loop. */
static inline void rig_stop(struct rig *rig)
{
    proxy_close(rig->proxy, rig_on_proxy_closed, rig);
    RIG_UNTIL(rig, rig->proxy_closed);
    if (rig->upstream_listener != NULL)
        listener_close(rig->upstream_listener, NULL, NULL);
    listener_close(rig->tls_listener, NULL, NULL);
    listener_close(rig->evil_listener, NULL, NULL);
    for (unsigned i = 0; i < rig->upstream_count; i++)
        if (rig->upstreams[i]->stream != NULL)
            stream_close(rig->upstreams[i]->stream, NULL, NULL);
    uv_close((uv_handle_t *)&rig->watchdog, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    for (unsigned i = 0; i < rig->upstream_count; i++) {
        buf_finish(&rig->upstreams[i]->in);
        free(rig->upstreams[i]);
    }
    ca_close(rig->ca);
    ca_close(rig->tls_ca);
    tls_context_free(rig->tls_server);
    tls_context_free(rig->tls_client);
    tls_context_free(rig->tls_direct);
    vault_close(rig->tls_vault);
    vault_close(rig->vault);
    buf_finish(&rig->seen);
    buf_finish(&rig->evil_seen);
    curl_global_cleanup();
    free(rig);
}

static inline void rig_on_client_data(void *data, const char *bytes, size_t len)
{
    struct rig_client *client = data;

    buf_append(&client->in, bytes, len);
}

static inline void rig_on_client_end(void *data, const struct error *err)
{
    struct rig_client *client = data;

    client->ended = true;
    client->reset = err != NULL;
}

static inline struct rig_client *rig_connect(struct rig *rig)
{
    struct rig_client *client = NEW(struct rig_client);
    struct stream_callbacks callbacks = { .on_data = rig_on_client_data,
                                          .on_end = rig_on_client_end,
                                          .data = client };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(rig->proxy_port) };
    struct error err = ERROR_INIT;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    buf_init(&client->in, 128u << 20);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(stream_start(&client->stream, &rig->loop, fd, &callbacks, &err), 0);
    return client;
}

static inline void rig_send(struct rig_client *client, const char *text)
{
    CHECK(stream_write(client->stream, text, strlen(text)));
}

static inline void rig_free_client(void *data)
{
    struct rig_client *client = data;

    buf_finish(&client->in);
    free(client);
}

static inline void rig_hang_up(struct rig_client *client)
{
    stream_close(client->stream, rig_free_client, client);
}

/* One request on a connection of its own; the whole answer, to be freed. HEADERS end each with CR
 * LF; the token is put in for %T. */
static inline char *rig_ask(struct rig *rig, const char *request)
{
    struct rig_client *client = rig_connect(rig);
    const char *mark = strstr(request, "%T");
    unsigned before = rig->decision_count;
    AUTO_FREE
    char *text = mark == NULL
                     ? mem_strdup(request)
                     : mem_printf("%.*s%s%s", (int)(mark - request), request, rig->token, mark + 2);

    rig_send(client, text);
    RIG_UNTIL(rig, rig->decision_count > before && (client->ended || client->in.len > 0));
    /* Whatever is still on its way. */
    for (int i = 0; i < 20 && !client->ended; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    char *answer = mem_strndup(buf_text(&client->in), client->in.len);
    rig_hang_up(client);
    return answer;
}

/* FORMAT has %T for the token, %C for it as a Basic credential, %P for the port of the upstream in
 * the clear, %S for the one behind TLS, and %E for that of the evil one. Heap. */
static inline char *rig_fill(const struct rig *rig, const char *format)
{
    AUTO_FREE
    char *pair = mem_printf("user:%s", rig->token);
    char basic[200];
    struct buf text = BUF_INIT(1u << 20);

    sodium_bin2base64(basic, sizeof(basic), (const unsigned char *)pair, strlen(pair),
                      sodium_base64_VARIANT_ORIGINAL);
    for (const char *at = format; *at != '\0'; at++) {
        if (at[0] != '%' || at[1] == '\0' || strchr("TCPSE", at[1]) == NULL) {
            buf_append_char(&text, *at);
            continue;
        }
        at++;
        if (*at == 'T')
            buf_append_str(&text, rig->token);
        else if (*at == 'C')
            buf_append_str(&text, basic);
        else
            buf_printf(&text, "%u",
                       *at == 'P'   ? rig->upstream_port
                       : *at == 'S' ? rig->tls_port
                                    : rig->evil_port);
    }
    return buf_steal(&text);
}

static inline void rig_say_filled(struct rig *rig, struct rig_client *client, const char *format)
{
    AUTO_FREE
    char *text = rig_fill(rig, format);

    rig_send(client, text);
}

/* Asks for a tunnel to HOST (filled) and waits for the answer, which is left in client->in. */
static inline struct rig_client *rig_tunnel(struct rig *rig, const char *host)
{
    struct rig_client *client = rig_connect(rig);
    AUTO_FREE
    char *request = mem_printf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic "
                               "%%C\r\n\r\n",
                               host, host);

    rig_say_filled(rig, client, request);
    RIG_UNTIL(rig, client->ended || strstr(buf_text(&client->in), "\r\n\r\n") != NULL);
    return client;
}

/* The same, and then TLS as a client that trusts the proxy's authority. */
static inline struct rig_client *rig_tunnel_tls(struct rig *rig, const char *host, const char *sni,
                                                struct tls_context *context)
{
    struct rig_client *client = rig_tunnel(rig, host);
    struct error err = ERROR_INIT;

    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 ");
    buf_clear(&client->in);
    CHECK_EQ(tls_connect(client->stream, context, sni, false, &err), 0);
    return client;
}

static inline const struct rig_decision *rig_last(const struct rig *rig)
{
    CHECK(rig->decision_count > 0);
    return &rig->decisions[rig->decision_count - 1];
}

#endif
