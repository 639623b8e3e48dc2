/* The proxy on the way to the world: a stand-in for one over real sockets, and every way through
 * it. */
#include "proxy/parent.h"

#include <string.h>

#include "common/str.h"
#include "proxy/errand.h"
#include "rig.h"

#define LOGIN "someone:pass word"
#define LOGIN_LINE "Proxy-Authorization: Basic c29tZW9uZTpwYXNzIHdvcmQ=\r\n"
#define HOPS_MAX 64

enum manner { LETS_PASS, REFUSES, FORBIDS, HANGS, ANSWERS_HUGE, CUTS, CUTS_HEAD, ANSWERS_NONSENSE };

struct stand_in;
struct hop {
    struct stand_in *of;
    struct stream *near;
    struct stream *far;
    struct buf in;
};

struct stand_in {
    struct rig *rig;
    struct listener *listener;
    int fd; /* before it listens */
    char address[64];
    enum manner manner;
    struct hop hops[HOPS_MAX];
    unsigned count;
    struct buf asked; /* all that it was asked, in the clear */
};

static void close_hop(struct hop *hop)
{
    struct stream *near = STEAL(hop->near);
    struct stream *far = STEAL(hop->far);

    if (near != NULL)
        stream_finish(near, 1000, NULL, NULL);
    if (far != NULL)
        stream_finish(far, 1000, NULL, NULL);
}

static void on_hop_end(void *data, const struct error *err)
{
    (void)err;
    close_hop(data);
}

static void on_far_data(void *data, const char *bytes, size_t len)
{
    struct hop *hop = data;

    if (hop->near != NULL)
        stream_write(hop->near, bytes, len);
}

/* Whatever the name: this machine, at the same port. */
static void connect_far(struct hop *hop, const char *target)
{
    const struct stream_callbacks callbacks = { .on_data = on_far_data,
                                                .on_end = on_hop_end,
                                                .data = hop };
    struct sockaddr_in to = { .sin_family = AF_INET };
    struct error err = ERROR_INIT;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t)strtoul(strchr(target, ':') + 1, NULL, 10));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(stream_start(&hop->far, &hop->of->rig->loop, fd, &callbacks, &err), 0);
}

static void say(struct hop *hop, const char *text)
{
    stream_write(hop->near, text, strlen(text));
}

