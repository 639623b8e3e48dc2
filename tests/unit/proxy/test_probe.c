/* Does a service's credential get there? Asked through the whole proxy, of upstreams of every kind.
 */
#include "unit/proxy/rig.h"

struct heard {
    unsigned count;
    enum proxy_probe_outcome outcome;
    uint32_t status;
    char reason[48];
};

static void on_result(void *data, const struct proxy_probe_result *result)
{
    struct heard *heard = data;

    heard->count++;
    heard->outcome = result->outcome;
    heard->status = result->status;
    snprintf(heard->reason, sizeof(heard->reason), "%s", result->reason);
}

static struct heard ask(struct rig *rig, const char *service)
{
    struct heard heard = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(proxy_probe(rig->proxy, service, on_result, &heard, &err), 0);
    RIG_UNTIL(rig, heard.count == 1);
    return heard;
}

static const char *fixed_answer;

static void say_fixed(struct rig_upstream *upstream, const char *request)
{
    (void)request;
    rig_say(upstream, fixed_answer);
}

TEST(a_good_key_works_wherever_it_goes)
{
    struct rig *rig = rig_start(NULL);
    static const struct {
        const char *service;
        const char *line;
        const char *credential;
    } cases[] = {
        { "anthropic", "GET /v1/models HTTP/1.1\r\n", "x-api-key: " RIG_SECRET "\r\n" },
        { "secure", "GET /api/v1/models?limit=1 HTTP/1.1\r\n", "Bearer " RIG_SECRET "\r\n" },
        { "queried", "GET /models?key=" RIG_QUERY_ESCAPED " HTTP/1.1\r\n", "" },
        { "github", "GET /o/public.git/info/refs?service=git-upload-pack HTTP/1.1\r\n",
          "authorization: Basic " },
        { "corp", "GET /base/v1/ping HTTP/1.1\r\n", "Bearer " RIG_SECRET "\r\n" }, /* no rule */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct heard heard = ask(rig, cases[i].service);

        CHECK_EQ(heard.outcome, PROXY_PROBE_WORKS);
        CHECK_EQ(heard.status, 200);
        CHECK_EQ(rig->requests, i + 1);
        CHECK_EQ(rig->decision_count, i + 1);
        CHECK_STR(rig_last(rig)->service, cases[i].service);
        CHECK_HAS(buf_text(&rig->seen), cases[i].line);
        CHECK_HAS(buf_text(&rig->seen), cases[i].credential);
        buf_clear(&rig->seen);
    }
    rig_stop(rig);
}

TEST(what_is_wrong_is_said)
{
    static const struct {
        const char *answer;
        enum proxy_probe_outcome outcome;
        uint32_t status;
    } cases[] = {
        { "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno", PROXY_PROBE_KEY_REFUSED,
          401 },
        { "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", PROXY_PROBE_KEY_REFUSED, 403 },
        { "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", PROXY_PROBE_FAILED, 404 },
        { "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", PROXY_PROBE_FAILED,
          302 },
        { "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", PROXY_PROBE_FAILED, 500 },
        { "nonsense\r\n\r\n", PROXY_PROBE_FAILED, 502 },
    };
    struct rig *rig = rig_start(NULL);

    rig->script = say_fixed;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fixed_answer = cases[i].answer;
        struct heard heard = ask(rig, "anthropic");

        CHECK_EQ(heard.outcome, cases[i].outcome);
        CHECK_EQ(heard.status, cases[i].status);
    }
    CHECK_EQ(ask(rig, "keyless").outcome, PROXY_PROBE_SECRET_MISSING);
    CHECK_EQ(ask(rig, "plain").outcome, PROXY_PROBE_NO_PROBE);
    CHECK_EQ(rig->requests, ARRAY_LEN(cases));
    listener_close(rig->upstream_listener, NULL, NULL);
    rig->upstream_listener = NULL;
    for (unsigned i = 0; i < rig->upstream_count; i++)
        if (rig->upstreams[i]->stream != NULL)
            rig_upstream_cut(rig->upstreams[i]);
    CHECK_EQ(ask(rig, "anthropic").outcome, PROXY_PROBE_UNREACHABLE);
    rig->tls_name = "other.test";
    struct heard heard = ask(rig, "secure");
    CHECK_EQ(heard.outcome, PROXY_PROBE_TLS);
    CHECK_STR(heard.reason, "upstream_tls");
    rig_stop(rig);
}

static void say_nothing(struct rig_upstream *upstream, const char *request)
{
    (void)upstream;
    (void)request;
}

TEST(one_is_tried_at_a_time_and_the_proxys_end_is_its_end)
{
    struct rig *rig = rig_start(NULL);
    struct heard first = { 0 };
    struct heard second = { 0 };
    struct error err = ERROR_INIT;

    CHECK_EQ(proxy_probe(rig->proxy, "nobody", on_result, &first, &err), -1);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    rig->script = say_nothing;
    CHECK_EQ(proxy_probe(rig->proxy, "anthropic", on_result, &first, &err), 0);
    RIG_UNTIL(rig, rig->requests == 1);
    CHECK_EQ(proxy_probe(rig->proxy, "secure", on_result, &second, &err), -1);
    CHECK_EQ(err.code, ERR_CONFLICT);
    rig_stop(rig);
    CHECK_EQ(first.count, 1);
    CHECK_EQ(first.outcome, PROXY_PROBE_FAILED);
    CHECK_EQ(second.count, 0);
}

/* Its run has a name that no run has, and nobody else knows its token. */
TEST(a_run_gets_no_more_by_a_probe)
{
    struct rig *rig = rig_start(NULL);
    AUTO_FREE
    char *ruled = rig_ask(rig, "GET /proxy/corp/ping HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer "
                               "%T\r\n\r\n");

    CHECK_HAS(ruled, "request_not_allowed");
    CHECK_EQ(rig->requests, 0);
    rig_stop(rig);
}
