/* Many requests of every kind that the proxy serves, refuses or loses: what they take is given
 * back, descriptors, handles and heap. */
#include "unit/proxy/rig.h"

#define WARM_ROUNDS 30u
#define ROUNDS 400u
#define LONG_ROUNDS 5000u
/* Tables that grow once, such as libcurl's, may still do so. */
#define HEAP_SLACK (16u << 10)

static void answer_by_path(struct rig_upstream *upstream, const char *request)
{
    if (strstr(request, "/cut ") != NULL) {
        rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        rig_upstream_close(upstream);
    } else if (strstr(request, "/chunked ") != NULL) {
        rig_say(upstream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "5\r\nhello\r\n" /* and the key comes back */
                          "20\r\n" RIG_SECRET "\r\n0\r\n\r\n");
    } else if (strstr(request, "/slow ") != NULL) {
        rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nsome");
    } else if (strstr(request, "/bad ") != NULL) {
        rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello");
    } else {
        rig_say(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    }
}

/* Its answer has begun when the client goes away. */
static void leave_early(struct rig *rig)
{
    unsigned before = rig->decision_count;
    struct rig_client *client = rig_connect(rig);
    AUTO_FREE
    char *request = mem_printf(
        "GET /proxy/anthropic/slow HTTP/1.1\r\nHost: p\r\nx-api-key: %s\r\n\r\n", rig->token);

    rig_send(client, request);
    RIG_UNTIL(rig, client->in.len > 0);
    rig_hang_up(client);
    RIG_UNTIL(rig, rig->decision_count > before);
}

static void play_round(struct rig *rig)
{
    static const char *const requests[] = {
        "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        ("POST /proxy/anthropic/v1/messages HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n"
         "Content-Length: 4\r\n\r\nabcd"),
        "GET /proxy/anthropic/chunked HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        "GET /proxy/anthropic/cut HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        "GET /proxy/anthropic/bad HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: nonsense\r\n\r\n",
        "GET /proxy/keyless/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        "GET /proxy/anthropic/../x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: p\r\nHost: q\r\n\r\n",
        "POST /proxy/github/o/r.git/git-receive-pack HTTP/1.1\r\nHost: p\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        AUTO_FREE
        char *answer = rig_ask(rig, requests[i]);

        CHECK(strstr(answer, RIG_SECRET) == NULL);
    }
    leave_early(rig);
    rig_forget(rig);
}

TEST(everything_is_given_back_after_many_requests)
{
    struct rig *rig = rig_start(NULL);
    unsigned rounds = getenv("LONG") != NULL ? LONG_ROUNDS : ROUNDS;

    rig->script = answer_by_path;
    uv_timer_start(&rig->watchdog, rig_on_watchdog, 20 * RIG_WATCHDOG_MS, 0);
    for (unsigned i = 0; i < WARM_ROUNDS; i++)
        play_round(rig);
    unsigned handles_before = rig_handles(rig);
    unsigned descriptors_before = rig_descriptors();
    size_t heap_before = rig_heap_bytes();
    for (unsigned i = 0; i < rounds; i++) {
        play_round(rig);
        RIG_UNTIL(rig, rig_handles(rig) <= handles_before);
        rig_forget(rig);
    }
    RIG_UNTIL(rig, rig_descriptors() <= descriptors_before);
    CHECK(rig_handles(rig) <= handles_before);
    if (rig_heap_bytes() > heap_before + HEAP_SLACK)
        CHECK_EQ(rig_heap_bytes(), heap_before);
    rig_stop(rig);
}