static void answer(struct hop *hop, const char *target)
{
    char huge[20001];

    switch (hop->of->manner) {
    case LETS_PASS:
        say(hop, "HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\n");
        connect_far(hop, target);
        break;
    case REFUSES:
        say(hop, "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: "
                 "0\r\n\r\n");
        break;
    case FORBIDS:
        say(hop, "HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nno!");
        break;
    case HANGS:
        break;
    case ANSWERS_HUGE:
        memset(huge, 'a', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        for (int i = 0; i < 50; i++) {
            say(hop, i == 0 ? "HTTP/1.1 200 OK\r\nX: " : "\r\nX: ");
            say(hop, huge);
        }
        break;
    case CUTS:
        close_hop(hop);
        break;
    case CUTS_HEAD:
        say(hop, "HTTP/1.1 200 OK\r\nX:");
        close_hop(hop);
        break;
    case ANSWERS_NONSENSE:
        say(hop, "HTTP/1.1 200 OK\r\nX : y\r\n\r\n");
        break;
    }
}

static void on_near_data(void *data, const char *bytes, size_t len)
{
    struct hop *hop = data;
    char target[200];
    const char *end;

    if (hop->far != NULL) {
        stream_write(hop->far, bytes, len);
        return;
    }
    buf_append(&hop->in, bytes, len);
    end = memmem(hop->in.data, hop->in.len, "\r\n\r\n", 4);
    if (end == NULL)
        return;
    CHECK_EQ((size_t)(end + 4 - hop->in.data), hop->in.len); /* nothing before the answer */
    buf_append(&hop->of->asked, hop->in.data, hop->in.len);
    CHECK(sscanf(buf_text(&hop->in), "CONNECT %199s HTTP/1.1\r\n", target) == 1);
    buf_clear(&hop->in);
    answer(hop, target);
}

static void on_hop(void *data, int fd)
{
    struct stand_in *stand_in = data;
    struct hop *hop = &stand_in->hops[stand_in->count++];
    const struct stream_callbacks callbacks = { .on_data = on_near_data,
                                                .on_end = on_hop_end,
                                                .data = hop };
    struct error err = ERROR_INIT;

    CHECK(stand_in->count <= HOPS_MAX);
    hop->of = stand_in;
    buf_init(&hop->in, 1u << 20);
    CHECK_EQ(stream_start(&hop->near, &stand_in->rig->loop, fd, &callbacks, &err), 0);
}

/* A rig whose proxy has the stand-in for its parent. WITHOUT: one host that it isn't for, or NULL.
 */
static struct rig *start(struct stand_in *stand_in, enum manner manner, const char *without)
{
    struct proxy_options options = { .upstream_connect_ms = manner == HANGS ? 200 : 0 };
    struct error err = ERROR_INIT;
    uint16_t port;

    *stand_in = (struct stand_in){ .manner = manner };
    buf_init(&stand_in->asked, 1u << 20);
    stand_in->fd = listener_tcp_socket("127.0.0.1", 0, &port, &err);
    CHECK(stand_in->fd >= 0);
    snprintf(stand_in->address, sizeof(stand_in->address), "http://127.0.0.1:%u", port);
    options.parent = (struct parent_options){ .address = stand_in->address,
                                              .without = &without,
                                              .without_count = without != NULL,
                                              .secret = "PARENT_LOGIN" };
    stand_in->rig = rig_start(&options);
    stand_in->rig->tls_name = "far.example";
    CHECK_EQ(vault_put(stand_in->rig->vault, "PARENT_LOGIN", LOGIN, strlen(LOGIN), NULL, &err), 0);
    CHECK_EQ(listener_start(&stand_in->listener, &stand_in->rig->loop, stand_in->fd, HOPS_MAX,
                            on_hop, stand_in, &err),
             0);
    return stand_in->rig;
}

static void stop(struct stand_in *stand_in)
{
    for (unsigned i = 0; i < stand_in->count; i++) {
        if (stand_in->hops[i].near != NULL)
            stream_close(STEAL(stand_in->hops[i].near), NULL, NULL);
        if (stand_in->hops[i].far != NULL)
            stream_close(STEAL(stand_in->hops[i].far), NULL, NULL);
    }
    listener_close(stand_in->listener, NULL, NULL);
    rig_stop(stand_in->rig);
    for (unsigned i = 0; i < stand_in->count; i++)
        buf_finish(&stand_in->hops[i].in);
    buf_finish(&stand_in->asked);
}

/* Heap; FORMAT is filled. */
static char *ask(struct rig *rig, const char *format)
{
    AUTO_FREE
    char *request = rig_fill(rig, format);

    return rig_ask(rig, request);
}

#define FAR "GET /proxy/far/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n"
#define FAR_SECURE "GET /proxy/far-secure/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n"
#define FAR_CLEAR                                                                                  \
    "GET http://clear.example:%P/x HTTP/1.1\r\nHost: clear.example:%P\r\n"                         \
    "Proxy-Authorization: Basic %C\r\n\r\n"
#define FAR_SOCKET                                                                                 \
    "GET /proxy/far/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\nConnection: Upgrade\r\n"             \
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                                          \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define OPAQUE                                                                                     \
    "CONNECT opaque.example:%S HTTP/1.1\r\nHost: opaque.example:%S\r\n"                            \
    "Proxy-Authorization: Basic %C\r\n\r\n"

/* The stand-in was asked for FORMAT (filled) with the password, TIMES times and nothing else. */
static void check_asked(struct stand_in *stand_in, const char *format, unsigned times)
{
    AUTO_FREE
    char *line = rig_fill(stand_in->rig, format);

    CHECK_EQ(stand_in->count, times);
    if (times == 0)
        return;
    CHECK_HAS(buf_text(&stand_in->asked), line);
    CHECK_HAS(buf_text(&stand_in->asked), LOGIN_LINE);
    CHECK(strstr(buf_text(&stand_in->asked), RIG_SECRET) == NULL);
    CHECK(strstr(buf_text(&stand_in->asked), stand_in->rig->token) == NULL);
    CHECK(strcasestr(buf_text(&stand_in->rig->seen), "proxy-authorization") == NULL);
}

TEST(a_service_is_asked_through_it_over_kept_connections)
{
    static const struct {
        const char *request;
        const char *target;
    } cases[] = {
        { FAR, "CONNECT far.example:%P HTTP/1.1\r\nHost: far.example:%P\r\n" },
        { FAR_SECURE, "CONNECT far.example:%S HTTP/1.1\r\nHost: far.example:%S\r\n" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stand_in stand_in;
        struct rig *rig = start(&stand_in, LETS_PASS, NULL);

        for (int k = 0; k < 3; k++) {
            AUTO_FREE
            char *text = ask(rig, cases[i].request);

            CHECK_HAS(text, "HTTP/1.1 200 OK\r\n");
            CHECK_HAS(text, "\r\n\r\nhi");
            CHECK_STR(rig_last(rig)->reason, "ok");
        }
        CHECK_HAS(buf_text(&rig->seen), "x-api-key: " RIG_SECRET "\r\n");
        check_asked(&stand_in, cases[i].target, 1);
        stop(&stand_in);
    }
}

static void say_switched(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                      "websocket\r\nSec-WebSocket-Accept: "
                      "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nframe");
}

TEST(an_upgrade_goes_through_it)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, NULL);
    struct rig_client *client = rig_connect(rig);

    rig->script = say_switched;
    rig_say_filled(rig, client, FAR_SOCKET);
    RIG_UNTIL(rig, client->ended || strstr(buf_text(&client->in), "frame") != NULL);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 101 ");
    CHECK_HAS(buf_text(&rig->seen), "x-api-key: " RIG_SECRET "\r\n");
    check_asked(&stand_in, "CONNECT far.example:%P HTTP/1.1\r\n", 1);
    rig_hang_up(client);
    stop(&stand_in);
}

TEST(a_tunnel_goes_through_it)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, NULL);
    struct rig_client *client;

    rig->tls_name = "opaque.example";
    client = rig_tunnel_tls(rig, "opaque.example:%S", "opaque.example", rig->tls_direct);
    rig_send(client, "GET /x HTTP/1.1\r\nHost: opaque.example\r\n\r\n");
    RIG_UNTIL(rig, client->ended || strstr(buf_text(&client->in), "\r\n\r\nhi") != NULL);
    CHECK(!client->ended);
    check_asked(&stand_in, "CONNECT opaque.example:%S HTTP/1.1\r\n", 1);
    rig_hang_up(client);
    stop(&stand_in);
}

TEST(other_hosts_are_asked_through_it_in_tunnels_too)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, NULL);
    struct rig_client *client;

    for (int i = 0; i < 2; i++) {
        AUTO_FREE
        char *text = ask(rig, FAR_CLEAR);

        CHECK_HAS(text, "HTTP/1.1 200 OK\r\n");
        CHECK_HAS(text, "\r\n\r\nhi");
    }
    check_asked(&stand_in, "CONNECT clear.example:%P HTTP/1.1\r\n", 1);
    rig->tls_name = "read.example";
    client = rig_tunnel_tls(rig, "read.example:%S", "read.example", rig->tls_client);
    rig_say_filled(rig, client, "GET /x HTTP/1.1\r\nHost: read.example:%S\r\n\r\n");
    RIG_UNTIL(rig, client->ended || strstr(buf_text(&client->in), "\r\n\r\nhi") != NULL);
    CHECK_HAS(buf_text(&client->in), "HTTP/1.1 200 OK\r\n");
    check_asked(&stand_in, "CONNECT read.example:%S HTTP/1.1\r\n", 2);
    rig_hang_up(client);
    stop(&stand_in);
}

struct told {
    int status;
    struct error err;
    bool done;
};

static void on_errand(void *data, const struct errand_answer *answer, const struct error *err)
{
    struct told *told = data;

    told->done = true;
    if (err != NULL)
        told->err = *err;
    else
        told->status = answer->status;
}

TEST(the_supervisors_own_requests_go_through_it)
{
    static const struct errand_options options = { .run_id = "run_1",
                                                   .service = "far-secure",
                                                   .method = "GET",
                                                   .path = "/x",
                                                   .answer_max = 1000,
                                                   .timeout_ms = 5000 };
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, NULL);
    struct told told = { .err = ERROR_INIT };
    struct error err = ERROR_INIT;
    struct errand *errand;

    CHECK_EQ(errand_start(&errand, rig->proxy, &options, on_errand, &told, &err), 0);
    RIG_UNTIL(rig, told.done);
    CHECK_EQ(told.status, 200);
    check_asked(&stand_in, "CONNECT far.example:%S HTTP/1.1\r\n", 1);
    stand_in.manner = FORBIDS;
    close_hop(&stand_in.hops[0]);
    RIG_UNTIL(rig, rig->upstreams[0]->ended);
    told = (struct told){ .err = ERROR_INIT };
    CHECK_EQ(errand_start(&errand, rig->proxy, &options, on_errand, &told, &err), 0);
    RIG_UNTIL(rig, told.done);
    CHECK_HAS(told.err.text, "egress.proxy");
    stop(&stand_in);
}

TEST(what_it_refuses_or_breaks_is_a_failure_with_a_reason)
{
    static const char *const requests[] = { FAR, FAR_SECURE, FAR_SOCKET, OPAQUE, FAR_CLEAR };
    static const struct {
        enum manner manner;
        const char *reason;
        const char *by_curl; /* NULL: the same, "": not tried */
    } cases[] = {
        { REFUSES, "upstream_proxy", NULL },        { FORBIDS, "upstream_proxy", NULL },
        { HANGS, "upstream_timeout", NULL },        { ANSWERS_HUGE, "upstream_proxy", NULL },
        { CUTS, "upstream_proxy", NULL },           { CUTS_HEAD, "upstream_proxy", NULL },
        { ANSWERS_NONSENSE, "upstream_proxy", "" }, /* libcurl takes it */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stand_in stand_in;
        struct rig *rig = start(&stand_in, cases[i].manner, NULL);

        for (size_t k = 0; k < ARRAY_LEN(requests); k++) {
            bool by_curl = strcmp(requests[k], FAR_CLEAR) == 0;
            const char *reason =
                by_curl && cases[i].by_curl != NULL ? cases[i].by_curl : cases[i].reason;

            if (reason[0] == '\0')
                continue;
            AUTO_FREE
            char *text = ask(rig, requests[k]);
            CHECK_HAS(text, "HTTP/1.1 50");
            CHECK_STR(rig_last(rig)->reason, reason);
            CHECK(strstr(text, "Basic c29t") == NULL);
        }
        CHECK_EQ(rig->upstream_count, 0);
        stop(&stand_in);
    }
}

TEST(a_parent_that_is_not_there_is_named)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, NULL);
    static const char *const requests[] = { FAR, FAR_SOCKET, OPAQUE, FAR_CLEAR };

    listener_close(stand_in.listener, NULL, NULL);
    uv_run(&rig->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        AUTO_FREE
        char *text = ask(rig, requests[i]);

        CHECK_HAS(text, "HTTP/1.1 502 ");
        CHECK_STR(rig_last(rig)->reason, "upstream_proxy");
    }
    rig_stop(rig);
    buf_finish(&stand_in.asked);
}

TEST(a_run_that_ends_while_it_is_asked_leaves_nothing)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, HANGS, NULL);
    struct rig_client *client = rig_connect(rig);
    struct rig_client *other = rig_connect(rig);

    rig_say_filled(rig, client, FAR);
    rig_say_filled(rig, other, OPAQUE);
    RIG_UNTIL(rig, stand_in.count == 2);
    proxy_revoke(rig->proxy, "run_1");
    RIG_UNTIL(rig, client->ended && other->ended);
    RIG_UNTIL(rig, stand_in.hops[0].near == NULL && stand_in.hops[1].near == NULL);
    rig_hang_up(client);
    rig_hang_up(other);
    stop(&stand_in);
}

/* From here on the rig's clients are another run's. */
static void become_another_run(struct rig *rig)
{
    const struct proxy_grant grant = { .run_id = "probe" };
    struct error err = ERROR_INIT;
    int fd = listener_tcp_socket("127.0.0.1", 0, &rig->proxy_port, &err);

    CHECK(fd >= 0);
    CHECK_EQ(proxy_grant_run(rig->proxy, &grant, rig->token, rig->hash, &err), 0);
    CHECK_EQ(proxy_attach(rig->proxy, "probe", fd, &err), 0);
}

TEST(runs_share_no_connection_through_it)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, NULL);

    for (unsigned run = 1; run <= 2; run++) {
        for (int i = 0; i < 2; i++) {
            AUTO_FREE
            char *first = ask(rig, FAR);
            AUTO_FREE
            char *second = ask(rig, FAR_CLEAR);

            CHECK_HAS(first, "HTTP/1.1 200 OK\r\n");
            CHECK_HAS(second, "HTTP/1.1 200 OK\r\n");
        }
        CHECK_EQ(stand_in.count, 2 * run);
        if (run == 1)
            become_another_run(rig);
    }
    stop(&stand_in);
}

TEST(this_machine_and_what_is_named_are_reached_without_it)
{
    static const char *const requests[] = {
        "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        "GET http://127.0.0.1:%P/x HTTP/1.1\r\nHost: 127.0.0.1:%P\r\n"
        "Proxy-Authorization: Basic %C\r\n\r\n",
    };
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, LETS_PASS, "*.example");

    rig->tls_name = "localhost";
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        AUTO_FREE
        char *text = ask(rig, requests[i]);

        CHECK_HAS(text, "HTTP/1.1 200 OK\r\n");
    }
    check_asked(&stand_in, "", 0);
    stop(&stand_in);
}

TEST(a_password_that_is_missing_or_malformed_is_not_sent)
{
    struct stand_in stand_in;
    struct rig *rig = start(&stand_in, REFUSES, NULL);
    struct error err = ERROR_INIT;

    CHECK_EQ(vault_put(rig->vault, "PARENT_LOGIN", "no colon", 8, NULL, &err), 0);
    free(ask(rig, FAR));
    CHECK_STR(rig_last(rig)->reason, "upstream_proxy");
    CHECK_EQ(vault_delete(rig->vault, "PARENT_LOGIN", &err), 0);
    free(ask(rig, FAR_CLEAR));
    CHECK_STR(rig_last(rig)->reason, "upstream_proxy");
    CHECK_EQ(stand_in.count, 2);
    CHECK(strcasestr(buf_text(&stand_in.asked), "proxy-authorization") == NULL);
    stop(&stand_in);
}

static bool takes(const struct parent *parent, const char *text)
{
    struct addr_exception exception = { 0 };
    struct host host;

    CHECK(host_parse(text, strlen(text), 443, &host));
    return parent_takes(parent, &host, &exception);
}

TEST(which_hosts_it_is_for)
{
    static const char *const without[] = { "a.example", "b.example:8080", "*.corp", "203.0.113.7",
                                           "[2606:4700::1]" };
    const struct parent_options options = { .address = "http://proxy.corp:3128",
                                            .without = without,
                                            .without_count = ARRAY_LEN(without) };
    static const char *const through[] = { "x.a.example", "b.example", "corp",          "xcorp",
                                           "c.example",   "1.1.1.1",   "[2606:4700::2]" };
    static const char *const straight[] = { "a.example",   "a.example:80",    "b.example:8080",
                                            "git.corp",    "x.git.corp:1",    "localhost",
                                            "x.localhost", "127.0.0.2",       "[::1]",
                                            "10.1.2.3",    "169.254.169.254", "[fd00::1]",
                                            "203.0.113.7", "[2606:4700::1]",  "[::ffff:10.0.0.1]" };
    struct parent parent;
    struct parent none = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(parent_init(&parent, &options, NULL, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(through); i++)
        CHECK(takes(&parent, through[i]));
    for (size_t i = 0; i < ARRAY_LEN(straight); i++)
        CHECK(!takes(&parent, straight[i]));
    CHECK(!takes(&none, "c.example"));
    parent_finish(&parent);
}
